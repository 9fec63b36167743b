"""A picture in an item of the conversation: what the client is shown of it, and what the thinker is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from duplex.payloads import ImageFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureView:
    """A picture as it stands. The picture itself is not kept once it was read."""

    format: ImageFormat
    width: int
    """Pixels, as sent."""
    height: int
    size_bytes: int
    state: Literal["waiting", "read", "nothing", "failed"] = "waiting"
    """Not read yet; read; nothing is legible in it; it could not be read."""
    text: str | None = None
    """What was read."""


def notes_of(pictures: Sequence[PictureView]) -> list[str]:
    """Return what the thinker is told of an item's pictures, a line for each.

    It is told of a picture without text, or that was not read, too: the user refers to it, and what nobody saw shall not be
    made up. It stands in the user's message, so that a sign in a picture has no more authority than the user.
    """
    several = len(pictures) > 1
    return [_note(view, f" {i}" if several else "") for i, view in enumerate(pictures, 1)]


def _note(view: PictureView, number: str) -> str:
    match view.state:
        case "read":
            return f"Text in picture{number}: {view.text}"
        case "nothing":
            return f"(Picture{number}: no text in it.)"
        case "failed":
            return f"(Picture{number}: it could not be read.)"
        case "waiting":
            return f"(Picture{number}: it is not read yet.)"
