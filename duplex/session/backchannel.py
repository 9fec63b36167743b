"""Words said over a reply: do they ask for the floor, or only say that somebody listens?

Short sounds are what transcription hears worst, so the rule leans on words that it hears well: a command takes the floor however
short it is, a backchannel never does, and words that are neither are believed once there was voice enough to say them.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")


def words_of(text: str) -> tuple[str, ...]:
    """Return a text's words in lower case, without punctuation; "uh-huh" is two."""
    return tuple(match.group().replace("’", "'") for match in _WORD.finditer(text.lower()))


def takes_the_floor(text: str, voiced_enough: bool, commands: Collection[str], backchannels: Collection[str]) -> bool:
    """Return whether what was said over a reply interrupts it.

    Args:
        text: as transcribed; empty: nothing was understood.
        voiced_enough: there was voice for as long as an interruption by duration needs.
        commands: words that interrupt by themselves.
        backchannels: words that do not interrupt, alone or together.
    """
    words = words_of(text)
    if any(word in commands for word in words):
        return True
    return voiced_enough and any(word not in backchannels for word in words)
