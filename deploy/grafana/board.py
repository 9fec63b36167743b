"""Write the Grafana board: `python deploy/grafana/board.py`.

The board is a list of questions; this file has each with its queries, and the JSON beside it is what Grafana reads. A
test holds the two together and every query to the server's own list of measures.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

DATASOURCE: Final = {"type": "prometheus", "uid": "duplex-prometheus"}
"""As provisioning/datasources/prometheus.yml names it."""
BOARD: Final = Path(__file__).parent / "dashboards" / "duplex.json"
_COLUMNS = 24
_HERE = 'instance=~"$instance"'
_RED_ABOVE_ZERO = {
    "mode": "absolute",
    "steps": [{"color": "green", "value": None}, {"color": "red", "value": 1e-9}],
}
_NO_THRESHOLD = {"mode": "absolute", "steps": [{"color": "text", "value": None}]}

Kind = Literal["stat", "timeseries", "heatmap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One question."""

    title: str
    kind: Kind
    queries: tuple[tuple[str, str], ...]
    """(PromQL, legend); `$__rate_interval` is Grafana's."""
    unit: str = "s"
    """Grafana's name of it."""
    width: int = 8
    """Of 24 columns."""
    about: str = ""
    stacked: bool = False
    zero: bool = False
    """Anything above 0 is an alarm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Panels under one heading, left to right."""

    title: str
    panels: tuple[Panel, ...]
    height: int = 8


def rate(measure: str, **labels: str) -> str:
    """Return the rate of a counter, or of a histogram's part, at this board's instances."""
    chosen = ",".join([_HERE, *(f'{name}="{value}"' for name, value in labels.items())])
    return f"rate({measure}{{{chosen}}}[$__rate_interval])"


def quantile(q: float, measure: str, by: str = "", **labels: str) -> str:
    """Return a quantile of a histogram over all instances, by one label."""
    kept = f"le, {by}" if by else "le"
    return f"histogram_quantile({q}, sum by ({kept}) ({rate(f'{measure}_bucket', **labels)}))"


def total(measure: str, by: str = "", **labels: str) -> str:
    """Return the rate of a counter over all instances, by some labels."""
    return f"sum{f' by ({by})' if by else ''} ({rate(measure, **labels)})"


def gauge(measure: str, how: str = "sum", by: str = "") -> str:
    """Return a gauge over all instances."""
    return f"{how}{f' by ({by})' if by else ''} ({measure}{{{_HERE}}})"


def heat(measure: str, **labels: str) -> str:
    """Return a histogram's buckets as a heatmap takes them."""
    return f"sum by (le) ({rate(f'{measure}_bucket', **labels).replace('rate(', 'increase(', 1)})"


_REPLIES = total("duplex_ttfas_seconds_count", observed="sent")
_ROWS: Final = (
    Row(
        title="Is it well?",
        height=4,
        panels=(
            Panel(title="Sessions", kind="stat", width=3, unit="none", queries=((gauge("duplex_sessions"), ""),)),
            Panel(
                title="TTFAS sent, p50", kind="stat", width=3,
                queries=((quantile(0.5, "duplex_ttfas_seconds", observed="sent"), ""),),
            ),
            Panel(
                title="TTFAS sent, p90", kind="stat", width=3,
                queries=((quantile(0.9, "duplex_ttfas_seconds", observed="sent"), ""),),
            ),
            Panel(
                title="TTFAS heard, p90", kind="stat", width=3,
                queries=((quantile(0.9, "duplex_ttfas_seconds", observed="heard"), ""),),
            ),
            Panel(
                title="Underruns per reply", kind="stat", width=3, unit="percentunit",
                queries=((f"{total('duplex_underruns_total', observed='sent')} / {_REPLIES}", ""),),
            ),
            Panel(
                title="Cut to fade, p95", kind="stat", width=3,
                queries=((quantile(0.95, "duplex_barge_in_seconds", part="egress"), ""),),
            ),
            Panel(
                title="Refused", kind="stat", width=3, unit="percentunit",
                # Without refusals there is no such series, and that is 0.
                queries=(
                    (f"({total('duplex_admission_total', decision='refused')} or vector(0)) / {total('duplex_admission_total')}", ""),
                ),
            ),
            Panel(
                title="Broken invariants", kind="stat", width=3, unit="none", zero=True,
                about="Broken invariants and stale packets since the servers' start. Stays 0.",
                queries=((f"{gauge('duplex_invariant_violations_total')} + {gauge('duplex_stale_packets_total')}", ""),),
            ),
        ),
    ),
    Row(
        title="Time to first audio",
        panels=(
            Panel(
                title="Percentiles", kind="timeseries",
                about="End of the user's speech to the first audible sample, as it left the server and as it was heard.",
                queries=tuple(
                    (quantile(q, "duplex_ttfas_seconds", observed=where), f"{where} p{round(q * 100)}")
                    for where in ("sent", "heard")
                    for q in (0.5, 0.9)
                ),
            ),
            Panel(
                title="Sent, all replies", kind="heatmap",
                queries=((heat("duplex_ttfas_seconds", observed="sent"), "{{le}}"),),
            ),
            Panel(
                title="Where it goes (mean by part)", kind="timeseries", stacked=True,
                about="The parts add up to the mean time to first audio as sent.",
                queries=((f"{total('duplex_ttfas_part_seconds_sum', 'part')} / {total('duplex_ttfas_part_seconds_count', 'part')}", "{{part}}"),),
            ),
            Panel(
                title="Endpointing", kind="timeseries",
                queries=((quantile(0.5, "duplex_endpointing_seconds"), "p50"), (quantile(0.9, "duplex_endpointing_seconds"), "p90")),
            ),
            Panel(
                title="The server's own share of a turn", kind="timeseries",
                queries=((quantile(0.5, "duplex_server_overhead_seconds"), "p50"), (quantile(0.95, "duplex_server_overhead_seconds"), "p95")),
            ),
            Panel(
                title="Turns held for their words, by outcome", kind="timeseries", unit="ops", stacked=True,
                about="ended: nothing more was said, and the answer came late for nothing.",
                queries=((total("duplex_turn_holds_total", "outcome"), "{{outcome}}"),),
            ),
            Panel(
                title="Speculative replies by outcome", kind="timeseries", unit="ops", stacked=True,
                queries=((total("duplex_speculation_total", "outcome"), "{{outcome}}"),),
            ),
            Panel(
                title="Prompts read ahead by outcome", kind="timeseries", unit="ops", stacked=True,
                queries=((total("duplex_prefill_total", "outcome"), "{{outcome}}"),),
            ),
            Panel(
                title="Camera frames read, by outcome", kind="timeseries", unit="ops", stacked=True,
                queries=((total("duplex_camera_readings_total", "outcome"), "{{outcome}}"),),
            ),
            Panel(
                title="Images in items read, by outcome", kind="timeseries", unit="ops", stacked=True,
                queries=((total("duplex_image_readings_total", "outcome"), "{{outcome}}"),),
            ),
        ),
    ),
    Row(
        title="Does anybody run dry?",
        panels=(
            Panel(
                title="Underruns", kind="timeseries", unit="ops",
                queries=((total("duplex_underruns_total", "observed"), "{{observed}}"),),
            ),
            Panel(
                title="Silence inside replies", kind="timeseries", unit="percentunit",
                about="Seconds of gaps per second, over all sessions.",
                queries=((total("duplex_underrun_seconds_total", "observed"), "{{observed}}"),),
            ),
            Panel(title="Lead over the listener", kind="heatmap", queries=((heat("duplex_lead_seconds"), "{{le}}"),)),
            Panel(
                title="Lead, p5 and p50", kind="timeseries",
                queries=((quantile(0.05, "duplex_lead_seconds"), "p5"), (quantile(0.5, "duplex_lead_seconds"), "p50")),
            ),
            Panel(
                title="Error bound of the playback front, p95", kind="timeseries",
                queries=((quantile(0.95, "duplex_playback_error_seconds"), "p95"),),
            ),
            Panel(
                title="Made and never heard", kind="timeseries", unit="none",
                about="Audio in seconds per second and tokens per second, lost to cuts.",
                queries=((total("duplex_unheard_audio_seconds_total"), "audio seconds"), (total("duplex_unheard_tokens_total"), "tokens")),
            ),
        ),
    ),
    Row(
        title="Replies and interruptions",
        panels=(
            Panel(
                title="Replies by how they ended", kind="timeseries", width=6, unit="ops", stacked=True,
                about="And function calls: made, or cut before they were complete.",
                queries=(
                    (total("duplex_replies_total", "status"), "{{status}}"),
                    (total("duplex_function_calls_total", "outcome"), "calls {{outcome}}"),
                ),
            ),
            Panel(
                title="Parts of a barge-in, p50", kind="timeseries", width=6,
                queries=((quantile(0.5, "duplex_barge_in_seconds", "part"), "{{part}}"),),
            ),
            Panel(
                title="Parts of a barge-in, p95", kind="timeseries", width=6,
                queries=((quantile(0.95, "duplex_barge_in_seconds", "part"), "{{part}}"),),
            ),
            Panel(
                title="Onsets over a reply by outcome", kind="timeseries", width=6, unit="ops", stacked=True,
                queries=((total("duplex_barge_in_total", "outcome"), "{{outcome}}"),),
            ),
        ),
    ),
    Row(
        title="Stages",
        panels=(
            Panel(
                title="Busy", kind="timeseries", unit="percentunit",
                about="Share of the time in which the stage computed.",
                queries=((f"avg by (stage) ({rate('duplex_stage_busy_seconds_total')})", "{{stage}}"),),
            ),
            Panel(
                title="Wait in the queue, p95", kind="timeseries",
                queries=((quantile(0.95, "duplex_stage_queue_seconds", "stage"), "{{stage}}"),),
            ),
            Panel(
                title="Compute, p95", kind="timeseries",
                queries=((quantile(0.95, "duplex_stage_compute_seconds", "stage"), "{{stage}}"),),
            ),
            Panel(
                title="Jobs waiting and running", kind="timeseries", unit="none",
                queries=(
                    (gauge("duplex_stage_queued_jobs", by="stage"), "{{stage}} waiting"),
                    (gauge("duplex_stage_running_jobs", by="stage"), "{{stage}} running"),
                ),
            ),
            Panel(
                title="Media waiting", kind="timeseries",
                queries=((gauge("duplex_stage_queued_media_seconds", by="stage"), "{{stage}}"),),
            ),
            Panel(
                title="Stages down, and started again", kind="timeseries", unit="none",
                about="A stage that hung, crashed or ran out of memory is replaced; until then new sessions are refused.",
                queries=(
                    (f"1 - {gauge('duplex_stage_up', by='stage')}", "{{stage}} down"),
                    (total("duplex_stage_restarts_total", "stage, reason"), "{{stage}}: {{reason}}"),
                ),
            ),
            Panel(
                title="Jobs computed together", kind="timeseries", unit="none",
                about="Mean size of a batch while the stage computes; an engine's jobs that run at the same time.",
                queries=((f"{total('duplex_stage_job_seconds_total', 'stage')} / {total('duplex_stage_busy_seconds_total', 'stage')}", "{{stage}}"),),
            ),
        ),
    ),
    Row(
        title="Admission",
        panels=(
            Panel(
                title="Sessions", kind="timeseries", unit="none",
                queries=(
                    (gauge("duplex_sessions"), "live"), (gauge("duplex_sessions_detached"), "of them waiting for their client"),
                    (gauge("duplex_sessions_max"), "at most"),
                ),
            ),
            Panel(
                title="Lost connections, by what came of them", kind="timeseries", unit="ops", stacked=True,
                queries=((total("duplex_resumes_total", "outcome"), "{{outcome}}"),),
            ),
            Panel(
                title="Events sent again after a lost connection", kind="timeseries", unit="ops",
                queries=(
                    (total("duplex_replayed_events_total"), "by us"),
                    (total("duplex_repeated_events_total"), "by clients, and ignored"),
                ),
            ),
            Panel(
                title="Events too large for a data channel", kind="timeseries", unit="ops",
                queries=((total("duplex_unsent_events_total"), "not sent, and told so"),),
            ),
            Panel(
                title="Unknown fields in client events", kind="timeseries", unit="ops",
                queries=((total("duplex_unknown_fields_total", "event"), "{{event}}"),),
            ),
            Panel(
                title="Asked for", kind="timeseries", unit="ops", stacked=True,
                queries=((total("duplex_admission_total", "decision, reason"), "{{decision}} {{reason}}"),),
            ),
            Panel(
                title="Bounds of conversations that were reached", kind="timeseries", unit="ops", stacked=True,
                queries=((total("duplex_limits_total", "limit"), "{{limit}}"),),
            ),
        ),
    ),
    Row(
        title="Process",
        panels=(
            Panel(
                title="The event loop wakes late", kind="timeseries", width=6,
                queries=((quantile(0.5, "duplex_event_loop_lag_seconds", "instance"), "p50 {{instance}}"), (quantile(0.95, "duplex_event_loop_lag_seconds", "instance"), "p95 {{instance}}")),
            ),
            Panel(
                title="Packets leave late", kind="timeseries", width=6,
                queries=((quantile(0.5, "duplex_send_lateness_seconds", "instance"), "p50 {{instance}}"), (quantile(0.95, "duplex_send_lateness_seconds", "instance"), "p95 {{instance}}")),
            ),
            Panel(
                title="CPU", kind="timeseries", width=4, unit="none", about="Cores in use.",
                queries=((rate("process_cpu_seconds_total"), "{{instance}}"),),
            ),
            Panel(
                title="Tasks and threads", kind="timeseries", width=4, unit="none", about="Flat when the sessions are.",
                queries=((f"duplex_event_loop_tasks{{{_HERE}}}", "tasks {{instance}}"), (f"duplex_threads{{{_HERE}}}", "threads {{instance}}")),
            ),
            Panel(
                title="Memory", kind="timeseries", width=4, unit="bytes",
                queries=((f"process_resident_memory_bytes{{{_HERE}}}", "{{instance}}"),),
            ),
            Panel(
                title="Broken invariants by name", kind="timeseries", unit="none", width=12, zero=True,
                queries=((gauge("duplex_invariant_violations_total", by="invariant"), "{{invariant}}"), (gauge("duplex_stale_packets_total"), "stale packets")),
            ),
            Panel(
                title="Sessions' records that have ended, by how", kind="timeseries", unit="ops", width=12, stacked=True,
                queries=((total("duplex_recordings_total", "outcome"), "{{outcome}}"),),
            ),
            Panel(
                title="Hand-over between stages", kind="timeseries", width=12,
                queries=((quantile(0.5, "duplex_transfer_seconds"), "p50"), (quantile(0.95, "duplex_transfer_seconds"), "p95")),
            ),
        ),
    ),
)  # fmt: skip


def board() -> dict[str, Any]:
    """Return the board as Grafana's JSON model."""
    panels: list[dict[str, Any]] = []
    y = 0
    for row in _ROWS:
        panels.append(_heading(row, y))
        y += 1
        x = 0
        for panel in row.panels:
            if x + panel.width > _COLUMNS:
                x, y = 0, y + row.height
            panels.append(_panel(panel, {"x": x, "y": y, "w": panel.width, "h": row.height}))
            x += panel.width
        y += row.height
    for number, made in enumerate(panels, 1):
        made["id"] = number
    return {
        "uid": "duplex",
        "title": "duplex",
        "description": "Live spoken conversations: latency, underruns, interruptions, stages, admission.",
        "tags": ["duplex"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": [_instances()]},
        "panels": panels,
    }


def _instances() -> dict[str, Any]:
    return {
        "name": "instance",
        "label": "Server",
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": "label_values(duplex_sessions, instance)", "refId": "instances"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _heading(row: Row, y: int) -> dict[str, Any]:
    place = {"x": 0, "y": y, "w": _COLUMNS, "h": 1}
    return {"type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "unit": panel.unit,
        "min": 0,
        "thresholds": _RED_ABOVE_ZERO if panel.zero else _NO_THRESHOLD,
        "color": {"mode": "thresholds" if panel.kind == "stat" else "palette-classic"},
    }
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "lineWidth": 1,
            "fillOpacity": 40 if panel.stacked else 0,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {} if panel.kind == "heatmap" else defaults, "overrides": []},
        "options": _options(panel),
        "targets": [_target(panel, index) for index in range(len(panel.queries))],
    }


def _target(panel: Panel, index: int) -> dict[str, Any]:
    query, legend = panel.queries[index]
    return {
        "refId": chr(ord("A") + index),
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": query,
        "legendFormat": legend,
        "format": "heatmap" if panel.kind == "heatmap" else "time_series",
        "range": panel.kind != "stat",
        "instant": panel.kind == "stat",
    }


def _options(panel: Panel) -> dict[str, Any]:
    match panel.kind:
        case "stat":
            calculated = {"calcs": ["lastNotNull"], "fields": "", "values": False}
            return {"reduceOptions": calculated, "colorMode": "value", "graphMode": "none", "textMode": "value"}
        case "heatmap":
            return {
                "calculate": False,
                "color": {"mode": "scheme", "scheme": "Purples", "steps": 32},
                "yAxis": {"unit": panel.unit, "axisPlacement": "left"},
                "rowsFrame": {"layout": "le"},
                "legend": {"show": False},
                "tooltip": {"mode": "single", "yHistogram": False},
            }
        case "timeseries":
            return {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": len(panel.queries) > 1 or "{{" in panel.queries[0][1]},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }  # fmt: skip


def main() -> None:
    """Write the board."""
    BOARD.write_text(json.dumps(board(), indent=2) + "\n")


if __name__ == "__main__":
    main()
