"""The way out of one simulated session: audio leaves in packets of 20 ms at real time, and the core is told.

The model of `duplex.media.egress` without samples: whole stretches of packets are one event, up to 200 ms; a cut settles
what has left of the stretch under way. A gap inside a reply is silence that leaves in real time, as on the server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from duplex.payloads import Address
from duplex.timeline.ledger import Kind, SentRange
from duplex.units import MonoNs, Samples, ns_from_ms
from loadgen.sim.clock import Clock

PACKET = 960
PACKET_NS = ns_from_ms(20)
_STRETCH = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Packets:
    """Packets of one reply that left one after the other."""

    reply: str
    first: int
    """Number of the first one in its reply."""
    count: int
    sent_at: MonoNs
    """When the first one left; the others follow every 20 ms."""
    last: bool
    """The reply ends with them."""


@dataclass(slots=True)
class _Speech:
    reply: str
    made: int = 0
    """Samples enqueued so far."""
    sent: int = 0
    complete: bool = False


class Egress:
    """One session's way out.

    Args:
        phase_ns: where in the 20 ms tick this session sends.
        sent: told what left, after it left: ranges for the core, packets for the listener, length of a gap before them.
    """

    def __init__(
        self, clock: Clock, phase_ns: int, sent: Callable[[tuple[SentRange, ...], Packets | None, Samples], None]
    ) -> None:
        self._clock = clock
        self._phase_ns = phase_ns
        self._sent = sent
        self._speeches: deque[_Speech] = deque()
        self._stretch: tuple[_Speech, int, MonoNs, Callable[[], None]] | None = None
        """Speech, packets, start, and what cancels its end."""
        self._free_at = MonoNs(0)
        """When the tick after the last packet comes."""
        self._dry_since: MonoNs | None = None
        """Inside a reply with nothing to send."""
        self.played_out = 0
        """Samples that have left."""

    def enqueue(self, address: Address, samples: Samples, last: bool) -> None:
        """Queue speech of a reply."""
        assert address.reply is not None
        speech = self._speeches[-1] if self._speeches and self._speeches[-1].reply == address.reply else None
        if speech is None:
            if last and not samples:
                return
            speech = _Speech(address.reply)
            self._speeches.append(speech)
        speech.made += samples
        speech.complete = speech.complete or last
        if self._stretch is None:
            self._go()

    def cut(self) -> tuple[SentRange, ...]:
        """Drop everything; return what has left of the stretch under way."""
        ranges: tuple[SentRange, ...] = ()
        if self._stretch is not None:
            speech, count, start, cancel = self._stretch
            cancel()
            self._stretch = None
            left = max(0, min(count, (self._clock.now() - start) // PACKET_NS + 1))
            self._free_at = MonoNs(start + left * PACKET_NS)
            ranges = self._leave(speech, left, start, tell=False)
        elif self._dry_since is not None:
            silence = self._clock.now() - self._dry_since
            ranges = (SentRange(kind=Kind.SILENCE, length=Samples(silence * 48 // 1_000_000)),)
        self._speeches.clear()
        self._dry_since = None
        return ranges

    def _go(self) -> None:
        """Begin the next stretch, if there is anything."""
        while self._speeches and self._speeches[0].complete and self._speeches[0].sent >= self._speeches[0].made:
            self._speeches.popleft()
        if not self._speeches:
            return
        speech = self._speeches[0]
        ready = speech.made - speech.sent
        whole = ready // PACKET if not speech.complete else -(-ready // PACKET)
        now = self._clock.now()
        if whole == 0:
            if speech.sent and self._dry_since is None:
                self._dry_since = now
            return
        count = 1 if speech.sent == 0 else min(_STRETCH, whole)
        start = max(self._tick(now), self._free_at)
        self._free_at = MonoNs(start + count * PACKET_NS)
        cancel = self._clock.call_at(MonoNs(start + (count - 1) * PACKET_NS), self._end)
        self._stretch = (speech, count, start, cancel)

    def _tick(self, now: MonoNs) -> MonoNs:
        return MonoNs(now + (self._phase_ns - now) % PACKET_NS)

    def _end(self) -> None:
        assert self._stretch is not None
        speech, count, start, _ = self._stretch
        self._stretch = None
        self._leave(speech, count, start, tell=True)
        if self._stretch is None:
            self._clock.call_at(self._free_at, self._next)

    def _next(self) -> None:
        if self._stretch is None:
            self._go()

    def _leave(self, speech: _Speech, count: int, start: MonoNs, tell: bool) -> tuple[SentRange, ...]:
        gap = Samples(0)
        ranges: list[SentRange] = []
        if self._dry_since is not None:
            gap = Samples(max(0, start - self._dry_since) * 48 // 1_000_000)
            ranges.append(SentRange(kind=Kind.SILENCE, length=gap))
            self._dry_since = None
        first = speech.sent // PACKET
        length = min(count * PACKET, speech.made - speech.sent)
        ranges.append(
            SentRange(kind=Kind.CONTENT, length=Samples(length), reply=speech.reply, content_start=Samples(speech.sent))
        )
        speech.sent += length
        last = speech.complete and speech.sent >= speech.made
        packets = Packets(reply=speech.reply, first=first, count=count, sent_at=start, last=last)
        self._sent(tuple(ranges) if tell else (), packets, gap)
        return tuple(ranges)
