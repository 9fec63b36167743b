"""The lifecycles of docs/protocol.md, to be compared with what is really sent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from duplex.protocol import TransportName

_PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
_LABELS = {"webrtc": "WebRTC", "websocket": "WebSocket"}
_PERHAPS = (
    "while the user speaks", "the rest of the words", "when the first sound has left", "only with duplex.resume",
)  # fmt: skip
"""Notes of steps that do not always come."""


def holds(title: str, rows: Sequence[str], transport: TransportName) -> bool:
    """Return whether a lifecycle, as it is documented, is an unbroken run of a table's rows.

    Args:
        title: over the lifecycle in docs/protocol.md.
        rows: of a `story`'s table.
        transport: on which they came.
    """
    steps = _PAGE.read_text().partition(f"### {title}\n\n```\n")[2].partition("\n```")[0]
    assert steps, f"docs/protocol.md has no lifecycle {title}"
    return re.search(_pattern(steps, transport), "".join(f"{_kind(row)};" for row in rows)) is not None


def _kind(row: str) -> str:
    """Return a row's type of event, with the mark of a client's."""
    mark = "> " if row.startswith("> ") else ""
    return mark + row.removeprefix(mark).split(" ")[0]


def _pattern(steps: str, transport: TransportName) -> str:
    """Return what finds the steps in types of events that end with a semicolon each."""
    found = ""
    for line in steps.splitlines():
        step, note = [*re.split(r" {2,}", line, maxsplit=1), ""][:2]
        if note.startswith(_LABELS["websocket" if transport == "webrtc" else "webrtc"]):
            continue
        here = "".join(_step(each, note) for each in step.split(", "))
        found += f"(?:{here})?" if note in _PERHAPS else here
    return found


def _step(step: str, note: str) -> str:
    """Return what finds one type, a run of it, or all from one type to another."""
    first, more, last = (re.escape(part.strip()) for part in step.partition(" …"))
    if not more:
        return f"{first};"
    if last or note == "as above":
        return f"{first};(?:[^;]+;)*" + (f"{last};" if last else "")
    return f"(?:{first};)+"
