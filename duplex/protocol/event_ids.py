"""Ids of server events: the number of the event, and whose it is.

event_000000000042_sess_0a1b…        numbers of one session begin with 1 and have no holes
"""

from __future__ import annotations

import re

_FORM = re.compile(r"event_([0-9]{12})_(.+)", re.ASCII)


def event_id_of(sequence: int, session_id: str) -> str:
    """Return the id of a session's event."""
    return f"event_{sequence:012d}_{session_id}"


def sequence_of(event_id: str, session_id: str) -> int | None:
    """Return the number in an id; None if it is no id of this session's."""
    found = _FORM.fullmatch(event_id)
    return int(found.group(1)) if found is not None and found.group(2) == session_id else None
