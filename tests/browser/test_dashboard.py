"""The dashboard in a real browser beside a real conversation: it moves, it is exact, and it says when it knows nothing."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from browser_harness import ROOT, Open, RunningServer, Serve, Server, Visit, toml
from microphone_wav import write
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

QUESTION = "What is the weather going to be like in Paris tomorrow?"
LONG_ANSWER = " ".join(f"This is sentence number {n} of a long story." for n in range(1, 13))
PICTURES = ROOT / "test-results" / "dashboard"
SIZES = {"desktop": (1440, 900), "phone": (390, 844)}
CARDS = (
    "JSON.stringify([...document.querySelectorAll('.figure, .card, .bar')].map((card) => {"
    " const {left, top, width, height} = card.getBoundingClientRect();"
    " return [left, top + scrollY, width, height].map(Math.round); }))"
)
PICTURE = "document.querySelector('[data-testid=picture]').toDataURL()"
NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)\s(ms|s)")


def watch(visit: Open, server: Server, **context: Any) -> Visit:
    """Open the dashboard in a browser of its own."""
    seen = visit(server, **context)
    seen.page.goto(f"{server.url}/dashboard?debug")
    return seen


def text(seen: Visit, testid: str) -> str:
    return seen.page.get_by_test_id(testid).inner_text()


def once(server: Server) -> dict[str, Any]:
    """The snapshot, asked for beside the page."""
    with urllib.request.urlopen(f"{server.url}/v1/duplex/live?once=1", timeout=10) as answer:
        return dict(json.load(answer))


def seconds(shown: str) -> list[float]:
    """The durations in a text."""
    return [float(number) / (1000 if unit == "ms" else 1) for number, unit in NUMBER.findall(shown)]


def frames(seen: Visit, count: int = 8, every_ms: int = 60) -> int:
    """How many different pictures are seen in a row of looks."""
    pictures = set()
    for _ in range(count):
        pictures.add(seen.page.evaluate(PICTURE))
        seen.page.wait_for_timeout(every_ms)
    return len(pictures)


def begin(visit: Open, server: Server, wav: Path) -> Visit:
    """Begin a call that asks one question."""
    caller = visit(server, microphone=write(wav, 1.0, "s00", 40.0))
    caller.page.get_by_test_id("talk").click()
    return caller


def test_a_conversation_is_seen_as_it_happens(serve: Serve, visit: Open, tmp_path: Path) -> None:
    server = serve(script=[LONG_ANSWER], transcripts=[QUESTION])
    seen = watch(visit, server)
    expect(seen.page.get_by_test_id("link-label")).to_have_text("Live")
    expect(seen.page.get_by_test_id("test-double")).to_have_text("test double, not a model")
    expect(seen.page.get_by_test_id("figure-sent")).to_have_text("–")
    expect(seen.page.get_by_test_id("figure-sessions")).to_have_text(re.compile(r"^0 / \d+$"))
    caller = begin(visit, server, tmp_path / "question.wav")
    expect(seen.page.get_by_test_id("figure-sessions")).to_have_text(re.compile(r"^1 / \d+$"), timeout=30_000)
    seen.until("duplexDashboard().snapshot.lanes.some(({mode}) => mode === 'speaking')")
    assert frames(seen) >= 3, "the picture moves between snapshots and with them"
    seen.page.get_by_test_id("picture").press("ArrowDown")
    expect(seen.page.get_by_test_id("lane-reading")).to_contain_text("webrtc · lead")
    assert "1 session: 1 speaking" in (seen.page.get_by_test_id("picture").get_attribute("aria-label") or "")
    seen.page.get_by_test_id("lanes-switch").click()
    leads = set()
    for _ in range(6):
        leads.add(seen.page.locator("[data-testid=lane-table] tbody td:nth-child(4)").inner_text())
        seen.page.wait_for_timeout(250)
    assert len(leads) > 1, "the lead grows and drains"
    caller.page.get_by_test_id("talk").click()
    expect(seen.page.get_by_test_id("figure-sessions")).to_have_text(re.compile(r"^0 / \d+$"))
    snapshot = once(server)
    for where in ("sent", "heard"):
        quantiles = snapshot["ttfas"][where]
        shown = seconds(text(seen, f"figure-{where}"))
        assert shown == pytest.approx([quantiles["p50"], quantiles["p90"]], abs=0.006), where
    split = seen.page.get_by_test_id("split-rows").locator("tr")
    parts = ["endpointing", "transcribe", "think", "talk", "vocode", "send"]
    assert split.count() == len(parts)
    for index, part in enumerate(parts):
        shown = seconds(split.nth(index).inner_text())
        expected = snapshot["ttfas"]["split"][part]
        assert shown == pytest.approx([expected["p50"], expected["p95"]], abs=0.006), part
    stages = seen.page.get_by_test_id("stage-rows").locator("td:first-child").all_inner_texts()
    assert stages == [stage["name"] for stage in snapshot["stages"]]
    limits = seen.page.get_by_test_id("limit-rows").locator("td:first-child").all_inner_texts()
    assert sorted(limits) == sorted(limit["name"] for limit in snapshot["admission"]["limits"])
    admitted = snapshot["admission"]["admitted"]
    assert admitted >= 1
    assert text(seen, "admitted") == f"admitted {admitted} · refused 0"
    assert text(seen, "figure-broken") == str(snapshot["invariants_broken"]) == "0"
    seen.page.get_by_test_id("ttfas-chart").press("ArrowLeft")
    expect(seen.page.get_by_test_id("ttfas-reading")).to_contain_text("sent p50")
    assert seen.complaints == []
    assert seen.foreign == []


def test_who_prefers_less_motion_sees_steps(serve: Serve, visit: Open, tmp_path: Path) -> None:
    server = serve(script=[LONG_ANSWER], transcripts=[QUESTION])
    seen = watch(visit, server, reduced_motion="reduce")
    begin(visit, server, tmp_path / "question.wav")
    seen.until("duplexDashboard().snapshot?.lanes.some(({mode}) => mode === 'speaking')")
    assert frames(seen, count=6, every_ms=50) <= 2


def test_a_dead_server_is_said_and_one_that_comes_back_is_shown(serve: Serve, visit: Open, tmp_path: Path) -> None:
    server = serve()
    seen = watch(visit, server)
    expect(seen.page.get_by_test_id("link-label")).to_have_text("Live")
    expect(seen.page.get_by_test_id("loss")).to_be_hidden()
    server.process.kill()
    expect(seen.page.get_by_test_id("link-label")).to_have_text("Connection lost")
    expect(seen.page.get_by_test_id("loss")).to_contain_text("The server does not answer. What is shown is of")
    expect(seen.page.get_by_test_id("loss")).to_contain_text("Trying again in")
    expect(seen.page.get_by_test_id("board")).to_have_attribute("data-fresh", "no")
    config = tmp_path / "again.toml"
    config.write_text(toml({"model": {"pack": "sim"}}))
    again = RunningServer(config)
    again._command[again._command.index("0")] = str(urlsplit(server.url).port)
    with again:
        expect(seen.page.get_by_test_id("link-label")).to_have_text("Live", timeout=30_000)
        expect(seen.page.get_by_test_id("loss")).to_be_hidden()
        expect(seen.page.get_by_test_id("board")).to_have_attribute("data-fresh", "yes")
        seen.page.goto("about:blank")


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "dark"), ("phone", "light")])
def test_nothing_moves_when_data_come_and_go(
    serve: Serve, visit: Open, tmp_path: Path, size: str, scheme: Literal["light", "dark"]
) -> None:
    server = serve(script=[LONG_ANSWER], transcripts=[QUESTION])
    width, height = SIZES[size]
    seen = watch(visit, server, viewport={"width": width, "height": height}, color_scheme=scheme)
    expect(seen.page.get_by_test_id("link-label")).to_have_text("Live")
    places = seen.page.evaluate(CARDS)

    def picture(name: str) -> None:
        seen.page.screenshot(path=PICTURES / f"{size}-{scheme}-{name}.png", full_page=size == "phone")
        assert not seen.page.evaluate("document.documentElement.scrollWidth > innerWidth"), f"{name}: fits in width"
        assert seen.page.evaluate(CARDS) == places, f"{name}: nothing moved"

    picture("idle")
    begin(visit, server, tmp_path / "question.wav")
    seen.until("duplexDashboard().snapshot.lanes.some(({mode}) => mode === 'speaking')")
    seen.page.wait_for_timeout(2_000)
    picture("speaking")
    server.process.kill()
    expect(seen.page.get_by_test_id("link-label")).to_have_text("Connection lost")
    picture("lost")
