"""JSON as events are made of it: one object, finite numbers, no key twice, no endless nesting, encodable text.

Python's own reader takes NaN, infinity, repeated keys and half surrogate pairs; each of them would surface later, in a
place that does not know the client. Reading stays linear in the input's length, whatever it is. Source: RFC 8259;
field case C40.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from duplex.config import ServerSettings
from duplex.protocol import errors
from duplex.protocol.errors import RemoteProtocolError


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonBounds:
    """How much structure is taken; the settings `server.event_…` say what each bounds."""

    structured_chars_max: int
    commas_max: int
    brackets_max: int
    depth_max: int


def bounds_of(settings: ServerSettings) -> JsonBounds:
    """Return the bounds that a server is configured with."""
    return JsonBounds(
        structured_chars_max=settings.event_structured_chars_max,
        commas_max=settings.event_commas_max,
        brackets_max=settings.event_brackets_max,
        depth_max=settings.event_depth_max,
    )


DEFAULT = bounds_of(ServerSettings())


def read_object(text: str, bounds: JsonBounds) -> dict[str, Any]:
    """Read one JSON object.

    Args:
        text: any length; the caller's transport bounds it.
        bounds: of what is in it.
    Returns:
        The object, with nothing in it that JSON does not have.
    Raises:
        RemoteProtocolError: it is not such an object.
    """
    if len(text) > bounds.structured_chars_max:
        if text.count(",") > bounds.commas_max:
            raise RemoteProtocolError(
                errors.EVENT_TOO_LARGE,
                f"Only audio and images may make an event larger than {bounds.structured_chars_max} characters.",
            )
    elif text.count("[") + text.count("{") > bounds.brackets_max:
        raise RemoteProtocolError(errors.EVENT_TOO_LARGE, f"An event has at most {bounds.brackets_max} brackets.")
    try:
        value = _READER.decode(text)
    except RecursionError:
        raise _too_deep(bounds.depth_max) from None
    except ValueError as error:  # also an integer of thousands of digits
        reason = f"{error.msg} at character {error.pos}" if isinstance(error, json.JSONDecodeError) else "bad number"
        raise RemoteProtocolError(errors.INVALID_JSON, f"The event is not valid JSON: {reason}.") from None
    if not isinstance(value, dict):
        raise RemoteProtocolError(errors.INVALID_TYPE, f"An event is a JSON object, not {_json_name(value)}.")
    _check(value, bounds.depth_max)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise RemoteProtocolError(errors.DUPLICATE_KEY, "An object of the event has the same key twice.")
    return made


def _refuse_constant(name: str) -> Any:
    raise RemoteProtocolError(errors.INVALID_JSON, f"The event is not valid JSON: {name} is not a JSON number.")


_READER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)
"""`json.loads` would make one for each event."""


def _check(root: dict[str, Any], depth_max: int) -> None:
    """Walk the tree without recursion and refuse depth, infinities and text that UTF-8 cannot carry."""
    level: list[Any] = [root]
    for _ in range(depth_max):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value)
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
            elif isinstance(value, str):
                if not value.isascii() and not _encodable(value):
                    raise RemoteProtocolError(errors.INVALID_JSON, "A text of the event has half a surrogate pair.")
            elif isinstance(value, float) and not math.isfinite(value):
                raise RemoteProtocolError(errors.INVALID_JSON, "A number of the event is out of range.")
        if not below:
            return
        level = below
    raise _too_deep(depth_max)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _too_deep(depth_max: int) -> RemoteProtocolError:
    return RemoteProtocolError(errors.NESTING_TOO_DEEP, f"The event nests deeper than {depth_max} levels.")


def _json_name(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return "a string" if isinstance(value, str) else "an array"
