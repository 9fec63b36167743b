"""A session core that keeps what it is told and what it asks for, step by step, for the one who records it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from duplex.config import Settings
from duplex.payloads import JobId
from duplex.session.config import SessionConfig
from duplex.session.core import SessionCore
from duplex.session.effects import Effect
from duplex.session.messages import Inbound
from duplex.session.traits import Traits
from duplex.units import MonoNs


class SeededIds:
    """The ids of a recorded session's items and replies: the same seed gives the same ids in the same order."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)

    def __call__(self, prefix: str) -> str:
        """Return a fresh id."""
        return f"{prefix}_{self._random.getrandbits(80):020x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One turn of a core: what it was told, what it drew from outside, and what it asked for."""

    at: MonoNs
    message: Inbound | None
    """None: its deadline had come."""
    jobs: tuple[JobId, ...]
    """Numbers that it drew for its jobs, in order."""
    effects: tuple[Effect, ...]
    drained: bool = True
    """All its effects are there; False: the session broke before."""
    raised: str | None = None
    """Class of the exception that it ended with."""


class TapedCore(SessionCore):
    """A core under record; it behaves as one that is not.

    Args:
        session, config, settings, traits, next_job: as of `SessionCore`.
        seed: of its ids.
        put: takes each step as it is complete.
    """

    def __init__(
        self, session: str, config: SessionConfig, settings: Settings, traits: Traits, next_job: Callable[[], JobId], *,
        seed: str, put: Callable[[Step], Any],
    ) -> None:  # fmt: skip
        self._put = put
        self._jobs: list[JobId] = []
        self._effects: list[Effect] = []
        self._told: tuple[Inbound | None, MonoNs] | None = None
        """What it is busy with; None: nothing, and all of its effects were taken."""

        def drawn() -> JobId:
            job = next_job()
            self._jobs.append(job)
            return job

        super().__init__(session, config, settings, traits, SeededIds(seed), drawn)

    def handle(self, msg: Inbound, now: MonoNs) -> None:
        """Take one message."""
        self._told = msg, now
        try:
            super().handle(msg, now)
        except Exception as error:
            self._step(drained=False, raised=type(error).__name__)
            raise

    def handle_timeout(self, now: MonoNs) -> None:
        """The deadline has come."""
        self._told = None, now
        try:
            super().handle_timeout(now)
        except Exception as error:
            self._step(drained=False, raised=type(error).__name__)
            raise

    def poll(self) -> Effect | None:
        """Take the next effect; None when drained."""
        effect = super().poll()
        if effect is not None:
            self._effects.append(effect)
        elif self._told is not None:
            self._step()
        return effect

    def break_off(self) -> None:
        """The session is over: a step whose effects were not all taken is put as far as it came."""
        if self._told is not None:
            self._step(drained=False)

    def _step(self, *, drained: bool = True, raised: str | None = None) -> None:
        assert self._told is not None
        message, now = self._told
        self._told = None
        jobs, effects = tuple(self._jobs), tuple(self._effects)
        self._jobs.clear()
        self._effects.clear()
        self._put(Step(at=now, message=message, jobs=jobs, effects=effects, drained=drained, raised=raised))
