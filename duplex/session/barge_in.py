"""Barge-in in two phases: an onset lowers (or withholds) the reply at once, a confirmation cuts it.

    voice     ▁▁▁▇▇▇▇▇▇▇▇▇▇▇        ▁▁▁▇▇▇▇▁▁▁▁▁▁▁▁▁▁▁
    output    ██████▃▃▃▃▃▃╲·····    ██████▃▃▃▃▃▃▃▃▃▃██████
                    │onset │cut             │onset      │taken back

Durations count input media. Source: DESIGN.md §3.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Literal

from duplex.config import BargeInSettings
from duplex.session.backchannel import takes_the_floor
from duplex.session.effects import Duck, Hold, Outbox
from duplex.units import MonoNs, Samples, samples_from_ms, seconds_from_ns, seconds_from_samples


class Verdict(Enum):
    """What a pending onset turned out to be."""

    PENDING = auto()
    CONFIRMED = auto()
    REFUSED = auto()


class BargeIn:
    """Judges one onset after another.

    Args:
        settings: durations and levels.
        on_onset: what an onset does.
        resume: ends a hold where the listener can follow.
    """

    def __init__(
        self, settings: BargeInSettings, on_onset: Literal["duck", "hold", "none"], outbox: Outbox,
        resume: Callable[[], None],
    ) -> None:  # fmt: skip
        self.on_onset = on_onset
        self.pending = False
        """An onset over a reply waits for its verdict."""
        self._settings = settings
        self._outbox = outbox
        self._resume = resume
        self._onset = Samples(0)
        self._began = MonoNs(0)
        self._applied: Literal["duck", "hold", "none"] = "none"
        self._by_words = False
        self._held = False
        self._commands = frozenset(settings.commands)
        self._backchannels = frozenset(settings.backchannels)

    @property
    def by_words(self) -> bool:
        """The pending onset is judged by what is said; its words have to be given to `judge_words`."""
        return self.pending and self._by_words

    @property
    def withholds(self) -> bool:
        """The reply is withheld until the pending onset has its verdict."""
        return self.pending and self._held

    def begin(self, onset: Samples, position: Samples, now: MonoNs, words_tell: bool = False) -> None:
        """Voice began over a reply at `onset`, as is seen now that input is final up to `position`.

        Args:
            words_tell: what is said will be transcribed, well enough to know a backchannel.
        """
        self.pending = True
        self._by_words = words_tell and self.on_onset != "none"
        self._onset = onset
        self._began = now
        self._outbox.observe("duplex_barge_in_seconds", seconds_from_samples(position - onset), part="detect")
        self._applied = self.on_onset
        if self._applied == "duck":
            self._outbox.add(Duck(gain_db=self._settings.duck_db))
        self._held = False
        if self._applied == "hold":
            self._hold(now)

    def _hold(self, now: MonoNs) -> None:
        self._held = True
        self._outbox.add(Hold())
        self._outbox.observe("duplex_barge_in_seconds", seconds_from_ns(MonoNs(now - self._began)), part="hold")

    def judge(self, voiced: int, position: Samples, now: MonoNs) -> Verdict:
        """Return what the onset is, now that `voiced` samples of voice lie before `position`."""
        settings = self._settings
        if self._by_words and not self._held and voiced >= samples_from_ms(settings.hold_ms):
            self._hold(now)
        if voiced >= samples_from_ms(settings.sure_ms if self._by_words else settings.confirm_ms):
            return self._confirmed(now)
        time_ms = settings.resolve_ms + (settings.sure_ms if self._by_words and self._held else 0)
        if position - self._onset >= samples_from_ms(time_ms):
            if voiced >= samples_from_ms(settings.confirm_ms):
                return self._confirmed(now)
            return self._refused("refused")
        return Verdict.PENDING

    def judge_words(self, text: str | None, voiced: int, now: MonoNs) -> Verdict:
        """Return what the onset is by its words, said in `voiced` samples of voice; None: transcription failed."""
        enough = voiced >= samples_from_ms(self._settings.confirm_ms)
        if enough if text is None else takes_the_floor(text, enough, self._commands, self._backchannels):
            return self._confirmed(now)
        return self._refused("backchannel" if text else "refused")

    def _confirmed(self, now: MonoNs) -> Verdict:
        self.pending = False
        self._outbox.observe("duplex_barge_in_total", 1, outcome="confirmed")
        self._outbox.observe("duplex_barge_in_seconds", seconds_from_ns(MonoNs(now - self._began)), part="confirm")
        return Verdict.CONFIRMED

    def _refused(self, outcome: str) -> Verdict:
        self.take_back(outcome)
        return Verdict.REFUSED

    def take_back(self, outcome: str) -> None:
        """The onset was none (or its reply is over): restore the output."""
        if not self.pending:
            return
        self.pending = False
        self._outbox.observe("duplex_barge_in_total", 1, outcome=outcome)
        if self._applied == "duck":
            self._outbox.add(Duck(gain_db=0))
        if self._held:
            self._resume()
