"""From one client event on the wire to the core's message, or to the reason why it cannot be taken.

Nothing that a client sends raises here: what cannot be read becomes `Rejected`, which the core answers with one `error`
event and nothing else. Part of the protocol that this server lacks is refused in words; only fields that nobody knows are
ignored, and counted. Source: DESIGN.md §2 (`protocol/`); field cases C35–C44, C73.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal, assert_never

from pydantic import ValidationError

from duplex.payloads import EncodedImage
from duplex.protocol import client_events as wire
from duplex.protocol import errors
from duplex.protocol.audio import FormatName, read_audio
from duplex.protocol.clip import read_clip
from duplex.protocol.errors import RemoteProtocolError
from duplex.protocol.former_shape import RESPONSE, refuse_former
from duplex.protocol.images import read_image
from duplex.protocol.lock import check_item, check_response, check_voice
from duplex.protocol.response_input import read_input
from duplex.protocol.session_config import WireProfile, merge
from duplex.protocol.strict_json import read_object
from duplex.protocol.tools import create_call_item, response_toolset
from duplex.protocol.transcription import check_event
from duplex.protocol.wire_session import wire_error
from duplex.session.config import SessionConfig
from duplex.session.messages import (
    CancelReply,
    ClearInput,
    ClearOutput,
    ClientMessage,
    CommitInput,
    Configure,
    CreateItem,
    CreateReply,
    DeleteItem,
    NewItem,
    PlaybackReport,
    Rejected,
    RetrieveItem,
    TruncateItem,
)
from duplex.units import Samples, samples_from_ms

TransportName = Literal["webrtc", "websocket"]
_EVENT_ID = re.compile(r'"event_id"\s*:\s*"([^"\\]{1,512})"')
_EVENT_ID_WITHIN = 4096
_TYPE_SHOWN = 64
_IMAGE = "input_image"
_ITEM_TYPES = "Items are of type 'message', 'function_call' or 'function_call_output'; no other is supported."
_PART_TYPES = {
    "user": {"input_text": "text", "input_audio": "transcript"},
    "system": {"input_text": "text"},
    "assistant": {"output_text": "text", "output_audio": "transcript"},
}
"""Per role: content types that are taken, and the field that holds their words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendAudio:
    """input_audio_buffer.append: audio for the shell; the core never sees PCM."""

    pcm: bytes
    """In the session's input format; at least one sample, never half of one: `duplex.protocol.audio.samples_of`."""
    format: FormatName = "audio/pcm"
    event_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComeBack:
    """duplex.session.resume: for the shell, which knows all sessions."""

    token: str
    last_event_id: str | None
    event_id: str | None = None


Decoded = ClientMessage | AppendAudio | ComeBack
_PlainEvent = (
    wire.Commit
    | wire.Clear
    | wire.ItemRetrieve
    | wire.ItemDelete
    | wire.ItemTruncate
    | wire.ResponseCancel
    | wire.DuplexPlaybackReport
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    config: SessionConfig
    transport: TransportName
    profile: WireProfile
    arrived: Samples


def decode(
    text: str | bytes,
    config: SessionConfig,
    *,
    transport: TransportName,
    profile: WireProfile,
    arrived: Samples,
    unknown_fields: Counter[str] | None = None,
) -> Decoded:
    """Read one client event.

    Args:
        text: the event as it came off the wire; bytes when it was no text.
        config: the session's present configuration, which `session.update` is merged over.
        transport: some events belong to one transport only.
        profile: what the server offers.
        arrived: input position up to which the client's audio has come in.
        unknown_fields: counts, per event type, fields that were ignored.
    """
    if isinstance(text, bytes):
        return _refuse_bytes(text)
    try:
        raw = read_object(text, profile.json)
    except RemoteProtocolError as error:
        return _rejected(error, _event_id_in(text))
    event_id = _echoed(raw.get("event_id"))
    try:
        event = _validate(raw)
        if unknown_fields is not None and (n := event.unknown_fields()):
            unknown_fields[event.type] += n
        return _translate(event, _Context(config=config, transport=transport, profile=profile, arrived=arrived))
    except RemoteProtocolError as error:
        return _rejected(error, event_id)


def _rejected(error: RemoteProtocolError, event_id: str | None) -> Rejected:
    return Rejected(code=error.code, message=error.message, param=error.param, event_id=event_id)


def _refuse_bytes(raw: bytes) -> Rejected:
    event_id = _event_id_in(raw[:_EVENT_ID_WITHIN].decode(errors="replace"))
    try:
        raw.decode()
    except UnicodeDecodeError:
        return Rejected(code=errors.INVALID_UTF8, message="The event is not valid UTF-8.", event_id=event_id)
    return Rejected(code=errors.BINARY_EVENT, message="Events are sent as text frames.", event_id=event_id)


def _echoed(event_id: object) -> str | None:
    return event_id if isinstance(event_id, str) and len(event_id) <= wire.EVENT_ID_CHARS_MAX else None


def _event_id_in(text: str) -> str | None:
    """Find the event's id in what cannot be read as a whole, so that its sender can tell which event it was."""
    found = _EVENT_ID.search(text, 0, _EVENT_ID_WITHIN)
    return found.group(1) if found is not None else None


def _validate(raw: dict[str, Any]) -> wire.ClientEvent:
    kind = raw.get("type")
    if kind is None:
        raise RemoteProtocolError(errors.MISSING_PARAMETER, "Missing required parameter: 'type'.", "type")
    if not isinstance(kind, str):
        raise RemoteProtocolError(errors.INVALID_TYPE, "Invalid value for 'type': should be a string.", "type")
    try:
        return wire.CLIENT_EVENT.validate_python(raw)
    except ValidationError as error:
        if error.errors(include_url=False, include_input=False)[0]["type"] == "union_tag_invalid":
            shown = kind[:_TYPE_SHOWN]
            raise RemoteProtocolError(
                errors.UNKNOWN_EVENT_TYPE, f"There is no client event of type '{shown}'.", "type"
            ) from None
        raise wire_error(error, raw) from None


def _translate(event: wire.ClientEvent, context: _Context) -> Decoded:
    check_event(context.config, event.type)
    match event:
        case wire.SessionUpdateEvent(session=session):
            return Configure(config=merge(context.config, session, context.profile), event_id=event.event_id)
        case wire.Append(audio=audio):
            if context.transport == "webrtc":
                raise _only_on("WebSocket", event.type)
            name: FormatName = context.config.wire["audio"]["input"]["format"]["type"]
            pcm = read_audio(audio, name, bytes_max=context.profile.append_bytes_max, param="audio")
            return AppendAudio(pcm=pcm, format=name, event_id=event.event_id)
        case wire.OutputClear():
            if context.transport == "websocket":
                raise _only_on("WebRTC", event.type)
            return ClearOutput(event_id=event.event_id)
        case wire.ItemCreate():
            check_item(context.config, event.item.type, event.item.role)
            return _any_item(event, context)
        case wire.ResponseCreate():
            return _create_reply(event, context)
        case wire.DuplexSessionResume(token=token, last_event_id=last):
            return ComeBack(token=token, last_event_id=last, event_id=event.event_id)
        case _:
            return _translate_plain(event, context.arrived)


def _translate_plain(event: _PlainEvent, arrived: Samples) -> Decoded:
    """Translate what depends on nothing but itself."""
    id_ = event.event_id
    match event:
        case wire.Commit():
            return CommitInput(arrived=arrived, event_id=id_)
        case wire.Clear():
            return ClearInput(arrived=arrived, event_id=id_)
        case wire.ItemRetrieve(item_id=item_id):
            return RetrieveItem(item_id=item_id, event_id=id_)
        case wire.ItemDelete(item_id=item_id):
            return DeleteItem(item_id=item_id, event_id=id_)
        case wire.ItemTruncate(item_id=item_id, content_index=index, audio_end_ms=end_ms):
            return TruncateItem(item_id=item_id, content_index=index, audio_end=samples_from_ms(end_ms), event_id=id_)
        case wire.ResponseCancel(response_id=reply_id):
            return CancelReply(reply_id=reply_id, event_id=id_)
        case wire.DuplexPlaybackReport(response_id=reply_id, played_ms=played_ms):
            return PlaybackReport(reply=reply_id, played=samples_from_ms(played_ms), event_id=id_)
        case _:
            assert_never(event)


def _only_on(transport: str, kind: str) -> RemoteProtocolError:
    return RemoteProtocolError(errors.WRONG_TRANSPORT, f"'{kind}' is for {transport} sessions only.", "type")


def _any_item(event: wire.ItemCreate, context: _Context) -> NewItem:
    if event.item.type in ("function_call", "function_call_output"):
        return create_call_item(event, context.profile.tools)
    return _create_item(event, context.config, context.profile)


def _create_item(event: wire.ItemCreate, config: SessionConfig, profile: WireProfile) -> CreateItem:
    item = event.item
    if item.type != "message":
        raise RemoteProtocolError(errors.UNSUPPORTED, _ITEM_TYPES, "item.type")
    if item.role is None:
        raise RemoteProtocolError(errors.MISSING_PARAMETER, "Missing required parameter: 'item.role'.", "item.role")
    if not item.content:
        raise RemoteProtocolError(
            errors.MISSING_PARAMETER, "Missing required parameter: 'item.content'.", "item.content"
        )
    audio = read_clip(
        item.content, item.role, config.wire["audio"]["input"]["format"]["type"],
        bytes_max=profile.append_bytes_max, ms_max=profile.audio_ms_max,
    )  # fmt: skip
    images = _images_of(item.content, item.role, profile)
    spoken = {"input_audio"} if audio is not None else set()
    read_already = spoken | ({_IMAGE} if images else set())
    words = [(i, part) for i, part in enumerate(item.content) if part.type not in read_already]
    text = "\n".join(_words_of(part, item.role, f"item.content.{i}") for i, part in words)
    if len(text) > profile.text_chars_max:
        raise RemoteProtocolError(
            errors.TOO_LONG, f"An item takes {profile.text_chars_max} characters.", "item.content"
        )
    return CreateItem(
        role=item.role,
        text=text,
        images=images,
        audio=audio,
        item_id=item.id,
        previous_item_id=event.previous_item_id,
        event_id=event.event_id,
    )


def _images_of(content: list[wire.ContentPart], role: str, profile: WireProfile) -> tuple[EncodedImage, ...]:
    """Return the images among a user's parts."""
    parts = [(f"item.content.{i}", part) for i, part in enumerate(content) if part.type == _IMAGE]
    if not parts or role != "user":
        return ()
    bounds = profile.images
    if bounds is None:
        raise RemoteProtocolError(errors.UNSUPPORTED, "This server's model reads no images.", f"{parts[0][0]}.type")
    if len(parts) > bounds.per_item_max:
        raise RemoteProtocolError(
            errors.INVALID_VALUE, f"An item takes {bounds.per_item_max} images.", f"{parts[bounds.per_item_max][0]}"
        )
    missing = next((f"{param}.image_url" for param, part in parts if not part.image_url), None)
    if missing is not None:
        raise RemoteProtocolError(errors.MISSING_PARAMETER, f"Missing required parameter: '{missing}'.", missing)
    return tuple(read_image(part.image_url or "", f"{param}.image_url", bounds) for param, part in parts)


def _words_of(part: wire.ContentPart, role: str, param: str) -> str:
    field = _PART_TYPES[role].get(part.type)
    if field is None:
        taken = " or ".join(_PART_TYPES[role])
        raise RemoteProtocolError(
            errors.UNSUPPORTED,
            f"Content of an item of role '{role}' is of type {taken}; no other is supported.",
            f"{param}.type",
        )
    words: str | None = getattr(part, field)
    if not words:
        raise RemoteProtocolError(
            errors.MISSING_PARAMETER, f"Missing required parameter: '{param}.{field}'.", f"{param}.{field}"
        )
    return words


def _create_reply(event: wire.ResponseCreate, context: _Context) -> CreateReply:
    asked = event.response
    if asked is None:
        return CreateReply(event_id=event.event_id)
    check_response(context.config, asked.model_dump(exclude_none=True, include=set(wire.ResponseParams.model_fields)))
    _refuse_unsupported(asked)
    chars_max = context.profile.text_chars_max
    if asked.instructions is not None and len(asked.instructions) > chars_max:
        raise RemoteProtocolError(
            errors.TOO_LONG, f"Instructions take {chars_max} characters.", "response.instructions"
        )
    return CreateReply(
        instructions=asked.instructions,
        modalities=None if asked.output_modalities is None else tuple(asked.output_modalities),
        tokens_max=0 if asked.max_output_tokens == "inf" else asked.max_output_tokens,
        metadata=asked.metadata,
        voice=_voice_of(asked, context.config, context.profile),
        toolset=response_toolset(
            context.config, asked.tools, asked.tool_choice, asked.parallel_tool_calls, context.profile.tools
        ),
        input=None if asked.input is None else read_input(asked.input, lambda item: _any_item(item, context)),
        out_of_band=asked.conversation == "none",
        event_id=event.event_id,
    )


def _refuse_unsupported(asked: wire.ResponseParams) -> None:
    refuse_former(asked, RESPONSE, "response")
    if asked.conversation not in (None, "auto", "none"):
        message, param = "A session has one conversation: 'auto', or 'none' of it.", "response.conversation"
    elif asked.prompt is not None:
        message, param = "Stored prompts are not supported; use instructions.", "response.prompt"
    else:
        return
    raise RemoteProtocolError(errors.UNSUPPORTED, message, param)


def _voice_of(asked: wire.ResponseParams, config: SessionConfig, profile: WireProfile) -> str | None:
    """Return the voice that a response asks for; None: the session's. It cannot have a format of its own."""
    output = asked.audio.output if asked.audio is not None else None
    if output is None:
        return None
    param, taken = "response.audio.output", config.wire["audio"]["output"]["format"]["type"]
    if output.format is not None and output.format.type != taken:
        raise RemoteProtocolError(
            errors.UNSUPPORTED, f"The session's output is {taken}, and each response's.", f"{param}.format.type"
        )
    if output.voice is None:
        return None
    voice = profile.resolve_voice(output.voice, f"{param}.voice")
    check_voice(config, voice)
    return voice
