"""What a session core asks its shell to do. `Effect` is the union of all; the shell executes them in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from duplex.payloads import Address, Audio, Job, JobId, Pace, Role
from duplex.session.events import ServerEvent
from duplex.units import Samples, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Give a job to its stage. A `Prompt` gets the newest camera frame from the shell."""

    job: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitUtterance:
    """Give a stretch of input audio to a stage; the shell takes the samples out of its ring."""

    id: JobId
    role: Role
    address: Address
    span: Span
    pace: Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitPicture:
    """Give the newest camera frame to the reader; the shell keeps it."""

    id: JobId
    address: Address
    pace: Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Take one job back."""

    role: Role
    job: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Repace:
    """Renew the pace of a job that waits or runs: the playback front moved, or a later stage has room again."""

    role: Role
    job: JobId
    pace: Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLane:
    """Make everything of a lane that is older than `epoch` stale, at every stage and in the egress.

    The shell answers at once with the lane's last `Sent`, marked with the epoch.
    """

    lane: int
    epoch: int
    fade_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueue:
    """Queue speech of a reply for the listener."""

    address: Address
    item_id: str
    audio: Audio | None
    last: bool
    """The reply's audio is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duck:
    """Lower the output by `gain_db`; 0 restores it."""

    gain_db: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Withhold output from the first unsent sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOutput:
    """End a hold, if there is one, and go on from a word's start of the reply that was playing."""

    reply: str | None
    """None: nothing had begun to play."""
    content: Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Tell the client."""

    event: ServerEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Send the events again that the client missed, as they were; only then may it be told of others."""

    seen: int
    """Number of the last event that reached it."""
    without: tuple[str, ...]
    """Items whose audio is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferResume:
    """Give the client its next token, if sessions can be resumed at all; the shell makes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observe:
    """A measure, in base units, by the names of DESIGN.md §6."""

    measure: str
    value: float
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSession:
    """Close the connection from our side: the core is done."""

    reason: str


Effect = (
    Submit | SubmitUtterance | SubmitPicture | Drop | Repace | CutLane | Enqueue | Duck | Hold | ReleaseOutput | Send
    | Replay | OfferResume | Observe | EndSession
)  # fmt: skip


class Outbox:
    """Where the parts of one core put their effects, and draw the numbers of their jobs.

    Args:
        next_job: gives a number that no other job of the process has.
    """

    def __init__(self, next_job: Callable[[], JobId]) -> None:
        self._effects: deque[Effect] = deque()
        self.next_job = next_job

    def add(self, effect: Effect) -> None:
        """Queue an effect."""
        self._effects.append(effect)

    def send(self, event: ServerEvent) -> None:
        """Queue an event for the client."""
        self.add(Send(event=event))

    def observe(self, measure: str, value: float, **labels: str) -> None:
        """Queue a measure."""
        self.add(Observe(measure=measure, value=value, labels=labels))

    def violated(self, invariant: str) -> None:
        """Count a broken invariant (DESIGN.md §1): our mistake, told and survived."""
        self.observe("duplex_invariant_violations_total", 1, invariant=invariant)

    def poll(self) -> Effect | None:
        """Take the next effect; None when drained."""
        return self._effects.popleft() if self._effects else None
