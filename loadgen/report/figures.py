"""What of a result is shown as a number: one list for the text table and the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Result = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number of a result."""

    label: str
    value: float | str | None
    unit: str = ""
    """s, ms, % or nothing."""
    ci: tuple[float, float] | None = None
    """Confidence interval of the value."""

    @property
    def text(self) -> str:
        """The value with its unit; a dash for none."""
        if self.value is None:
            return "–"
        if isinstance(self.value, str):
            return self.value
        text = shown(self.value, self.unit)
        return text if self.ci is None else f"{text} [{shown(self.ci[0], '')}, {shown(self.ci[1], '')}]"


def shown(value: float, unit: str) -> str:
    """Return a number as it is read: seconds under 10 with three digits, whole counts whole."""
    if unit == "%":
        return f"{100 * value:.1f} %"
    if unit == "s":
        return f"{value:.3f} s" if abs(value) < 10 else f"{value:.1f} s"
    if unit == "ms":
        return f"{value:.1f} ms"
    number = f"{value:.0f}" if float(value).is_integer() else f"{value:.3g}"
    return f"{number} {unit}".strip()


def name(result: Result) -> str:
    """Return what a result is called in legends and columns: its file where it has one, else what was run."""
    if "name" in result:
        return str(result["name"])
    return f"{model(result)}, {result['trace']}"


def model(result: Result) -> str:
    """Return the model that was measured; a test double says so."""
    if result["kind"] == "sim":
        return f"simulated ({result['profile']})"
    served = result["server"]["model"]
    return f"{served['name']} (TEST DOUBLE)" if served.get("test_double") else str(served["name"])


def figures(result: Result) -> list[Figure]:
    """Return a result's figures in the order they are read."""
    return _sim(result) if result["kind"] == "sim" else _live(result)


def _live(result: Result) -> list[Figure]:
    of = result["aggregates"]
    ramp = result["ramp"]
    load = [] if ramp is None else [Figure(label=f"highest load in SLO ({ramp['unit']})", value=ramp["held"])]
    measures = result["server_measures"]
    overhead = measures.get("duplex_server_overhead_seconds", {}).get("p95")
    return [
        Figure(label="model", value=model(result)),
        Figure(label="trace", value=result["trace"]),
        *load,
        Figure(label="turns within SLO", value=of["slo"]["share"], unit="%"),
        *(
            Figure(label=f"turns {kind}", value=of["turns"][kind])
            for kind in ("answered", "unanswered", "refused", "lost")
        ),
        *(
            Figure(label=f"TTFAS {q}", value=of["ttfas_s"].get(q), unit="s")
            for q in ("p50", "p90", "p95", "p99", "max")
        ),
        Figure(label="underruns", value=of["underruns"]["n"]),
        Figure(label="underruns, total", value=of["underruns"]["s"], unit="s"),
        Figure(label="underruns, longest", value=of["underruns"]["longest_s"], unit="s"),
        Figure(label="interruptions", value=of["interruptions"]["n"]),
        Figure(label="interruptions that did not stop it", value=of["interruptions"]["not_stopped"]),
        Figure(label="stop latency p50", value=of["stop_s"].get("p50"), unit="s"),
        Figure(label="stop latency p95", value=of["stop_s"].get("p95"), unit="s"),
        Figure(label="stale audio", value=of["stale_s"], unit="s"),
        Figure(label="answer length p50", value=of["answer_s"].get("p50"), unit="s"),
        Figure(label="answers before the turn's end", value=of["early"]),
        Figure(label="sessions", value=of["sessions"]["n"]),
        Figure(label="sessions refused", value=of["sessions"].get("refused", 0)),
        Figure(label="refusal took, p95", value=of["refusal_s"].get("p95"), unit="s"),
        Figure(label="connect p50", value=of["connect_s"].get("p50"), unit="s"),
        Figure(label="jitter buffer p50", value=of["jitter_buffer_ms"].get("p50"), unit="ms"),
        Figure(label="server overhead p95", value=overhead, unit="s"),
        Figure(label="server processor time", value=measures.get("process_cpu_seconds"), unit="s"),
        Figure(label="generator's packets late, p99", value=result["generator"]["late_ms_p99"], unit="ms"),
    ]


_AT = {
    "ttfas_p50_s": "s", "ttfas_p90_s": "s", "ttfas_p95_s": "s", "underruns": "", "underrun_s": "s", "unheard_s": "s",
    "sessions": "", "refused": "",
}  # fmt: skip


def _sim(result: Result) -> list[Figure]:
    rows = [Figure(label="model", value=model(result)), Figure(label="trace", value=result["trace"])]
    for policy, of in result["policies"].items():
        if "goodput_rps" not in of:
            continue
        rows.append(_with_interval(f"{policy}: goodput", of, "goodput_rps", "sessions/s"))
        for share, at in of.get("at", {}).items():
            rows += [
                _with_interval(f"{policy} at {share}: {key.removesuffix('_s').replace('_', ' ')}", at, key, unit)
                for key, unit in _AT.items()
                if key in at
            ]
    return rows


def _with_interval(label: str, of: Result, key: str, unit: str) -> Figure:
    """Return a figure and its confidence interval, which stands beside it under `KEY_ci`."""
    low_high = of.get(f"{key}_ci")
    ci = (float(low_high[0]), float(low_high[1])) if low_high and None not in low_high else None
    return Figure(label=label, value=of[key], unit=unit, ci=ci)
