"""One answer as its listener has it: from the event that announces it to the last sound of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from duplex.units import MonoNs, ns_from_ms
from loadgen.live.sound import Sound

_GAP_MIN = ns_from_ms(19.5)
"""A stretch without content that counts as an underrun: one packet."""


@dataclass(slots=True, kw_only=True)
class Answer:
    """What one response of the server sounded like."""

    number: int
    """Names it to the ear; from 1."""
    response: str
    """Its id on the wire."""
    over: bool = False
    """All of it has been sent."""
    cut_at: MonoNs | None = None
    """When the client learned that it is cut."""
    first: MonoNs | None = None
    """Its first audible sample, as it played."""
    last: MonoNs | None = None
    """End of its last audible sample."""
    gaps: int = 0
    gap_ns: int = 0
    gap_ns_max: int = 0
    concealed_ns: int = 0
    split: dict[str, float] = field(default_factory=dict)
    """The server's own latency split."""
    talked_over_from: MonoNs | None = None
    """Onset of the voice that interrupts it: silence from then on is what was asked for, no underrun."""
    _content_end: int | None = None
    _made_up: int = 0
    """Concealed since the last content."""

    def add(self, sound: Sound) -> None:
        """Take what has been played of it, in order."""
        if sound.concealed:
            self._made_up += sound.end - sound.start
        if not sound.level.content:
            return
        if self.first is not None and self._content_end is not None:
            self._count_gap(sound)
        self._content_end, self._made_up = sound.end, 0
        if sound.level.audible is not None:
            length = sound.end - sound.start
            begin, end = sound.level.audible
            if self.first is None:
                self.first = MonoNs(sound.start + round(begin * length))
            self.last = MonoNs(sound.start + round(end * length))

    def _count_gap(self, sound: Sound) -> None:
        assert self._content_end is not None
        self.concealed_ns += self._made_up
        gap = sound.start - self._content_end - self._made_up
        if gap < _GAP_MIN or (self.talked_over_from is not None and sound.start >= self.talked_over_from):
            return
        self.gaps += 1
        self.gap_ns += gap
        self.gap_ns_max = max(self.gap_ns_max, gap)
