"""Items, responses and their parts as the wire shows them.

The trap of this protocol: the same content is `output_audio` inside an item and `audio` as a part of a response; text is
`output_text` and `text`. Source: protocol.md, "Traps"; `openai.types.realtime` (openai 3.57.0).
"""

from __future__ import annotations

from typing import Any, Literal

from duplex.session.events import ItemView, ReplyView, StatusReason
from duplex.session.picture_view import PictureView
from duplex.units import ms_from_samples

Modality = Literal["audio", "text"]

_WIRE_REASON: dict[StatusReason, str] = {
    "turn_detected": "turn_detected",
    "client_cancelled": "client_cancelled",
    "max_output_tokens": "max_output_tokens",
    "text_bound": "max_output_tokens",
    "disconnected": "client_cancelled",
}
"""The wire knows fewer reasons than the core; `stage_failed` becomes an error object instead."""


def item(view: ItemView) -> dict[str, Any]:
    """Return a conversation item."""
    if view.kind != "message":
        return _call(view)
    return {
        "id": view.id,
        "object": "realtime.item",
        "type": "message",
        "status": view.status,
        "role": view.role,
        "content": _content(view),
    }


def empty_item(view: ItemView) -> dict[str, Any]:
    """Return a reply's item before its first content."""
    if view.kind != "message":
        return {**_call(view), "status": "in_progress", "arguments": ""}
    return {**item(view), "status": "in_progress", "content": []}


def _call(view: ItemView) -> dict[str, Any]:
    """Return a function call or its output; their content is a text of their own."""
    shown = {
        "id": view.id,
        "object": "realtime.item",
        "type": view.kind,
        "status": view.status,
        "call_id": view.call_id,
    }
    if view.kind == "function_call":
        return {**shown, "name": view.name, "arguments": view.text or ""}
    return {**shown, "output": view.text or ""}


def _content(view: ItemView) -> list[dict[str, Any]]:
    if not view.pictures:
        return [_words(view)]
    return [*([_words(view)] if view.text else []), *(_picture(picture) for picture in view.pictures)]


def _picture(view: PictureView) -> dict[str, Any]:
    """Return an image part; its picture is not kept, so there is no `image_url`."""
    about = {
        "format": view.format, "width": view.width, "height": view.height, "bytes": view.size_bytes,
        "state": view.state, "text": view.text,
    }  # fmt: skip
    return {"type": "input_image", "detail": "auto", "duplex": about}


def _words(view: ItemView) -> dict[str, Any]:
    if view.role == "assistant":
        if view.modality == "audio":
            return {"type": "output_audio", "transcript": view.text or ""}
        return {"type": "output_text", "text": view.text or ""}
    if view.modality == "audio":
        return {"type": "input_audio", "transcript": view.text}
    return {"type": "input_text", "text": view.text or ""}


def part(modality: Modality, text: str) -> dict[str, Any]:
    """Return a content part of a response."""
    return {"type": "audio", "transcript": text} if modality == "audio" else {"type": "text", "text": text}


def response(view: ReplyView, *, conversation_id: str, output_format: dict[str, Any]) -> dict[str, Any]:
    """Return a response object, complete in every state.

    Args:
        view: the reply as it stands.
        conversation_id: id of the session's one conversation.
        output_format: `audio.output.format` of the session.
    """
    finished = view.status not in ("accepted", "in_progress")
    return {
        "id": view.id,
        "object": "realtime.response",
        "status": view.status if finished else "in_progress",
        "status_details": _status_details(view) if finished else None,
        "output": _output(view) if finished else [],
        "conversation_id": conversation_id,
        "output_modalities": [view.modality],
        "max_output_tokens": view.tokens_max if view.tokens_max is not None else "inf",
        "audio": {"output": {"format": output_format, "voice": view.voice}},
        "usage": _usage(view) if finished else None,
        "metadata": view.metadata,
    }


def _output(view: ReplyView) -> list[dict[str, Any]]:
    """Return a reply's items in the order in which they began."""
    said = [] if view.item is None else [view.item]
    return [item(shown) for shown in (*view.calls[: view.calls_before], *said, *view.calls[view.calls_before :])]


def _status_details(view: ReplyView) -> dict[str, Any] | None:
    match view.status:
        case "cancelled" | "incomplete":
            reason = _WIRE_REASON.get(view.reason) if view.reason is not None else None
            return {"type": view.status, "reason": reason}
        case "failed":
            message = view.error or "The response failed."
            return {
                "type": "failed",
                "error": {"type": "server_error", "code": view.reason or "stage_failed", "message": message},
            }
        case _:
            return None


def _usage(view: ReplyView) -> dict[str, Any]:
    """Return the tokens that were really counted: speech is synthesised, so audio has a length and no tokens."""
    return {
        "total_tokens": view.input_tokens + view.output_text_tokens,
        "input_tokens": view.input_tokens,
        "output_tokens": view.output_text_tokens,
        "input_token_details": {
            "text_tokens": view.input_tokens,
            "audio_tokens": 0,
            "image_tokens": 0,
            "cached_tokens": 0,
            "cached_tokens_details": {"text_tokens": 0, "audio_tokens": 0, "image_tokens": 0},
        },
        "output_token_details": {"text_tokens": view.output_text_tokens, "audio_tokens": 0},
        "duplex": {"output_audio_ms": ms_from_samples(view.output_audio)},
    }
