"""Every event that the server sends, as it stands on the wire.

Like the objects they are made of (`server_session`, `server_objects`), these models describe and are not run: the tests hold
what `encode` makes against them, and `python docs/protocol.py` makes docs/protocol.md and web_client/sdk/events.gen.ts from them.
Source: `openai.types.realtime.RealtimeServerEvent` (openai 3.57.0); protocol.md, "Server events".
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, TypeAdapter

from duplex.protocol.decode import TransportName
from duplex.protocol.error_codes import ErrorCode
from duplex.protocol.response_events import (
    CallArgumentsDeltaEvent,
    CallArgumentsDoneEvent,
    ContentPartAddedEvent,
    ContentPartDoneEvent,
    OutputAudioDeltaEvent,
    OutputAudioDoneEvent,
    OutputItemAddedEvent,
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    OutputTextDoneEvent,
    OutputTranscriptDeltaEvent,
    OutputTranscriptDoneEvent,
    ResponseCreatedEvent,
    ResponseDoneEvent,
)
from duplex.protocol.server_model import LEFT_OUT, Count, Index, Milliseconds, ShownEvent, ShownModel
from duplex.protocol.server_objects import ConversationItem, RateLimit, Restored
from duplex.protocol.server_session import ShownConversation, ShownSession

Seconds = Annotated[float, Field(ge=0)]


# The session. ---------------------------------------------------------------------------------------------------------


class SessionCreatedEvent(ShownEvent):
    """The first event of a connection."""

    type: Literal["session.created"]
    session: ShownSession


class SessionUpdatedEvent(ShownEvent):
    """A `session.update` was taken as a whole."""

    type: Literal["session.updated"]
    session: ShownSession


class ErrorBody(ShownModel):
    """What is wrong."""

    type: Literal["invalid_request_error", "server_error"]
    """The client's mistake, or the server's."""
    code: ErrorCode
    message: str
    """For people; never quotes audio, text or instructions."""
    param: str | None
    """Dotted path of the field, as `session.audio.output.speed`."""
    event_id: str | None
    """Of the client's event, if it had one."""


class UnsentEvent(ShownModel):
    """The event that was not sent."""

    type: str
    """Its type."""
    event_id: str
    """The number that its client misses."""
    bytes: Count
    """Its length in UTF-8."""
    bytes_max: Count
    """What the data channel takes."""


class ErrorDetails(ShownModel):
    """What `event_not_sent` is about."""

    unsent: UnsentEvent


class ErrorEvent(ShownEvent):
    """Something could not be done. The session goes on, and nothing of the client's event was taken."""

    type: Literal["error"]
    error: ErrorBody
    duplex: ErrorDetails = LEFT_OUT
    """Left out unless an event of the server was not sent."""


class RateLimitsUpdatedEvent(ShownEvent):
    """Quotas that are left; the list is empty where none is kept. Follows `response.created`."""

    type: Literal["rate_limits.updated"]
    rate_limits: list[RateLimit]


# The user's audio. ----------------------------------------------------------------------------------------------------


class SpeechStartedEvent(ShownEvent):
    """The user speaks. While a reply plays it comes when the interruption is confirmed, not at the first sound."""

    type: Literal["input_audio_buffer.speech_started"]
    audio_start_ms: Milliseconds
    """Position in the session's input."""
    item_id: str
    """Of the item that this turn will be."""


class SpeechStoppedEvent(ShownEvent):
    """The user's turn has ended."""

    type: Literal["input_audio_buffer.speech_stopped"]
    audio_end_ms: Milliseconds
    """Position in the session's input."""
    item_id: str


class InputCommittedEvent(ShownEvent):
    """The audio so far is a turn."""

    type: Literal["input_audio_buffer.committed"]
    previous_item_id: str | None
    """Null: the item is the first."""
    item_id: str


class InputClearedEvent(ShownEvent):
    """The audio so far was dropped."""

    type: Literal["input_audio_buffer.cleared"]


class TimeoutTriggeredEvent(ShownEvent):
    """Nobody spoke for `idle_timeout_ms`: the model is asked to."""

    type: Literal["input_audio_buffer.timeout_triggered"]
    audio_start_ms: Milliseconds
    """Position in the session's input at which the last reply had ended."""
    audio_end_ms: Milliseconds
    """Position in the session's input at which the time was over."""
    item_id: str
    """Of the empty item that is committed."""


class _OfTranscription(ShownEvent):
    item_id: str
    content_index: Index


class TranscriptionDeltaEvent(_OfTranscription):
    """More of the user's words, while they are spoken or after."""

    type: Literal["conversation.item.input_audio_transcription.delta"]
    delta: str


class TranscriptionUsage(ShownModel):
    """What a transcription took."""

    type: Literal["duration"]
    seconds: Seconds
    """Of audio."""


class TranscriptionCompletedEvent(_OfTranscription):
    """The user's words; the deltas add up to them."""

    type: Literal["conversation.item.input_audio_transcription.completed"]
    transcript: str
    """Empty: nothing was said."""
    usage: TranscriptionUsage


class TranscriptionError(ShownModel):
    """Why there are no words."""

    type: Literal["server_error"]
    code: ErrorCode
    message: str
    """For people."""
    param: None
    """Always null."""


class TranscriptionFailedEvent(_OfTranscription):
    """The user's words are not known. The session goes on."""

    type: Literal["conversation.item.input_audio_transcription.failed"]
    error: TranscriptionError


# The conversation. ----------------------------------------------------------------------------------------------------


class ConversationCreatedEvent(ShownEvent):
    """Follows `session.created`."""

    type: Literal["conversation.created"]
    conversation: ShownConversation


class _OfItem(ShownEvent):
    previous_item_id: str | None
    """Null: it is the first."""
    item: ConversationItem
    duplex: Restored = LEFT_OUT
    """Left out unless the item was there before its client came back."""


class ItemAddedEvent(_OfItem):
    """An item is in the conversation; one of a response has begun."""

    type: Literal["conversation.item.added"]


class ItemDoneEvent(_OfItem):
    """An item is all there."""

    type: Literal["conversation.item.done"]


class ItemRetrievedEvent(ShownEvent):
    """An item as it stands, as asked for."""

    type: Literal["conversation.item.retrieved"]
    item: ConversationItem


class ItemDeletedEvent(ShownEvent):
    """An item is no longer in the conversation."""

    type: Literal["conversation.item.deleted"]
    item_id: str


class ItemTruncatedEvent(ShownEvent):
    """The assistant's item was cut to what was heard, with its transcript: by the client, or on WebRTC by the server."""

    type: Literal["conversation.item.truncated"]
    item_id: str
    content_index: Index
    audio_end_ms: Milliseconds
    """Length of what was heard, from the item's first sample."""


# What sounds on the track. --------------------------------------------------------------------------------------------


class _OfPlayout(ShownEvent):
    only_on: ClassVar[TransportName | None] = "webrtc"

    response_id: str


class OutputStart(ShownModel):
    """Where a response begins in the stream of its track."""

    rtp_timestamp: Annotated[int, Field(ge=0, lt=1 << 32)]
    """Of the packet with its first sample, 48 kHz, as in the packet's header."""


class OutputStartedEvent(_OfPlayout):
    """The first audio of a response left."""

    type: Literal["output_audio_buffer.started"]
    duplex: OutputStart = LEFT_OUT
    """Left out where it is not known."""


class OutputStoppedEvent(_OfPlayout):
    """All of a response's audio has been played. Comes after `response.done`."""

    type: Literal["output_audio_buffer.stopped"]


class OutputClearedEvent(_OfPlayout):
    """A response's audio was cut: the user spoke, or the client said so."""

    type: Literal["output_audio_buffer.cleared"]


# Our own. -------------------------------------------------------------------------------------------------------------


class DuplexTokenEvent(ShownEvent):
    """What brings the client back after a lost connection; the newest counts (resume.md)."""

    type: Literal["duplex.session.token"]
    token: str
    """Good for one return."""
    window_s: Seconds
    """How long the session waits."""


class DuplexResumedEvent(ShownEvent):
    """The client has come back to its session: it has been told what it missed, or its items follow, as they stand."""

    type: Literal["duplex.session.resumed"]
    items: Count
    """So many follow."""
    replayed: Count | None
    """So many missed events came before this one; null: some of them are gone, or the last event seen was not told."""
    audio_missed_ms: Milliseconds
    """Audio that was sent, did not arrive, and is not sent again: of responses that were cut."""


class DuplexEndingEvent(ShownEvent):
    """The session will have its greatest length soon (sessions.md)."""

    type: Literal["duplex.session.ending"]
    reason: Literal["max_length"]
    seconds_left: Seconds
    """Until it ends."""


class DuplexTurnLimitedEvent(ShownEvent):
    """A turn was committed because it had its greatest length; what sounds on is the next."""

    type: Literal["duplex.turn.limited"]
    item_id: str
    audio_ms: Milliseconds
    """Length of the turn."""


class DuplexContextTrimmedEvent(ShownEvent):
    """The model is given less of the conversation from now on; all of it can be retrieved."""

    type: Literal["duplex.context.trimmed"]
    first_item_id: str
    """Of the oldest item that it still gets."""
    items: Count
    """Left out with this step."""


class LatencySplit(ShownModel):
    """One turn's latency in seconds, part by part; the parts add up to `ttfas`."""

    endpointing: Seconds = LEFT_OUT
    """End of speech → the turn is committed."""
    transcribe: Seconds = LEFT_OUT
    """→ its words."""
    think: Seconds = LEFT_OUT
    """→ the first clause."""
    talk: Seconds = LEFT_OUT
    """→ its first codec frame."""
    vocode: Seconds = LEFT_OUT
    """→ its first sound."""
    send: Seconds = LEFT_OUT
    """→ sent."""
    ttfas: Seconds = LEFT_OUT
    """End of speech → first sound sent."""


class DuplexMetricsEvent(ShownEvent):
    """Where the time of a spoken turn's answer went."""

    type: Literal["duplex.metrics"]
    response_id: str
    split: LatencySplit
    """A part that did not occur is left out."""


ServerEvent = Annotated[
    SessionCreatedEvent
    | SessionUpdatedEvent
    | ConversationCreatedEvent
    | ErrorEvent
    | RateLimitsUpdatedEvent
    | SpeechStartedEvent
    | SpeechStoppedEvent
    | InputCommittedEvent
    | InputClearedEvent
    | TimeoutTriggeredEvent
    | ItemAddedEvent
    | ItemDoneEvent
    | ItemRetrievedEvent
    | ItemDeletedEvent
    | ItemTruncatedEvent
    | TranscriptionDeltaEvent
    | TranscriptionCompletedEvent
    | TranscriptionFailedEvent
    | ResponseCreatedEvent
    | OutputItemAddedEvent
    | ContentPartAddedEvent
    | OutputTextDeltaEvent
    | OutputTextDoneEvent
    | OutputAudioDeltaEvent
    | OutputAudioDoneEvent
    | OutputTranscriptDeltaEvent
    | OutputTranscriptDoneEvent
    | CallArgumentsDeltaEvent
    | CallArgumentsDoneEvent
    | ContentPartDoneEvent
    | OutputItemDoneEvent
    | ResponseDoneEvent
    | OutputStartedEvent
    | OutputStoppedEvent
    | OutputClearedEvent
    | DuplexTokenEvent
    | DuplexResumedEvent
    | DuplexEndingEvent
    | DuplexTurnLimitedEvent
    | DuplexContextTrimmedEvent
    | DuplexMetricsEvent,
    Field(discriminator="type"),
]
SERVER_EVENT: TypeAdapter[ServerEvent] = TypeAdapter(ServerEvent)
"""Validates an object to one of the above, by its `type`, with no field too many or too few."""
