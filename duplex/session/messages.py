"""What a session core is told: one frozen message per happening. `Inbound` is the union of all.

Order within one instant: media and stage output first, then client events, then timers.
"""

from __future__ import annotations

from dataclasses import dataclass

from duplex.payloads import EncodedImage, JobId, Payload, StageError, Utterance
from duplex.session.config import SessionConfig
from duplex.timeline.ledger import SentRange
from duplex.units import MonoNs, Samples, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """The transport can carry events; the first message of a session, and again after `Detached`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One VAD window became final: the input watermark moves to its end."""

    span: Span
    probability: float
    """Of voice; 0 for media that was declared silent."""
    arrived: MonoNs
    """When the window's last packet came in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A camera frame was sampled and kept by the shell."""

    at: MonoNs


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutput:
    """One output of a job that this core submitted."""

    job: JobId
    payload: Payload | StageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Output left for the client since the last such message of the lane."""

    lane: int
    ranges: tuple[SentRange, ...]
    """In sending order."""
    underruns: int = 0
    """Gaps inside a reply that began since the last message."""
    underrun: Samples = Samples(0)
    """Length of silence sent inside replies since the last message."""
    cut: int | None = None
    """The epoch to which the lane was just cut: nothing older leaves after these ranges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What the transport measures of the way to the listener."""

    rtt_ms: float | None
    jitter_ms: float
    lost: int
    """Packets of ours reported lost, cumulative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybackReport:
    """The client SDK's own measurement: what it has played of a reply."""

    reply: str
    played: Samples
    event_id: str | None = None


# Client events. -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Configure:
    """session.update, already merged over the present configuration."""

    config: SessionConfig
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInput:
    arrived: Samples
    """Input position up to which the client's audio has come in; stamped by the shell."""
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearInput:
    arrived: Samples
    """As in `CommitInput`."""
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateItem:
    """An item of text (user, system or assistant) or of the user's audio enters the conversation."""

    role: str
    text: str
    images: tuple[EncodedImage, ...] = ()
    """Of the user; read, and not kept."""
    audio: Utterance | None = None
    """Of the user, in place of text: transcribed, and not kept."""
    item_id: str | None = None
    """Chosen by the client; None lets the core choose."""
    previous_item_id: str | None = None
    """None appends, `root` puts first."""
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveItem:
    item_id: str
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteItem:
    item_id: str
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateItem:
    """The client says how much of an assistant item was heard."""

    item_id: str
    content_index: int
    audio_end: Samples
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemReference:
    """An item of the conversation, in a reply's own input."""

    item_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateReply:
    """response.create; None fields take the session's."""

    instructions: str | None = None
    modalities: tuple[str, ...] | None = None
    tokens_max: int | None = None
    """0: no bound, whatever the session's is."""
    metadata: dict[str, str] | None = None
    voice: str | None = None
    input: tuple[CreateItem | ItemReference, ...] | None = None
    """What it is made from in place of the conversation; empty: of the instructions alone."""
    out_of_band: bool = False
    """Beside the conversation: it enters no history, and others may be made at the same time."""
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelReply:
    reply_id: str | None = None
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearOutput:
    """output_audio_buffer.clear: cut what plays."""

    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The protocol layer could not read an event: the core answers an error, and nothing else changes."""

    code: str
    message: str
    param: str | None = None
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached:
    """The transport is lost and the session waits for its client; the next `Connected` is its return."""

    quiet: MonoNs
    """Time since the client's last sign of life: what left meanwhile was not heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disconnected:
    """The transport is gone; the last message of a session."""

    reason: str


ClientMessage = (
    Configure | CommitInput | ClearInput | CreateItem | RetrieveItem | DeleteItem | TruncateItem | CreateReply
    | CancelReply | ClearOutput | PlaybackReport | Rejected
)  # fmt: skip
Inbound = Connected | Heard | Sampled | StageOutput | Sent | Network | ClientMessage | Detached | Disconnected
