"""What a session core is told: one frozen message per happening. `Inbound` is the union of all.

Order within one instant: media and stage output first, then client events, then timers.
"""

from __future__ import annotations

from dataclasses import dataclass

from duplex.payloads import EncodedImage, JobId, Payload, StageError, Toolset, Utterance
from duplex.session.config import SessionConfig
from duplex.timeline.ledger import SentRange
from duplex.units import MonoNs, RtpTicks, Samples, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """Audio of one item that was sent and did not reach the client (WebSocket)."""

    item_id: str
    delivered: Samples
    """Content position up to which it did."""
    length: Samples
    """Of what did not."""
    events: int
    """In so many deltas."""
    kept: bool
    """All of them can be sent again."""
    cancelled: bool
    """The reply did not end by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """The transport can carry events; the first message of a session, and again after `Detached` or a lost data channel."""

    again: bool = False
    """The client has been told of events before."""
    seen: int | None = None
    """Number of the last event that reached it, if all later ones are kept; None: it is told where the conversation stands."""
    missed: int = 0
    """Events after that one."""
    undelivered: tuple[Undelivered, ...] = ()
    """The audio among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One VAD window became final: the input watermark moves to its end."""

    span: Span
    probability: float
    """Of voice; 0 for media that was declared silent."""
    arrived: MonoNs
    """When the window's last packet came in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HearingLags:
    """Media has come in that the VAD has not spoken of yet: it is late, and not missing."""


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
    rtp_end: RtpTicks | None = None
    """RTP timestamp at which the last range ends; None where there is none of 48 kHz."""


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
class CreateCall:
    """A complete function call, of another session perhaps, enters the conversation."""

    name: str
    arguments: str
    """JSON text of an object; empty for one without members."""
    call_id: str | None = None
    """None lets the core choose."""
    item_id: str | None = None
    previous_item_id: str | None = None
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCallOutput:
    """What a function call gave enters the conversation."""

    call_id: str
    output: str
    item_id: str | None = None
    previous_item_id: str | None = None
    event_id: str | None = None


NewItem = CreateItem | CreateCall | CreateCallOutput


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
    toolset: Toolset | None = None
    voice: str | None = None
    input: tuple[NewItem | ItemReference, ...] | None = None
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
    Configure | CommitInput | ClearInput | CreateItem | CreateCall | CreateCallOutput | RetrieveItem | DeleteItem | TruncateItem | CreateReply
    | CancelReply | ClearOutput | PlaybackReport | Rejected
)  # fmt: skip
Inbound = (
    Connected | Heard | HearingLags | Sampled | StageOutput | Sent | Network | ClientMessage | Detached | Disconnected
)  # fmt: skip
