"""What a model pack implements: nodes of two kinds, and the edges between them.

A **batch stage** computes one step at a time; the runner picks the batch by urgency and calls `step` on the stage's own
thread. An **engine stage** has its own batching; the runner submits, aborts, pauses and resumes, and output comes back
through a callback from any thread. Both say in their `NodeSpec` what the scheduler has to know. Source: DESIGN.md §4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from typing_extensions import TypeIs

from duplex.payloads import Alive, Audio, CallDelta, Job, JobId, Latents, Payload, Role, StageError, TextDelta
from duplex.session.context import ContextBound

__all__ = [
    "BatchStage", "ContextBound", "Emit", "EngineStage", "ModelPack", "Mortal", "NodeSpec", "PackError", "Progress", "Role",
    "Stage", "StageMaker", "StageRaisedError", "TellLost", "is_engine", "is_last",
]  # fmt: skip

Emit = Callable[[Payload | StageError], None]
"""Hands one output of a job to the runner; callable from any thread."""
Progress = Callable[[str], None]
"""Tells a person what is being loaded, one short line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """What a node declares."""

    name: str
    """Label in metrics, e.g. `asr`."""
    role: Role
    takes: type
    gives: type
    unit: str
    """Unit of progress, e.g. `window`, `token`, `codec frame`."""
    batch_max: int = 1
    """Jobs in one step (batch stages) or running at once (engine stages)."""
    batch_key: Callable[[Job], object] = field(default=lambda job: None)
    """Jobs are batched together only where this is equal."""
    device: str = "cpu"
    bytes_per_session: int = 0
    cut_ms: int = 0
    """Longest compute that a cut cannot stop."""
    cut_restarts_context: bool = False
    pausable: bool = False
    prefills: bool = False
    """A thinker that can read a prompt ahead (`Prompt.prefill`) and keeps what it has read; never one that is billed by use."""
    calls: bool = False
    """A thinker that calls functions: it takes `Prompt.toolset` and the messages of calls, and gives `CallDelta`s."""
    step_s: float = 0.01
    """Typical time of one step, until it is measured (engines: from one output of a job to its next)."""
    steps_to_next: int = 1
    """Steps until the next stage can begin: a thinker's tokens to a clause."""
    context: ContextBound | None = None
    """Thinkers: what they read at once. The session leaves whole oldest turns out of longer prompts; None: any length."""


class BatchStage(Protocol):
    """One step of computation for a batch of jobs."""

    @property
    def spec(self) -> NodeSpec: ...

    def load(self, progress: Progress) -> None:
        """Load and warm up, so that the first job is as fast as the hundredth.

        Raises:
            PackError: a weight is missing or its hash is wrong.
        """

    def step(self, jobs: Sequence[Job]) -> Sequence[Payload | StageError]:
        """Compute one result per job, in order. Runs on the stage's own thread, never two at a time.

        Raising fails all jobs of the batch, and nothing else. Raising again and again, running out of memory and not
        returning in time get the stage replaced.
        """

    def release(self, session: str) -> None:
        """Give back whatever is kept for a session. Runs on the stage's own thread."""

    def close(self) -> None:
        """Give back everything."""


class EngineStage(Protocol):
    """An engine that batches by itself."""

    @property
    def spec(self) -> NodeSpec: ...

    def load(self, progress: Progress) -> None: ...

    def submit(self, job: Job, emit: Emit) -> None:
        """Start a job and return at once; the last output has `finish` set, or is a StageError.

        An error of kind `memory` gets the stage replaced, as does raising here, or no progress in any job: one that is at
        work and has nothing to give (a long prompt, say) emits `Alive` now and then.
        """

    def abort(self, job: JobId) -> None:
        """Stop a job; nothing is emitted for it after the next unit. Unknown jobs are ignored."""

    def pause(self, job: JobId) -> None:
        """Stop generating, keep the state; only where `spec.pausable`."""

    def resume(self, job: JobId) -> None: ...

    def reorder(self, jobs: Sequence[JobId]) -> None:
        """Prefer the running jobs in this order, most urgent first, wherever the engine has a choice."""

    def release(self, session: str) -> None: ...

    def close(self) -> None: ...


Stage = BatchStage | EngineStage
StageMaker = Callable[[], Stage]
"""Makes a stage that is not loaded yet. Where it can be pickled, the stage can have a process of its own."""
Lost = Literal["exit", "hang"]
"""How a stage goes by itself: its process ended, or it answers no more."""
TellLost = Callable[[Lost], None]
"""Told once, from any thread, that a stage has gone."""


@runtime_checkable
class Mortal(Protocol):
    """A stage that can go by itself, whether it has work or not."""

    def on_lost(self, tell: TellLost) -> None:
        """Have `tell` called when the stage has gone after it was loaded; not when it is closed."""


def is_engine(stage: Stage) -> TypeIs[EngineStage]:
    """Tell the two kinds apart."""
    return hasattr(stage, "submit")


def is_last(out: Payload | StageError) -> bool:
    """Return whether an engine's output ends its job: text, frames and audio come in pieces."""
    match out:
        case TextDelta(finish=finish):
            return finish is not None
        case Audio(last=last) | Latents(last=last):
            return last
        case CallDelta() | Alive():
            return False
        case _:
            return True


class StageRaisedError(Exception):
    """A stage raised in a process of its own; the message is the name of what it raised."""


class StageGoneError(Exception):
    """A stage has gone, and what it held with it.

    Args:
        why: as `Mortal.on_lost` tells it too, before or after.
    """

    def __init__(self, why: Lost) -> None:
        super().__init__(why)
        self.why = why


class PackError(Exception):
    """A model pack cannot be loaded; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPack:
    """A loaded-able set of stages; what the entry points of `duplex.models` return.

    An entry point names a callable `create(options: dict[str, object], threads: int) -> ModelPack` that raises PackError
    for a bad option and loads nothing yet.
    """

    name: str
    stages: tuple[Stage, ...]
    edges: tuple[tuple[Role, Role], ...]
    """From role to role; checked against `takes` and `gives` when the graph is built."""
    makers: Mapping[Role, StageMaker] = field(default_factory=dict)
    """Makes one of `stages` once more, to replace it when it hung or crashed. One that is not here is loaded again as it is."""
    processes: frozenset[Role] = frozenset()
    """Stages that have a process of their own where the configuration does not say; each needs a maker that can be pickled."""
    tick_ms: int | None = None
    """Set: the model runs in lock-step with its input (tick mode). Unset: turn mode."""
    voices: tuple[str, ...] = ("default",)
    sessions_max: int = 4
    """Sessions admitted by default."""
    sessions_prior: int | None = None
    """Of these, admitted until the stages have been measured on this machine; None: all."""
    speaking_rate_wpm: int = 170
    speculates: bool = True
    """Replies may be begun before the turn has ended, and thrown away; False for engines that are billed by use."""
    hears_short_words: bool = False
    """Its transcription knows an "okay" from a "wait": interruptions may be confirmed by their words."""
    hears_language: str | None = None
    """The language that its transcription writes, as in BCP 47; None: several, or it is not known."""
    test_double: bool = False
    """True for packs that only stand in for a model; shown wherever the pack's name is shown."""
    notice: str = ""
    """One or two sentences for the person who talks to it (its limits)."""

    @property
    def calls(self) -> bool:
        """Functions can be offered to it: its thinker calls them."""
        return any(stage.spec.role is Role.THINK and stage.spec.calls for stage in self.stages)

    @property
    def reads_images(self) -> bool:
        """Images in items are read: it has a reader, and answers turns."""
        return self.tick_ms is None and any(stage.spec.role is Role.READ for stage in self.stages)
