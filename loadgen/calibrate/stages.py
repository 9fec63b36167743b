"""The stages of a pack, and how long each takes for what it is given."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from duplex.payloads import Alive, Job, Message, Payload, Prompt, Role, StageError, TextDelta
from duplex.stages.contract import BatchStage, EngineStage, ModelPack, is_engine
from loadgen.jobs import job

_CEILING_S = 60.0


class CalibrationError(ValueError):
    """A pack cannot be measured; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long something took."""

    ms: float
    cores: float
    """Processor time of this process over time."""


@dataclass(frozen=True, slots=True)
class _Moment:
    wall: float
    cpu: float

    def until(self, later: _Moment, parts: int = 1) -> Timing:
        """Return what passed until another moment, divided by so many parts; the cores are of all of it."""
        wall = max(1e-9, later.wall - self.wall)
        return Timing(ms=1000 * wall / parts, cores=(later.cpu - self.cpu) / wall)


def _now() -> _Moment:
    return _Moment(time.perf_counter(), time.process_time())


class Stages:
    """A pack's stages, loaded.

    Raises:
        CalibrationError: it is not a pack of VAD, end of turn, transcription, a thinking engine, talker and vocoder.
        PackError: a stage cannot be loaded.
    """

    def __init__(self, pack: ModelPack, progress: Callable[[str], None]) -> None:
        self.pack = pack
        by_role = {stage.spec.role: stage for stage in pack.stages}
        wanted = (Role.VAD, Role.END_OF_TURN, Role.TRANSCRIBE, Role.TALK, Role.VOCODE)
        self.batch: dict[Role, BatchStage] = {
            role: stage for role in wanted if (stage := by_role.get(role)) is not None and not is_engine(stage)
        }
        think = by_role.get(Role.THINK)
        missing = [role.value for role in wanted if role not in self.batch]
        if missing or think is None or not is_engine(think):
            raise CalibrationError(
                f"model pack {pack.name}: calibration knows packs whose thinker is an engine and whose other stages are "
                f"batch stages; it lacks {', '.join(missing) or 'such a thinker'}"
            )
        self.think: EngineStage = think
        for stage in pack.stages:
            stage.load(progress)

    def close(self) -> None:
        """Give everything back."""
        for stage in self.pack.stages:
            stage.close()

    def step(self, role: Role, jobs: Sequence[Job]) -> tuple[Sequence[Payload], Timing]:
        """Compute one step; return its results and what it took.

        Raises:
            CalibrationError: the stage refused or failed a job.
        """
        began = _now()
        results = self.batch[role].step(jobs)
        timing = began.until(_now())
        good: list[Payload] = []
        for result in results:
            if isinstance(result, StageError):
                raise CalibrationError(f"stage {role.value}: {result.reason}")
            good.append(result)
        return good, timing

    def ask(self, prompts: Sequence[tuple[str, Prompt]]) -> list[Answer]:
        """Submit prompts (session, prompt) in one instant, and wait for all answers.

        Raises:
            CalibrationError: the thinker failed one, or does not end.
        """
        began = _now()
        answers = [Answer(began=began) for _ in prompts]
        for (session, prompt), answer in zip(prompts, answers, strict=True):
            self.think.submit(job(prompt, session=session), answer.take)
        for answer in answers:
            if not answer.ended.wait(_CEILING_S) or answer.failure is not None:
                raise CalibrationError(f"stage think: {answer.failure or 'an answer does not end'}")
        return answers


@dataclass(slots=True, kw_only=True)
class Answer:
    """What a thinker gave, and when."""

    began: _Moment
    pieces: list[_Moment] = field(default_factory=list)
    """When each piece with text came."""
    text: str = ""
    tokens: int = 0
    failure: str | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def take(self, output: Payload | StageError) -> None:
        """Take one output; called on the engine's threads, one at a time for a job."""
        if isinstance(output, Alive):
            return
        if isinstance(output, TextDelta):
            if output.text:
                self.pieces.append(_now())
            self.text += output.text
            self.tokens += output.tokens
            if output.finish is not None:
                self.ended.set()
        else:
            self.failure = output.reason if isinstance(output, StageError) else f"{type(output).__name__} is no text"
            self.ended.set()

    @property
    def first(self) -> Timing:
        """Submission to the first piece.

        Raises:
            CalibrationError: there is none.
        """
        if not self.pieces:
            raise CalibrationError("stage think: an answer without text")
        return self.began.until(self.pieces[0])

    @property
    def between(self) -> Timing | None:
        """One piece to the next, on average; None with fewer than three."""
        if len(self.pieces) < 3:
            return None
        return self.pieces[0].until(self.pieces[-1], len(self.pieces) - 1)


def conversation(*texts: str, tokens_max: int | None = None) -> Prompt:
    """Return a conversation in which user and assistant take turns, the user first."""
    messages = tuple(Message(role=("user", "assistant")[n % 2], text=text) for n, text in enumerate(texts))
    return Prompt(messages=messages, tokens_max=tokens_max)
