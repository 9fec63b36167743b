"""Client events at random: made from the schema of the models in `duplex/protocol/client_events.py`, and broken in one place.

Any field of any event is reached by its schema. Where a field has a meaning that its schema does not tell (an id, base64,
an image), a value is drawn from those that mean something in the session, so that most events go deep.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

from duplex.protocol.client_events import CLIENT_EVENT
from tests.sim.test_item_images import image

_SCHEMA = CLIENT_EVENT.json_schema()
_DEFS: dict[str, Any] = _SCHEMA["$defs"]
KINDS: dict[str, Any] = {
    kind: _DEFS[ref.rpartition("/")[2]] for kind, ref in _SCHEMA["discriminator"]["mapping"].items()
}
"""Schema of each client event, by its type."""
_FIELDS_MOST = 4
"""Optional fields of one object."""
_ITEM_TYPES = ("message", "message", "message", "function_call", "function_call_output", "item_reference", "nonsense")
_PART_TYPES = ("input_text", "input_text", "input_audio", "input_image", "output_text", "output_audio", "nonsense")
WEATHER = {
    "type": "function", "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}  # fmt: skip
_WORDS = ("Go on.", 'call get_weather {"city": "Paris"}', 'say and call get_weather {"city": "Rome"}', " ", "ö" * 40)
_BAD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 0.5, 2**70, -(10**30), 1e300, "", "x", "x" * 700, [], [[]], {}, {"type": None}, "item_none",
)  # fmt: skip
BROKEN: tuple[str | bytes, ...] = (
    '{"event_id": "ID", "type": "response.cancel"', '{"event_id": "ID", "type": "response.cancel"}}',
    '{"event_id": "ID", "type": 5}', '{"event_id": "ID"}', '{"event_id": "ID", "type": "no.such.event"}',
    '{"event_id": "ID", "type": "response.cancel", "x": NaN}', '{"event_id": "ID", "type": "response.cancel", "x": 1e999}',
    '{"event_id": "ID", "type": "response.cancel", "type": "response.create"}',
    '{"event_id": "ID", "type": "response.cancel", "x": "\\ud800"}', '{"event_id": "ID", "x": ' + "[" * 200 + "]" * 200 + "}",
    '{"event_id": "ID", "type": "input_audio_buffer.append", "audio": "!!!"}',
    '{"event_id": "ID", "type": "input_audio_buffer.append", "audio": "QQ"}',
    '{"event_id": "ID", "type": "input_audio_buffer.append", "audio": ""}',
    b'{"event_id": "ID", "type": "response.cancel"}', b'{"event_id": "ID", "type": "\xff"}',
)  # fmt: skip
"""What no event is made of; `ID` is found in it all the same."""
NAMELESS: tuple[str | bytes, ...] = (
    "", "{", "[]", "null", '"x"', "5", "\x00", b"\xff\xfe", '{"type": "response.cancel", "event_id": 5}',
    json.dumps({"type": "response.cancel", "event_id": "e" * 600}),
)  # fmt: skip
"""What has no id that an error could name."""

Draw = Callable[[st.SearchStrategy[Any]], Any]


def pcm(ms: int, loud: bool) -> str:
    """Return so much sound as an event carries it: 24 kHz, 16 bits."""
    samples = np.full(24 * ms, 8000 if loud else 0, "<i2")
    samples[::2] *= -1
    return base64.b64encode(samples.tobytes()).decode()


def an_event(draw: Draw, ids: list[str]) -> dict[str, Any]:
    """Draw an event of any type that fits its schema.

    Args:
        draw: of hypothesis.
        ids: of items, responses and calls that were seen, and some that never were.
    """
    kind = draw(st.sampled_from(sorted(KINDS)))
    event: dict[str, Any] = _object(draw, KINDS[kind], ids, "")
    event.pop("event_id", None)
    return event | {"type": kind}


def broken(draw: Draw, event: dict[str, Any]) -> dict[str, Any]:
    """Change an event in one place: another value, a field too many or one that is missing. It may be good all the same."""
    event = json.loads(json.dumps(event))
    holder, key = draw(st.sampled_from(list(_places(event))))
    match draw(st.sampled_from(["value", "value", "value", "more", "less"])):
        case "value":
            holder[key] = draw(st.sampled_from(_BAD_VALUES))
        case "more":
            (holder if isinstance(holder, dict) else event)["shiny"] = draw(st.sampled_from(_BAD_VALUES))
        case _:
            del holder[key]
    return event


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(steps):
        yield value, key
        yield from _places(inner)


def _object(draw: Draw, schema: dict[str, Any], ids: list[str], name: str) -> dict[str, Any]:
    fields = schema.get("properties", {})
    wanted = set(schema.get("required", ()))
    optional = sorted(fields.keys() - wanted)
    if optional:
        wanted |= set(draw(st.lists(st.sampled_from(optional), max_size=_FIELDS_MOST, unique=True)))
    if schema.get("title") == "Item":
        wanted |= {"role", "content"}
    return {field: _value(draw, fields[field], ids, field, schema.get("title", name)) for field in sorted(wanted)}


def _meant(draw: Draw, ids: list[str], field: str, owner: str) -> Any:
    """Draw what a field of this name means something by; None: its schema says all."""
    match field:
        case "item_id" | "previous_item_id" | "response_id" | "id" | "call_id":
            return draw(st.sampled_from(ids))
        case "audio" if owner in ("Append", "ContentPart"):
            return pcm(draw(st.sampled_from([1, 20, 100, 700])), draw(st.booleans()))
        case "image_url":
            return image()["image_url"]
        case "type" if owner == "Item":
            return draw(st.sampled_from(_ITEM_TYPES))
        case "type" if owner == "ContentPart":
            return draw(st.sampled_from(_PART_TYPES))
        case "text" | "transcript" | "instructions" | "output":
            return draw(st.sampled_from(_WORDS))
        case "arguments":
            return draw(st.sampled_from(["{}", '{"city": "Paris"}', "{", "[]"]))
        case "tools":
            return draw(st.sampled_from([[], [WEATHER], [WEATHER, WEATHER], [{"type": "mcp"}]]))
        case "audio_end_ms" | "played_ms":
            return draw(st.sampled_from([0, 100, 900, 5000, 86_400_000]))
        case "conversation":
            return draw(st.sampled_from(["auto", "none", "none", "other"]))
    return None


def _value(draw: Draw, schema: dict[str, Any], ids: list[str], field: str, owner: str) -> Any:
    meant = _meant(draw, ids, field, owner)
    if meant is not None:
        return meant
    if "$ref" in schema:
        return _object(draw, _DEFS[schema["$ref"].rpartition("/")[2]], ids, field)
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return _value(draw, draw(st.sampled_from(schema[choice])), ids, field, owner)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    match schema.get("type"):
        case "object":
            return draw(st.dictionaries(st.sampled_from(["text", "type", "a"]), st.sampled_from(["x", "auto"]), max_size=2))
        case "array":
            return [_value(draw, schema["items"], ids, "", owner) for _ in range(draw(st.integers(0, 2)))]
        case "string":
            return draw(st.text(max_size=min(20, schema.get("maxLength", 20)), min_size=schema.get("minLength", 0)))
        case "integer":
            return draw(st.integers(schema.get("minimum", 0), schema.get("maximum", 10_000)))
        case "number":
            return draw(st.floats(schema.get("minimum", 0), schema.get("maximum", 100)))
        case "boolean":
            return draw(st.booleans())
        case "null":
            return None
    return draw(st.sampled_from(_BAD_VALUES))
