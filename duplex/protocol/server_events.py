"""Every event that the server sends, as it stands on the wire.

Like the objects they are made of (`server_objects`), these models describe and are not run: the tests hold what `encode`
makes against them, and docs/protocol.md and web_client/sdk/events.gen.ts are made from them by `python docs/protocol.py`.
Source: `openai.types.realtime.RealtimeServerEvent` (openai 3.57.0); protocol.md, "Server events".
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, TypeAdapter

from duplex.protocol.decode import TransportName
from duplex.protocol.error_codes import ErrorCode
from duplex.protocol.server_objects import (
    LEFT_OUT,
    ConversationItem,
    Count,
    Milliseconds,
    RateLimit,
    Response,
    Restored,
    ShownConversation,
    ShownModel,
    ShownPart,
    ShownSession,
)

Index = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


class _Event(ShownModel):
    only_on: ClassVar[TransportName | None] = None
    """The one transport that has it; None: both."""

    event_id: Annotated[str, Field(pattern=r"^event_[0-9]{12}_.+$")]
    """`event_`, a number of twelve digits that grows by one with each event, `_`, the session's id."""


# The session. ---------------------------------------------------------------------------------------------------------


class SessionCreatedEvent(_Event):
    """The first event of a connection."""

    type: Literal["session.created"]
    session: ShownSession


class SessionUpdatedEvent(_Event):
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


class ErrorEvent(_Event):
    """Something could not be done. The session goes on, and nothing of the client's event was taken."""

    type: Literal["error"]
    error: ErrorBody
    duplex: ErrorDetails = LEFT_OUT
    """Left out unless an event of the server was not sent."""


class RateLimitsUpdatedEvent(_Event):
    """Quotas that are left; the list is empty where none is kept. Follows `response.created`."""

    type: Literal["rate_limits.updated"]
    rate_limits: list[RateLimit]


# The user's audio. ----------------------------------------------------------------------------------------------------


class SpeechStartedEvent(_Event):
    """The user speaks. While a reply plays it comes when the interruption is confirmed, not at the first sound."""

    type: Literal["input_audio_buffer.speech_started"]
    audio_start_ms: Milliseconds
    """Position in the session's input."""
    item_id: str
    """Of the item that this turn will be."""


class SpeechStoppedEvent(_Event):
    """The user's turn has ended."""

    type: Literal["input_audio_buffer.speech_stopped"]
    audio_end_ms: Milliseconds
    """Position in the session's input."""
    item_id: str


class InputCommittedEvent(_Event):
    """The audio so far is a turn."""

    type: Literal["input_audio_buffer.committed"]
    previous_item_id: str | None
    """Null: the item is the first."""
    item_id: str


class InputClearedEvent(_Event):
    """The audio so far was dropped."""

    type: Literal["input_audio_buffer.cleared"]


class TimeoutTriggeredEvent(_Event):
    """Nobody spoke for `idle_timeout_ms`: the model is asked to."""

    type: Literal["input_audio_buffer.timeout_triggered"]
    audio_start_ms: Milliseconds
    """Position in the session's input at which the last reply had ended."""
    audio_end_ms: Milliseconds
    """Position in the session's input at which the time was over."""
    item_id: str
    """Of the empty item that is committed."""


class _OfTranscription(_Event):
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


class ConversationCreatedEvent(_Event):
    """Follows `session.created`."""

    type: Literal["conversation.created"]
    conversation: ShownConversation


class _OfItem(_Event):
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


class ItemRetrievedEvent(_Event):
    """An item as it stands, as asked for."""

    type: Literal["conversation.item.retrieved"]
    item: ConversationItem


class ItemDeletedEvent(_Event):
    """An item is no longer in the conversation."""

    type: Literal["conversation.item.deleted"]
    item_id: str


class ItemTruncatedEvent(_Event):
    """The assistant's item was cut to what was heard, with its transcript: by the client, or on WebRTC by the server."""

    type: Literal["conversation.item.truncated"]
    item_id: str
    content_index: Index
    audio_end_ms: Milliseconds
    """Length of what was heard, from the item's first sample."""


# Responses. -----------------------------------------------------------------------------------------------------------


class ResponseCreatedEvent(_Event):
    """A response has begun."""

    type: Literal["response.created"]
    response: Response


class ResponseDoneEvent(_Event):
    """A response has ended, in one way or another: there is no other event that says so, and never a second one."""

    type: Literal["response.done"]
    response: Response


class _OfResponse(_Event):
    response_id: str
    output_index: Index
    """Of the item in the response's output."""


class OutputItemAddedEvent(_OfResponse):
    """An item of a response has begun."""

    type: Literal["response.output_item.added"]
    item: ConversationItem


class OutputItemDoneEvent(_OfResponse):
    """An item of a response is all there."""

    type: Literal["response.output_item.done"]
    item: ConversationItem


class _OfContent(_OfResponse):
    item_id: str
    content_index: Index


class ContentPartAddedEvent(_OfContent):
    """A content part has begun, empty."""

    type: Literal["response.content_part.added"]
    part: ShownPart


class ContentPartDoneEvent(_OfContent):
    """A content part as it was made: its text is what the deltas add up to, heard or not."""

    type: Literal["response.content_part.done"]
    part: ShownPart


class OutputTextDeltaEvent(_OfContent):
    """More text."""

    type: Literal["response.output_text.delta"]
    delta: str


class OutputTextDoneEvent(_OfContent):
    """All of the text."""

    type: Literal["response.output_text.done"]
    text: str
    """What the deltas add up to."""


class OutputTranscriptDeltaEvent(_OfContent):
    """More of the words; they leave with the audio of their clause, not ahead of the ear."""

    type: Literal["response.output_audio_transcript.delta"]
    delta: str


class OutputTranscriptDoneEvent(_OfContent):
    """All of the words."""

    type: Literal["response.output_audio_transcript.done"]
    transcript: str
    """What the deltas add up to, heard or not."""


class OutputAudioDeltaEvent(_OfContent):
    """More sound. A WebRTC call has it on its track."""

    only_on: ClassVar[TransportName | None] = "websocket"

    type: Literal["response.output_audio.delta"]
    delta: str
    """Base64, in the format of `audio.output`."""


class OutputAudioDoneEvent(_OfContent):
    """All of the sound was made."""

    type: Literal["response.output_audio.done"]


class _OfCall(_OfResponse):
    item_id: str
    call_id: str


class CallArgumentsDeltaEvent(_OfCall):
    """More of a call's arguments."""

    type: Literal["response.function_call_arguments.delta"]
    delta: str


class CallArgumentsDoneEvent(_OfCall):
    """All of a call's arguments."""

    type: Literal["response.function_call_arguments.done"]
    name: str
    """Of the function."""
    arguments: str
    """JSON."""


# What sounds on the track. --------------------------------------------------------------------------------------------


class _OfPlayout(_Event):
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


class DuplexTokenEvent(_Event):
    """What brings the client back after a lost connection; the newest counts (resume.md)."""

    type: Literal["duplex.session.token"]
    token: str
    """Good for one return."""
    window_s: Seconds
    """How long the session waits."""


class DuplexResumedEvent(_Event):
    """The client has come back to its session: it has been told what it missed, or its items follow, as they stand."""

    type: Literal["duplex.session.resumed"]
    items: Count
    """So many follow."""
    replayed: Count | None
    """So many missed events came before this one; null: some of them are gone, or the last event seen was not told."""
    audio_missed_ms: Milliseconds
    """Audio that was sent, did not arrive, and is not sent again: of responses that were cut."""


class DuplexEndingEvent(_Event):
    """The session will have its greatest length soon (sessions.md)."""

    type: Literal["duplex.session.ending"]
    reason: Literal["max_length"]
    seconds_left: Seconds
    """Until it ends."""


class DuplexTurnLimitedEvent(_Event):
    """A turn was committed because it had its greatest length; what sounds on is the next."""

    type: Literal["duplex.turn.limited"]
    item_id: str
    audio_ms: Milliseconds
    """Length of the turn."""


class DuplexContextTrimmedEvent(_Event):
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


class DuplexMetricsEvent(_Event):
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
