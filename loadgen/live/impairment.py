"""What a network does to packets, as arithmetic on `now` and a seed. One object per direction and session.

Datagrams: each is lost with `loss`; the others wait a half-normal queueing delay in order, and with `reorder` one is held
back so that those behind it overtake it. A stream (TCP) loses and reorders nothing: what datagrams would lose arrives a
retransmission later, and everything behind it waits. While the link is down datagrams are lost and a stream stands still.

Source: RFC 6298 §5 (the least retransmission timeout in use is 200 ms).
"""

from __future__ import annotations

import random

from duplex.units import MonoNs, ns_from_ms, ns_from_seconds
from loadgen.live.options import Network

_HELD_MS = (25.0, 60.0)
"""A reordered packet waits this much longer: one to three packets overtake it."""
_RETRANSMIT = ns_from_ms(200)
_JITTER_SIGMAS_MAX = 4.0
_DROP_AFTER_S = (3.0, 15.0)
"""Where in a session the link goes down."""


def outage(network: Network, began: MonoNs, rng: random.Random) -> tuple[MonoNs, MonoNs]:
    """Return when the link of a session is down (both directions), empty where it never is."""
    start = began + ns_from_seconds(rng.uniform(*_DROP_AFTER_S))
    return MonoNs(start), MonoNs(start + ns_from_seconds(network.drop_link_s))


class _Queue:
    """The delay both kinds of path share: half normal, in order."""

    def __init__(self, network: Network, down: tuple[MonoNs, MonoNs], rng: random.Random) -> None:
        self._network = network
        self._down = down
        self._rng = rng
        self._last = MonoNs(0)
        """Arrival of the newest packet in order."""

    def _jitter(self) -> int:
        jitter_ms = self._network.jitter_ms
        if not jitter_ms:
            return 0
        return ns_from_ms(min(abs(self._rng.gauss(0.0, jitter_ms)), _JITTER_SIGMAS_MAX * jitter_ms))

    def _in_order(self, arrival: int) -> MonoNs:
        self._last = MonoNs(max(self._last, arrival))
        return self._last


class DatagramPath(_Queue):
    """One direction of a WebRTC session."""

    def arrival(self, now: MonoNs) -> MonoNs | None:
        """Return when a packet sent at `now` arrives, or None if it does not."""
        if self._down[0] <= now < self._down[1] or self._rng.random() < self._network.loss:
            return None
        if self._rng.random() < self._network.reorder:
            return MonoNs(max(self._last, now + self._jitter()) + ns_from_ms(self._rng.uniform(*_HELD_MS)))
        return self._in_order(now + self._jitter())


class StreamPath(_Queue):
    """One direction of a WebSocket session."""

    def arrival(self, now: MonoNs) -> MonoNs:
        """Return when a message sent at `now` arrives."""
        leaves: int = now
        if self._down[0] <= now < self._down[1]:
            leaves = self._down[1] + _RETRANSMIT
        elif self._rng.random() < self._network.loss:
            leaves = now + _RETRANSMIT
        return self._in_order(leaves + self._jitter())
