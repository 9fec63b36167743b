"""Words that are not done: the turn waits for the rest of the sentence, as long as its eagerness lets it.

    voice        ▇▇▇▇▇▇▇▇▇▇▇▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁
    heard                    │"Send it to my"
    look                         │1: sure │2: sure  …       │the longest silence: it is the turn
                                  held     held              "ended"; or speech goes on before: "resumed"

An end-of-turn model hears how something was said, and is sure of many a phrase that is broken off. Its words show some of those.
What is complete as it stands ("I would like a pizza", and then "with olives") shows in neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from duplex.config import UnfinishedSettings
from duplex.session.backchannel import words_of
from duplex.session.effects import Outbox


class Unfinished:
    """Knows what is not done by the words of one language.

    Args:
        settings: its lists.
    """

    def __init__(self, settings: UnfinishedSettings) -> None:
        self._marks = settings.marks
        self._endings = _split(settings.endings)
        self._open_endings = _split(settings.open_endings)
        self._auxiliaries = frozenset(settings.auxiliaries)
        self._subjects = frozenset(settings.subjects)
        self._question_words = frozenset(settings.question_words)
        self._openings = frozenset(settings.openings)
        self._opening_words = range(settings.opening_words_min, settings.opening_words_max + 1)

    def shows_in(self, text: str) -> bool:
        """Return whether a transcript is that of an unfinished sentence, as far as words tell."""
        words = words_of(text)
        if not words:
            return False
        if text.rstrip().endswith(self._marks) or _ends_with(words, self._endings):
            return True
        return self._lacks_its_object(words) or self._lacks_its_main_clause(text, words)

    def _lacks_its_object(self, words: Sequence[str]) -> bool:
        """ "The letter is from", "my name is"; but not "where is it from", "yes, it is"."""
        if not self._question_words.isdisjoint(words):
            return False
        short_answer = len(words) == 1 or words[-2] in self._subjects
        return _ends_with(words, self._open_endings) or (words[-1] in self._auxiliaries and not short_answer)

    def _lacks_its_main_clause(self, text: str, words: Sequence[str]) -> bool:
        """ "If it rains tomorrow"; but not "if it rains, we stay", "when is it"."""
        opened = words[0] in self._openings and len(words) in self._opening_words
        return opened and words[1] not in self._auxiliaries and "," not in text


class Hold:
    """Whether the open turn is held for its words, and what came of it.

    Args:
        unfinished: tells; None: words are not asked.
        outbox: takes the outcomes.
    """

    def __init__(self, unfinished: Unfinished | None, outbox: Outbox) -> None:
        self.asks = unfinished is not None
        """Words decide with the model."""
        self._unfinished = unfinished
        self._outbox = outbox
        self._held = False

    def keeps(self, text: str) -> bool:
        """Return whether a turn of these words waits for more."""
        if self._unfinished is None or not self._unfinished.shows_in(text):
            return False
        self._held = True
        return True

    def over(self, outcome: Literal["resumed", "ended", "dropped"]) -> None:
        """The pause is over, held or not: speech went on, the turn was taken as it is, or nothing is made of it."""
        held, self._held = self._held, False
        if held:
            self._outbox.observe("duplex_turn_holds_total", 1, outcome=outcome)


def _split(entries: Sequence[str]) -> frozenset[tuple[str, ...]]:
    return frozenset(words_of(entry) for entry in entries)


def _ends_with(words: Sequence[str], endings: frozenset[tuple[str, ...]]) -> bool:
    return any(tuple(words[-len(ending) :]) == ending for ending in endings)
