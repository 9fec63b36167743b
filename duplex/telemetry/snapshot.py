"""What the dashboard shows: the server at one moment, as `GET /v1/duplex/live` sends it.

`web_client/page/dashboard/snapshot.ts` mirrors these types field by field; a test compares the two. Times are in seconds
(`_s`) or milliseconds (`_ms`); a figure for which nothing was measured is null. Nothing here names a session, a tenant or
a word that was said.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

LaneMode = Literal["connecting", "listening", "hearing", "thinking", "speaking", "ducked", "held"]
"""What a session is doing: its client is not there yet, or as `duplex.session.view.Mode` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """A measure over the window."""

    n: int
    """Values in the window; the quantiles are null when 0."""
    p50: float | None
    """Seconds, as the others."""
    p90: float | None
    p95: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    name: str
    test_double: bool
    """It only stands in for a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsView:
    live: int
    max: int
    draining: bool
    """No new sessions are taken; the live ones may finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TtfasSplit:
    """The parts of the time to first audio, in the order in which they happen; they add up to it turn by turn."""

    endpointing: Quantiles
    """End of speech to the decision that the turn has ended."""
    transcribe: Quantiles
    think: Quantiles
    """To the end of the first clause's text."""
    talk: Quantiles
    vocode: Quantiles
    send: Quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class TtfasView:
    """End of the user's speech to the first audible sample, over the window."""

    sent: Quantiles
    """As it left the server."""
    heard: Quantiles
    """As the listener is estimated to hear it (WebRTC only)."""
    split: TtfasSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """One step of the history."""

    at_s: float
    """Unix time of its start."""
    ttfas_p50_s: float | None
    """Of what was sent."""
    ttfas_p90_s: float | None
    underruns: int
    barge_ins: int
    """Replies cut by the user's voice."""
    sessions: int
    """Most sessions that were live at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderrunsView:
    """Gaps inside replies, as they left the server."""

    window_n: int
    window_s: float
    """Their length together."""
    total_n: int
    """Since the server's start."""
    total_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BargeInView:
    """Interruptions over the window."""

    detect: Quantiles
    """Voice to the onset that lowers the reply."""
    confirm: Quantiles
    """Onset to the decision to cut."""
    egress: Quantiles
    """Decision to the next packet, which is the fade."""
    outcomes: dict[str, int]
    """Onsets over a reply by what they turned out to be (`confirmed`, `refused`, …), in the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneView:
    """One live session's output."""

    key: int
    """Names the session for as long as it lives, and gives no access to it."""
    mode: LaneMode
    transport: Literal["webrtc", "websocket"]
    lead_ms: int
    """Audio generated and not yet played."""
    target_ms: int | None
    """The lead at which generation pauses; null: as far ahead as the bound on unsent audio allows."""
    slack_ms: int | None
    """Until the listener runs dry if nothing more is made; negative: dry since; null: nothing sounds, or all of it is made."""
    epoch: int
    """Cuts of the lane so far."""
    age_s: float
    """Since the session began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    """One stage of the model."""

    name: str
    role: str
    device: str
    slots: int
    """Jobs it can compute at once."""
    queued: int
    """Jobs that wait for it at this moment."""
    queued_ms: int
    """Media in them."""
    running: int
    """Jobs it computes at this moment."""
    batch_mean: float | None
    """Jobs computed together while it computed, over the window."""
    step_ms: float
    """Measured time of one step."""
    busy: float
    """Share of the window in which it computed anything, 0..1."""
    queue_p95_s: float | None
    """Wait in its queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitView:
    """One thing that bounds how many sessions are taken."""

    name: str
    load: float
    """In the limit's own unit."""
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionView:
    """Sessions asked for, since the server's start."""

    admitted: int
    refused: dict[str, int]
    """By reason."""
    limits: list[LimitView]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopView:
    """The event loop over the window."""

    lag: Quantiles
    """How late it wakes."""
    lateness: Quantiles
    """How late audio packets leave."""
    overhead: Quantiles
    """The server's own share of a turn (duplex_server_overhead_seconds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The server at one moment."""

    seq: int
    """Grows from snapshot to snapshot; a gap means that this watcher read too slowly."""
    at_s: float
    """Unix time."""
    uptime_s: float
    version: str
    model: ModelView
    window_s: float
    """Length of the sliding window."""
    bucket_s: float
    """Length of one bucket of the history."""
    sessions: SessionsView
    ttfas: TtfasView
    history: list[Bucket]
    """Oldest first; the last one is still filling."""
    underruns: UnderrunsView
    barge_in: BargeInView
    lanes: list[LaneView]
    """Every live session, oldest first."""
    stages: list[StageView]
    """In the order of the graph."""
    admission: AdmissionView
    loop: LoopView
    invariants_broken: int
    """Since the server's start; stays 0."""
    stale_packets: int
    """Packets of an older epoch that left after a cut, since the server's start; stays 0."""


def to_json(snapshot: Snapshot) -> str:
    """Return the snapshot as one line of JSON."""
    return json.dumps(snapshot, default=_members, separators=(",", ":"))


def _members(value: Any) -> dict[str, Any]:
    if not is_dataclass(value):
        raise TypeError(f"not part of a snapshot: {type(value).__name__}")
    return {field.name: getattr(value, field.name) for field in fields(value)}
