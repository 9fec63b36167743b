"""Which plots a report has: one list for a single result and for several overlaid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.report import svg
from loadgen.report.figures import Result, name

_COLOURS = 8
_PERCENTS = (*range(0, 100, 2), 99, 99.5, 100)
_BIN_S = 10.0
_HEARING = "network and ear"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot and what it shows."""

    title: str
    svg: str


def plots(results: Sequence[Result]) -> list[Plot]:
    """Return the plots for which there is anything to show."""
    live = [result for result in results if result["kind"] == "live"]
    sim = [result for result in results if result["kind"] == "sim"]
    made = [*_goodput(results), *_live(live), *_sim(sim)]
    return [plot for plot in made if plot.svg]


def _goodput(results: Sequence[Result]) -> list[Plot]:
    """Share of turns in the SLO against load: of a ramp, or of the simulator's sweep."""
    made = []
    for unit, label in (("talkers", "concurrent talkers"), ("sessions_per_s", "sessions per second")):
        series: list[svg.Series] = []
        for result in results:
            for what, points in _load_curves(result, unit):
                series.append(svg.Series(name=what, points=points, colour=len(series) % _COLOURS, dots=True))
        if series:
            share = results[0]["slo"]["share"]
            axes = svg.Axes(
                x=label, y="turns within SLO, %", limit=100 * share, limit_name=f"owed: {100 * share:g} %", y_max=100
            )
            title = "Turns within the SLO against load"
            if len(series) == 1 and len(results) > 1:
                title += f": {series[0].name}"
            made.append(Plot(title=title, svg=svg.lines(series, axes)))
    return made


def _load_curves(result: Result, unit: str) -> list[tuple[str, list[svg.Point]]]:
    if result["kind"] == "sim":
        if unit != "sessions_per_s":
            return []
        return [
            (policy, [(point["rps"], 100 * point["share"]) for point in of["curve"]])
            for policy, of in result["policies"].items()
        ]
    ramp = result["ramp"]
    if not ramp or ramp["unit"] != unit:
        return []
    by_load: dict[float, list[float]] = {}
    for step in ramp["steps"]:
        by_load.setdefault(step["load"], []).append(step["verdict"]["share"])
    return [(name(result), [(at, 100 * max(shares)) for at, shares in sorted(by_load.items())])]


def _live(results: Sequence[Result]) -> list[Plot]:
    if not results:
        return []
    slo = results[0]["slo"]
    owed = svg.Axes(
        x="percentile of turns",
        y="seconds",
        limit=slo["ttfas_s"],
        limit_name=f"SLO {slo['ttfas_s']:g} s",
        x_range=(0, 100),
    )
    ttfas = _curves(results, lambda result: [row["ttfas_s"] for row in result["turns"]])
    stop = _curves(results, lambda result: [row["stop_s"] for row in result["turns"]])
    over = (0.0, max(result["took_s"] for result in results))
    made = [
        Plot(title="Time to first audio, heard, by percentile", svg=svg.lines(ttfas, owed)),
        Plot(title="Time to first audio over the run (last 10 s)", svg=_ttfas_over_time(results, over)),
        *(
            Plot(title=_titled("Where the time to first audio went", result, results), svg=_split(result))
            for result in results
        ),
        Plot(
            title="Talkers connected",
            svg=svg.lines(_over_time(results, "live"), svg.Axes(x="seconds", y="talkers", x_range=over)),
        ),
        Plot(title="Underruns: silence inside answers", svg=_underruns(results, over)),
        Plot(
            title="Interruption to silence, by percentile",
            svg=svg.lines(stop, svg.Axes(x="percentile of interruptions", y="seconds", x_range=(0, 100))),
        ),
    ]
    return made


def _titled(title: str, result: Result, results: Sequence[Result]) -> str:
    return title if len(results) == 1 else f"{title}: {name(result)}"


def _curves(results: Sequence[Result], values: Callable[[Result], list[float | None]]) -> list[svg.Series]:
    series = []
    for number, result in enumerate(results):
        known = [value for value in values(result) if value is not None]
        points = [(p, float(np.percentile(known, p))) for p in _PERCENTS] if known else []
        series.append(svg.Series(name=name(result), points=points, colour=number % _COLOURS))
    return series


def _over_time(results: Sequence[Result], key: str) -> list[svg.Series]:
    series = []
    for number, result in enumerate(results):
        points = [(second["t_s"], second[key]) for second in result["timeline"] if second[key] is not None]
        series.append(svg.Series(name=name(result), points=points, colour=number % _COLOURS))
    return series


def _underruns(results: Sequence[Result], over: tuple[float, float]) -> str:
    if not any(result["aggregates"]["underruns"]["n"] for result in results):
        return '<p class="none">None in this run.</p>'
    return svg.bars(_over_time(results, "underrun_s"), svg.Axes(x="seconds", y="seconds of underrun", x_range=over))


def _ttfas_over_time(results: Sequence[Result], over: tuple[float, float]) -> str:
    series = []
    for number, result in enumerate(results):
        for key, label in (("recent_p50_s", "p50"), ("recent_p90_s", "p90")):
            points = [(second["t_s"], second[key]) for second in result["timeline"] if second[key] is not None]
            named = label if len(results) == 1 else f"{name(result)} {label}"
            series.append(svg.Series(name=named, points=points, colour=number % _COLOURS, dashed=label == "p50"))
    slo = results[0]["slo"]["ttfas_s"]
    return svg.lines(series, svg.Axes(x="seconds", y="seconds", limit=slo, limit_name=f"SLO {slo:g} s", x_range=over))


def _split(result: Result) -> str:
    """Stacked means of the server's own split in bins of the run; what is left of the heard time is network and ear."""
    bins: dict[float, list[dict[str, float]]] = {}
    for row in result["turns"]:
        if row["split"] and row["ttfas_s"] is not None:
            bins.setdefault(row["end_at_s"] // _BIN_S * _BIN_S, []).append(_parts(row))
    if not bins:
        return ""
    parts = list(dict.fromkeys(part for rows in bins.values() for row in rows for part in row))
    series = [
        svg.Series(
            name=part,
            points=[(at, float(np.mean([row.get(part, 0.0) for row in rows]))) for at, rows in sorted(bins.items())],
            colour=number % _COLOURS,
        )
        for number, part in enumerate(parts)
    ]
    return svg.stacked(series, svg.Axes(x="seconds", y="mean seconds"))


def _parts(row: Result) -> dict[str, float]:
    split = {part: float(value) for part, value in row["split"].items() if part != "ttfas"}
    return split | {_HEARING: max(row["ttfas_s"] - sum(split.values()), 0.0)}


def _sim(results: Sequence[Result]) -> list[Plot]:
    series: list[svg.Series] = []
    for result in results:
        for policy, of in result["policies"].items():
            points = [
                (point["rps"], point["ttfas_p90_s"]) for point in of["curve"] if point.get("ttfas_p90_s") is not None
            ]
            label = policy if len(results) == 1 else f"{name(result)}: {policy}"
            series.append(svg.Series(name=label, points=points, colour=len(series) % _COLOURS, dots=True))
    if not series:
        return []
    slo = results[0]["slo"]["ttfas_s"]
    axes = svg.Axes(x="sessions per second", y="TTFAS p90, s", limit=slo, limit_name=f"SLO {slo:g} s", y_max=4 * slo)
    return [
        Plot(title="Time to first audio (p90) against load, cut off at four times the SLO", svg=svg.lines(series, axes))
    ]
