"""The last events of a session, so that a client that comes back can be told what it missed."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from duplex.config import ConversationSettings
from duplex.units import Samples

_DEFAULTS = ConversationSettings()
BYTES_MAX = _DEFAULTS.event_ring_bytes_max
"""Characters kept of events other than audio, unless configured otherwise."""
AUDIO_BYTES_MAX = _DEFAULTS.event_ring_audio_bytes_max
"""Characters kept of base64 audio, unless configured otherwise: about 32 s at 24 kHz."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioPlace:
    """Which sound a delta carries."""

    reply_id: str
    item_id: str
    begin: Samples
    """Content position of its first sample in the reply."""
    length: Samples


@dataclass(slots=True)
class RingEntry:
    """One event that was numbered."""

    sequence: int
    event: dict[str, Any] | None
    """As it was sent; None: audio that had to make room."""
    chars: int
    audio: AudioPlace | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RingStats:
    """A snapshot."""

    events: int
    chars: int
    """Of all that is kept, audio included."""
    first: int | None
    """Oldest sequence number that is still there."""


class EventRing:
    """Keeps the newest events; overflow rule: drop_oldest, by count and by the characters in them.

    Audio has a bound of its own, and gives way alone: the place of a delta that is dropped stays known.

    Args:
        events_max: most events kept, ≥ 1.
        bytes_max: characters (ASCII, so bytes) of events other than audio.
        audio_bytes_max: characters of audio.
    Source: DESIGN.md §1, invariant 9.
    """

    def __init__(self, events_max: int, bytes_max: int = BYTES_MAX, audio_bytes_max: int = AUDIO_BYTES_MAX) -> None:
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._audio_bytes_max = audio_bytes_max
        self._kept: deque[RingEntry] = deque()
        self._audio: deque[RingEntry] = deque()
        """Those of `_kept` that hold audio."""
        self._chars = 0
        self._audio_chars = 0
        self._last = 0

    def add(self, sequence: int, event: dict[str, Any], chars: int = 0, audio: AudioPlace | None = None) -> None:
        """Keep one event.

        Args:
            sequence: its number, one more than the number before it.
            event: not changed after this call.
            chars: length of all text and audio in it.
            audio: the sound that it carries.
        """
        assert sequence == self._last + 1, "sequence numbers grow by one"
        self._last = sequence
        entry = RingEntry(sequence, event, chars, audio)
        self._kept.append(entry)
        if audio is None:
            self._chars += chars
        else:
            self._audio.append(entry)
            self._audio_chars += chars
        while self._audio_chars > self._audio_bytes_max:
            self._drop_audio()
        while len(self._kept) > self._events_max or self._chars > self._bytes_max:
            self._drop_oldest()

    def pass_over(self, sequence: int) -> None:
        """Note an event that nobody can ask for again: it is not kept, and neither is what came before it.

        Args:
            sequence: as in `add`.
        """
        assert sequence == self._last + 1, "sequence numbers grow by one"
        self._last = sequence
        if self._kept:
            self._kept.clear()
            self._audio.clear()
            self._chars = self._audio_chars = 0

    def since(self, sequence: int) -> list[RingEntry] | None:
        """Return the events after number `sequence`, oldest first, or None when some of them are gone or never were."""
        oldest = self._kept[0].sequence if self._kept else self._last + 1
        if not oldest - 1 <= sequence <= self._last:
            return None
        return [entry for entry in self._kept if entry.sequence > sequence]

    def stats(self) -> RingStats:
        """Return what is kept."""
        first = self._kept[0].sequence if self._kept else None
        return RingStats(events=len(self._kept), chars=self._chars + self._audio_chars, first=first)

    def _drop_audio(self) -> None:
        entry = self._audio.popleft()
        self._audio_chars -= entry.chars
        entry.event = None

    def _drop_oldest(self) -> None:
        oldest = self._kept.popleft()
        if oldest.audio is None:
            self._chars -= oldest.chars
        elif self._audio and self._audio[0] is oldest:
            self._drop_audio()
