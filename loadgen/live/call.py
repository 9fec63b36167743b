"""What both transports share: how a call comes about or does not, and who is told that it is over."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from duplex.units import MonoNs
from loadgen.live.metronome import BEAT_NS, Metronome
from loadgen.live.rows import SessionRow
from loadgen.live.sound import Sound
from loadgen.live.speech import Bank, Packet
from loadgen.live.talker import Talker


class CallFailed(Exception):
    """The call did not come about, or broke; the message says why."""


class CallRefused(Exception):
    """The server took no session.

    Args:
        status: of HTTP; 503 when it is full.
        took_s: request to refusal.
        retry_after_s: what the server says of when to come back.
    """

    def __init__(self, status: int, reason: str, took_s: float, retry_after_s: float | None) -> None:
        super().__init__(reason)
        self.status = status
        self.took_s = took_s
        self.retry_after_s = retry_after_s


class Playback(Protocol):
    """What plays at the client: its ear or its player."""

    @property
    def drained(self) -> bool:
        """Nothing is left to play."""

    def advance(self, now: MonoNs) -> Sequence[Sound]:
        """Return what has sounded since the last call."""


class Call(ABC):
    """A live call: the metronome serves it until its talker is done or it is lost.

    Args:
        talker: who speaks and listens.
        bank: what there is to say.
        metronome: serves it once the transport has added it.
        lateness: takes how late each packet left.
        playback: what the talker hears.
    """

    def __init__(
        self, talker: Talker, bank: Bank, metronome: Metronome, lateness: Lateness, playback: Playback
    ) -> None:
        self.over = asyncio.Event()
        """The talker is done, or the call is lost."""
        self.lost = ""
        """Why it broke; empty while it did not."""
        self._talker = talker
        self._bank = bank
        self._base = MonoNs(0)
        """Capture of the microphone's first packet."""
        self._metronome = metronome
        self._lateness = lateness
        self._playback = playback
        self._said = 0

    @abstractmethod
    async def close(self) -> None:
        """Hang up; takes at most a few seconds. Cancel: the sockets are closed."""

    @abstractmethod
    def note(self, row: SessionRow) -> None:
        """Write down what the client's media counted."""

    @abstractmethod
    def say(self, packet: Packet, number: int, now: MonoNs) -> None:
        """Send 20 ms of the microphone, the `number`-th."""

    @abstractmethod
    def check(self, now: MonoNs) -> None:
        """Do what else is due, once a beat."""

    def beat(self, due: MonoNs, now: MonoNs) -> None:
        """Say what is due, hear what has played; see `Talking`."""
        if not self._base:
            self._base = MonoNs(due - BEAT_NS)  # the packet that leaves now was captured during the beat before
            self._talker.begin(self._base)
        self._lateness.take(now - due)
        self.say(self._bank.packets[self._talker.say(self._said)], self._said, now)
        self._said += 1
        if sounds := self._playback.advance(now):
            self._talker.heard(sounds)
        self._talker.advance(now, self._playback.drained)
        if self._talker.done:
            self._end()
        else:
            self.check(now)

    def failed(self) -> None:
        """See `Talking`."""
        self.lose("an error of the load generator")

    def lose(self, reason: str) -> None:
        """The call is broken."""
        if not self.over.is_set():
            self.lost = reason
            self._end()

    def _end(self) -> None:
        self._metronome.remove(self)
        self.over.set()


class Lateness:
    """How late packets left, in a histogram of 1 ms steps; emptied once a second."""

    def __init__(self) -> None:
        self._counts = [0] * 1000

    def take(self, late_ns: int) -> None:
        """Count one tick."""
        self._counts[min(max(late_ns, 0) // 1_000_000, 999)] += 1

    def drain(self) -> tuple[float, float]:
        """Return the median and the 99th percentile in ms since the last call, rounded up; 0 without a tick."""
        counts, self._counts = self._counts, [0] * 1000
        return _quantile(counts, 0.5), _quantile(counts, 0.99)


def _quantile(counts: list[int], share: float) -> float:
    wanted, seen = share * sum(counts), 0
    if not wanted:
        return 0.0
    for step, count in enumerate(counts):
        seen += count
        if seen >= wanted:
            return float(step + 1)
    return float(len(counts))
