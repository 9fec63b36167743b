"""What a stage's process and its parent say to each other; pickled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from duplex.payloads import Job, JobId, Payload, StageError
from duplex.stages.contract import StageMaker


@dataclass(frozen=True, slots=True)
class Load:
    """Make and load the stage."""

    maker: StageMaker


@dataclass(frozen=True, slots=True)
class Step:
    """Compute one step of a batch stage."""

    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """Call a method that answers nothing."""

    method: Literal["submit", "abort", "pause", "resume", "reorder", "release"]
    argument: Any


@dataclass(frozen=True, slots=True)
class Ping:
    """Say that you live."""


@dataclass(frozen=True, slots=True)
class Loading:
    """What is being loaded."""

    line: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The stage takes work."""


@dataclass(frozen=True, slots=True)
class Stepped:
    """A step's results."""

    results: tuple[Payload | StageError, ...]


@dataclass(frozen=True, slots=True)
class Raised:
    """The stage raised. The message is that of loading; a step's could hold what somebody said."""

    error: str
    message: str = ""
    memory: bool = False
    job: JobId | None = None
    """Of a job that could not be submitted."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """An output of an engine's job."""

    job: JobId
    output: Payload | StageError


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a ping."""
