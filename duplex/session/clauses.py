"""Clauses: how a growing text is cut into pieces that are spoken as one.

The first clause is short, so that first audio never waits for the sentence; later ones end where a speaker would pause.
The pieces joined give the text again, to the character.
"""

from __future__ import annotations

import re

_FIRST_WORDS_MIN = 3
_WORDS_MIN = 6
_WORDS_MAX = 24
_BREAK = re.compile(r"[.!?…:;,—–]+[\"'”’)\]]*(?=\s)|\n+")
"""Punctuation that is followed by white space: `3.5` and `e.g.x` do not break."""
_MARK = re.compile(r"[.!?…:;,—–\n]")
_SENTENCE_END = re.compile(r"[.!?…\n]")
_ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Prof|Sr|Jr|vs|etc|e\.g|i\.e|No|approx)|\b[A-Z])\.$")
_SPOKEN = re.compile(r"\w")


class ClauseSplitter:
    """Cuts one reply's text.

    Args:
        first_words_max: length of the first clause where no punctuation ends it before.
    """

    def __init__(self, first_words_max: int) -> None:
        self._first_words_max = first_words_max
        self._text = ""
        self._first = True

    def push(self, delta: str) -> list[str]:
        """Append text; return the clauses that it completes."""
        self._text += delta
        clauses: list[str] = []
        if not _MARK.search(self._text) and self._text.count(" ") < self._first_words_max:
            return clauses  # most deltas complete nothing, and that is seen at once
        while (end := self._next_end()) is not None:
            clauses.append(self._text[:end])
            self._text = self._text[end:]
            self._first = False
        return clauses

    def finish(self) -> list[str]:
        """The text is complete; return what is left of it."""
        rest, self._text = self._text, ""
        return [rest] if rest else []

    def _next_end(self) -> int | None:
        words_min = _FIRST_WORDS_MIN if self._first else _WORDS_MIN
        words_max = self._first_words_max if self._first else _WORDS_MAX
        for match in _BREAK.finditer(self._text):
            head = self._text[: match.end()]
            if _ABBREVIATION.search(head) or not _SPOKEN.search(head):
                continue
            words = len(head.split())
            if words >= words_min or (not self._first and _SENTENCE_END.search(match.group()) and words >= 2):
                return match.end() if words <= words_max else _end_of_word(self._text, words_max)
        return _end_of_word(self._text, words_max)


def _end_of_word(text: str, n: int) -> int | None:
    """Return the end of the n-th word if another one has begun behind it."""
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    return ends[n - 1] if len(ends) > n else None
