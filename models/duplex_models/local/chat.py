"""ChatML, the prompt format of SmolLM2, and what of a conversation fits into the context. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from duplex.payloads import Message

START, END = "<|im_start|>", "<|im_end|>"
_MARK, _BROKEN = "<|", "< |"
_CHARS_PER_TOKEN = 3.0
"""English has about 4.3; an estimate from below, so that an overflow is rare."""
_TOKENS_PER_MESSAGE = 8
_KEPT = 1 / 4
"""What of the allowed length is left after a cut: a cut must be rare, because the engine then reads the prompt anew."""


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


def render_open(messages: Sequence[Message]) -> str:
    """Return what a prompt begins with in which the last message, if it is the user's, may still go on."""
    whole = render(messages).removesuffix(f"{START}assistant\n")
    return whole.removesuffix(f"{END}\n") if messages and messages[-1].role == "user" else whole


def steps(text: str, read: str, tokens: int) -> Iterator[str]:
    """Return a text step by step, each a beginning of it that is longer by so many tokens, by the estimate.

    A step may end inside a word, whose tokens the next one then reads again.

    Args:
        read: what was read before; where it begins as the text does, that is no step.
        tokens: ≥ 1.
    """
    start, size = len(os.path.commonprefix([text, read])), int(tokens * _CHARS_PER_TOKEN)
    for end in range(start + size, len(text) + size, size):
        yield text[:end]


def tokens_estimate(messages: Sequence[Message]) -> int:
    """Return roughly how many tokens the messages take in a prompt, seldom too few."""
    return sum(int(len(m.text) / _CHARS_PER_TOKEN) + _TOKENS_PER_MESSAGE for m in messages)


def fit(messages: Sequence[Message], tokens_max: int) -> tuple[Message, ...]:
    """Leave out oldest turns (a user's message and what answers it) of a conversation that is too long.

    System messages and the last turn always stay. Where to cut depends on the messages before the cut alone, so that a
    growing conversation keeps its first message, and with it the engine's cached prefix, from one cut to the next:

        length  /| /| /      tokens_max
               / |/ |/       a quarter of it

    Args:
        tokens_max: most tokens of what is not a system message, by the estimate.
    """
    places = [i for i, m in enumerate(messages) if m.role != "system"]
    said = [messages[i] for i in places]
    start, length = 0, 0
    for index, message in enumerate(said):
        length += tokens_estimate([message])
        if length > tokens_max:
            start = _turn_start(said[: index + 1], start, int(tokens_max * _KEPT))
            length = tokens_estimate(said[start : index + 1])
    return tuple(m for i, m in enumerate(messages) if m.role == "system" or i >= places[start])


def _turn_start(said: Sequence[Message], start: int, tokens_max: int) -> int:
    """Return the first user's message behind which at most `tokens_max` follow, else the last one after `start`."""
    starts = [i for i in range(start + 1, len(said)) if said[i].role == "user"]
    fitting = [i for i in starts if tokens_estimate(said[i:]) <= tokens_max]
    return (fitting or starts[-1:] or [start])[0]
