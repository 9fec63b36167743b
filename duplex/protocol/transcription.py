"""Transcription sessions: the user's words are written down, and nothing is answered.

    opened by        ?intent=transcription, a client secret made for one, `type: transcription` in the session object
    changed into     by session.update, until anything was said
    turns            found and transcribed as in a conversation, or committed by the client; none asks for a response
    refused          response.create, items of the client's own

Source: `openai.types.realtime.RealtimeTranscriptionSessionCreateResponse` (openai 3.57.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from duplex.protocol import errors
from duplex.protocol.errors import RemoteProtocolError
from duplex.session.config import SessionConfig

_REFUSED: Final = frozenset({"response.create", "conversation.item.create", "conversation.item.truncate"})


def check_event(config: SessionConfig, kind: str) -> None:
    """Refuse what only a conversation has.

    Args:
        config: of the session.
        kind: the client event's type.
    Raises:
        RemoteProtocolError: `unsupported`.
    """
    if config.kind == "transcription" and kind in _REFUSED:
        message = f"A transcription session takes no '{kind}': it writes down what is said, and answers nothing."
        raise RemoteProtocolError(errors.UNSUPPORTED, message, "type")


def check_available(kind: str | None, *, transcribes: bool, param: str) -> None:
    """Refuse a transcription session where nobody could write.

    Args:
        kind: the type that was asked for.
        transcribes: the model pack can.
        param: its path.
    Raises:
        RemoteProtocolError: `unsupported`.
    """
    if kind == "transcription" and not transcribes:
        raise RemoteProtocolError(errors.UNSUPPORTED, "This server's model writes no transcripts.", param)


def shown_transcription(wire: Mapping[str, Any]) -> dict[str, Any]:
    """Return the session object of a transcription session: what of the whole one is in effect."""
    listening = dict(wire["audio"]["input"])
    if listening["turn_detection"] is not None:
        listening["turn_detection"] = listening["turn_detection"] | {"create_response": False}
    return {
        "type": "transcription",
        "object": "realtime.transcription_session",
        "id": wire["id"],
        "expires_at": wire["expires_at"],
        "include": wire["include"],
        "audio": {"input": listening | {"transcription": {"model": wire["model"]}}},
    }
