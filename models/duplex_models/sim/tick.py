"""The test double in tick form: every 80 ms it hears a tick and decides itself whether to speak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from duplex.payloads import Job, Payload, StageError, TickInput, TickOutput
from duplex.stages.contract import NodeSpec, Progress, Role
from duplex_models.sim.stages import RATE, tone_hz

_VOICE_LEVEL = 500
_LEVEL = 12_000
_SILENCE_TICKS = 4
"""Silent ticks after speech that make it answer."""


@dataclass(slots=True)
class _State:
    heard_voice: bool = False
    silent: int = 0
    speaking: int = 0
    """Ticks of its answer that are still to come."""
    replies: int = 0
    position: int = 0


class SimTick:
    """Answers after 320 ms of silence with a tone; falls silent as soon as it hears voice."""

    spec = NodeSpec(
        name="tick", role=Role.TICK, takes=TickInput, gives=TickOutput, unit="tick", batch_max=64, cut_ms=80,
        cut_restarts_context=False,
    )  # fmt: skip

    def __init__(self, words: int, word_ms: int) -> None:
        self._ticks_per_word = max(1, word_ms // 80)
        self._answer = words * self._ticks_per_word
        self._sessions: dict[str, _State] = {}

    def load(self, progress: Progress) -> None:
        """Nothing to load."""
        progress("tick: test double")

    def step(self, jobs: Sequence[Job]) -> list[Payload | StageError]:
        """Return one tick's output per job."""
        return [self._tick(job) for job in jobs]

    def release(self, session: str) -> None:
        """Forget a session."""
        self._sessions.pop(session, None)

    def close(self) -> None:
        """Forget all."""
        self._sessions.clear()

    def _tick(self, job: Job) -> Payload:
        tick = job.payload
        assert isinstance(tick, TickInput)
        state = self._sessions.setdefault(job.address.session, _State())
        if int(np.abs(tick.pcm).max(initial=0)) > _VOICE_LEVEL:
            state.heard_voice, state.silent, state.speaking = True, 0, 0
        else:
            state.silent += 1
        if state.heard_voice and state.silent >= _SILENCE_TICKS:
            state.heard_voice, state.speaking = False, self._answer
            state.replies += 1
        if not state.speaking:
            return TickOutput(span=tick.span, speak=False, pcm=None, rate=RATE)
        done = self._answer - state.speaking
        state.speaking -= 1
        n = len(tick.span) // 2
        t = (state.position + np.arange(n)) * (2 * np.pi * tone_hz(state.replies - 1) / RATE)
        state.position += n
        text = f"word {done // self._ticks_per_word + 1} " if done % self._ticks_per_word == 0 else ""
        return TickOutput(
            span=tick.span, speak=True, pcm=np.rint(_LEVEL * np.sin(t)).astype(np.int16), rate=RATE, text=text
        )
