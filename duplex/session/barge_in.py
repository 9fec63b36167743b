"""Barge-in in two phases: an onset lowers (or withholds) the reply at once, a confirmation cuts it.

    voice     ▁▁▁▇▇▇▇▇▇▇▇▇▇▇        ▁▁▁▇▇▇▇▁▁▁▁▁▁▁▁▁▁▁
    output    ██████▃▃▃▃▃▃╲·····    ██████▃▃▃▃▃▃▃▃▃▃██████
                    │onset │cut             │onset      │taken back

Durations count input media. Source: DESIGN.md §3.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Literal, Protocol

from duplex.config import BargeInSettings
from duplex.session.effects import Duck, Hold, Outbox
from duplex.units import MonoNs, Samples, samples_from_ms, seconds_from_ns, seconds_from_samples


class Verdict(Enum):
    """What a pending onset turned out to be."""

    PENDING = auto()
    CONFIRMED = auto()
    REFUSED = auto()


class Resumer(Protocol):
    """Ends a hold where the listener can follow."""

    def resume_output(self) -> None: ...


class BargeIn:
    """Judges one onset after another.

    Args:
        settings: durations and levels.
        on_onset: what an onset does.
        resumer: ends a hold.
    """

    def __init__(self, settings: BargeInSettings, on_onset: Literal["duck", "hold", "none"], outbox: Outbox) -> None:
        self.on_onset = on_onset
        self.pending = False
        """An onset over a reply waits for its verdict."""
        self.resumer: Resumer | None = None
        self._settings = settings
        self._outbox = outbox
        self._onset = Samples(0)
        self._began = MonoNs(0)
        self._applied: Literal["duck", "hold", "none"] = "none"

    def begin(self, onset: Samples, position: Samples, now: MonoNs) -> None:
        """Voice began over a reply at `onset`, as is seen now that input is final up to `position`."""
        self.pending = True
        self._onset = onset
        self._began = now
        self._outbox.observe("duplex_barge_in_seconds", seconds_from_samples(position - onset), part="detect")
        self._applied = self.on_onset
        if self._applied == "duck":
            self._outbox.add(Duck(gain_db=self._settings.duck_db))
        elif self._applied == "hold":
            self._outbox.add(Hold())

    def judge(self, voiced: int, position: Samples, now: MonoNs) -> Verdict:
        """Return what the onset is, now that `voiced` samples of voice lie before `position`."""
        if voiced >= samples_from_ms(self._settings.confirm_ms):
            self.pending = False
            self._outbox.observe("duplex_barge_in_total", 1, outcome="confirmed")
            self._outbox.observe("duplex_barge_in_seconds", seconds_from_ns(MonoNs(now - self._began)), part="confirm")
            return Verdict.CONFIRMED
        if position - self._onset >= samples_from_ms(self._settings.resolve_ms):
            self.take_back("refused")
            return Verdict.REFUSED
        return Verdict.PENDING

    def take_back(self, outcome: str) -> None:
        """The onset was none (or its reply is over): restore the output."""
        if not self.pending:
            return
        self.pending = False
        self._outbox.observe("duplex_barge_in_total", 1, outcome=outcome)
        if self._applied == "duck":
            self._outbox.add(Duck(gain_db=0))
        elif self._applied == "hold" and self.resumer is not None:
            self.resumer.resume_output()
