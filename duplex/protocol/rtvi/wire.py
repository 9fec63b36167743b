"""One session's RTVI: its client's messages to the core's, and the core's events to messages.

    client-ready                          the session begins to speak: bot-ready
    send-text                             CancelReply, ClearOutput (if it shall be answered at once), CreateItem, CreateReply
    append-to-context                     CreateItem, and CreateReply if it says so
    llm-function-call-result              CreateCallOutput; with the last result of a reply's calls CreateReply, once it may be
    client-message, t: session.update     Configure; answered by server-response, or error-response
    disconnect-bot                        the session ends
    signalling, ping                      nothing: the server sees by itself what is sent and who is there
    all else                              Rejected: error-response

A text that is answered at once cuts what is said, as Pipecat does it; if the answer to a turn is about to begin, the text is in
its prompt, and no second one is made. Source: as `client_messages`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from duplex.protocol import errors
from duplex.protocol.decode import AppendAudio, ComeBack, decode
from duplex.protocol.encode import to_json
from duplex.protocol.errors import RemoteProtocolError
from duplex.protocol.lock import check_item, check_response
from duplex.protocol.rtvi.client_messages import (
    LABEL,
    PING,
    SIGNALLING,
    AppendToContextData,
    ClientMessageData,
    ClientReadyData,
    FunctionCallResultData,
    Message,
    SendTextData,
    SendTextOptions,
)
from duplex.protocol.rtvi.encode import PROTOCOL_VERSION, RtviEncoder
from duplex.protocol.session_config import WireProfile
from duplex.protocol.strict_json import read_object
from duplex.protocol.wire_session import WireModel, read
from duplex.session.config import SessionConfig
from duplex.session.events import ServerEvent
from duplex.session.messages import (
    CancelReply,
    ClearOutput,
    ClientMessage,
    CreateCallOutput,
    CreateItem,
    CreateReply,
    Rejected,
)
from duplex.units import Samples

_CONFIGURE: Final = "session.update"
_MAJOR: Final = PROTOCOL_VERSION.split(".")[0]
_PEER_LEFT: Final = {"type": SIGNALLING, "message": {"type": "peerLeft"}}
_NO_ARRIVAL: Final = Samples(0)
"""What is read here has no place in the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReady:
    """The client is there and wants to be told of events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisconnectBot:
    """The client ends the session."""


Decoded = ClientMessage | ClientReady | DisconnectBot


class RtviWire:
    """The dialect of one session.

    Args:
        profile: what the server offers.
        wall: gives the time of day in ISO 8601.
        lost: the client comes back to a session that is no more, and does not say again that it is ready.
    """

    def __init__(self, profile: WireProfile, wall: Callable[[], str], *, lost: bool = False) -> None:
        self._profile = profile
        self._encoder = RtviEncoder(wall, profile.calls_awaited_max, lost=lost)
        self._owed: CreateReply | None = None
        """Answers the results of calls, when the reply that made them has ended."""
        self.ready = lost
        """The client has said that it is ready; it says so once, whatever becomes of its connection."""

    def encode(self, event: ServerEvent) -> list[dict[str, Any]]:
        """Return the messages of one core event, in sending order."""
        return self._encoder.encode(event)

    def owed(self) -> CreateReply | None:
        """Return a reply that is to be asked for and had to wait, once."""
        if self._owed is None or self._encoder.answering:
            return None
        owed, self._owed = self._owed, None
        return owed

    def farewell(self) -> str:
        """Return what a client is told before the server closes: without it, it would try to come back."""
        return to_json(_PEER_LEFT)

    def decode(self, text: str | bytes, config: SessionConfig) -> list[Decoded]:
        """Read one message; one that cannot be taken gives `Rejected`.

        Args:
            text: as it came off the wire; bytes when it was no text.
            config: the session's present configuration, which an update is merged over.
        """
        if isinstance(text, bytes):
            return [Rejected(code=errors.BINARY_EVENT, message="Messages are sent as text.")]
        if text.startswith(PING):
            return []
        id_: str | None = None
        try:
            raw = read_object(text, self._profile.json)
            if raw.get("type") == SIGNALLING:
                return []
            if raw.get("label") != LABEL:
                raise RemoteProtocolError(errors.INVALID_VALUE, f"A message has the label '{LABEL}'.", "label")
            message: Message = read(Message, raw)
            id_ = message.id
            return self._translate(message, config)
        except RemoteProtocolError as error:
            said = error.message.replace("The event", "The message").replace("An event", "A message")
            return [Rejected(code=error.code, message=said, param=error.param, event_id=id_)]

    def _translate(self, message: Message, config: SessionConfig) -> list[Decoded]:
        match message.type:
            case "client-ready":
                return self._ready(message)
            case "disconnect-bot":
                return [DisconnectBot()]
            case "send-text":
                return self._text(message, config)
            case "append-to-context":
                return self._append(message, config)
            case "llm-function-call-result":
                return self._result(message)
            case "client-message":
                return self._client_message(message, config)
            case _:
                text = "This server takes no message of this type."
                raise RemoteProtocolError(errors.UNKNOWN_EVENT_TYPE, text, "type")

    def _ready(self, message: Message) -> list[Decoded]:
        data: ClientReadyData = _read(ClientReadyData, message)
        self.ready = True
        self._encoder.ready_id = message.id
        ready: list[Decoded] = [ClientReady()]
        if data.version is None or data.version.split(".")[0] != _MAJOR:
            text = f"The client's version of RTVI is not {_MAJOR}.x: it may miss what it is told of the bot's output."
            ready.append(Rejected(code=errors.INVALID_VALUE, message=text, param="data.version", event_id=message.id))
        return ready

    def _text(self, message: Message, config: SessionConfig) -> list[Decoded]:
        data: SendTextData = _read(SendTextData, message)
        options = data.options or SendTextOptions()
        item = self._item("user", data.content, message.id)
        if options.run_immediately is False:
            return [item]
        modalities = ("text",) if options.audio_response is False else None
        check_response(config, {} if modalities is None else {"output_modalities": modalities})
        return [*self._cut(message.id), item, self._reply(message.id, modalities)]

    def _append(self, message: Message, config: SessionConfig) -> list[Decoded]:
        data: AppendToContextData = _read(AppendToContextData, message)
        check_item(config, "message", data.role)
        item = self._item(data.role, data.content, message.id)
        if not data.run_immediately:
            return [item]
        return [*self._cut(message.id), item, self._reply(message.id, None)]

    def _result(self, message: Message) -> list[Decoded]:
        data: FunctionCallResultData = _read(FunctionCallResultData, message)
        output = data.result if isinstance(data.result, str) else json.dumps(data.result)
        taken: list[Decoded] = [CreateCallOutput(call_id=data.tool_call_id, output=output, event_id=message.id)]
        if not self._encoder.is_last_call(data.tool_call_id):
            return taken  # of no call, or others of its reply are still being carried out
        reply = self._reply(message.id, None)
        if not self._encoder.answering:
            return [*taken, reply]
        self._owed = reply
        return taken

    def _client_message(self, message: Message, config: SessionConfig) -> list[Decoded]:
        data: ClientMessageData = _read(ClientMessageData, message)
        if data.t != _CONFIGURE:
            text = f"This server takes client messages of type '{_CONFIGURE}' only."
            raise RemoteProtocolError(errors.UNSUPPORTED, text, "data.t")
        event = to_json({"type": _CONFIGURE, "event_id": message.id, "session": data.d})
        update = decode(event, config, transport="webrtc", profile=self._profile, arrived=_NO_ARRIVAL)
        assert not isinstance(update, AppendAudio | ComeBack), "it is an update"
        self._encoder.asked = None if isinstance(update, Rejected) else (message.id, data.t)
        return [update]

    def _cut(self, id_: str | None) -> list[Decoded]:
        cancel: list[Decoded] = [CancelReply(event_id=id_)] if self._encoder.answering else []
        return [*cancel, ClearOutput(event_id=id_)]

    def _item(self, role: str, text: str, id_: str | None) -> CreateItem:
        if len(text) > self._profile.text_chars_max:
            message = f"A text takes {self._profile.text_chars_max} characters."
            raise RemoteProtocolError(errors.TOO_LONG, message, "data.content")
        return CreateItem(role=role, text=text, event_id=id_)

    def _reply(self, id_: str | None, modalities: tuple[str, ...] | None) -> CreateReply:
        self._encoder.text_id = id_
        return CreateReply(modalities=modalities, event_id=id_)


def _read(model: type[WireModel], message: Message) -> Any:
    return read(model, message.data or {}, "data.")
