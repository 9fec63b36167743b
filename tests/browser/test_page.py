"""The page in a real browser: conversations by voice and by text, interruptions, and what goes wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browser_harness import Open, Serve, Visit
from microphone_wav import write
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

QUESTION = "What is the weather going to be like in Paris tomorrow?"
ANSWER = "Paris will be mild. Take a light coat."
LONG_ANSWER = " ".join(f"This is sentence number {n} of a long story." for n in range(1, 13))
HEARD_AFTER = re.compile(r"heard after (\d+\.\d\d) s")


@pytest.fixture
def question(tmp_path: Path) -> Path:
    """A microphone on which one question is asked."""
    return write(tmp_path / "question.wav", 1.0, "s05", 20.0)


def of(visit: Visit, testid: str) -> Locator:
    return visit.page.get_by_test_id(testid)


def phases(visit: Visit) -> list[str]:
    return [change["phase"] for change in visit.page.evaluate("duplexDebug.phases()")]


def loudest(visit: Visit) -> float:
    return float(visit.page.evaluate("Math.max(0, ...duplexDebug.levels('assistant').map(({rms}) => rms))"))


def spoken_to_heard_s(visit: Visit) -> float:
    """End of energy on the microphone to the first sound of the answer, from the page's own meters."""
    onset = next(report["at"] for report in visit.page.evaluate("duplexDebug.levels('assistant')") if report["sound"])
    spoken = [report["at"] for report in visit.page.evaluate("duplexDebug.levels('user')") if report["rms"] > 0.01]
    return float(onset - max(at for at in spoken if at < onset)) / 1000


def test_speech_is_answered_by_speech(serve: Serve, visit: Open, question: Path) -> None:
    server = serve(script=[ANSWER], transcripts=[QUESTION])
    seen = visit(server, microphone=question)
    expect(of(seen, "test-double")).to_have_text("test double, not a model")
    of(seen, "talk").click()
    expect(of(seen, "caption-user").get_by_test_id("words")).to_have_text(QUESTION, timeout=30_000)
    seen.phase("speaking")
    seen.phase("listening")
    expect(of(seen, "caption-assistant").get_by_test_id("heard")).to_have_text(ANSWER)
    expect(of(seen, "caption-assistant").get_by_test_id("ahead")).to_have_text("")
    assert phases(seen) == ["connecting", "listening", "thinking", "speaking", "listening"]
    assert loudest(seen) > 0.01, "the answer is audible"
    shown = HEARD_AFTER.fullmatch(of(seen, "ttfas").inner_text())
    assert shown is not None
    assert float(shown[1]) == pytest.approx(spoken_to_heard_s(seen), abs=1.0), "what is shown is what a listener hears"
    of(seen, "ttfas").click()
    expect(of(seen, "split")).to_contain_text("after the server heard you stop")
    expect(of(seen, "split")).to_contain_text("End of turn")
    assert seen.complaints == []
    assert seen.foreign == []


def test_typing_needs_no_microphone(serve: Serve, visit: Open) -> None:
    server = serve(script=[ANSWER])
    seen = visit(server)
    of(seen, "text").fill(QUESTION)
    of(seen, "text").press("Enter")
    expect(of(seen, "caption-user").get_by_test_id("words")).to_have_text(QUESTION)
    expect(of(seen, "text")).to_have_value("")
    seen.phase("speaking")
    seen.phase("listening")
    expect(of(seen, "caption-assistant").get_by_test_id("heard")).to_have_text(ANSWER)
    expect(of(seen, "ttfas")).to_have_text(HEARD_AFTER)
    assert seen.page.evaluate("duplexDebug.state().microphone") == "off"
    assert loudest(seen) > 0.01
    assert seen.complaints == []


def test_talking_over_a_reply_cuts_it(serve: Serve, visit: Open, tmp_path: Path) -> None:
    server = serve(script=[LONG_ANSWER, ANSWER], transcripts=[QUESTION, "Stop."])
    seen = visit(server, microphone=write(tmp_path / "two.wav", 1.0, "s05", 4.0, "s01", 20.0))
    of(seen, "talk").click()
    seen.phase("interrupted")
    first = of(seen, "caption-assistant").first
    expect(first).to_have_attribute("data-playout", "cut")
    seen.until("duplexDebug.traffic().some(({event}) => event.type === 'conversation.item.retrieved')")
    heard = first.get_by_test_id("heard").inner_text()
    assert heard
    assert LONG_ANSWER.startswith(heard)
    assert len(heard) < len(LONG_ANSWER) / 2, "what was not heard is gone"
    retrieved = "duplexDebug.traffic().find(({event}) => event.type === 'conversation.item.retrieved').event.item.text"
    assert heard == seen.page.evaluate(retrieved).strip(), "the page shows what the server holds as heard"
    cut_at = seen.page.evaluate("duplexDebug.phases().find(({phase}) => phase === 'interrupted').at")
    seen.until(f"duplexDebug.levels('assistant').some(({{at, sound}}) => sound === 'off' && at > {cut_at})", 5)
    seen.phase("speaking")
    expect(of(seen, "caption-assistant").nth(1).get_by_test_id("words")).to_have_text(ANSWER, timeout=15_000)
    order = phases(seen)
    assert order.index("interrupted") > order.index("speaking")
    assert seen.complaints == []


def test_stop_and_escape_cut_a_reply(serve: Serve, visit: Open) -> None:
    seen = visit(serve(script=[LONG_ANSWER]))
    for way in ("stop", "Escape"):
        of(seen, "text").fill("Tell me a story.")
        of(seen, "send").click()
        seen.phase("speaking")
        if way == "stop":
            of(seen, "stop").click()
        else:
            seen.page.keyboard.press(way)
        seen.phase("interrupted")
        expect(of(seen, "caption-assistant").last).to_have_attribute("data-playout", "cut")
        seen.phase("listening")
    assert seen.complaints == []


def test_a_second_conversation_after_the_first(serve: Serve, visit: Open, question: Path) -> None:
    server = serve(script=[ANSWER], transcripts=[QUESTION], server={"sessions_max": 1})
    seen = visit(server, microphone=question)
    for number in (1, 2):
        of(seen, "talk").click()
        seen.until(f"duplexDebug.state().conversations === {number}")
        of(seen, "text").fill("Hello")
        of(seen, "text").press("Enter")
        seen.phase("speaking")
        of(seen, "talk").click()
        seen.phase("idle")
        assert seen.page.evaluate("duplexDebug.state().microphone") == "off"
        # The only place is free again when the server has taken note of the hang-up.
        seen.until(
            "fetch('/metrics').then((r) => r.text()).then((t) => /^duplex_sessions(\\{.*\\})? 0(\\.0)?$/m.test(t))"
        )
    expect(of(seen, "captions").get_by_text("New conversation")).to_have_count(1)
    assert seen.complaints == []


def test_keyboard_alone_starts_and_ends(serve: Serve, visit: Open, question: Path) -> None:
    seen = visit(serve(script=[ANSWER]), microphone=question)
    for key in (" ", "Enter"):
        seen.page.keyboard.press(key)
        seen.until("document.querySelector('[data-testid=talk]').textContent.includes('End')")
        seen.page.keyboard.press(key)
        seen.phase("idle")
        seen.until("duplexDebug.state().problem === null")


def test_a_refused_microphone_leaves_text(serve: Serve, visit: Open) -> None:
    seen = visit(serve(script=[ANSWER]))
    of(seen, "talk").click()
    expect(of(seen, "notice")).to_contain_text("The microphone is blocked")
    notice, talk = of(seen, "notice").bounding_box(), of(seen, "talk").bounding_box()
    assert notice and talk and notice["y"] >= talk["y"] + talk["height"], "a notice covers no control"
    of(seen, "notice-text").click()
    seen.phase("listening")
    expect(of(seen, "notice")).to_be_hidden()
    expect(of(seen, "text")).to_be_focused()
    seen.page.keyboard.type("Hello")
    seen.page.keyboard.press("Enter")
    seen.phase("speaking")
    expect(of(seen, "caption-assistant").get_by_test_id("words")).to_have_text(ANSWER, timeout=15_000)


def test_a_microphone_joins_a_conversation_begun_by_text(serve: Serve, visit: Open, question: Path) -> None:
    seen = visit(serve(script=[ANSWER], transcripts=[QUESTION]), microphone=question)
    of(seen, "text").fill("Hello")
    of(seen, "text").press("Enter")
    seen.phase("speaking")
    seen.phase("listening")
    of(seen, "mute").click()
    expect(of(seen, "caption-user").nth(1).get_by_test_id("words")).to_have_text(QUESTION, timeout=30_000)
    of(seen, "mute").click()
    expect(of(seen, "mute")).to_have_attribute("aria-label", "Unmute the microphone")
    assert seen.complaints == []


def test_a_full_server_says_when_to_come_back(serve: Serve, visit: Open, question: Path) -> None:
    server = serve(script=[ANSWER], server={"sessions_max": 1})
    first, second = visit(server, microphone=question), visit(server, microphone=question)
    of(first, "talk").click()
    first.phase("listening")
    of(second, "talk").click()
    expect(of(second, "notice")).to_contain_text("Every place is taken")
    expect(of(second, "notice")).to_contain_text("The server holds 1 conversation at a time. Try again in")
    expect(of(second, "notice-retry")).to_be_disabled()
    of(first, "talk").click()
    expect(of(second, "notice-retry")).to_be_enabled(timeout=30_000)
    of(second, "notice-retry").click()
    second.phase("listening")
    expect(of(second, "notice")).to_be_hidden()


def test_a_lost_connection_offers_another(serve: Serve, visit: Open, question: Path) -> None:
    server = serve(script=[ANSWER], server={"resume_window_s": 2})
    seen = visit(server, microphone=question)
    of(seen, "talk").click()
    seen.phase("listening")
    server.process.kill()
    seen.phase("reconnecting")
    expect(of(seen, "state")).to_have_text("Reconnecting…")
    expect(of(seen, "notice")).to_contain_text("Connection lost", timeout=40_000)
    expect(of(seen, "notice-retry")).to_have_text("Reconnect")
    of(seen, "notice-retry").click()
    expect(of(seen, "notice")).to_contain_text("The server does not answer")


def test_markup_is_shown_as_text(serve: Serve, visit: Open) -> None:
    """Field case C72."""
    markup = "<img src=x onerror=window.__p=1> and <script>window.__p=2</script> [a](javascript:window.__p=3)"
    seen = visit(serve(script=[markup]))
    of(seen, "text").fill(markup)
    of(seen, "text").press("Enter")
    expect(of(seen, "caption-user").get_by_test_id("words")).to_have_text(markup)
    seen.phase("speaking")
    seen.phase("listening")
    # The reply's words are the server's to choose (it makes text speakable); no element may come of them.
    assert of(seen, "captions").locator("img, script, a").count() == 0
    assert seen.page.evaluate("window.__p") is None
    assert seen.complaints == []
