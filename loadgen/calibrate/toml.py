"""A profile as a TOML file: `loadgen.sim.profile.load` reads what this writes. Pure."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from loadgen.sim.profile import Profile


def render(profile: Profile, heading: str) -> str:
    """Return the file's text: what has its default is left out.

    Args:
        heading: lines of comment above it, without `#`.
    """
    value = profile.model_dump(exclude_defaults=True)
    lines = [f"# {line}".rstrip() for line in heading.splitlines()]
    lines += [f"{key} = {_text(each)}" for key, each in value.items() if not isinstance(each, dict)]
    for section, content in value.items():
        if isinstance(content, dict):
            lines += ["", f"[{section}]", *_body(content, getattr(profile, section))]
    return "\n".join(lines) + "\n"


def _body(content: dict[str, Any], section: BaseModel | dict[str, int]) -> list[str]:
    names = list(type(section).model_fields) if isinstance(section, BaseModel) else list(content)
    return [f"{name} = {_text(content[name])}" for name in names if name in content]


def _text(value: Any) -> str:
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {_text(each)}" for key, each in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(map(_text, value)) + "]"
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return f"{value:g}" if isinstance(value, float) else str(value)
