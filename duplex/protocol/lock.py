"""Sessions that their client may not change or see into: what a locked client secret leaves open (field case C71).

A lock names what stays open; all else is closed, also fields that the protocol gains later. Whether a field was changed is
read off the whole session object before and after, so a client may repeat what stands.

    session.update            only the open fields; instructions never, not even the same ones: that would tell which they are
    response.create           metadata, modalities and voice; nothing that says what to answer, or how long
    conversation.item.create  messages of the user, and what the functions gave that the model has called
    session.created, updated  without instructions
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from duplex.protocol import errors
from duplex.protocol.errors import RemoteProtocolError
from duplex.protocol.transcription import shown_transcription
from duplex.session.config import SessionConfig

_OPEN: Final = frozenset(
    {
        "audio.input.noise_reduction", "audio.input.transcription", "audio.input.turn_detection", "audio.output.speed",
        "audio.output.voice", "duplex.lead_ms", "duplex.on_onset", "output_modalities",
    }
)  # fmt: skip
"""How to listen and sound: fields that say nothing of what is answered."""
_RESPONSE_OPEN: Final = frozenset({"audio", "conversation", "metadata", "output_modalities"})
_VOICE: Final = "audio.output.voice"
_HIDDEN: Final = "instructions"
_TOLD: Final = frozenset({"prompt", "tools"})
"""Beside the instructions, what the model is told."""


def open_fields(session: Mapping[str, Any]) -> frozenset[str]:
    """Return the paths that stay open under a lock: what the session object it was made with says itself is closed too.

    Args:
        session: the session object of the lock.
    """
    return frozenset(path for path in _OPEN if not _names(session, path))


def shown(config: SessionConfig) -> dict[str, Any]:
    """Return the session object as the client may see it."""
    if config.kind == "transcription":
        return shown_transcription(config.wire)
    if config.open_fields is None:
        return dict(config.wire)
    return without_hidden(config.wire)


def without_hidden(session: Mapping[str, Any]) -> dict[str, Any]:
    """Return a session object without what the client of a lock may not see."""
    return {name: value for name, value in session.items() if name != _HIDDEN}


def check_sent(config: SessionConfig, sent: Mapping[str, Any]) -> None:
    """Refuse an update that says what the model is told, before anything is made of it.

    Args:
        sent: the update's fields, by name.
    Raises:
        RemoteProtocolError: `forbidden_field`, naming the field.
    """
    if config.open_fields is None:
        return
    for name, value in sent.items():
        if name == _HIDDEN or (name in _TOLD and value):
            raise _forbidden(f"session.{name}")


def check_changed(before: SessionConfig, after: SessionConfig) -> None:
    """Refuse an update that changes what is locked.

    Args:
        before, after: the session without and with the update.
    Raises:
        RemoteProtocolError: `forbidden_field`, naming the first such field.
    """
    if before.open_fields is None:
        return
    for path in _changed(before.wire, after.wire, before.open_fields):
        raise _forbidden(f"session.{path}")


def check_response(config: SessionConfig, sent: Mapping[str, Any]) -> None:
    """Refuse a response that is made otherwise than the locked session says.

    Args:
        sent: the fields of `response.create` that have a value.
    Raises:
        RemoteProtocolError: `forbidden_field`.
    """
    if config.open_fields is None:
        return
    closed = sorted(sent.keys() - _RESPONSE_OPEN)
    modalities = sent.get("output_modalities")
    if modalities is not None and "output_modalities" not in config.open_fields:
        closed += ["output_modalities"] if tuple(modalities) != config.modalities else []
    if closed:
        raise _forbidden(f"response.{closed[0]}")


def check_voice(config: SessionConfig, voice: str) -> None:
    """Refuse a response in another voice than the lock says.

    Raises:
        RemoteProtocolError: `forbidden_field`.
    """
    if config.open_fields is not None and _VOICE not in config.open_fields and voice != config.voice:
        raise _forbidden(f"response.{_VOICE}")


def check_item(config: SessionConfig, kind: str, role: str | None) -> None:
    """Refuse an item that is not the user's own words.

    Args:
        kind: the item's type.
        role: whose it is; None: not said.
    Raises:
        RemoteProtocolError: `forbidden_field`.
    """
    if config.open_fields is None:
        return
    if kind == "function_call_output" and config.toolset.tools:
        return  # the core takes it for a call that the model has made, and for no other
    if kind != "message":
        raise _forbidden("item.type")
    if role not in (None, "user"):
        raise _forbidden("item.role")


def _forbidden(param: str) -> RemoteProtocolError:
    return RemoteProtocolError(errors.FORBIDDEN_FIELD, f"The client of this session may not set '{param}'.", param)


def _names(session: Mapping[str, Any], path: str) -> bool:
    at: Any = session
    for step in path.split("."):
        if not isinstance(at, Mapping) or step not in at:
            return False
        at = at[step]
    return True


def _changed(
    before: Mapping[str, Any], after: Mapping[str, Any], allowed: frozenset[str], at: str = ""
) -> Iterator[str]:
    """Give the paths of the fields outside `allowed` that differ."""
    for name in [*before, *(name for name in after if name not in before)]:
        path, was, is_ = f"{at}{name}", before.get(name), after.get(name)
        if path in allowed or was == is_:
            continue
        if isinstance(was, Mapping) and isinstance(is_, Mapping):
            yield from _changed(was, is_, allowed, f"{path}.")
        else:
            yield path
