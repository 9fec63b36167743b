"""The last events of a session, so that a client that comes back can be told what it missed."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

AUDIO_CHARS_MAX = 4 * 1024 * 1024
"""Base64 characters of audio kept: about 65 s at 24 kHz."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RingStats:
    """A snapshot."""

    events: int
    audio_chars: int
    first: int | None
    """Oldest sequence number that is still there."""


class EventRing:
    """Keeps the newest events; overflow rule: drop_oldest, by count and by the audio in them.

    Args:
        events_max: most events kept, ≥ 1.
    Source: DESIGN.md §1, invariant 9.
    """

    def __init__(self, events_max: int) -> None:
        self._events_max = events_max
        self._kept: deque[tuple[int, dict[str, Any], int]] = deque()
        self._audio_chars = 0
        self._last = 0

    def add(self, sequence: int, event: dict[str, Any], audio_chars: int = 0) -> None:
        """Keep one event.

        Args:
            sequence: its number, one more than the number before it.
            event: not changed after this call.
            audio_chars: length of the base64 audio in it.
        """
        assert sequence == self._last + 1, "sequence numbers grow by one"
        self._last = sequence
        self._kept.append((sequence, event, audio_chars))
        self._audio_chars += audio_chars
        while len(self._kept) > self._events_max or self._audio_chars > AUDIO_CHARS_MAX:
            self._audio_chars -= self._kept.popleft()[2]

    def since(self, sequence: int) -> list[dict[str, Any]] | None:
        """Return the events after number `sequence`, oldest first, or None when some of them are gone or never were."""
        oldest = self._kept[0][0] if self._kept else self._last + 1
        if not oldest - 1 <= sequence <= self._last:
            return None
        return [event for number, event, _ in self._kept if number > sequence]

    def stats(self) -> RingStats:
        """Return what is kept."""
        first = self._kept[0][0] if self._kept else None
        return RingStats(events=len(self._kept), audio_chars=self._audio_chars, first=first)
