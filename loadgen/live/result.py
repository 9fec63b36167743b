"""The result file of a run; `docs/loadgen.md` documents every field. `duplex_result` grows when a field changes its meaning."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duplex
from loadgen.live import stats
from loadgen.live.load import Climb
from loadgen.live.options import LiveOptions
from loadgen.live.run import Record
from loadgen.trace import Trace

RESULT_VERSION = 1
_LATE_MS_MAX = 10.0
"""Above it the load generator was too busy for its figures to be the server's."""


def result(record: Record, options: LiveOptions, trace: Trace, command: str) -> dict[str, Any]:
    """Return everything that was measured, as JSON."""
    own = stats.generator(record.pulses)
    return {
        "duplex_result": RESULT_VERSION,
        "kind": "live",
        "command": command,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": duplex.__version__,
        "machine": machine(),
        "trace": trace.header.name,
        "server": record.info,
        "options": options.to_json(),
        "slo": asdict(options.slo),
        "took_s": round(record.took_s, 1),
        "stopped": record.stopped,
        "generator": own,
        "warnings": _warnings(own, record),
        "aggregates": stats.aggregates(record.turns, record.sessions, options.slo),
        "ramp": None if record.climb is None else _ramp(record.climb),
        "server_measures": record.measures,
        "timeline": stats.timeline(record.turns, record.sessions, record.pulses),
        "turns": [_rounded(asdict(row)) for row in sorted(record.turns, key=lambda row: row.end_at_s)],
        "sessions": [_rounded(asdict(row)) for row in sorted(record.sessions, key=lambda row: row.began_at_s)],
    }


def machine() -> dict[str, Any]:
    """Return where this runs, and how busy that is."""
    return {
        "cpu": _cpu(), "cores": os.cpu_count(), "python": platform.python_version(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }  # fmt: skip


def _cpu() -> str:
    known = Path("/proc/cpuinfo")
    lines = known.read_text(encoding="utf-8").splitlines() if known.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()


def _ramp(climb: Climb) -> dict[str, Any]:
    return {"unit": climb.unit, "held": climb.held, "steps": [_rounded(asdict(step)) for step in climb.steps]}


def _warnings(own: dict[str, Any], record: Record) -> list[str]:
    said = []
    if own["late_ms_p99"] > _LATE_MS_MAX:
        said.append(
            f"the load generator's own packets left late (p99 {own['late_ms_p99']:g} ms): use more processes or cores; "
            "part of what is shown is its own"
        )
    if record.info.get("model", {}).get("test_double"):
        said.append("the model is a test double: these figures are the server's, not a model's")
    if any(row.levels is False for row in record.sessions):
        said.append("the server sends no audio levels (RFC 6464): pauses of a quiet voice may be counted as underruns")
    failed = [row for row in record.sessions if row.status == "failed"]
    if failed:
        said.append(f"{len(failed)} sessions did not come about; the first: {failed[0].reason}")
    return said


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return value
