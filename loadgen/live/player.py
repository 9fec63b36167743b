"""A model of a WebSocket client's player: deltas play in order at real time, and an interruption empties the queue.

    deltas   |aaaa|bbbbbbbb|                arrive far ahead of the ear
    played   ··|aaaa|bbbb|×                 flush: `played_ms` of the item is what truncate reports

Pure: no clock, no codec.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from duplex.units import MonoNs, ns_from_ms
from loadgen.live.sound import Level, Sound

_START_DELAY = ns_from_ms(20)
"""From the first delta of a talk spurt to sound: one buffer of the output device."""


@dataclass(frozen=True, slots=True)
class _Piece:
    length: int
    """In ns."""
    level: Level
    answer: int
    item: str
    arrived: int


class Player:
    """One session's player."""

    def __init__(self) -> None:
        self._waiting: deque[_Piece] = deque()
        self._cursor = 0
        """End of what has begun to play, once that time is reached."""
        self._item = ""
        self._item_played = 0

    def arrive(self, item: str, length_ns: int, level: Level, answer: int, now: MonoNs) -> None:
        """Take a piece of an item's audio."""
        self._waiting.append(_Piece(length_ns, level, answer, item, now))

    def advance(self, now: MonoNs) -> list[Sound]:
        """Return what has begun to play by `now`, in order."""
        sounds: list[Sound] = []
        while self._waiting:
            piece = self._waiting[0]
            start = self._cursor if self._cursor >= piece.arrived else piece.arrived + _START_DELAY
            if start > now:
                break
            self._waiting.popleft()
            if piece.item != self._item:
                self._item, self._item_played = piece.item, 0
            self._item_played += piece.length
            self._cursor = start + piece.length
            sounds.append(Sound(MonoNs(start), MonoNs(self._cursor), piece.level, piece.answer))
        return sounds

    def flush(self, now: MonoNs) -> tuple[str, int] | None:
        """Drop everything that has not been played.

        Returns:
            The item that was playing or waiting and how many milliseconds of it were heard; None when nothing was.
        """
        playing = self._cursor > now
        if not playing and not self._waiting:
            return None
        if playing:
            item, played = self._item, self._item_played - (self._cursor - now)
        else:
            item = self._waiting[0].item
            played = self._item_played if item == self._item else 0
        self._waiting.clear()
        self._cursor = min(self._cursor, now)
        return item, played // 1_000_000

    @property
    def drained(self) -> bool:
        """Whether everything that came has begun to play."""
        return not self._waiting
