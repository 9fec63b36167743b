"""One vocabulary: the models, the page, the SDK's types and the stock client's own types say the same.

That nothing else is ever sent is held by the fixture `vocabulary` of tests/conftest.py, in every test.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import openai
import pytest
from openai.types.realtime import RealtimeClientEvent, RealtimeServerEvent
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from duplex.protocol import TransportName, WireProfile, decode, errors, initial
from duplex.protocol.client_events import CLIENT_EVENT
from duplex.protocol.error_codes import ERROR_CODES
from duplex.protocol.server_events import SERVER_EVENT
from duplex.session.messages import Rejected
from duplex.units import Samples

pytestmark = pytest.mark.unit

DOCS = Path(__file__).parents[2] / "docs"
STOCK_SERVER: TypeAdapter[Any] = TypeAdapter(Annotated[RealtimeServerEvent, Field(discriminator="type")])
STOCK_CLIENT: TypeAdapter[Any] = TypeAdapter(Annotated[RealtimeClientEvent, Field(discriminator="type")])
OURS_ALONE = {
    "duplex", "item.content.duplex", "response.output.content.duplex", "response.usage.duplex",
    "session.duplex", "session.expires_at", "session.id", "session.object",
}  # fmt: skip
"""Fields of server events that the stock types do not name: our prefix, and those of a session that was created."""
REFUSED = {
    "item.content.type": "a content part says what it is",
    "response.audio.output.format.type": "so does a format, which is never null within",
    "response.input.content.type": "as in an item",
    "response.tool_choice": "MCP",
    "session.audio.input.format.type": "as above",
    "session.audio.input.noise_reduction.type": "as above",
    "session.audio.input.turn_detection.idle_timeout_ms": "out of bounds",
    "session.audio.output.format.type": "as above",
    "session.tool_choice": "MCP",
}
"""Fields of client events with values that the stock types allow and this server refuses, and why."""


@pytest.fixture(scope="module")
def page() -> Iterator[ModuleType]:
    sys.path.insert(0, str(DOCS))
    yield import_module("protocol")
    sys.path.remove(str(DOCS))


@pytest.fixture(scope="module")
def read(page: ModuleType) -> Any:
    return page.read_vocabulary()


def test_the_page_and_the_types_are_fresh(page: ModuleType, read: Any) -> None:
    assert page.PAGE.read_text() == page.render(read), "run: python docs/protocol.py"
    assert page.TYPES.read_text() == page.typescript(read), "run: python docs/protocol.py"


def test_everything_has_its_words(page: ModuleType, read: Any) -> None:
    for name, definition in read.definitions.items():
        assert definition.words, name
        for field in definition.fields:
            constants = '"' in field.type or field.name in ("type", "event_id")
            assert constants or page.meaning(read, field), f"{name}.{field.name}"


def test_the_lifecycles_name_events_that_there_are(page: ModuleType, read: Any) -> None:
    sides = {side: {read.kind(name) for name in getattr(read, side)} for side in ("client", "server")}
    seen = set()
    for steps in page.LIFECYCLES.values():
        for line in steps.splitlines():
            side = "client" if line.startswith(">") else "server"
            for kind in re.split(r", | … ?", re.split(r" {2,}", line.removeprefix("> "))[0].removesuffix(" …")):
                assert kind in sides[side], line
                seen.add(kind)
    assert len(seen) > 30


def test_every_code_that_decoding_knows_is_explained() -> None:
    named = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, str)}
    assert named <= ERROR_CODES.keys()


def kinds(adapter: TypeAdapter[Any]) -> set[str]:
    """Return the `type` of every event."""
    return {event["type"] for event in examples_of(adapter)}


def test_the_events_are_those_of_the_stock_client(page: ModuleType) -> None:
    assert openai.__version__ == "3.57.0", "read the types again before moving to another version"
    ours, stock = kinds(SERVER_EVENT), kinds(STOCK_SERVER)
    assert stock - ours == page.NEVER_SENT.keys()
    assert all(kind.startswith("duplex.") for kind in ours - stock)
    assert kinds(STOCK_CLIENT) - kinds(CLIENT_EVENT) == set()
    assert all(kind.startswith("duplex.") for kind in kinds(CLIENT_EVENT) - kinds(STOCK_CLIENT))


def examples_of(adapter: TypeAdapter[Any]) -> list[Any]:
    """Return values that have each alternative of each field of each model once."""
    schema = adapter.json_schema()
    return _examples(schema, schema["$defs"])


def _examples(shape: dict[str, Any], defs: dict[str, Any]) -> list[Any]:
    if "$ref" in shape:
        return _examples(defs[shape["$ref"].rsplit("/", 1)[-1]], defs)
    if "const" in shape:
        return [shape["const"]]
    if "enum" in shape:
        return list(shape["enum"])
    if options := shape.get("anyOf", shape.get("oneOf")):
        return [value for option in options for value in _examples(option, defs)]
    match shape.get("type"):
        case "object" if "properties" in shape:
            return _objects(shape, defs)
        case "object":
            value = shape.get("additionalProperties")
            return [{"text": each} for each in _examples(value, defs)] if isinstance(value, dict) else [{}]
        case "array":
            return [[value] for value in _examples(shape.get("items", {}), defs)]
        case kind:
            number = max(shape.get("minimum", 1), 1)
            event_id = "event_000000000001_sess_1" if "pattern" in shape else "text"
            plain = {"string": event_id, "integer": number, "number": 0.5, "boolean": True, "null": None, None: {}}
            return [plain[kind]]


def _objects(shape: dict[str, Any], defs: dict[str, Any]) -> list[dict[str, Any]]:
    values = {name: _examples(field, defs) for name, field in shape["properties"].items()}
    full = [
        {name: options[min(i, len(options) - 1)] for name, options in values.items()}
        for i in range(max(map(len, values.values())))
    ]
    return [*full, {name: values[name][0] for name in shape.get("required", ())}]


def unnamed(model: BaseModel, path: str = "") -> set[str]:
    """Return the dotted paths of fields that the model's class does not have."""
    found = {f"{path}{name}" for name in model.model_extra or {}}
    for name, value in model.__dict__.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, BaseModel):
                found |= unnamed(part, f"{path}{name}.")
    return found


def test_the_stock_client_parses_all_that_the_models_allow() -> None:
    alone: set[str] = set()
    for event in examples_of(SERVER_EVENT):
        SERVER_EVENT.validate_python(event)
        if not event["type"].startswith("duplex."):
            alone |= unnamed(STOCK_SERVER.validate_python(event, strict=True))
    assert alone == OURS_ALONE


def test_all_that_the_stock_client_may_send_is_known() -> None:
    refused: set[str] = set()
    for event in examples_of(STOCK_CLIENT):
        if '"mcp_' in json.dumps(event):
            continue  # an item of MCP, refused by its type
        try:
            taken = CLIENT_EVENT.validate_python(event)
        except ValidationError as error:
            refused |= {".".join(step for step in at["loc"][1:] if isinstance(step, str)) for at in error.errors()}
        else:
            assert unnamed(taken) == set(), event["type"]
            assert taken.unknown_fields() == 0
    assert refused <= REFUSED.keys()


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
def test_an_event_of_one_transport_is_refused_on_the_other(transport: TransportName, read: Any) -> None:
    only_on = {read.kind(name): read.definitions[name].only_on for name in read.client}
    profile = WireProfile()
    config = initial(profile, session_id="sess_1")
    for event in examples_of(CLIENT_EVENT):
        text = json.dumps(event)
        message = decode(text, config, transport=transport, profile=profile, arrived=Samples(0))
        refused = isinstance(message, Rejected) and message.code == errors.WRONG_TRANSPORT
        assert refused == (only_on[event["type"]] not in (None, transport)), text


@pytest.mark.parametrize("change", [{"item_ids": 1}, {"item_id": 1}, {"item_id": None}])
def test_a_field_too_many_or_of_another_type_is_noticed(change: dict[str, Any]) -> None:
    event = {"type": "conversation.item.deleted", "event_id": "event_000000000001_sess_1", "item_id": "item_1"}
    SERVER_EVENT.validate_python(event)
    with pytest.raises(ValidationError):
        SERVER_EVENT.validate_python(event | change)


def test_a_code_that_is_not_explained_is_noticed() -> None:
    body = {"type": "server_error", "code": "odd", "message": "m", "param": None, "event_id": None}
    with pytest.raises(ValidationError, match="error_codes.py"):
        SERVER_EVENT.validate_python({"type": "error", "event_id": "event_000000000001_sess_1", "error": body})
