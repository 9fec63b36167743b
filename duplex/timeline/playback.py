"""Estimators of the playback front: where the listener is in what we sent, and how sure that is.

Best source first: the client SDK's report, receiver reports, else what was sent less half the round trip and a usual jitter
buffer. On WebSocket the client plays by itself: wall time since the first delta, capped at what was sent.
Source: DESIGN.md §5.
"""

from __future__ import annotations

from dataclasses import dataclass

from duplex.units import MonoNs, Samples, ns_from_samples, samples_from_ms, samples_from_ns

_P95_OF_MEAN = 3.0
"""Of an exponential distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerDelay:
    """Time from a packet's leaving to its being heard."""

    delay: Samples
    error: Samples
    """Bound of the estimate, either side."""


class WebRtcDelay:
    """Delay between sending and hearing on WebRTC.

    Args:
        buffer_ms: client jitter buffer assumed.
        jitter_ms: network jitter assumed until the client reports its own.
    """

    def __init__(self, buffer_ms: float, jitter_ms: float) -> None:
        self._buffer_ms = buffer_ms
        self._jitter_ms = jitter_ms
        self._rtt_ms: float | None = None
        self._estimate = self._estimated()

    def measured(self, rtt_ms: float | None, jitter_ms: float) -> None:
        """Take a receiver report's figures; RTCP's jitter is a mean, of which the 95th percentile is about three times."""
        self._rtt_ms = rtt_ms if rtt_ms is not None else self._rtt_ms
        self._jitter_ms = _P95_OF_MEAN * jitter_ms
        self._estimate = self._estimated()

    @property
    def jitter_ms(self) -> float:
        """p95 of the network's jitter."""
        return self._jitter_ms

    @property
    def way_ms(self) -> float:
        """Half of the round trip; 0 until it is measured."""
        return (self._rtt_ms or 0.0) / 2

    def estimate(self) -> ListenerDelay:
        """Return the delay: half the round trip and the client's jitter buffer."""
        return self._estimate

    def _estimated(self) -> ListenerDelay:
        error = self._jitter_ms + (self._buffer_ms if self._rtt_ms is None else self._buffer_ms / 2)
        return ListenerDelay(delay=samples_from_ms(self.way_ms + self._buffer_ms), error=samples_from_ms(error))


class WallClockPlayer:
    """A WebSocket client's player: plays what it has got at real time, waits when it runs dry."""

    def __init__(self) -> None:
        self._sent = 0
        self._anchor: MonoNs | None = None
        self._anchor_position = 0

    def sent(self, to: int, now: MonoNs) -> None:
        """More audio left, up to output position `to`."""
        if self._anchor is None or self.position(now) >= self._sent:
            self._anchor_position = self._sent
            self._anchor = now
        self._sent = max(self._sent, to)

    def position(self, now: MonoNs) -> Samples:
        """Return the output position that is being played."""
        if self._anchor is None:
            return Samples(self._sent)
        return Samples(min(self._sent, self._anchor_position + samples_from_ns(now - self._anchor)))

    def dry_at(self, now: MonoNs) -> MonoNs:
        """Return when it has played all that it got (`now` if it never got anything)."""
        if self._anchor is None:
            return now
        return MonoNs(self._anchor + ns_from_samples(self._sent - self._anchor_position))

    def flush(self, now: MonoNs) -> None:
        """The client dropped what it had not played."""
        self._sent = self.position(now)
        self._anchor = None
