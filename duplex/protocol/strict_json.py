"""JSON as events are made of it: one object, finite numbers, no key twice, no endless nesting, encodable text.

Python's own reader takes NaN, infinity, repeated keys and half surrogate pairs; each of them would surface later, in a
place that does not know the client. Reading stays linear in the input's length, whatever it is. Source: RFC 8259;
field case C40.
"""

from __future__ import annotations

import json
import math
from typing import Any

from duplex.protocol import errors
from duplex.protocol.errors import RemoteProtocolError

DEPTH_MAX = 32
"""Deepest nesting of objects and arrays; the deepest known event has 6."""
STRUCTURED_CHARS_MAX = 1024 * 1024
"""Over this length an event may only be a long string (audio, an image) or a few of them, and short fields."""
_COMMAS_MAX = 64
"""In such an event. Values beside each other need commas; within each other they hit the bound on nesting."""
_BRACKETS_MAX = 10_000
"""In any other event: objects and arrays are what is slow to read."""


def read_object(text: str) -> dict[str, Any]:
    """Read one JSON object.

    Args:
        text: any length; the caller's transport bounds it.
    Returns:
        The object, with nothing in it that JSON does not have.
    Raises:
        RemoteProtocolError: it is not such an object.
    """
    if len(text) > STRUCTURED_CHARS_MAX:
        if text.count(",") > _COMMAS_MAX:
            raise RemoteProtocolError(
                errors.EVENT_TOO_LARGE,
                f"Only audio and images may make an event larger than {STRUCTURED_CHARS_MAX} characters.",
            )
    elif text.count("[") + text.count("{") > _BRACKETS_MAX:
        raise RemoteProtocolError(errors.EVENT_TOO_LARGE, f"An event has at most {_BRACKETS_MAX} brackets.")
    try:
        value = _READER.decode(text)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # also an integer of thousands of digits
        reason = f"{error.msg} at character {error.pos}" if isinstance(error, json.JSONDecodeError) else "bad number"
        raise RemoteProtocolError(errors.INVALID_JSON, f"The event is not valid JSON: {reason}.") from None
    if not isinstance(value, dict):
        raise RemoteProtocolError(errors.INVALID_TYPE, f"An event is a JSON object, not {_json_name(value)}.")
    _check(value)
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


def _check(root: dict[str, Any]) -> None:
    """Walk the tree without recursion and refuse depth, infinities and text that UTF-8 cannot carry."""
    level: list[Any] = [root]
    for _ in range(DEPTH_MAX):
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
    raise _too_deep()


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _too_deep() -> RemoteProtocolError:
    return RemoteProtocolError(errors.NESTING_TOO_DEEP, f"The event nests deeper than {DEPTH_MAX} levels.")


def _json_name(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return "a string" if isinstance(value, str) else "an array"
