"""The protocol's former (beta) shape: fields that have moved, and are refused where they once stood.

    session.update  {"input_audio_format": "g711_ulaw", …}       refused: `session.audio.input.format` says it now
                    {"modalities": …, "output_modalities": …}    taken: the client knows both, and the new one counts

Other fields that the server does not know change nothing that a client counts on. These would: a caller would hear noise, a
push-to-talk session would answer by itself, and nobody would be told. Source: public reports, openclaw/openclaw#80808,
langwatch/scenario#602, TanStack/ai#699, PatterAI/Patter#154; both shapes at once: hypha-dao/hypha-web#2345.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from duplex.protocol import errors
from duplex.protocol.errors import RemoteProtocolError
from duplex.protocol.wire_session import WireModel

SESSION: Final[Mapping[str, str]] = {
    "modalities": "output_modalities",
    "voice": "audio.output.voice",
    "speed": "audio.output.speed",
    "input_audio_format": "audio.input.format",
    "output_audio_format": "audio.output.format",
    "input_audio_transcription": "audio.input.transcription",
    "input_audio_noise_reduction": "audio.input.noise_reduction",
    "turn_detection": "audio.input.turn_detection",
    "max_response_output_tokens": "max_output_tokens",
}
"""Former field of the session object → where it stands now."""
RESPONSE: Final[Mapping[str, str]] = {
    "modalities": "output_modalities",
    "voice": "audio.output.voice",
    "output_audio_format": "audio.output.format",
    "max_response_output_tokens": "max_output_tokens",
}
"""The same, of `response.create`."""


def refuse_former(sent: WireModel, moved: Mapping[str, str], path: str) -> None:
    """Refuse an object that says something only as it was said before.

    Args:
        sent: as it was read; fields that are not known are kept aside in it.
        moved: `SESSION` or `RESPONSE`.
        path: of the object, `session` or `response`.
    Raises:
        RemoteProtocolError: names the field, and the one that stands for it now.
    """
    for name in sent.model_extra or {}:
        now = moved.get(name)
        if now is not None and not _says(sent, now.split(".")):
            message = f"'{path}.{name}' is of the protocol's former shape: '{path}.{now}' stands for it now."
            raise RemoteProtocolError(errors.UNSUPPORTED, message, f"{path}.{name}")


def _says(sent: Any, steps: list[str]) -> bool:
    """Whether a field was sent, whatever its value."""
    first, *rest = steps
    if not isinstance(sent, WireModel) or first not in sent.model_fields_set:
        return False
    return not rest or _says(getattr(sent, first), rest)
