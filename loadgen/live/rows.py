"""What a run notes down: one row per turn, one per session, and once a second what a process of talkers does.

Times are seconds; `_at_s` counts from the run's start. Rows are plain JSON objects between processes and in the result.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal


@dataclass(slots=True, kw_only=True)
class TurnRow:
    """One turn, as its speaker's ear had it."""

    session: str
    turn: int
    """From 0."""
    transport: str
    end_at_s: float
    """The intended end of its speech: the end of energy of what is said, on the schedule."""
    status: Literal["answered", "unanswered", "refused", "lost"] = "unanswered"
    """lost: the session broke before the answer; refused: the server took no session."""
    ttfas_s: float | None = None
    """Intended end of speech to the first audible sample as it plays; None when there was none, or it was early."""
    early: bool = False
    """The answer sounded before the turn had ended, and went on."""
    answer_s: float = 0.0
    """First to last audible sample."""
    underruns: int = 0
    """Gaps inside the answer: stretches of at least 20 ms for which nothing, or digital silence, came."""
    underrun_s: float = 0.0
    underrun_s_max: float = 0.0
    """The longest of them."""
    concealed_s: float = 0.0
    """Of the answer, what the network lost and the ear made up."""
    interrupted: bool = False
    """The speaker began the next turn over it."""
    stop_s: float | None = None
    """Onset of the interrupting voice to the last audible sample of this answer; None: not interrupted, or it went on."""
    stale_s: float = 0.0
    """Audible audio of the cut answer after it had stopped."""
    restarts: int = 0
    """Answers that were begun and cut again before the turn had ended."""
    split: dict[str, float] = field(default_factory=dict)
    """The server's own word on where the time went (`duplex.metrics`); empty where it says nothing."""
    done_at_s: float = 0.0
    """When all of this was known."""


@dataclass(slots=True, kw_only=True)
class SessionRow:
    """One session."""

    session: str
    transport: str
    began_at_s: float
    ended_at_s: float
    status: Literal["ended", "stopped", "refused", "failed", "lost"]
    """stopped: by the run's end. failed: it never came about. lost: it broke while it lived."""
    reason: str = ""
    connect_s: float | None = None
    """Dialling until media flowed."""
    refusal_s: float | None = None
    """Request to refusal."""
    retry_after_s: float | None = None
    turns: int = 0
    """Turns spoken, or that would have been."""
    lost: int = 0
    """Packets that never came to be played."""
    late: int = 0
    """Of them, packets that came after their time."""
    depth_ms: float | None = None
    """Mean wait in the ear's jitter buffer."""
    levels: bool | None = None
    """The server sends audio levels (RFC 6464), by which its silence is told exactly; None over WebSocket."""


@dataclass(slots=True, kw_only=True)
class Pulse:
    """A process of talkers, once a second."""

    process: int
    at_s: float
    live: int
    """Sessions connected."""
    cpu: float
    """Cores used since the last one."""
    late_ms_p50: float
    late_ms_p99: float
    """How late its packets left. A generator that is late measures itself."""


Row = TurnRow | SessionRow | Pulse
_KINDS: dict[str, type[TurnRow] | type[SessionRow] | type[Pulse]] = {
    "turn": TurnRow, "session": SessionRow, "pulse": Pulse,
}  # fmt: skip


def to_json(row: Row) -> dict[str, Any]:
    """Return the row with its kind, as it goes between processes."""
    kind = next(name for name, cls in _KINDS.items() if type(row) is cls)
    return {"kind": kind, **asdict(row)}


def from_json(value: dict[str, Any]) -> Row:
    """Return the row of `to_json`."""
    fields = dict(value)
    return _KINDS[fields.pop("kind")](**fields)
