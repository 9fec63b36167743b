"""What a session core tells its client: one frozen event per happening, free of the wire's shapes.

`duplex.protocol` expands each into the wire's events in the wire's order (one `ReplyDone` becomes up to seven of them).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from duplex.payloads import Int16Array
from duplex.session.config import SessionConfig
from duplex.session.picture_view import PictureView
from duplex.units import RtpTicks, Samples

ReplyStatus = Literal["accepted", "in_progress", "completed", "cancelled", "failed", "incomplete"]
StatusReason = Literal[
    "turn_detected",
    "client_cancelled",
    "max_output_tokens",
    "stage_failed",
    "text_bound",
    "disconnected",
    "context_length_exceeded",
]


ItemKind = Literal["message", "function_call", "function_call_output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemView:
    """A conversation item as it stands."""

    id: str
    role: Literal["user", "assistant", "system", "tool"]
    modality: Literal["audio", "text"]
    """Audio items carry a transcript, text items a text."""
    text: str | None
    """None: the transcript is not there yet. Of a function call its arguments, of its output what it gave."""
    status: Literal["in_progress", "completed", "incomplete"]
    pictures: tuple[PictureView, ...] = ()
    """Beside the text, of a user's text item."""
    kind: ItemKind = "message"
    call_id: str | None = None
    """Of a function call, or the one that an output answers."""
    name: str | None = None
    """Of the function that is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyView:
    """A reply as it stands."""

    id: str
    item: ItemView | None
    """Of what it says; None until it has begun to."""
    status: ReplyStatus
    reason: StatusReason | None = None
    error: str | None = None
    modality: Literal["audio", "text"] = "audio"
    voice: str = "default"
    tokens_max: int | None = None
    metadata: dict[str, str] | None = None
    input_tokens: int = 0
    """Of text, as the thinker's engine counted its prompt; while it has not, or where it cannot, an estimate."""
    input_estimated: bool = False
    cached_tokens: int = 0
    """Of those, what the engine had read before."""
    input_audio: Samples = Samples(0)
    """Of the user's turns that it is the first to be made from."""
    output_text_tokens: int = 0
    output_audio: Samples = Samples(0)
    calls: tuple[ItemView, ...] = ()
    """The functions that it calls."""
    calls_before: int = 0
    """Of them, those that began before `item`."""
    out_of_band: bool = False
    """Beside the conversation: its item is in no history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCreated:
    config: SessionConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUpdated:
    config: SessionConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResumed:
    """The client has come back (wire: duplex.session.resumed)."""

    items: int
    """So many items follow, as they stand; 0 where it was told what it missed."""
    replayed: int | None = None
    """So many events that it missed were sent before this; None: they are gone, or it did not say what it had seen."""
    audio_missed: Samples = Samples(0)
    """Audio that it missed and will not get."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionToken:
    """What brings the client back after a loss; made by the shell, not by the core (wire: duplex.session.token)."""

    token: str
    window_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechStarted:
    item_id: str
    start: Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechStopped:
    item_id: str
    end: Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class InputCommitted:
    item_id: str
    previous_item_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTimedOut:
    """Nobody spoke for the session's idle timeout; an empty turn is committed (wire: timeout_triggered)."""

    item_id: str
    start: Samples
    """Input position at which the last reply had been heard."""
    end: Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class InputCleared:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemAdded:
    """A whole item entered the conversation (wire: added, then done)."""

    item: ItemView
    previous_item_id: str | None
    restored: bool = False
    """It was there before the client came back."""
    cut: bool = False
    """Of one that was: it is the assistant's, and was stopped before all of it was heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRetrieved:
    item: ItemView


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDeleted:
    item_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemTruncated:
    item_id: str
    audio_end: Samples
    heard: str | None = None
    """Its words that were heard, where the server has found them out (WebRTC)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheard:
    """More of the user's words, while they are spoken (wire: one delta)."""

    item_id: str
    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcribed:
    """The user's words (wire: one delta with what was not told yet, then completed)."""

    item_id: str
    text: str
    seconds: float
    told: str = ""
    """What `Overheard` has told of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptionFailed:
    item_id: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyCreated:
    """Wire: response.created, rate_limits.updated."""

    reply: ReplyView


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyOutputStarted:
    """The assistant's item exists (wire: output_item.added, item.added, content_part.added)."""

    reply: ReplyView
    previous_item_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyText:
    """More of the reply's text or of its audio's transcript."""

    reply_id: str
    item_id: str
    modality: Literal["audio", "text"]
    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyAudio:
    """More of the reply's audio, on WebSocket; made by the egress, not by the core."""

    reply_id: str
    item_id: str
    pcm: Int16Array
    """Mono, 24 kHz."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted:
    """A function call of a reply has begun (wire: output_item.added, item.added)."""

    reply_id: str
    item: ItemView
    previous_item_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallArguments:
    """More of a call's arguments (wire: function_call_arguments.delta)."""

    reply_id: str
    item_id: str
    call_id: str
    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDone:
    """A call is complete and can be carried out (wire: function_call_arguments.done, output_item.done, item.done)."""

    reply_id: str
    item: ItemView


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDone:
    """The one terminal event of a reply (wire: the `done` of each open part, item and response)."""

    reply: ReplyView


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayoutStarted:
    """WebRTC: the reply's first audio left."""

    reply_id: str
    rtp_start: RtpTicks | None = None
    """RTP timestamp of its first sample, 48 kHz; None: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayoutStopped:
    """WebRTC: all of the reply's audio has been played."""

    reply_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayoutCleared:
    """WebRTC: the reply's unsent audio was dropped."""

    reply_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """An event of the server that its client's connection cannot carry."""

    kind: str
    """Its type on the wire."""
    event_id: str | None
    """None: it has no id."""
    size_bytes: int
    bytes_max: int
    """What the client takes in one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error that ends nothing."""

    code: str
    message: str
    param: str | None = None
    event_id: str | None = None
    """The client's event that caused it."""
    kind: Literal["invalid_request_error", "server_error"] = "invalid_request_error"
    unsent: Unsent | None = None
    """The event that this tells of in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMetrics:
    """One turn's latency, in seconds from the detected end of speech (wire: duplex.metrics)."""

    reply_id: str
    split: dict[str, float] = field(default_factory=dict)
    """endpointing, transcribe, think, talk, vocode, send, and their sum ttfas; end of speech is the VAD's estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimited:
    """A turn was committed because it had its greatest length, not because it had ended (wire: duplex.turn.limited)."""

    item_id: str
    audio: Samples
    """The length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextTrimmed:
    """The thinker is given less of the conversation from now on (wire: duplex.context.trimmed)."""

    first_item_id: str
    """Of the oldest item that it still gets; all can be retrieved."""
    items: int
    """Left out with this step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnding:
    """The session will have its greatest length soon (wire: duplex.session.ending)."""

    seconds_left: float


ServerEvent = (
    SessionCreated | SessionUpdated | SessionResumed | SessionToken | SpeechStarted | SpeechStopped | InputCommitted | InputTimedOut | InputCleared | ItemAdded
    | ItemRetrieved | ItemDeleted | ItemTruncated | Overheard | Transcribed | TranscriptionFailed | ReplyCreated
    | ReplyOutputStarted | ReplyText | ReplyAudio | CallStarted | CallArguments | CallDone | ReplyDone | PlayoutStarted | PlayoutStopped | PlayoutCleared
    | Failure | TurnMetrics | TurnLimited | ContextTrimmed | SessionEnding
)  # fmt: skip
