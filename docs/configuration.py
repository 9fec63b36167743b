"""Write docs/configuration.md from duplex/config/: names, defaults, bounds and the words under each setting.

python docs/configuration.py          writes the page beside this file
"""

from __future__ import annotations

import ast
import inspect
import json
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from duplex import config

PAGE = Path(__file__).with_suffix(".md")
_HEAD = """\
# Configuration

Every bound, timeout and threshold of the server. This page is made from `duplex/config/` by
`python docs/configuration.py`; a test compares the two.

A setting can be given in four ways; the first that names it wins:

1. flags: `duplex serve --port 9000 --set barge_in.on_onset=hold`
2. environment: `DUPLEX_SERVER__PORT=9000`, lists and tables as JSON: `DUPLEX_SERVER__CORS_ORIGINS='["https://a.example"]'`
3. the TOML file of `--config`, with a table per section
4. the defaults below

An unknown name or a value out of range stops the start with a message that names it. Nothing is read later: a change
needs a restart.

```toml
[server]
port = 9000

[model]
pack = "local"
```
"""
_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def words_of(model: type[BaseModel]) -> dict[str, str]:
    """Return the string under each field of a class, on one line."""
    tree = ast.parse(inspect.getsource(model)).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            found[field.target.id] = " ".join(str(below.value.value).split()) if is_text else ""  # type: ignore[union-attr]
    return found


def sections() -> dict[str, type[BaseModel]]:
    """Return the sections of the configuration by name."""
    fields = config.Settings.model_fields.items()
    return {name: field.annotation for name, field in fields if _is_section(field)}  # type: ignore[misc]


def _is_section(field: FieldInfo) -> bool:
    return inspect.isclass(field.annotation) and issubclass(field.annotation, BaseModel)


def _allowed(field: FieldInfo) -> str:
    bounds = [
        f"{sign} {getattr(rule, name)}"
        for rule in field.metadata
        for name, sign in _SIGNS.items()
        if getattr(rule, name, None) is not None
    ]
    return _type(field.annotation) + (f", {', '.join(bounds)}" if bounds else "")


def _type(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    members = [member for member in get_args(annotation) if member not in (type(None), ...)]
    if get_origin(annotation) is tuple:
        return f"list of {_type(members[0])}"
    if get_origin(annotation) is dict:
        return "table"
    if type(None) in get_args(annotation):
        return f"{_type(members[0])} or unset"
    names = {
        "str": "text", "int": "integer", "float": "number", "Path": "path", "bool": "`true`, `false`",
        "IPvAnyNetwork": "IP address or network",
    }  # fmt: skip
    return names[annotation.__name__]


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "unset"
    if isinstance(value, Enum | Path):
        value = str(value)
    return f"`{json.dumps(list(value) if isinstance(value, tuple) else value)}`"


def _table(model: type[BaseModel], names: list[str]) -> str:
    words = words_of(model)
    rows = ["| setting | default | allowed | meaning |", "| --- | --- | --- | --- |"]
    for name in names:
        field = model.model_fields[name]
        rows.append(f"| `{name}` | {_default(field)} | {_allowed(field)} | {words[name]} |")
    return "\n".join(rows)


def render() -> str:
    """Return the page."""
    parts = [_HEAD]
    by_name = sections()
    for name, model in by_name.items():
        purpose = inspect.getdoc(model) or ""
        parts.append(f"## {name}\n\n{purpose}\n\n{_table(model, list(model.model_fields))}\n")
    top = [name for name in config.Settings.model_fields if name not in by_name]
    parts.append(f"## Outside the sections\n\n{_table(config.Settings, top)}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(render())
