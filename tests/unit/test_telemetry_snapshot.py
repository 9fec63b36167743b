"""The snapshot's types are the same in Python and in TypeScript, field by field."""

from __future__ import annotations

import json
import re
import types
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from duplex.telemetry import snapshot
from duplex.telemetry.snapshot import LimitView, SessionsView, to_json

pytestmark = pytest.mark.unit

MIRROR = Path(__file__).parents[2] / "web_client" / "page" / "dashboard" / "snapshot.ts"


def in_typescript() -> dict[str, dict[str, str]]:
    """Return the fields of every interface of the mirror, with their types as they are written."""
    source = re.sub(r"/\*\*.*?\*/", "", MIRROR.read_text(), flags=re.DOTALL)
    interfaces = re.findall(r"export interface (\w+) \{(.*?)\n\}", source, flags=re.DOTALL)
    return {name: dict(re.findall(r"readonly (\w+): ([^;]+);", body)) for name, body in interfaces}


def in_python() -> dict[str, dict[str, str]]:
    """Return the same of every dataclass of the snapshot, with its types as TypeScript writes them."""
    classes = [value for value in vars(snapshot).values() if isinstance(value, type) and is_dataclass(value)]
    hints = {cls.__name__: get_type_hints(cls) for cls in classes}
    return {name: {field: written(kind) for field, kind in kinds.items()} for name, kinds in hints.items()}


def written(kind: Any) -> str:
    if kind is snapshot.LaneMode:
        return "LaneMode"
    origin, members = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " | ".join(json.dumps(value) for value in members)
    if origin in (Union, types.UnionType):
        return " | ".join(written(member) for member in members)
    if origin is list:
        return f"readonly {written(members[0])}[]"
    if origin is dict:
        return f"Readonly<Record<string, {written(members[1])}>>"
    known = {int: "number", float: "number", str: "string", bool: "boolean", type(None): "null"}
    return known.get(kind) or kind.__name__


def test_typescript_mirrors_python() -> None:
    assert in_typescript() == in_python()


def test_the_lane_modes_are_the_same() -> None:
    declared = re.search(r"export type LaneMode = ([^;]+);", MIRROR.read_text())
    assert declared is not None
    assert re.findall(r'"(\w+)"', declared.group(1)) == list(get_args(snapshot.LaneMode))


def test_json_holds_every_field_once() -> None:
    assert json.loads(to_json(SessionsView(live=1, max=2, draining=False))) == {"live": 1, "max": 2, "draining": False}  # type: ignore[arg-type]
    assert json.loads(to_json([LimitView(name="asr", load=0.5, limit=0.8)])) == [  # type: ignore[arg-type]
        {"name": "asr", "load": 0.5, "limit": 0.8}
    ]


def test_what_is_no_snapshot_is_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        to_json(object())  # type: ignore[arg-type]
