"""What both transports share: how a call comes about or does not, and who is told that it is over."""

from __future__ import annotations

import asyncio
from typing import Protocol

from loadgen.live.rows import SessionRow


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


class Call(Protocol):
    """A live call: it calls its talker by itself until one of both is done."""

    over: asyncio.Event
    """The talker is done, or the call is lost."""
    lost: str
    """Why it broke; empty while it did not."""

    async def close(self) -> None:
        """Hang up; takes at most a few seconds. Cancel: the sockets are closed."""

    def note(self, row: SessionRow) -> None:
        """Write down what the client's media counted."""


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
