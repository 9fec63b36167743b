"""What the test double does because the user's words tell it to: it calls functions, and repeats.

    call get_weather {"city": "Paris"}                       calls it, in silence
    call get_weather {"city": "Rome"} call set_timer {}      calls both
    say and call get_weather {"city": "Paris"}               says its script first
    repeat one two three.                                    says what follows, not its script

What is not offered is not called. Where it has to call and is told nothing, it calls the first function with the least
arguments that its schema asks for. To a result it says what it is.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from duplex.payloads import CallDelta, Prompt, TextDelta

_CALL = re.compile(r"\bcall (?P<name>[A-Za-z0-9_-]+) ?(?=\{)")
_SAY = re.compile(r"\bsay and call\b")
_REPEAT = re.compile(r"repeat (?P<line>.+)", re.DOTALL)
_PIECE = 8
"""Characters of arguments given at once."""


def steps_of(prompt: Prompt, line: str) -> list[TextDelta | CallDelta]:
    """Return what the double gives for a prompt, one after the other.

    Args:
        line: its script's next text.
    """
    last = prompt.messages[-1] if prompt.messages else None
    calls: list[tuple[str, str]] = []
    if last is not None and last.role == "tool":
        line = f"The function gave {last.text}."
    elif last is not None:
        told = last.text if last.role == "user" else ""
        calls = _called(prompt, told)
        line = match["line"] if (match := _REPEAT.match(told)) else line
    said = not calls or _SAY.search(last.text if last is not None else "") is not None
    words = re.findall(r"\S+\s*", line) if said else []
    texts = [TextDelta(text=word, tokens=1) for word in words]
    pieces = [piece for i, (name, arguments) in enumerate(calls) for piece in _pieces(i, name, arguments)]
    return _ended([*texts, *pieces], prompt)


def _ended(steps: list[TextDelta | CallDelta], prompt: Prompt) -> list[TextDelta | CallDelta]:
    """Return a reply up to its greatest length, with what its last delta says."""
    kept = steps[: prompt.tokens_max]
    finish = "stop" if len(kept) == len(steps) else "length"
    last = kept[-1] if kept else None
    if isinstance(last, TextDelta):
        kept.pop()
    else:
        last = TextDelta(text="", tokens=0)
    read = sum(len(message.text.split()) for message in prompt.messages)
    return [*kept, replace(last, finish=finish, prompt_tokens=read)]


def _called(prompt: Prompt, text: str) -> list[tuple[str, str]]:
    """Return names and arguments of what is to be called."""
    offered = {tool.name: tool for tool in prompt.toolset.callable}
    calls: list[tuple[str, str]] = []
    for match in _CALL.finditer(text):
        if match["name"] in offered:
            calls.append((match["name"], _object_at(text, match.end())))
    if not calls and offered and prompt.toolset.choice in ("required", "named"):
        name, tool = next(iter(offered.items()))
        calls.append((name, json.dumps(_least(json.loads(tool.parameters)))))
    return calls if prompt.toolset.parallel else calls[:1]


def _object_at(text: str, start: int) -> str:
    """Return the JSON that begins there; what is none is given as it stands, to the end of the words."""
    try:
        _, end = json.JSONDecoder().raw_decode(text, start)
    except ValueError:
        return text[start:]
    return text[start:end]


def _least(schema: dict[str, Any]) -> Any:
    """Return a small value of a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type", "object"):
        case "object":
            return {name: _least(schema.get("properties", {}).get(name, {})) for name in schema.get("required", ())}
        case "array":
            return []
        case "string":
            return "text"
        case "boolean":
            return True
        case _:
            return 1


def _pieces(index: int, name: str, arguments: str) -> list[CallDelta]:
    ends = range(0, max(1, len(arguments)), _PIECE)
    return [
        CallDelta(
            index=index, name=name, arguments=arguments[i : i + _PIECE], tokens=1, last=i + _PIECE >= len(arguments)
        )
        for i in ends
    ]
