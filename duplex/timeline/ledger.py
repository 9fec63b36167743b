"""The egress ledger: which stretch of output carried which stretch of which reply.

Output positions count what left for the client since the lane began (they run with the RTP timestamps). Content positions
count a reply's own audio from its first sample. Every front is a content position looked up here:

    output   |····silence····|██████ reply a ██████|fade|··silence··|███ reply b ███ →
    content                  0                      n                0
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

from duplex.units import RtpTicks, Samples, rtp_ticks


class Kind(Enum):
    """What a stretch of output is."""

    CONTENT = "content"
    SILENCE = "silence"
    FADE = "fade"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRange:
    """A stretch of output as it left, in sending order."""

    kind: Kind
    length: Samples
    reply: str | None = None
    content_start: Samples = Samples(0)
    """Content position of its first sample (CONTENT and FADE)."""


def rtp_start(ranges: tuple[SentRange, ...], rtp_end: RtpTicks | None, reply: str) -> RtpTicks | None:
    """Return the RTP timestamp of the first sample of `reply` in `ranges`, which end at `rtp_end`; None: not known."""
    if rtp_end is None:
        return None
    to_end = sum(int(sent.length) for sent in ranges)
    for sent in ranges:
        if sent.kind is Kind.CONTENT and sent.reply == reply:
            return rtp_ticks(rtp_end - to_end)
        to_end -= sent.length
    return None


@dataclass(slots=True)
class _Entry:
    out_start: int
    out_end: int
    kind: Kind
    reply: str | None
    content_start: int


class EgressLedger:
    """What one lane has sent, back to the listener's front and a little further.

    Args:
        keep: output kept behind the playback front; older entries are folded into the fronts.
    """

    def __init__(self, keep: Samples) -> None:
        self._keep = keep
        self._entries: deque[_Entry] = deque()
        self.sent_out = Samples(0)
        """Output position of the next sample to leave."""
        self._played_out = 0
        self._sent: dict[str, int] = {}
        self._played: dict[str, int] = {}

    def append(self, sent: SentRange) -> None:
        """Note what left next."""
        start = self.sent_out
        self.sent_out = Samples(start + sent.length)
        if sent.reply is not None and sent.kind is Kind.CONTENT:
            self._sent[sent.reply] = max(self._sent.get(sent.reply, 0), sent.content_start + sent.length)
        last = self._entries[-1] if self._entries else None
        if last is not None and last.kind is sent.kind and last.reply == sent.reply and _continues(last, sent):
            last.out_end = self.sent_out
        else:
            self._entries.append(_Entry(start, self.sent_out, sent.kind, sent.reply, sent.content_start))
        self._fold(min(self.sent_out, self._played_out) - self._keep)

    def advance_played(self, out_position: int) -> None:
        """Move the playback front to an output position; capped at what was sent, never back."""
        out_position = min(out_position, self.sent_out)
        before = self._played_out
        if out_position <= before:
            return
        self._played_out = out_position
        for entry in reversed(self._entries):
            if entry.out_end <= before:
                break
            if entry.out_start < out_position:
                self._note_played(entry, out_position)
        self._fold(out_position - self._keep)

    def set_played(self, reply: str, content: Samples) -> None:
        """Take a better source's word for a reply's playback front; capped at sent, never back."""
        capped = min(content, self._sent.get(reply, 0))
        self._played[reply] = max(self._played.get(reply, 0), capped)

    def sent(self, reply: str) -> Samples:
        """Return the sent front of a reply, as a content position."""
        return Samples(self._sent.get(reply, 0))

    def played(self, reply: str) -> Samples:
        """Return the playback front of a reply, as a content position."""
        return Samples(self._played.get(reply, 0))

    def rewind(self) -> None:
        """The client dropped all that it had not played: output goes on from the playback front. Fronts stay."""
        while self._entries and self._entries[-1].out_start >= self._played_out:
            self._entries.pop()
        if self._entries:
            self._entries[-1].out_end = min(self._entries[-1].out_end, self._played_out)
        self.sent_out = Samples(self._played_out)

    def forget(self, reply: str) -> None:
        """Drop the fronts of a reply that nobody will ask about again."""
        self._sent.pop(reply, None)
        self._played.pop(reply, None)

    def _note_played(self, entry: _Entry, out_position: int) -> None:
        if entry.reply is None or entry.kind is not Kind.CONTENT or entry.reply not in self._sent:
            return
        content = entry.content_start + min(entry.out_end, out_position) - entry.out_start
        self._played[entry.reply] = max(self._played.get(entry.reply, 0), content)

    def _fold(self, before: int) -> None:
        while len(self._entries) > 1 and self._entries[0].out_end <= before:
            entry = self._entries.popleft()
            self._note_played(entry, entry.out_end)
            self._played_out = max(self._played_out, entry.out_end)


def _continues(last: _Entry, sent: SentRange) -> bool:
    return sent.kind is Kind.SILENCE or last.content_start + (last.out_end - last.out_start) == sent.content_start
