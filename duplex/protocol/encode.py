"""From the core's events to the wire's, in the order that stock clients expect.

One reply on the wire, and which core event says it (text replies have `output_text` for the audio lines):

    response.created, rate_limits.updated                          ReplyCreated
      response.output_item.added, conversation.item.added,
      response.content_part.added                                  ReplyOutputStarted
        output_audio_buffer.started                    (WebRTC)    PlayoutStarted
        response.output_audio_transcript.delta …                   ReplyText
        response.output_audio.delta …                  (WebSocket) ReplyAudio
      response.output_item.added, conversation.item.added          CallStarted, a function call beside the text
        response.function_call_arguments.delta …                   CallArguments
      response.function_call_arguments.done,
      response.output_item.done, conversation.item.done            CallDone; of one that was cut ReplyDone, without the first
      response.output_audio.done, …_transcript.done,
      response.content_part.done, response.output_item.done,
      conversation.item.done                                       ReplyDone, if output had started
    response.done                                                  ReplyDone
    output_audio_buffer.stopped                        (WebRTC)    PlayoutStopped

A cut tells output_audio_buffer.cleared (PlayoutCleared, WebRTC) before what closes the reply.

An out-of-band reply has the same, without what tells of the conversation.

Source: protocol.md, "Lifecycles"; field case C41.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from duplex.payloads import Int16Array
from duplex.protocol import wire_objects
from duplex.protocol.audio import OutputAudio
from duplex.protocol.decode import TransportName
from duplex.protocol.encode_calls import OpenCalls
from duplex.protocol.event_ids import event_id_of
from duplex.protocol.lock import shown
from duplex.protocol.ring import AUDIO_BYTES_MAX, BYTES_MAX, AudioPlace, EventRing
from duplex.session.events import (
    CallArguments,
    CallDone,
    CallStarted,
    ContextTrimmed,
    Failure,
    InputCleared,
    InputCommitted,
    InputTimedOut,
    ItemAdded,
    ItemDeleted,
    ItemRetrieved,
    ItemTruncated,
    ItemView,
    Overheard,
    PlayoutCleared,
    PlayoutStarted,
    PlayoutStopped,
    ReplyAudio,
    ReplyCreated,
    ReplyDone,
    ReplyOutputStarted,
    ReplyText,
    ServerEvent,
    SessionCreated,
    SessionEnding,
    SessionResumed,
    SessionToken,
    SessionUpdated,
    SpeechStarted,
    SpeechStopped,
    Transcribed,
    TranscriptionFailed,
    TurnLimited,
    TurnMetrics,
    Unsent,
)
from duplex.units import Samples, ms_from_samples

_Event = dict[str, Any]
_CallEvent = CallStarted | CallArguments | CallDone
_ReplyEvent = ReplyCreated | ReplyOutputStarted | ReplyText | ReplyAudio | ReplyDone


def to_json(event: _Event) -> str:
    """Return an event as JSON text in ASCII, which every transport can carry whatever a model wrote."""
    return _WRITER.encode(event)


_WRITER = json.JSONEncoder(separators=(",", ":"))
"""`json.dumps` would make one for each event."""


@dataclass(slots=True)
class _OpenReply:
    """What has been opened on the wire for a reply and has to be closed by its end."""

    calls: OpenCalls
    format: _Event
    """Of its audio: the session's, as the reply began."""
    audio: OutputAudio
    item: ItemView | None = None
    previous_item_id: str | None = None
    index: int = 0
    """The item's place in the output."""
    texts: list[str] = field(default_factory=list)
    outputs: int = 0
    """Items that have begun."""
    audio_end: Samples = Samples(0)
    """Content position of the end of the audio that was encoded."""
    deleted: bool = False
    """The client has deleted the item while it was being said: the conversation has it no more."""

    def delete(self, item_id: str) -> None:
        """The client deletes an item, perhaps one of this reply's."""
        self.deleted = self.deleted or (self.item is not None and self.item.id == item_id)
        self.calls.delete(item_id)

    def copy(self) -> _OpenReply:
        """Return what goes on by itself from here on, without the audio before."""
        audio = OutputAudio(self.format["type"])
        return replace(self, calls=self.calls.copy(), audio=audio, texts=list(self.texts))


class WireEncoder:
    """Turns one session's core events into wire events.

    Args:
        session_id: ends every event id, so that ids of two sessions never meet.
        conversation_id: id of the session's conversation.
        transport: `output_audio_buffer.*` is sent on WebRTC only, `response.output_audio.delta` on WebSocket only.
        ring_events_max, ring_bytes_max, ring_audio_bytes_max: what is kept for a resume, as in `EventRing`.
    """

    def __init__(
        self, *, session_id: str, conversation_id: str, transport: TransportName, ring_events_max: int,
        ring_bytes_max: int = BYTES_MAX, ring_audio_bytes_max: int = AUDIO_BYTES_MAX,
    ) -> None:  # fmt: skip
        self._session_id = session_id
        self._conversation_id = conversation_id
        self._webrtc = transport == "webrtc"
        self._sequence = 0
        self._open: dict[str, _OpenReply] = {}
        self._output_format: _Event = {"type": "audio/pcm", "rate": 24000}
        self._own_unasked = self._webrtc
        """Whether the client is sent what the protocol has no event for, unless it says so itself. Not over WebSocket: a
        stock client there (openai-agents for Python) hands each event that it does not know to its app as an error."""
        self._tells_own = self._own_unasked
        self._ring = EventRing(ring_events_max, ring_bytes_max, ring_audio_bytes_max)
        self._keeps = True
        """Whether the client may come back for its events: over WebSocket only one that has asked for it (a call's data
        channel may be lost while the call lives)."""
        self._joined = False
        """It tells another connection, which may not have been told how a reply began."""
        self._late = 0

    @property
    def sequence(self) -> int:
        """Number of the last event; 0 before the first."""
        return self._sequence

    @property
    def ring(self) -> EventRing:
        """The last events, as they were sent."""
        return self._ring

    @property
    def late_deltas(self) -> int:
        """Deltas that came for a reply that was not open, and were left out."""
        return self._late

    def beside(self, name: str) -> WireEncoder:
        """Return an encoder for another connection to the same session, from here on: it numbers its events by itself.

        Args:
            name: ends its event ids.
        """
        other = WireEncoder(
            session_id=name,
            conversation_id=self._conversation_id,
            transport="webrtc" if self._webrtc else "websocket",
            ring_events_max=1,
        )
        other._joined = True
        other._own_unasked = False
        other._output_format = self._output_format
        other._open = {reply_id: opened.copy() for reply_id, opened in self._open.items()}
        return other

    def encode(self, event: ServerEvent) -> list[_Event]:
        """Return the wire events of one core event, each with its `event_id`, in sending order.

        A reply's deltas outside its life (late audio of a reply that has ended) give nothing and are counted.
        """
        match event:
            case ReplyCreated() | ReplyOutputStarted() | ReplyText() | ReplyAudio() | ReplyDone():
                bodies = self._encode_reply(event)
            case CallStarted() | CallArguments() | CallDone():
                bodies = self._encode_call(event)
            case PlayoutStarted() | PlayoutStopped() | PlayoutCleared():
                bodies = self._encode_playout(event)
            case SessionCreated(config=config) | SessionUpdated(config=config):
                self._output_format = config.wire["audio"]["output"]["format"]
                self._keeps = self._webrtc or config.resume
                asked = config.wire["duplex"]["events"]
                self._tells_own = self._own_unasked if asked is None else asked
                bodies = self._encode_session(event)
            case TurnMetrics() | TurnLimited() | ContextTrimmed() | SessionEnding():
                bodies = [_encode_own(event)] if self._tells_own else []
            case ItemDeleted(item_id=item_id):
                for opened in self._open.values():
                    opened.delete(item_id)
                bodies = _encode_plain(event)
            case _:
                bodies = _encode_plain(event)
        audio = self._place_of(event)
        return [self._number(body, audio if body["type"] == _AUDIO_DELTA else None) for body in bodies]

    def _number(self, body: _Event, audio: AudioPlace | None) -> _Event:
        self._sequence += 1
        event = {"type": body["type"], "event_id": event_id_of(self._sequence, self._session_id)} | body
        if self._keeps:
            self._ring.add(self._sequence, event, _chars_in(event), audio)
        else:
            self._ring.pass_over(self._sequence)
        return event

    def _place_of(self, event: ServerEvent) -> AudioPlace | None:
        """Return which sound of a reply an event may carry; G.711 leaves it a few samples later, the last with the end."""
        match event:
            case ReplyAudio(reply_id=reply_id, item_id=item_id, pcm=pcm) if reply_id in self._open:
                opened, length = self._open[reply_id], Samples(2 * pcm.shape[0])  # 24 kHz
                place = AudioPlace(reply_id=reply_id, item_id=item_id, begin=opened.audio_end, length=length)
                opened.audio_end = Samples(opened.audio_end + length)
                return place
            case ReplyDone(reply=reply) if reply.item is not None:
                end = reply.output_audio
                return AudioPlace(reply_id=reply.id, item_id=reply.item.id, begin=end, length=Samples(0))
            case _:
                return None

    def _encode_session(self, event: SessionCreated | SessionUpdated) -> list[_Event]:
        if isinstance(event, SessionUpdated):
            return [{"type": "session.updated", "session": shown(event.config)}]
        conversation = {"id": self._conversation_id, "object": "realtime.conversation"}
        return [
            {"type": "session.created", "session": shown(event.config)},
            {"type": "conversation.created", "conversation": conversation},
        ]

    def _encode_playout(self, event: PlayoutStarted | PlayoutStopped | PlayoutCleared) -> list[_Event]:
        if not self._webrtc:
            return []
        match event:
            case PlayoutStarted(reply_id=reply_id, rtp_start=rtp_start):
                started: _Event = {"type": "output_audio_buffer.started", "response_id": reply_id}
                return [started if rtp_start is None else started | {"duplex": {"rtp_timestamp": rtp_start}}]
            case PlayoutStopped():
                kind = "stopped"
            case PlayoutCleared():
                kind = "cleared"
            case _:
                assert_never(event)
        return [{"type": f"output_audio_buffer.{kind}", "response_id": event.reply_id}]

    def _encode_call(self, event: _CallEvent) -> list[_Event]:
        opened = self._open.get(event.reply_id)
        if opened is None:
            self._late += 1
            return []
        match event:
            case CallStarted():
                opened.outputs += 1
                return opened.calls.start(event, opened.outputs - 1)
            case CallArguments():
                return opened.calls.delta(event)
            case CallDone(item=item):
                return opened.calls.finish(event.reply_id, item)
            case _:
                assert_never(event)

    def _encode_reply(self, event: _ReplyEvent) -> list[_Event]:
        match event:
            case ReplyCreated(reply=reply):
                self._open[reply.id] = _OpenReply(
                    calls=OpenCalls(in_conversation=not reply.out_of_band),
                    format=self._output_format,
                    audio=OutputAudio(self._output_format["type"]),
                )
                # No quota is kept, so there is none to report; clients wait for the event all the same.
                return [
                    self._response("response.created", event, self._output_format),
                    {"type": "rate_limits.updated", "rate_limits": []},
                ]
            case ReplyOutputStarted():
                return self._start_output(event)
            case ReplyText():
                return self._delta(event.reply_id, f"{_TEXT_OF[event.modality]}.delta", event.delta)
            case ReplyAudio(pcm=pcm):
                return self._audio(event.reply_id, pcm)
            case ReplyDone():
                return self._finish(event)
            case _:
                assert_never(event)

    def _response(self, kind: str, event: ReplyCreated | ReplyDone, output_format: _Event) -> _Event:
        shown = wire_objects.response(
            event.reply,
            conversation_id=None if event.reply.out_of_band else self._conversation_id,
            output_format=output_format,
        )
        return {"type": kind, "response": shown}

    def _start_output(self, event: ReplyOutputStarted) -> list[_Event]:
        reply = event.reply
        assert reply.item is not None, "output that has begun has an item"
        if self._joined and reply.id not in self._open:
            return []
        opened = self._open[reply.id]
        opened.item, opened.previous_item_id, opened.index = reply.item, event.previous_item_id, opened.outputs
        opened.outputs += 1
        item = wire_objects.empty_item(reply.item)
        entered: list[_Event] = []  # into the conversation
        if not reply.out_of_band:
            entered = [{"type": "conversation.item.added", "previous_item_id": event.previous_item_id, "item": item}]
        return [
            {"type": "response.output_item.added", "response_id": reply.id, "output_index": opened.index, "item": item},
            *entered,
            {
                "type": "response.content_part.added",
                **_place(reply.id, reply.item.id, opened.index),
                "part": wire_objects.part(reply.item.modality, ""),
            },
        ]

    def _audio(self, reply_id: str, pcm: Int16Array) -> list[_Event]:
        """Encode a piece of audio; where the format has another rate, a first one may be too short for a sample."""
        opened = self._open.get(reply_id)
        encoded = opened.audio.push(pcm) if opened is not None and opened.item is not None else None
        return [] if encoded == "" else self._delta(reply_id, _AUDIO_DELTA, encoded or "")

    def _delta(self, reply_id: str, kind: str, delta: str) -> list[_Event]:
        opened = self._open.get(reply_id)
        if opened is None or opened.item is None:
            self._late += 1
            return []
        if kind != _AUDIO_DELTA:
            opened.texts.append(delta)
        return [{"type": kind, **_place(reply_id, opened.item.id, opened.index), "delta": delta}]

    def _finish(self, event: ReplyDone) -> list[_Event]:
        if self._joined and event.reply.id not in self._open:
            return [self._response("response.done", event, self._output_format)]
        opened = self._open.pop(event.reply.id)
        closing = [] if opened.item is None else self._close_output(event, opened, opened.item)
        cut = [body for call in event.reply.calls for body in opened.calls.finish(event.reply.id, call)]
        return [*closing, *cut, self._response("response.done", event, opened.format)]

    def _close_output(self, event: ReplyDone, opened: _OpenReply, started: ItemView) -> list[_Event]:
        """Close content part and item. Deltas add up to the part's text; the item holds what the conversation keeps."""
        reply_id, text = event.reply.id, "".join(opened.texts)
        place = _place(reply_id, started.id, opened.index)
        item = wire_objects.item(event.reply.item or started)
        closed: list[_Event] = []
        if started.modality == "audio":
            rest = opened.audio.finish() if event.reply.status == "completed" else ""
            closed += [{"type": _AUDIO_DELTA, **place, "delta": rest}] if rest else []
            closed.append({"type": "response.output_audio.done", **place})
            closed.append({"type": "response.output_audio_transcript.done", **place, "transcript": text})
        else:
            closed.append({"type": "response.output_text.done", **place, "text": text})
        closed += [
            {"type": "response.content_part.done", **place, "part": wire_objects.part(started.modality, text)},
            {"type": "response.output_item.done", "response_id": reply_id, "output_index": opened.index, "item": item},
        ]
        if not (event.reply.out_of_band or opened.deleted):
            closed.append({"type": "conversation.item.done", "previous_item_id": opened.previous_item_id, "item": item})
        return closed


def _chars_in(event: _Event) -> int:
    """Return the length of all text in an event."""
    chars, left = 0, list(event.values())
    while left:
        value = left.pop()
        if isinstance(value, str):
            chars += len(value)
        elif isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)
    return chars


_AUDIO_DELTA = "response.output_audio.delta"
_TEXT_OF = {"audio": "response.output_audio_transcript", "text": "response.output_text"}
_OwnEvent = TurnMetrics | TurnLimited | ContextTrimmed | SessionEnding
_PlainEvent = (
    SessionResumed
    | SessionToken
    | SpeechStarted
    | SpeechStopped
    | InputCommitted
    | InputTimedOut
    | InputCleared
    | ItemAdded
    | ItemRetrieved
    | ItemDeleted
    | ItemTruncated
    | Overheard
    | Transcribed
    | TranscriptionFailed
    | Failure
)


def _place(reply_id: str, item_id: str, output_index: int) -> _Event:
    """Return where a reply's only content is."""
    return {"response_id": reply_id, "item_id": item_id, "output_index": output_index, "content_index": 0}


def _encode_plain(event: _PlainEvent) -> list[_Event]:
    """Encode what depends on nothing that was sent before."""
    match event:
        case Failure():
            error = {"type": event.kind, "code": event.code, "message": event.message, "param": event.param}
            told: _Event = {"type": "error", "error": error | {"event_id": event.event_id}}
            return [told if event.unsent is None else told | {"duplex": {"unsent": _unsent(event.unsent)}}]
        case SessionResumed(items=items, replayed=replayed, audio_missed=missed):
            told = {"items": items, "replayed": replayed, "audio_missed_ms": ms_from_samples(missed)}
            return [{"type": "duplex.session.resumed", **told}]
        case SessionToken(token=token, window_s=window_s):
            return [{"type": "duplex.session.token", "token": token, "window_s": window_s}]
        case SpeechStarted() | SpeechStopped() | InputCommitted() | InputTimedOut() | InputCleared():
            return [_encode_input(event)]
        case _:
            return _encode_item(event)


def _unsent(event: Unsent) -> _Event:
    return {"type": event.kind, "event_id": event.event_id, "bytes": event.size_bytes, "bytes_max": event.bytes_max}


def _encode_own(event: _OwnEvent) -> _Event:
    """Encode what the protocol has no event for: a client that does not read it misses nothing that it needs."""
    match event:
        case TurnMetrics(reply_id=reply_id, split=split):
            return {"type": "duplex.metrics", "response_id": reply_id, "split": dict(split)}
        case TurnLimited(item_id=item_id, audio=audio):
            return {"type": "duplex.turn.limited", "item_id": item_id, "audio_ms": ms_from_samples(audio)}
        case ContextTrimmed(first_item_id=first, items=items):
            return {"type": "duplex.context.trimmed", "first_item_id": first, "items": items}
        case SessionEnding(seconds_left=seconds):
            return {"type": "duplex.session.ending", "reason": "max_length", "seconds_left": round(seconds, 1)}
        case _:
            assert_never(event)


def _encode_input(event: SpeechStarted | SpeechStopped | InputCommitted | InputTimedOut | InputCleared) -> _Event:
    match event:
        case SpeechStarted(item_id=item_id, start=start):
            kind, fields = "speech_started", {"audio_start_ms": ms_from_samples(start), "item_id": item_id}
        case SpeechStopped(item_id=item_id, end=end):
            kind, fields = "speech_stopped", {"audio_end_ms": ms_from_samples(end), "item_id": item_id}
        case InputCommitted():
            kind, fields = "committed", {"previous_item_id": event.previous_item_id, "item_id": event.item_id}
        case InputTimedOut(item_id=item_id, start=start, end=end):
            times = {"audio_start_ms": ms_from_samples(start), "audio_end_ms": ms_from_samples(end)}
            kind, fields = "timeout_triggered", {**times, "item_id": item_id}
        case InputCleared():
            kind, fields = "cleared", {}
        case _:
            assert_never(event)
    return {"type": f"input_audio_buffer.{kind}", **fields}


def _encode_item(
    event: ItemAdded | ItemRetrieved | ItemDeleted | ItemTruncated | Overheard | Transcribed | TranscriptionFailed,
) -> list[_Event]:
    match event:
        case ItemAdded(item=view, previous_item_id=previous):
            fields: _Event = {"previous_item_id": previous, "item": wire_objects.item(view)}
            if event.restored:
                fields["duplex"] = {"restored": True} | ({"cut": True} if event.cut else {})
            return [{"type": f"conversation.item.{step}", **fields} for step in ("added", "done")]
        case ItemRetrieved(item=view):
            return [{"type": "conversation.item.retrieved", "item": wire_objects.item(view)}]
        case ItemDeleted(item_id=item_id):
            return [{"type": "conversation.item.deleted", "item_id": item_id}]
        case ItemTruncated(item_id=item_id, audio_end=end):
            fields = {"item_id": item_id, "content_index": 0, "audio_end_ms": ms_from_samples(end)}
            return [{"type": "conversation.item.truncated", **fields}]
        case Overheard() | Transcribed() | TranscriptionFailed():
            return _encode_transcription(event)
        case _:
            assert_never(event)


def _encode_transcription(event: Overheard | Transcribed | TranscriptionFailed) -> list[_Event]:
    kind, place = "conversation.item.input_audio_transcription", {"item_id": event.item_id, "content_index": 0}
    if isinstance(event, TranscriptionFailed):
        error = {"type": "server_error", "code": "transcription_failed", "message": event.message, "param": None}
        return [{"type": f"{kind}.failed", **place, "error": error}]
    if isinstance(event, Overheard):
        return [{"type": f"{kind}.delta", **place, "delta": event.delta}]
    rest = event.text.removeprefix(event.told) if event.text.startswith(event.told) else ""
    delta: list[_Event] = [{"type": f"{kind}.delta", **place, "delta": rest}] if rest else []
    usage = {"type": "duration", "seconds": event.seconds}
    return [*delta, {"type": f"{kind}.completed", **place, "transcript": event.text, "usage": usage}]
