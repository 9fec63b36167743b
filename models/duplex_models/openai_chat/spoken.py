"""What of a model's text is spoken. Pure."""

from __future__ import annotations

import re
from enum import Enum, auto

_OPEN, _CLOSE = "<think>", "</think>"
_TAIL = re.compile(r"\n\s*\Z")


class _State(Enum):
    START = auto()
    """Nothing was said yet: white space, or perhaps the first letters of `<think>`."""
    THINKING = auto()
    SPEAKING = auto()


class SpokenText:
    """Takes the text of one reply as it comes and gives out what is said.

        "\\n\\n<thi" "nk>hm…</think>\\n Hel" "lo.\\n" "\\n"  →  "" "Hel" "lo." ""

    White space in front is left out, and so are lines of thinking that a server leaves in the text in front of the reply.
    An end of line is held until something follows it, so that none is left at the end.
    """

    def __init__(self) -> None:
        self._state = _State.START
        self._held = ""

    def take(self, text: str) -> str:
        """Append text; return what is spoken of it, maybe nothing."""
        text, self._held = self._held + text, ""
        while True:
            match self._state:
                case _State.START:
                    text = text.lstrip()
                    if text.startswith(_OPEN):
                        text, self._state = text[len(_OPEN) :], _State.THINKING
                    elif _OPEN.startswith(text):
                        self._held = text
                        return ""
                    else:
                        self._state = _State.SPEAKING
                case _State.THINKING:
                    _, close, rest = text.partition(_CLOSE)
                    if not close:
                        self._held = text[1 - len(_CLOSE) :]
                        return ""
                    text, self._state = rest, _State.START
                case _State.SPEAKING:
                    tail = _TAIL.search(text)
                    if tail is not None:
                        self._held = tail.group()
                        text = text[: tail.start()]
                    return text

    def finish(self) -> str:
        """The reply is complete; return what was held only because it might have become something else."""
        return self._held if self._state is _State.START else ""
