"""ChatML, the prompt format of SmolLM2. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from duplex.payloads import Call, Message

START, END = "<|im_start|>", "<|im_end|>"
_MARK, _BROKEN = "<|", "< |"
_CHARS_PER_TOKEN = 3.0


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


def with_results(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the conversation with function calls and what they gave in plain words.

    A call is told with its result, as if the user had looked it up: a model that saw itself write calls would say them aloud, and
    what a function gave shall have no more authority than the user.
    """
    calls: dict[str, Call] = {}
    told: list[Message] = []
    for message in messages:
        calls |= {call.id: call for call in message.calls}
        if message.role == "tool":
            call = calls.get(message.call_id or "")
            asked = "" if call is None else f" {call.name} {call.arguments}"
            told.append(Message(role="user", text=f"Result of{asked}: {message.text}"))
        elif message.calls:
            told.append(Message(role=message.role, text=message.text))
        else:
            told.append(message)
    return tuple(told)


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


def last_turn(messages: Sequence[Message], bytes_max: int) -> tuple[Message, ...]:
    """Return the system's messages and what was said last, of it the end: what fits whatever its tokens are.

    Args:
        bytes_max: of the last message in UTF-8; no byte takes more than a token.
    """
    system = tuple(m for m in messages if m.role == "system")
    said = [m for m in messages if m.role != "system"][-1:]
    return system + tuple(Message(role=m.role, text=m.text.encode()[-bytes_max:].decode(errors="ignore")) for m in said)
