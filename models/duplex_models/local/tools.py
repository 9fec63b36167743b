"""What a small model is asked about functions: whether one is called, which, and with what. Pure.

    which      the functions, then made-up requests with their answers, then the request: a name, or `none`
    arguments  two made-up calls, then the function and the request: JSON of its schema

The engine takes no other answer than one of these. Requests that ask for a function are made of its description ("Please set
a timer."), so that a model of 135 million parameters sees what its answer looks like; it knows no format of tool calls.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

from duplex.payloads import Message, Tool
from duplex.session.context import estimate_tokens
from duplex_models.local.chat import END, START, plain

NONE = "none"
_ASKED = ("Please {}.", "Can you {}?")
_OTHER = (
    "Hello, how are you?", "Who painted the Mona Lisa?", "Tell me something about cats.", "What is five times six?",
    "I am happy today.", "Thank you.", "What is the capital of Norway?", "My sister is a teacher.", "Who was Napoleon?",
    "Good evening.",
)  # fmt: skip
"""Requests that no function is for."""
_DESCRIPTION_CHARS = 120
_REQUEST_CHARS = 400
"""Of what the user said, its end."""
_STRING_CHARS = 120
"""Of a string whose schema does not say; a small model may go on for ever."""
_ITEMS = 8
_NAMED_PARTS = frozenset({"properties", "$defs", "definitions"})
_PARTS = frozenset({"items", "anyOf"})
_COMPOSED = frozenset({"anyOf", "$ref", "enum", "const"})
_AS_IN_THE_EXAMPLES = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""White space of a small model has no end either."""
_SIMPLE = {"type": ["string", "number", "boolean", "null"], "maxLength": _STRING_CHARS}
"""What stands for anything at all."""
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_FORMATS = frozenset({"date-time", "date", "time", "email", "ipv4", "ipv6", "uuid"})
_KNOWN = frozenset(
    {
        "items",
        "anyOf",
        "enum",
        "const",
        "required",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
    }
)
_EXAMPLES = (
    ('send_mail: Send an e-mail. {"to": string, "subject": string}', "Write an e-mail to Tom about the party.",
     '{"to": "Tom", "subject": "the party"}'),
    ('find_flight: Find a flight. {"destination": string, "seats": integer}', "I need two seats to Oslo.",
     '{"destination": "Oslo", "seats": 2}'),
)  # fmt: skip


def request_of(messages: Sequence[Message]) -> str | None:
    """Return what the user asks for; None: the reply answers no words of the user, but what a function gave, say."""
    last = messages[-1] if messages else None
    return last.text[-_REQUEST_CHARS:] if last is not None and last.role == "user" else None


def last_request(messages: Sequence[Message]) -> str:
    """Return what the user said last, wherever that stands."""
    return next((m.text[-_REQUEST_CHARS:] for m in reversed(messages) if m.role == "user"), "")


def which_prompt(tools: Sequence[Tool], request: str, tokens_max: int) -> str | None:
    """Return the prompt behind which the name of a function is to be written, or `none`.

    Args:
        tokens_max: bound; where the tools are many, fewer requests are made up. None is returned where they are too many.
    """
    listed = "\n".join(f"{tool.name}: {_short(tool)}" for tool in tools)
    head = f"For each request write the name of the function that does it, or {NONE}.\n{listed}"
    for styles in range(len(_ASKED), -1, -1):
        asked = [(style.format(_low(tool)), tool.name) for style in _ASKED[:styles] for tool in tools]
        prompt = _chat(head, _mixed(asked), request)
        if estimate_tokens(prompt) <= tokens_max:
            return prompt
    return None


def arguments_prompt(tool: Tool, request: str) -> str:
    """Return the prompt behind which the function's arguments are to be written."""
    examples = [(f"{function}\nRequest: {asked}", answer) for function, asked, answer in _EXAMPLES]
    members = ", ".join(
        f'"{name}": {_kind(member)}' for name, member in json.loads(tool.parameters).get("properties", {}).items()
    )
    question = f"{tool.name}: {_short(tool)} {{{members}}}\nRequest: {request}"
    return _chat("Write what the request says as JSON for the function.", examples, question)


def kept(schema: dict[str, Any]) -> dict[str, Any]:
    """Return what the engine is to keep the model to: a schema of bounded length, in what it understands of JSON Schema.

    It takes no word that it does not know, and says nothing of it: those are left out, and so is what they ask for.
    """
    return {**bounded(schema), "x-guidance": _AS_IN_THE_EXAMPLES}


def bounded(schema: Any) -> Any:
    """Return a schema that asks for less: no members that it does not name, no string or list without an end."""
    if isinstance(schema, list):
        return [bounded(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: value for key, value in schema.items() if _known(key, value)}
    if "oneOf" in schema:
        made.setdefault("anyOf", schema["oneOf"])
    for key in made.keys() & _NAMED_PARTS:
        made[key] = {name: bounded(part) for name, part in made[key].items()}
    for key in made.keys() & _PARTS:
        made[key] = bounded(made[key])
    return made if made.keys() & _COMPOSED else made | _ends(made)


def _known(key: str, value: Any) -> bool:
    """Return whether the engine understands a word of a schema."""
    match key:
        case "type":
            return set(value if isinstance(value, list) else [value]) <= _TYPES if _hashable(value) else False
        case "properties" | "$defs" | "definitions":
            return isinstance(value, dict)
        case "format":
            return value in _FORMATS if isinstance(value, str) else False
        case "$ref":
            return isinstance(value, str) and value.startswith("#/")
        case _:
            return key in _KNOWN


def _hashable(value: Any) -> bool:
    return all(isinstance(part, str) for part in (value if isinstance(value, list) else [value]))


def _ends(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the members that bound a schema of one kind."""
    kind = schema.get("type", "object" if "properties" in schema else None)
    kinds = kind if isinstance(kind, list) else [kind]
    if kind is None:
        return dict(_SIMPLE)
    ends: dict[str, Any] = {}
    if "object" in kinds:
        members = schema.get("properties", {})
        ends |= {"properties": members, "additionalProperties": False}
        if isinstance(asked := schema.get("required"), list):
            ends["required"] = [name for name in asked if name in members]
    if "string" in kinds and not schema.keys() & {"maxLength", "format"}:
        ends["maxLength"] = max(_STRING_CHARS, _number(schema.get("minLength")))
    if "array" in kinds and "maxItems" not in schema:
        ends["maxItems"] = max(_ITEMS, _number(schema.get("minItems")))
    if "array" in kinds and "items" not in schema:
        ends["items"] = dict(_SIMPLE)
    return ends


def _chat(system: str, examples: Sequence[tuple[str, str]], question: str) -> str:
    turns = [f"{START}user\n{plain(said)}{END}\n{START}assistant\n{plain(answer)}{END}\n" for said, answer in examples]
    return (
        f"{START}system\n{plain(system)}{END}\n{''.join(turns)}{START}user\n{plain(question)}{END}\n{START}assistant\n"
    )


def _mixed(asked: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Put a request that no function is for behind each: small models take what they have seen last for the answer."""
    others = [(text, NONE) for text in _OTHER]
    pairs = zip(asked, itertools.cycle(others), strict=False)
    return [request for pair in pairs for request in pair] if asked else others


def _short(tool: Tool) -> str:
    return tool.description[:_DESCRIPTION_CHARS] or tool.name.replace("_", " ")


def _low(tool: Tool) -> str:
    """Return the first sentence of what a function does, as part of another."""
    first = _short(tool).split(". ")[0].rstrip(".")
    return first[:1].lower() + first[1:]


def _kind(schema: Any) -> str:
    if isinstance(schema, dict) and "enum" in schema:
        return " or ".join(json.dumps(value) for value in schema["enum"][:_ITEMS])
    kind = schema.get("type", "value") if isinstance(schema, dict) else "value"
    return kind if isinstance(kind, str) else "value"


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
