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


def _pcm(ms: int, loud: bool) -> str:
    """Return so much sound as an event carries it: 24 kHz, 16 bits."""
    samples = np.full(24 * ms, 8000 if loud else 0, "<i2")
    samples[::2] *= -1
    return base64.b64encode(samples.tobytes()).decode()


_SCHEMA = CLIENT_EVENT.json_schema()
_DEFS: dict[str, Any] = _SCHEMA["$defs"]
KINDS: dict[str, Any] = {
    kind: _DEFS[ref.rpartition("/")[2]] for kind, ref in _SCHEMA["discriminator"]["mapping"].items()
}
"""Schema of each client event, by its type."""
_FIELDS_MOST = 4
"""Optional fields of one object."""
_NEEDED = {
    "Item": {"role", "content", "call_id", "name", "arguments", "output"}, "ContentPart": {"text", "transcript"},
}  # fmt: skip
"""Fields that are optional in the schema, and needed by one kind or another of the object."""
_ITEM_TYPES = ("message", "message", "message", "function_call", "function_call_output", "item_reference", "nonsense")
_PART_TYPES = ("input_text", "input_text", "input_audio", "input_image", "output_text", "output_audio", "nonsense")
WEATHER = {
    "type": "function", "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}  # fmt: skip
_WORDS = ("Go on.", 'call get_weather {"city": "Paris"}', 'say and call get_weather {"city": "Rome"}', " ", "ö" * 40)
_MS = (0, 100, 900, 5000, 86_400_000)
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

_IDS = ("item_id", "previous_item_id", "response_id", "id", "call_id")
_SOUND = tuple(_pcm(ms, loud) for ms in (1, 20, 100, 700) for loud in (True, False))
_MEANT: dict[str, tuple[Any, ...]] = {
    "Append.audio": _SOUND, "ContentPart.audio": _SOUND, "Item.type": _ITEM_TYPES, "ContentPart.type": _PART_TYPES,
    "text": _WORDS, "transcript": _WORDS, "instructions": _WORDS, "output": _WORDS, "ResponseAudio.output": (),
    "AudioUpdate.output": (), "image_url": (image()["image_url"],), "arguments": ("{}", '{"city": "Paris"}', "{", "[]"),
    "tools": ([], [WEATHER], [WEATHER, WEATHER], [{"type": "mcp"}]), "audio_end_ms": _MS, "played_ms": _MS,
    "conversation": ("auto", "none", "none", "other"),
}  # fmt: skip
"""By field, or by model and field."""

Draw = Callable[[st.SearchStrategy[Any]], Any]


def an_event(draw: Draw, ids: list[str]) -> dict[str, Any]:
    """Draw an event of any type that fits its schema.

    Args:
        draw: of hypothesis.
        ids: of items, responses and calls that were seen, and some that never were.
    """
    kind = draw(st.sampled_from(sorted(KINDS)))
    event: dict[str, Any] = _object(draw, KINDS[kind], ids)
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


def _object(draw: Draw, schema: dict[str, Any], ids: list[str]) -> dict[str, Any]:
    fields = schema.get("properties", {})
    wanted = set(schema.get("required", ()))
    optional = sorted(fields.keys() - wanted)
    if optional:
        wanted |= set(draw(st.lists(st.sampled_from(optional), max_size=_FIELDS_MOST, unique=True)))
    wanted |= _NEEDED.get(schema["title"], set())
    return {field: _value(draw, fields[field], ids, field, schema["title"]) for field in sorted(wanted)}


def _meant(field: str, owner: str) -> tuple[Any, ...]:
    """Return values by which a field of this name means something; none: its schema says all."""
    return _MEANT.get(f"{owner}.{field}", _MEANT.get(field, ()))


def _value(draw: Draw, schema: dict[str, Any], ids: list[str], field: str, owner: str) -> Any:
    if field in _IDS:
        return draw(st.sampled_from(ids))
    if meant := _meant(field, owner):
        return draw(st.sampled_from(meant))
    if "$ref" in schema:
        return _object(draw, _DEFS[schema["$ref"].rpartition("/")[2]], ids)
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return _value(draw, draw(st.sampled_from(schema[choice])), ids, field, owner)
    if schema.get("type") == "array":
        least = 1 if field == "content" else 0
        return [_value(draw, schema["items"], ids, "", owner) for _ in range(draw(st.integers(least, 2)))]
    return draw(_plain(schema))


def _plain(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values of a schema that holds no others."""
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    least, most = schema.get("minimum", 0), schema.get("maximum", 10_000)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "object": st.dictionaries(st.sampled_from(["text", "type", "a"]), st.sampled_from(["x", "auto"]), max_size=2),
        "string": st.text(min_size=schema.get("minLength", 0), max_size=min(20, schema.get("maxLength", 20))),
        "integer": st.integers(least, most),
        "number": st.floats(least, most),
        "boolean": st.booleans(),
        "null": st.none(),
    }
    return kinds.get(schema.get("type", ""), st.sampled_from(_BAD_VALUES))
