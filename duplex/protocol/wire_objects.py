"""Items, responses and their parts as the wire shows them.

The trap of this protocol: the same content is `output_audio` inside an item and `audio` as a part of a response; text is
`output_text` and `text`. Source: protocol.md, "Traps"; `openai.types.realtime` (openai 3.57.0).
"""

from __future__ import annotations

from typing import Any, Literal

from duplex.session.events import ItemView, ReplyView, StatusReason
from duplex.session.picture_view import PictureView
from duplex.units import Samples, ms_from_samples, samples_from_ms

Modality = Literal["audio", "text"]
_INPUT_TOKEN = samples_from_ms(100)
_OUTPUT_TOKEN = samples_from_ms(50)
"""Audio that counts as one token."""

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
    return {
        "id": view.id,
        "object": "realtime.item",
        "type": "message",
        "status": view.status,
        "role": view.role,
        "content": _content(view),
    }


def empty_item(view: ItemView) -> dict[str, Any]:
    """Return an assistant's item before its first content part."""
    return {**item(view), "status": "in_progress", "content": []}


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


def response(view: ReplyView, *, conversation_id: str | None, output_format: dict[str, Any]) -> dict[str, Any]:
    """Return a response object, complete in every state.

    Args:
        view: the reply as it stands.
        conversation_id: id of the session's one conversation; None: it is in none.
        output_format: `audio.output.format` of the session.
    """
    finished = view.status not in ("accepted", "in_progress")
    return {
        "id": view.id,
        "object": "realtime.response",
        "status": view.status if finished else "in_progress",
        "status_details": _status_details(view) if finished else None,
        "output": [item(view.item)] if finished and view.item is not None else [],
        "conversation_id": conversation_id,
        "output_modalities": [view.modality],
        "max_output_tokens": view.tokens_max or "inf",
        "audio": {"output": {"format": output_format, "voice": view.voice}},
        "usage": _usage(view) if finished else None,
        "metadata": view.metadata,
    }


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
    """Return the tokens of a reply.

    Text is counted as the thinker's engine counts it. Where that does not tell the tokens of its prompt, or a cut came
    before, they are an estimate (`duplex.input_estimated`). Cached tokens are those that the engine says it had read before.

    Audio has a length and no tokens of its own: 100 ms of input count as one token, and 50 ms of output, as OpenAI counts
    them; a token that has begun counts. Input audio is counted once, by the first reply that is made from it: later ones
    read its words, which are text. For the same reason no audio is cached.
    """
    text_in, audio_in = view.input_tokens, _audio_tokens(view.input_audio, _INPUT_TOKEN)
    text_out, audio_out = view.output_text_tokens, _audio_tokens(view.output_audio, _OUTPUT_TOKEN)
    cached = {"text_tokens": view.cached_tokens, "audio_tokens": 0, "image_tokens": 0}
    return {
        "total_tokens": text_in + audio_in + text_out + audio_out,
        "input_tokens": text_in + audio_in,
        "output_tokens": text_out + audio_out,
        "input_token_details": {
            "text_tokens": text_in,
            "audio_tokens": audio_in,
            "image_tokens": 0,
            "cached_tokens": view.cached_tokens,
            "cached_tokens_details": cached,
        },
        "output_token_details": {"text_tokens": text_out, "audio_tokens": audio_out},
        "duplex": {
            "output_audio_ms": ms_from_samples(view.output_audio),
            "input_audio_ms": ms_from_samples(view.input_audio),
            "input_estimated": view.input_estimated,
        },
    }


def _audio_tokens(length: Samples, token: Samples) -> int:
    return -(-length // token)
