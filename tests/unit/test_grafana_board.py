"""The Grafana board and the Prometheus rules ask only for what the server measures, in queries that parse."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from duplex.telemetry import MEASURES

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
GRAFANA = ROOT / "deploy" / "grafana"
PROMETHEUS = ROOT / "deploy" / "prometheus"
_OF_PROMETHEUS = {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}
"""Measures that are not ours: Prometheus's own, and those of the process."""
_EVERYWHERE = {"instance", "job"}


def _board() -> dict[str, Any]:
    return dict(json.loads((GRAFANA / "dashboards" / "duplex.json").read_text()))


def _panels() -> list[dict[str, Any]]:
    return [panel for panel in _board()["panels"] if panel["type"] != "row"]


def _rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((PROMETHEUS / "rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _queries() -> list[str]:
    of_board = [target["expr"] for panel in _panels() for target in panel["targets"]]
    return [query.replace("$__rate_interval", "1m") for query in of_board] + [rule["expr"] for rule in _rules()]


def _parts(expression: Any) -> Iterator[Any]:
    yield expression
    children = [getattr(expression, name, None) for name in ("expr", "lhs", "rhs", "vector_selector")]
    for child in [*children, *(getattr(expression, "args", None) or [])]:
        if isinstance(child, promql_parser.Expr):
            yield from _parts(child)


def _labels_of(series: str) -> set[str]:
    """The labels of a series that the server exposes; fails if it exposes none of this name."""
    if series in _OF_PROMETHEUS:
        return _EVERYWHERE
    if series in MEASURES:
        assert MEASURES[series].kind != "histogram", f"{series}: a histogram is asked for by bucket, sum or count"
        return {*MEASURES[series].labels, *_EVERYWHERE}
    name, _, ending = series.rpartition("_")
    assert name in MEASURES, f"{series}: not a measure of the server"
    assert MEASURES[name].kind == "histogram", f"{series}: not a histogram"
    assert ending in {"bucket", "sum", "count"}, series
    return {*MEASURES[name].labels, *_EVERYWHERE, *({"le"} if ending == "bucket" else ())}


@pytest.mark.parametrize("query", _queries())
def test_every_query_asks_for_measures_and_labels_that_there_are(query: str) -> None:
    parts = list(_parts(promql_parser.parse(query)))
    selectors = [part for part in parts if isinstance(part, promql_parser.VectorSelector)]
    assert selectors, "it asks for something"
    known: set[str] = set()
    for selector in selectors:
        labels = _labels_of(selector.name)
        known |= labels
        asked = {matcher.name for matcher in selector.matchers.matchers}
        assert asked <= labels, f"{selector.name} has no label {asked - labels}"
    for part in parts:
        modifier = getattr(part, "modifier", None)
        grouping = getattr(modifier, "labels", None)
        if isinstance(part, promql_parser.AggregateExpr) and grouping:
            assert set(grouping) <= known, f"grouped by {set(grouping) - known}, which no series has"


@pytest.mark.parametrize("query", _queries())
def test_counters_are_asked_for_their_growth_and_gauges_for_their_value(query: str) -> None:
    parts = list(_parts(promql_parser.parse(query)))
    grows = {"rate", "increase"}
    inside = {
        part.name
        for call in parts
        if isinstance(call, promql_parser.Call) and call.func.name in grows
        for part in _parts(call)
        if isinstance(part, promql_parser.VectorSelector)
    }
    for name in inside:
        kind = MEASURES[name].kind if name in MEASURES else "histogram"
        assert kind != "gauge", f"{name} is a gauge: its rate says nothing"


def test_the_board_is_what_its_source_makes() -> None:
    assert _board() == runpy.run_path(str(GRAFANA / "board.py"))["board"](), "run: python deploy/grafana/board.py"


def test_the_board_asks_about_every_measure() -> None:
    text = " ".join(_queries())
    assert [name for name in MEASURES if name not in text] == []


def test_every_panel_uses_the_provisioned_datasource() -> None:
    (source,) = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text())["datasources"]
    used = [panel["datasource"] for panel in _panels()]
    used += [target["datasource"] for panel in _panels() for target in panel["targets"]]
    used += [variable["datasource"] for variable in _board()["templating"]["list"]]
    assert all(place == {"type": source["type"], "uid": source["uid"]} for place in used)


def test_panels_have_their_own_places() -> None:
    board = _board()
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies over another panel"
        taken |= cells


def test_what_stays_0_has_an_alert_of_highest_severity() -> None:
    critical = " ".join(rule["expr"] for rule in _rules() if rule["labels"]["severity"] == "critical")
    for name, measure in MEASURES.items():
        if "stays 0" in measure.help:
            assert name in critical


def test_compose_mounts_what_the_files_name() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for name in ("prometheus", "grafana"):
        service = services[name]
        assert service["profiles"] == ["monitoring"]
        image, _, tag = service["image"].rpartition(":")
        assert image, "an image and its version"
        assert tag.lstrip("v")[0].isdigit(), "pinned by version"
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert not source.startswith(".") or (ROOT / source).is_dir(), source
    (provider,) = yaml.safe_load((GRAFANA / "provisioning" / "dashboards" / "duplex.yml").read_text())["providers"]
    mounts = dict(volume.split(":")[:2] for volume in services["grafana"]["volumes"])
    assert mounts["./deploy/grafana/dashboards"] == provider["options"]["path"]
    assert "--web.listen-address=127.0.0.1:9090" in services["prometheus"]["command"]
    assert services["grafana"]["environment"]["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_the_rules_alert_when_they_should() -> None:
    subprocess.run(["promtool", "test", "rules", "rules_test.yml"], cwd=PROMETHEUS, check=True, capture_output=True)
