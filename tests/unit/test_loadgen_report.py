"""Reports: pages that need nothing else, tables that say the difference, plots whose marks are where they belong."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from loadgen import report
from loadgen.cli import main
from loadgen.live.load import Climb, Step, Verdict
from loadgen.live.options import LiveOptions, Ramp
from loadgen.live.result import result
from loadgen.live.rows import Pulse, SessionRow, TurnRow
from loadgen.live.run import Record
from loadgen.report import svg
from loadgen.trace import read

pytestmark = pytest.mark.unit


def live(ttfas_s: float = 0.5, double: bool = True, ramp: bool = False) -> dict[str, Any]:
    """A result of a run of forty turns."""
    record = Record(info={"model": {"name": "sim", "test_double": double, "notice": ""}, "version": "1"}, took_s=40.0)
    for n in range(40):
        record.turns.append(
            TurnRow(
                session="s", turn=n, transport="webrtc", end_at_s=n, status="answered", ttfas_s=ttfas_s + n / 1000, done_at_s=n + 0.9,
                underruns=n % 2, underrun_s=0.05 * (n % 2), stop_s=0.4 if n % 5 == 0 else None, interrupted=n % 5 == 0,
                split={"think": 0.1, "talk": 0.1, "ttfas": 0.2},
            )
        )  # fmt: skip
        record.pulses.append(Pulse(process=0, at_s=n + 0.5, live=3, cpu=0.1, late_ms_p50=1.0, late_ms_p99=2.0))
    record.sessions.append(SessionRow(session="s", transport="webrtc", began_at_s=0, ended_at_s=40, status="ended"))
    if ramp:
        record.climb = Climb(ramp=Ramp(), load=10, unit="talkers")
        for share in (1.0, 0.5, 0.4):
            verdict = Verdict(turns=50, share=share, holds=share >= 0.9, misses={} if share == 1 else {"late": 3})
            record.climb.take(Step(load=record.climb.load, from_s=0, to_s=1, verdict=verdict))
    return json.loads(
        json.dumps(result(record, LiveOptions(url="http://x"), read(Path("busy")), "loadgen live <busy>"))
    )


def sim() -> dict[str, Any]:
    curve = [{"rps": n / 10, "share": 1 - n / 50, "ttfas_p90_s": n / 20} for n in range(10)]
    of = {
        "goodput_rps": 1.5,
        "goodput_rps_ci": [1.4, 1.6],
        "curve": curve,
        "at": {"0.5": {"ttfas_p50_s": 0.3, "ttfas_p50_s_ci": [0.2, 0.4]}},
    }
    return {
        "duplex_result": 1, "kind": "sim", "trace": "busy", "profile": "large",
        "slo": {"ttfas_s": 1.0, "underrun_s": 0.1, "share": 0.9}, "policies": {"fcfs": of, "listener": of},
    }  # fmt: skip


class _Page(HTMLParser):
    """Checks that elements close in order, and keeps what they refer to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for key, value in attrs if key in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for key, value in attrs if key in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize(
    "results", [[live()], [live(ramp=True)], [sim()], [live(), live(0.7, ramp=True)], [live(), sim()]]
)
def test_a_page_is_whole_and_needs_nothing_else(results: list[dict[str, Any]]) -> None:
    text = report.render(results)
    page = _Page(text)
    assert page.open == []
    assert page.links == []
    assert not re.search(r"<script|@import|url\(", text)
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(drawing)


def test_a_test_double_is_never_taken_for_a_model() -> None:
    assert "TEST DOUBLE" in report.render([live()])
    assert "TEST DOUBLE" in report.table([live()])
    assert "TEST DOUBLE" not in report.render([live(double=False)])


def test_what_was_typed_is_shown_and_not_run() -> None:
    page = report.render([live()])
    assert "&lt;busy&gt;" in page
    assert "<busy>" not in page


def test_a_page_has_its_plots_and_a_ramp_its_steps() -> None:
    alone = report.render([live()])
    assert alone.count("<figure>") == 6
    assert "Turns within the SLO" not in alone
    ramped = report.render([live(ramp=True)])
    assert ramped.count("<figure>") == 7
    assert "<td>failed</td><td>3 late</td>" in ramped


def test_compare_says_the_difference() -> None:
    fast, slow = live(0.5) | {"name": "fast"}, live(0.75) | {"name": "slow"}
    rows = {line.split("  ")[0]: line for line in report.table([fast, slow]).splitlines()}
    assert "+0.250 s (+48 %)" in rows["TTFAS p50"]
    assert rows["turns refused"].endswith("=")


def test_a_simulated_figure_has_its_interval() -> None:
    assert "1.5 sessions/s [1.4, 1.6]" in report.table([sim()])


@pytest.mark.parametrize("wrong", [{}, {"duplex_result": 2, "kind": "live"}, {"duplex_result": 1, "kind": "other"}])
def test_what_is_no_result_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a result"):
        report.render([wrong])


def test_the_command_compares_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in (("a", live()), ("b", live(0.6)), ("c", sim())):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    files = [str(tmp_path / f"{name}.json") for name in "abc"]
    assert main(["compare", *files, "--html", str(tmp_path / "out.html")]) == 0
    assert "last − first" in capsys.readouterr().out
    assert "a against b against c" in (tmp_path / "out.html").read_text()


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"duplex_result": 1, "kind": "x"}'])
def test_the_command_refuses_other_files_in_one_line(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.json"
    file.write_text(content)
    assert main(["compare", str(file), str(file)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "a.json" in said


def test_lines_are_drawn_to_scale() -> None:
    drawn = svg.lines([svg.Series(name="a", points=[(0, 0), (10, 5)], colour=0)], svg.Axes(x="x", y="y"))
    [points] = re.findall(r'points="([^"]+)"', drawn)
    (x0, y0), (x1, y1) = (map(float, point.split(",")) for point in points.split())
    assert x0 < x1 and y0 > y1
    assert svg.lines([], svg.Axes(x="x", y="y")) == ""


def test_a_stack_ends_at_the_sum_of_its_parts() -> None:
    parts = [svg.Series(name=name, points=[(0, 1), (1, 2)], colour=0) for name in "ab"]
    areas = re.findall(r'polygon class="area f0" points="([^"]+)"', svg.stacked(parts, svg.Axes(x="x", y="y")))
    below, above = ([tuple(map(float, p.split(","))) for p in area.split()] for area in areas)
    assert below[:2] == above[:-3:-1]


def test_a_single_value_and_equal_values_can_be_drawn() -> None:
    for points in ([(3.0, 0.0)], [(3.0, 0.0), (3.0, 0.0)]):
        assert "<svg" in svg.lines([svg.Series(name="a", points=points, colour=0)], svg.Axes(x="x", y="y"))
