"""From the core's events to RTVI's messages.

    SessionCreated                       bot-ready (once)
    SpeechStarted, SpeechStopped         user-started-speaking, user-stopped-speaking
    Overheard …, Transcribed             user-transcription (final: false …, final: true), user-llm-text
    ReplyCreated                         bot-llm-started
      ReplyOutputStarted                   bot-tts-started
      PlayoutStarted                       bot-started-speaking
      ReplyText …, as its sound leaves     bot-llm-text, bot-tts-text, bot-transcription, bot-output (new)
      the next clause's sound              bot-output (completed) of the one before
      CallStarted, CallDone                llm-function-call-started, llm-function-call-in-progress
    ReplyDone                            bot-llm-stopped, bot-tts-stopped
      PlayoutStopped                       bot-output (completed), bot-stopped-speaking
      PlayoutCleared, ItemTruncated        bot-stopped-speaking, bot-output (in-progress): which words were heard

A segment of `bot-output` is a clause; `spoken_progress` tells how much of it was spoken. Core events that RTVI has no message
for give nothing. Source: pipecat-ai 1.14.0, `processors/frameworks/rtvi`; `@pipecat-ai/client-js` 1.13.1.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from duplex import __version__
from duplex.protocol.lock import shown
from duplex.protocol.rtvi.client_messages import LABEL
from duplex.session.events import (
    CallDone,
    CallStarted,
    Failure,
    ItemAdded,
    ItemTruncated,
    Overheard,
    PlayoutCleared,
    PlayoutStarted,
    PlayoutStopped,
    ReplyCreated,
    ReplyDone,
    ReplyOutputStarted,
    ReplyText,
    ServerEvent,
    SessionCreated,
    SessionEnding,
    SessionResumed,
    SessionUpdated,
    SpeechStarted,
    SpeechStopped,
    Transcribed,
    TranscriptionFailed,
    TurnMetrics,
)

PROTOCOL_VERSION: Final = "2.1.0"
ALREADY_ANSWERS: Final = "conversation_already_has_active_response"
_USER: Final = "user"
_SUM: Final = "ttfas"

_Message = dict[str, Any]
_ReplyEvent = ReplyCreated | ReplyOutputStarted | ReplyText | ReplyDone
_PlayoutEvent = PlayoutStarted | PlayoutStopped | PlayoutCleared | ItemTruncated


@dataclass(slots=True)
class _Spoken:
    """A reply, from its beginning until another begins after it has ended and nothing of it plays."""

    item_id: str | None = None
    said: str = ""
    """Text of the segments that are over, as it was told."""
    segment: int = 0
    open: str = ""
    """Text of the segment whose sound leaves; empty: none."""
    done: bool = False
    playing: bool = False


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    reply_id: str


def message(kind: str, data: Any = None, id_: str | None = None) -> _Message:
    """Return a message of RTVI."""
    built: _Message = {"label": LABEL, "type": kind}
    if id_ is not None:
        built["id"] = id_
    return built if data is None else built | {"data": data}


class RtviEncoder:
    """Turns one session's core events into messages.

    Args:
        wall: gives the time of day in ISO 8601.
        calls_max: calls whose results are waited for; a client answers none of a function that it has no handler for.
        lost: the client has had another session before, and is told that this is a new one.
    """

    def __init__(self, wall: Callable[[], str], calls_max: int, *, lost: bool = False) -> None:
        self._wall = wall
        self._calls_max = calls_max
        self._lost = lost
        self._partial: dict[str, str] = {}
        """By item: what the client was told of words that are still being spoken."""
        self._replies: dict[str, _Spoken] = {}
        self._calls: dict[str, _Call] = {}
        """By id: those whose results are still to come; overflow rule: `drop_oldest`."""
        self._segments = 0
        self._greeted = False
        self.ready_id: str | None = None
        """Id of the message by which the client was ready."""
        self.asked: tuple[str | None, str] | None = None
        """Id and type of the client message that `SessionUpdated` answers."""
        self.text_id: str | None = None
        """Id of the last text that asked for an answer."""

    @property
    def answering(self) -> bool:
        """A reply is being made."""
        return any(not reply.done for reply in self._replies.values())

    def is_last_call(self, call_id: str) -> bool:
        """Whether of its reply's calls this one alone has no result yet."""
        call = self._calls.get(call_id)
        return call is not None and [other.reply_id for other in self._calls.values()].count(call.reply_id) == 1

    def encode(self, event: ServerEvent) -> list[_Message]:
        """Return the messages of one core event, in sending order."""
        match event:
            case ReplyCreated() | ReplyOutputStarted() | ReplyText() | ReplyDone():
                return self._encode_reply(event)
            case PlayoutStarted() | PlayoutStopped() | PlayoutCleared() | ItemTruncated():
                return self._encode_playout(event)
            case CallStarted() | CallDone() | ItemAdded():
                return self._encode_call(event)
            case Overheard() | Transcribed():
                return self._encode_words(event)
            case SessionCreated():
                return self._greet()
            case SessionUpdated():
                return self._answer_update(event)
            case Failure():
                return self._encode_failure(event)
            case TranscriptionFailed():
                self._partial.pop(event.item_id, None)
                return _encode_plain(event)
            case _:
                return _encode_plain(event)

    def _greet(self) -> list[_Message]:
        if self._greeted:
            return []
        self._greeted = True
        about = {"library": "duplex", "library_version": __version__}
        told = [message("server-message", {"type": "duplex.session.lost"})] if self._lost else []
        return [*told, message("bot-ready", {"version": PROTOCOL_VERSION, "about": about}, self.ready_id)]

    def _answer_update(self, event: SessionUpdated) -> list[_Message]:
        if self.asked is None:
            return []
        (id_, kind), self.asked = self.asked, None
        return [message("server-response", {"t": kind, "d": shown(event.config)}, id_)]

    def _encode_failure(self, event: Failure) -> list[_Message]:
        if event.code == ALREADY_ANSWERS and event.event_id is not None and event.event_id == self.text_id:
            return []  # the answer that is about to begin has the text in its prompt
        own = {"code": event.code, "param": event.param}
        if event.event_id is not None:
            self.asked = None  # messages are taken one at a time: it was this one
            return [message("error-response", {"error": event.message, "duplex": own}, event.event_id)]
        return [_error(event.message, own)]

    # The user. ------------------------------------------------------------------------------------------------------

    def _encode_words(self, event: Overheard | Transcribed) -> list[_Message]:
        if isinstance(event, Overheard):
            text = self._partial[event.item_id] = self._partial.get(event.item_id, "") + event.delta
            return [self._transcription(text, final=False)]
        told = self._partial.pop(event.item_id, "")
        if not event.text:
            return [self._transcription("", final=True)] if told else []
        return [self._transcription(event.text, final=True), message("user-llm-text", {"text": event.text})]

    def _transcription(self, text: str, *, final: bool) -> _Message:
        data = {"text": text.strip(), "final": final, "timestamp": self._wall(), "user_id": _USER}
        return message("user-transcription", data)

    # The bot. -------------------------------------------------------------------------------------------------------

    def _encode_reply(self, event: _ReplyEvent) -> list[_Message]:
        if isinstance(event, ReplyCreated):
            self._replies = {id_: reply for id_, reply in self._replies.items() if not reply.done or reply.playing}
            self._replies[event.reply.id] = _Spoken()
            return [message("bot-llm-started")]
        reply = self._replies.get(event.reply_id if isinstance(event, ReplyText) else event.reply.id)
        if reply is None or reply.done:
            return []
        match event:
            case ReplyOutputStarted(reply=view):
                reply.item_id = view.item.id if view.item is not None else None
                return [message("bot-tts-started")] if view.modality == "audio" else []
            case ReplyText(modality="text", delta=delta):
                reply.said += delta
                return [message("bot-llm-text", {"text": delta})]
            case ReplyText(delta=delta):
                return [*self._close_segment(reply), *self._open_segment(reply, delta)]
            case ReplyDone(reply=view):
                reply.done = True
                told = [message("bot-llm-stopped")]
                if view.modality == "audio":
                    told += [message("bot-tts-stopped")] if reply.item_id is not None else []
                elif reply.said:
                    told += self._written(reply.said)
                return told

    def _open_segment(self, reply: _Spoken, delta: str) -> list[_Message]:
        self._segments += 1
        reply.segment, reply.open = self._segments, delta
        text = {"text": delta.strip()}
        return [
            message("bot-llm-text", {"text": delta}),
            message("bot-tts-text", text),
            message("bot-transcription", text),
            self._output(reply, "new", 0),
        ]

    def _close_segment(self, reply: _Spoken) -> list[_Message]:
        if not reply.open:
            return []
        told = self._output(reply, "completed", len(reply.open))
        reply.said, reply.open = reply.said + reply.open, ""
        return [told]

    def _output(self, reply: _Spoken, status: str, heard: int) -> _Message:
        """Tell of the open segment, of which so many characters were spoken."""
        spoken, rest = reply.open[:heard].strip(), reply.open[heard:].strip()
        data = {
            "text": reply.open.strip(),
            "aggregated_by": "sentence",
            "segment_id": reply.segment,
            "will_be_spoken": True,
            "spoken_status": status,
            "spoken_progress": {"accumulated_text": spoken, "remaining_text": rest},
        }
        return message("bot-output", data)

    def _written(self, text: str) -> list[_Message]:
        """Tell of a reply that is not spoken."""
        self._segments += 1
        whole = {"text": text.strip()}
        kind = {"aggregated_by": "sentence", "segment_id": self._segments}
        output = {**whole, **kind, "will_be_spoken": False, "spoken_status": "new"}
        return [message("bot-transcription", whole), message("bot-output", output)]

    def _encode_call(self, event: CallStarted | CallDone | ItemAdded) -> list[_Message]:
        item = event.item
        call_id, name = item.call_id or "", item.name or ""
        match event:
            case CallStarted():
                return [message("llm-function-call-started", {"function_name": name})]
            case CallDone():
                self._calls[call_id] = _Call(name, event.reply_id)
                if len(self._calls) > self._calls_max:
                    del self._calls[next(iter(self._calls))]
                data = {"function_name": name, "tool_call_id": call_id, "arguments": json.loads(item.text or "{}")}
                return [message("llm-function-call-in-progress", data)]
            case ItemAdded() if item.kind == "function_call_output" and not event.restored:
                called = self._calls.pop(call_id, None)
                name = "" if called is None else called.name
                stopped = {"function_name": name, "tool_call_id": call_id, "cancelled": False}
                return [message("llm-function-call-stopped", stopped)]
            case ItemAdded():
                return _encode_plain(event)

    def _encode_playout(self, event: _PlayoutEvent) -> list[_Message]:
        if isinstance(event, ItemTruncated):
            return self._truncate(event)
        reply = self._replies.get(event.reply_id)
        if reply is not None:
            reply.playing = isinstance(event, PlayoutStarted)
        if isinstance(event, PlayoutStarted):
            return [message("bot-started-speaking")]
        told = self._close_segment(reply) if reply is not None and isinstance(event, PlayoutStopped) else []
        return [*told, message("bot-stopped-speaking")]

    def _truncate(self, event: ItemTruncated) -> list[_Message]:
        """A reply was cut: it is over, and what was heard of its last segment is known."""
        found = next((id_ for id_, reply in self._replies.items() if reply.item_id == event.item_id), None)
        reply = self._replies.pop(found) if found is not None else None
        if reply is None or not reply.open or event.heard is None:
            return []
        return [self._output(reply, "in-progress", max(0, len(event.heard) - len(reply.said)))]


def _encode_plain(event: ServerEvent) -> list[_Message]:
    """Encode what depends on nothing that was sent before."""
    match event:
        case SpeechStarted():
            return [message("user-started-speaking")]
        case SpeechStopped():
            return [message("user-stopped-speaking")]
        case ItemAdded(item=item, restored=False) if item.role == "user" and item.text:
            return [message("user-llm-text", {"text": item.text})]
        case TranscriptionFailed(message=reason):
            return [_error(reason, {"code": "transcription_failed", "param": None})]
        case TurnMetrics(split=split):
            whole = [{"processor": "duplex", "value": split[_SUM]}] if _SUM in split else []
            parts = [{"processor": part, "value": value} for part, value in split.items() if part != _SUM]
            return [message("metrics", {"ttfb": whole, "processing": parts})]
        case SessionResumed():
            # Whatever was going on ended with the connection, and the client was not there to be told.
            ended = [message("user-stopped-speaking"), message("bot-stopped-speaking")]
            return [*ended, message("server-message", {"type": "duplex.session.resumed"})]
        case SessionEnding(seconds_left=seconds):
            return [message("server-message", {"type": "duplex.session.ending", "seconds_left": round(seconds, 1)})]
        case _:
            return []


def _error(text: str, own: dict[str, str | None]) -> _Message:
    return message("error", {"error": text, "message": text, "fatal": False, "duplex": own})
