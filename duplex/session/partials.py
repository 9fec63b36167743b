"""What the client is told of a turn while it is spoken: the words that two transcriptions in a row agree on.

    voice     ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▁▁
    asked     ├─every─┤1├─every─┤2     │pause: one that is under way is dropped, the final one begins
    told                         what 1 and 2 agree on; the rest comes with the final transcript

A delta cannot be called back, so nothing is told that the next transcription may take back; the end of a growing text often
is. Should the final transcript differ all the same, it is told whole, and stands.
"""

from __future__ import annotations

from duplex.payloads import JobId
from duplex.units import Samples


class Partials:
    """The partial transcripts of one turn after the other.

    Args:
        every: voice between two of them; 0: there are none.
    """

    def __init__(self, every: Samples) -> None:
        self.job: JobId | None = None
        """The transcription that is under way."""
        self.told = ""
        """What the client has of the open turn."""
        self.likely = ""
        """The newest transcript without its last word, which may have been cut in two."""
        self._every = every
        self._next = Samples(0)
        self._before: list[str] = []

    def open(self, onset: Samples) -> None:
        """A turn began."""
        self.told = self.likely = ""
        self._before = []
        self._next = Samples(onset + self._every)

    def close(self) -> str:
        """The turn is committed; return what was told of it."""
        told, self.told = self.told, ""
        return told

    def due(self, position: Samples) -> bool:
        """Return whether the voice up to `position` is to be transcribed: never two at a time."""
        return self._every > 0 and self.job is None and position >= self._next

    def begin(self, job: JobId, position: Samples) -> None:
        """A transcription of what lies before `position` is under way."""
        self.job = job
        self._next = Samples(position + self._every)

    def take(self, text: str) -> str:
        """Take its text; return what is told of it now."""
        self.job = None
        words = text.split()
        self.likely = " ".join(words[:-1])
        agreed = 0
        while agreed < min(len(words), len(self._before)) and words[agreed] == self._before[agreed]:
            agreed += 1
        self._before = words
        sure = " ".join(words[:agreed])
        if len(sure) <= len(self.told) or not sure.startswith(self.told):
            return ""
        delta = sure[len(self.told) :]
        self.told = sure
        return delta

    def drop(self) -> JobId | None:
        """What is under way is not wanted; return it, to be taken back."""
        job, self.job = self.job, None
        return job
