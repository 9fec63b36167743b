"""The stages of a pack, and how long each takes for what it is given."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from duplex.payloads import Job, Message, Payload, Prompt, Role, StageError, TextDelta
from duplex.stages.contract import BatchStage, EngineStage, ModelPack, is_engine
from loadgen.calibrate.material import job

_CEILING_S = 60.0


class CalibrationError(ValueError):
    """A pack cannot be measured; the message says why."""


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

    def step(self, role: Role, jobs: Sequence[Job]) -> tuple[Sequence[Payload], float]:
        """Compute one step; return its results and its milliseconds.

        Raises:
            CalibrationError: the stage refused or failed a job.
        """
        began = time.perf_counter()
        results = self.batch[role].step(jobs)
        ms = (time.perf_counter() - began) * 1000
        good: list[Payload] = []
        for result in results:
            if isinstance(result, StageError):
                raise CalibrationError(f"stage {role.value}: {result.reason}")
            good.append(result)
        return good, ms

    def ask(self, prompts: Sequence[tuple[str, Prompt]]) -> list[Answer]:
        """Submit prompts (session, prompt) in one instant, and wait for all answers.

        Raises:
            CalibrationError: the thinker failed one, or does not end.
        """
        answers = [Answer() for _ in prompts]
        began = time.perf_counter()
        for (session, prompt), answer in zip(prompts, answers, strict=True):
            answer.began = began
            self.think.submit(job(prompt, session=session), answer.take)
        for answer in answers:
            if not answer.ended.wait(_CEILING_S) or answer.failure is not None:
                raise CalibrationError(f"stage think: {answer.failure or 'an answer does not end'}")
        return answers


@dataclass(slots=True, kw_only=True)
class Answer:
    """What a thinker gave, and when."""

    began: float = 0.0
    times: list[float] = field(default_factory=list)
    """Of each piece with text."""
    text: str = ""
    tokens: int = 0
    failure: str | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def take(self, output: Payload | StageError) -> None:
        """Take one output; called on the engine's threads, one at a time for a job."""
        if isinstance(output, TextDelta):
            if output.text:
                self.times.append(time.perf_counter())
            self.text += output.text
            self.tokens += output.tokens
            if output.finish is not None:
                self.ended.set()
        else:
            self.failure = output.reason if isinstance(output, StageError) else f"{type(output).__name__} is no text"
            self.ended.set()

    @property
    def first_ms(self) -> float:
        """Submission to the first piece."""
        return (self.times[0] - self.began) * 1000

    @property
    def piece_ms(self) -> float | None:
        """Mean time between pieces; None with fewer than three."""
        if len(self.times) < 3:
            return None
        return (self.times[-1] - self.times[0]) * 1000 / (len(self.times) - 1)


def conversation(*texts: str, tokens_max: int | None = None) -> Prompt:
    """Return a conversation in which user and assistant take turns, the user first."""
    messages = tuple(Message(role=("user", "assistant")[n % 2], text=text) for n, text in enumerate(texts))
    return Prompt(messages=messages, tokens_max=tokens_max)
