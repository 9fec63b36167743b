"""What rows come to: aggregates and a time line. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from loadgen.live import load
from loadgen.live.options import Slo
from loadgen.live.rows import Pulse, SessionRow, TurnRow

_PERCENTS = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}
_RECENT_S = 10.0
"""Of the time line's moving percentiles."""


def spread(values: Iterable[float | None]) -> dict[str, float]:
    """Return n, p50, p90, p95, p99 and max; only n for no values. None is left out."""
    known = np.asarray([value for value in values if value is not None], dtype=float)
    if not len(known):
        return {"n": 0}
    cut = {name: round(float(np.percentile(known, percent)), 4) for name, percent in _PERCENTS.items()}
    return {"n": len(known), **cut, "max": round(float(known.max()), 4)}


def aggregates(turns: Sequence[TurnRow], sessions: Sequence[SessionRow], slo: Slo) -> dict[str, Any]:
    """Return the figures of a run; see docs/loadgen.md for each."""
    answered = [row for row in turns if row.status == "answered"]
    stopped = [row for row in answered if row.interrupted]
    judged = load.verdict(turns, slo)
    status = Counter(row.status for row in turns)
    ended = Counter(row.status for row in sessions)
    return {
        "turns": {"n": len(turns), **{name: status[name] for name in ("answered", "unanswered", "refused", "lost")}},
        "early": sum(row.early for row in answered),
        "restarts": sum(row.restarts for row in turns),
        "slo": {"share": round(judged.share, 4), "holds": judged.holds, "misses": judged.misses},
        "ttfas_s": spread(row.ttfas_s for row in answered),
        "answer_s": spread(row.answer_s for row in answered),
        "underruns": {
            "n": sum(row.underruns for row in answered),
            "s": round(sum(row.underrun_s for row in answered), 4),
            "longest_s": round(max((row.underrun_s_max for row in answered), default=0.0), 4),
            "turns": sum(row.underrun_s_max > slo.underrun_s for row in answered),
        },
        "concealed_s": round(sum(row.concealed_s for row in answered), 4),
        "stop_s": spread(row.stop_s for row in stopped),
        "interruptions": {"n": len(stopped), "not_stopped": sum(row.stop_s is None for row in stopped)},
        "stale_s": round(sum(row.stale_s for row in turns), 4),
        "sessions": {"n": len(sessions), **dict(sorted(ended.items()))},
        "connect_s": spread(row.connect_s for row in sessions),
        "refusal_s": spread(row.refusal_s for row in sessions),
        "retry_after_s": spread(row.retry_after_s for row in sessions),
        "jitter_buffer_ms": spread(row.depth_ms for row in sessions),
        "packets_lost": sum(row.lost for row in sessions),
        "packets_late": sum(row.late for row in sessions),
    }


def generator(pulses: Sequence[Pulse]) -> dict[str, Any]:
    """Return how the load generator itself did: a late one measures itself."""
    by_process: dict[int, list[Pulse]] = {}
    for pulse in pulses:
        by_process.setdefault(pulse.process, []).append(pulse)
    busy = [pulse for pulse in pulses if pulse.live]
    live_s = sum(pulse.live for pulse in busy)
    return {
        "processes": len(by_process),
        "cpu_max": round(max((pulse.cpu for pulse in busy), default=0.0), 3),
        "cpu_us_per_session_s": round(1e6 * sum(pulse.cpu for pulse in busy) / live_s) if live_s else None,
        "late_ms_p50": max((pulse.late_ms_p50 for pulse in busy), default=0.0),
        "late_ms_p99": float(np.percentile([pulse.late_ms_p99 for pulse in busy], 95)) if busy else 0.0,
        "late_ms_worst": max((pulse.late_ms_p99 for pulse in busy), default=0.0),
    }


def timeline(turns: Sequence[TurnRow], sessions: Sequence[SessionRow], pulses: Sequence[Pulse]) -> list[dict[str, Any]]:
    """Return one object per second of the run."""
    ends = [row.done_at_s for row in turns] + [row.ended_at_s for row in sessions] + [pulse.at_s for pulse in pulses]
    ordered = sorted(turns, key=lambda row: row.done_at_s)
    seconds = []
    so_far: list[float] = []
    recent: list[tuple[float, float]] = []
    at = 0
    for second in range(int(max(ends, default=0.0)) + 1):
        fresh: list[TurnRow] = []
        while at < len(ordered) and ordered[at].done_at_s < second + 1:
            fresh.append(ordered[at])
            at += 1
        heard = [row.ttfas_s for row in fresh if row.ttfas_s is not None]
        so_far += heard
        recent = [(then, value) for then, value in recent if then > second - _RECENT_S] + [(second, v) for v in heard]
        seconds.append(
            {
                "t_s": second,
                "live": _live(pulses, second),
                "ttfas_p50_s": _at(so_far, 50),
                "ttfas_p90_s": _at(so_far, 90),
                "recent_p50_s": _at([value for _, value in recent], 50),
                "recent_p90_s": _at([value for _, value in recent], 90),
                "underruns": sum(row.underruns for row in fresh),
                "underrun_s": round(sum(row.underrun_s for row in fresh), 4),
                "missed": sum(row.status != "answered" for row in fresh),
            }
        )
    return seconds


def _live(pulses: Sequence[Pulse], second: int) -> int | None:
    newest: dict[int, int] = {}
    for pulse in pulses:
        if second <= pulse.at_s < second + 1:
            newest[pulse.process] = pulse.live
    return sum(newest.values()) if newest else None


def _at(values: Sequence[float], percent: float) -> float | None:
    return round(float(np.percentile(np.asarray(values), percent)), 4) if values else None
