"""The last events of a session, so that a client that comes back can be told what it missed."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

CHARS_MAX = 4 * 1024 * 1024
"""Characters kept, of text and base64 audio (about 65 s at 24 kHz)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RingStats:
    """A snapshot."""

    events: int
    chars: int
    first: int | None
    """Oldest sequence number that is still there."""


class EventRing:
    """Keeps the newest events; overflow rule: drop_oldest, by count and by the characters in them.

    Args:
        events_max: most events kept, ≥ 1.
    Source: DESIGN.md §1, invariant 9.
    """

    def __init__(self, events_max: int) -> None:
        self._events_max = events_max
        self._kept: deque[tuple[int, dict[str, Any], int]] = deque()
        self._chars = 0
        self._last = 0

    def add(self, sequence: int, event: dict[str, Any], chars: int = 0) -> None:
        """Keep one event.

        Args:
            sequence: its number, one more than the number before it.
            event: not changed after this call.
            chars: length of all text and audio in it.
        """
        assert sequence == self._last + 1, "sequence numbers grow by one"
        self._last = sequence
        self._kept.append((sequence, event, chars))
        self._chars += chars
        while len(self._kept) > self._events_max or self._chars > CHARS_MAX:
            self._chars -= self._kept.popleft()[2]

    def since(self, sequence: int) -> list[dict[str, Any]] | None:
        """Return the events after number `sequence`, oldest first, or None when some of them are gone or never were."""
        oldest = self._kept[0][0] if self._kept else self._last + 1
        if not oldest - 1 <= sequence <= self._last:
            return None
        return [event for number, event, _ in self._kept if number > sequence]

    def stats(self) -> RingStats:
        """Return what is kept."""
        first = self._kept[0][0] if self._kept else None
        return RingStats(events=len(self._kept), chars=self._chars, first=first)
