"""The page: one file without scripts or anything to load, in the reader's own colour scheme."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources

from loadgen.report import plots
from loadgen.report.figures import Result, figures, model, name
from loadgen.report.table import rows


def render(results: Sequence[Result]) -> str:
    """Return a page about one result, or about several side by side, the plots overlaid.

    Args:
        results: of `loadgen live` or `loadgen sim`, mixed as they come; a `name` in one is what it is called.
    Raises:
        ValueError: a result is of a kind or version that is not known.
    """
    for result in results:
        if result.get("duplex_result") != 1 or result.get("kind") not in ("live", "sim"):
            raise ValueError("not a result of loadgen of version 1")
    title = " against ".join(name(result) for result in results)
    style = resources.files("loadgen.report").joinpath("page.css").read_text(encoding="utf-8")
    body = [
        f"<h1>{escape(title)} {_badge(results[0]) if len(results) == 1 else ''}</h1>",
        *(_head(result, titled=len(results) > 1) for result in results),
        _tiles(results[0]) if len(results) == 1 else "",
        '<section class="plots">',
        *(f"<figure><figcaption>{escape(plot.title)}</figcaption>{plot.svg}</figure>" for plot in plots.plots(results)),
        "</section>",
        _table(rows(results), several=len(results) > 1),
        *(_steps(result) for result in results),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>{''.join(body)}</main></body></html>\n"
    )


def _badge(result: Result) -> str:
    if result["kind"] == "sim":
        return '<span class="badge">simulated</span>'
    double = result["server"]["model"].get("test_double")
    return '<span class="badge">test double: no model was measured</span>' if double else ""


def _head(result: Result, titled: bool) -> str:
    where = result.get("machine", {})
    slo = result["slo"]
    owed = f"{100 * slo['share']:g} % of turns with TTFAS ≤ {slo['ttfas_s']:g} s and no underrun over {1000 * slo['underrun_s']:g} ms"
    facts = [
        ("model", model(result)),
        ("trace", result["trace"]),
        ("SLO", owed),
        (
            "machine",
            f"{where.get('cores', '?')} cores of {where.get('cpu', '?')}, load {_load(where)}" if where else "",
        ),
        ("when", result.get("date", "")),
        ("command", result.get("command", "")),
    ]
    listed = "".join(f"<dt>{key}</dt><dd>{escape(str(value))}</dd>" for key, value in facts if value)
    warned = "".join(f'<p class="warning">{escape(warning)}</p>' for warning in result.get("warnings", ()))
    title = f"<h2>{escape(name(result))} {_badge(result)}</h2>" if titled else ""
    return f"<section>{title}<dl>{listed}</dl>{warned}</section>"


def _load(where: dict[str, object]) -> str:
    loads = where.get("load_average")
    return " ".join(map(str, loads)) if isinstance(loads, list) else "unknown"


def _tiles(result: Result) -> str:
    if result["kind"] == "sim":
        wanted = [figure for figure in figures(result) if figure.label.endswith(": goodput")]
    else:
        chosen = (
            "highest load in SLO", "turns within SLO", "TTFAS p50", "TTFAS p90", "underruns, longest", "stop latency p95",
            "server overhead p95",
        )  # fmt: skip
        wanted = [figure for figure in figures(result) if figure.label.startswith(chosen)]
    tiles = "".join(f"<div><b>{escape(figure.text)}</b><span>{escape(figure.label)}</span></div>" for figure in wanted)
    return f'<section class="tiles">{tiles}</section>'


def _table(listed: list[list[str]], several: bool) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in listed[0]) if several else ""
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>"
        for row in listed[1:]
    )
    kind = "scroll" if several else "columns"
    head = f"<thead><tr>{head}</tr></thead>" if several else ""
    return f'<section class="{kind}"><h2>Figures</h2><table>{head}<tbody>{body}</tbody></table></section>'


def _steps(result: Result) -> str:
    if not result.get("ramp"):
        return ""
    ramp = result["ramp"]
    body = "".join(
        f"<tr><th>{step['load']:g}</th><td>{step['verdict']['turns']}</td><td>{100 * step['verdict']['share']:.1f} %</td>"
        f"<td>{'held' if step['verdict']['holds'] else 'failed'}</td><td>{_misses(step['verdict']['misses'])}</td></tr>"
        for step in ramp["steps"]
    )
    head = f"<th>{escape(ramp['unit'].replace('_', ' '))}</th><th>turns</th><th>within SLO</th><th></th><th>misses</th>"
    return (
        f'<section class="scroll"><h2>Ramp: {escape(name(result))}</h2><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></section>"
    )


def _misses(by_reason: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(by_reason.items())) or "none"
