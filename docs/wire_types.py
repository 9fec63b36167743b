"""The vocabulary of the wire, read off its pydantic models, and its types in TypeScript.

Types come from the JSON schema that pydantic makes, words from the strings under classes, fields and aliases.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter

from duplex.protocol import (
    client_events,
    error_codes,
    response_events,
    server_events,
    server_model,
    server_objects,
    server_session,
    wire_session,
)

_MODULES = (
    client_events, wire_session, server_events, response_events, server_model, server_session, server_objects, error_codes,
)  # fmt: skip
TRANSPORTS = {"webrtc": "WebRTC", "websocket": "WebSocket"}
_SAME_EVERYWHERE = {
    "id": "Its id.",
    "item_id": "The item's id.",
    "response_id": "The response's id.",
    "call_id": "The function call's id.",
    "content_index": "Place of the part in the item's content, from 0.",
    "delta": "What is new; all of them, one behind the other, are the whole.",
    "text_tokens": "Of text.",
    "audio_tokens": "Of sound.",
    "image_tokens": "Of images.",
}
"""Words of fields that have none of their own."""
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_BOUNDS = {"minimum": "≥ {}", "maximum": "≤ {}", "maxLength": "≤ {} characters", "maxItems": "≤ {}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of an object."""

    name: str
    type: str
    """As TypeScript writes it."""
    bounds: str
    """Of its value; empty: none."""
    required: bool
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """An object, or a name for a choice among objects and values."""

    name: str
    words: str
    type: str
    """Of a choice; empty for an object."""
    fields: tuple[Field, ...]
    only_on: str | None = None
    """The one transport of an event; None: both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Everything that can be said, by name."""

    client: tuple[str, ...]
    """Names of the client's events."""
    server: tuple[str, ...]
    """Names of the server's events."""
    definitions: dict[str, Definition]

    def kind(self, name: str) -> str:
        """Return an event's `type`."""
        return next(field.type for field in self.definitions[name].fields if field.name == "type").strip('"')


def read_vocabulary() -> Vocabulary:
    """Return the vocabulary as the models have it."""
    schema = TypeAdapter(tuple[client_events.ClientEvent, server_events.ServerEvent]).json_schema()
    words = dict(_written())
    definitions = {name: _define(name, shape, words) for name, shape in schema["$defs"].items()}
    sides = [tuple(map(_name_of, side["oneOf"])) for side in schema["prefixItems"]]
    return Vocabulary(client=sides[0], server=sides[1], definitions=definitions)


def _written() -> Iterator[tuple[str, str]]:
    """Give the words under each class, field and alias, by its dotted name."""
    for module in _MODULES:
        body = ast.parse(inspect.getsource(module)).body
        yield from _under(module.__name__, body)
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield f"{module.__name__}.{node.name}", " ".join((ast.get_docstring(node) or "").split())
                yield from _under(f"{module.__name__}.{node.name}", node.body)


def _under(owner: str, body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for node, below in zip(body, body[1:], strict=False):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if targets and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            yield f"{owner}.{ast.unparse(targets[0])}", " ".join(str(below.value.value).split())


def _define(name: str, shape: dict[str, Any], words: dict[str, str]) -> Definition:
    assert "__" not in name, f"two models have the name {name.rsplit('__')[-1]}"
    own = next((words[at] for module in _MODULES if (at := f"{module.__name__}.{name}") in words), "")
    if "properties" not in shape:
        return Definition(name=name, words=own, type=type_of(shape), fields=())
    model = next(getattr(module, name) for module in _MODULES if hasattr(module, name))
    fields = tuple(
        Field(
            name=field,
            type=type_of(value),
            bounds=_bounds_of(value),
            required=field in shape.get("required", ()),
            words=_words_of(model, field, words) or _SAME_EVERYWHERE.get(field, ""),
        )
        for field, value in shape["properties"].items()
    )
    return Definition(name=name, words=own, type="", fields=fields, only_on=getattr(model, "only_on", None))


def _words_of(model: type[BaseModel], field: str, words: dict[str, str]) -> str:
    named = (f"{base.__module__}.{base.__name__}.{field}" for base in model.__mro__)
    return next((words[at] for at in named if at in words), "")


def _name_of(ref: dict[str, Any]) -> str:
    return str(ref["$ref"]).rsplit("/", 1)[-1]


def type_of(shape: dict[str, Any]) -> str:
    """Return a JSON schema's type as TypeScript writes it."""
    if "$ref" in shape:
        return _name_of(shape)
    if "const" in shape:
        return json.dumps(shape["const"])
    if "enum" in shape:
        return " | ".join(map(json.dumps, shape["enum"]))
    if options := shape.get("anyOf", shape.get("oneOf")):
        return " | ".join(dict.fromkeys(map(type_of, options)))
    match shape.get("type"):
        case "array":
            item = type_of(shape.get("items", {}))
            return f"({item})[]" if " | " in item else f"{item}[]"
        case "object":
            value = shape.get("additionalProperties", {})
            return f"Record<string, {type_of(value) if isinstance(value, dict) else 'unknown'}>"
        case None:
            return "unknown"
        case kind:
            return _PLAIN[kind]


def _bounds_of(shape: dict[str, Any]) -> str:
    """Say the bounds of a value; that numbers begin at 0 is not said."""
    bounds: dict[str, Any] = {}
    for each in (shape, *shape.get("anyOf", ())):
        bounds |= each
    return ", ".join(text.format(bounds[key]) for key, text in _BOUNDS.items() if bounds.get(key))


_TS_HEAD = """\
/**
 * The wire as it stands: every event of client and server, with the objects in them.
 *
 * Made from duplex/protocol by `python docs/protocol.py`: do not edit. The same in prose: docs/protocol.md.
 */
"""


def typescript(vocabulary: Vocabulary) -> str:
    """Return the module of types."""
    parts = [_TS_HEAD]
    for side, names in (("ClientEvent", vocabulary.client), ("ServerEvent", vocabulary.server)):
        parts.append("\n".join([f"export type {side} =", *_options(names)]))
    parts += map(_declare, vocabulary.definitions.values())
    return "\n".join(parts)


def _options(options: Sequence[str]) -> list[str]:
    return [*(f"  | {option}" for option in options[:-1]), f"  | {options[-1]};\n"]


def _declare(definition: Definition) -> str:
    words = definition.words
    if definition.only_on is not None:
        words = f"{words} Only on {TRANSPORTS[definition.only_on]}."
    lines = [f"/** {words} */"]
    if not definition.fields:
        return "\n".join([*lines, f"export type {definition.name} =", *_options(definition.type.split(" | "))])
    lines.append(f"export interface {definition.name} {{")
    for field in definition.fields:
        lines += [f"  /** {field.words} */"] if field.words else []
        kind = re.sub(r"(\([^()]*\)|\w+|\"[^\"]*\")\[\]", r"readonly \1[]", field.type)
        lines.append(f"  readonly {field.name}{'' if field.required else '?'}: {kind};")
    return "\n".join([*lines, "}\n"])
