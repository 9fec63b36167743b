"""ChatML, the prompt format of SmolLM2, and what of a conversation fits into the context. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from duplex.payloads import Message

START, END = "<|im_start|>", "<|im_end|>"
_MARK, _BROKEN = "<|", "< |"
_CHARS_PER_TOKEN = 3.0
"""English has about 4.3; an estimate from below, so that an overflow is rare."""
_TOKENS_PER_MESSAGE = 8
TURNS_PER_CUT = 4
"""Turns left out together when a conversation outgrows the context."""


def plain(text: str) -> str:
    """Return a person's or the model's words with nothing in them that the engine takes for a control token."""
    while _MARK in text:
        text = text.replace(_MARK, _BROKEN)
    return text.strip()


def with_system(messages: Sequence[Message], default: str) -> tuple[Message, ...]:
    """Put the default system message in front where the conversation has none; none at all if the default is empty."""
    if not default or any(m.role == "system" for m in messages):
        return tuple(messages)
    return (Message(role="system", text=default), *messages)


def render(messages: Sequence[Message], reply_so_far: str = "") -> str:
    """Return the raw prompt, open for the assistant's next word.

    Args:
        messages: the conversation; empty ones are left out.
        reply_so_far: what the assistant has said in this reply; generation goes on behind its last word.
    """
    turns = [f"{START}{m.role}\n{plain(m.text)}{END}\n" for m in messages if m.text.strip()]
    opened = f"{START}assistant\n"
    so_far = reply_so_far.rstrip().replace(_MARK, _BROKEN)
    return "".join(turns) + opened + so_far


def tokens_estimate(messages: Sequence[Message], reply_so_far: str = "") -> int:
    """Return roughly how many tokens `render` makes, seldom too few."""
    chars = sum(len(m.text) for m in messages) + len(reply_so_far)
    return int(chars / _CHARS_PER_TOKEN) + _TOKENS_PER_MESSAGE * (len(messages) + 1)


def without_oldest_turns(messages: Sequence[Message], turns: int) -> tuple[Message, ...] | None:
    """Leave out the oldest turns (a user's message and what answers it); system messages stay.

    Returns:
        The shorter conversation, or None when only its last turn is left. The last turn always stays.
    """
    said = [i for i, m in enumerate(messages) if m.role != "system"]
    starts = [i for i in said if messages[i].role == "user" and i != said[0]]
    if not starts:
        return None
    first = starts[min(turns, len(starts)) - 1]
    return tuple(m for i, m in enumerate(messages) if m.role == "system" or i >= first)


def fit(messages: Sequence[Message], tokens_max: int, reply_so_far: str = "") -> tuple[Message, ...]:
    """Leave out oldest turns until the estimate is at most `tokens_max`, or only the last turn is left.

    Turns go in blocks of four: a growing conversation that no longer fits then keeps its first kept message for some
    turns, and with it the engine's cached prefix.
    """
    fitted, dropped = tuple(messages), 0
    while tokens_estimate(fitted, reply_so_far) > tokens_max:
        dropped += TURNS_PER_CUT
        shorter = without_oldest_turns(messages, dropped)
        if shorter is None or shorter == fitted:
            break
        fitted = shorter
    return fitted
