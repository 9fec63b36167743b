"""A page that is loaded anew, or loses its connection, comes back to the same conversation."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_harness import Open, Serve, Visit
from microphone_wav import write
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

FACT, QUESTION = "My dog is called Rex.", "What is he called?"
AGAIN = "Really?"
TELL = "Count to twenty."
COUNT = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen twenty."
ANSWERS = ["What a fine name.", "He is called Rex."]
_KEEP_PEERS = """
const Peer = RTCPeerConnection;
window.peers = [];
window.channels = [];
window.RTCPeerConnection = class extends Peer {
  constructor(...options) { super(...options); window.peers.push(this); }
  createDataChannel(...options) {
    window.channels.push(super.createDataChannel(...options));
    return window.channels.at(-1);
  }
};
"""
"""Run before the page: lets the test close the page's connection, or its channel, behind its back."""


def shows(visit: Visit, *captions: str) -> None:
    expect(visit.page.get_by_test_id("words")).to_have_text(list(captions), timeout=30_000)


def say(visit: Visit, text: str) -> None:
    visit.page.get_by_test_id("text").fill(text)
    visit.page.get_by_test_id("send").click()
    visit.phase("speaking")
    visit.phase("listening")


def ticket(visit: Visit) -> str | None:
    stored: str | None = visit.page.evaluate("sessionStorage.getItem('duplex.resume')")
    return stored


def test_a_reload_and_a_lost_connection_lead_back(serve: Serve, visit: Open, tmp_path: Path) -> None:
    server = serve(script=[*ANSWERS, ANSWERS[0], COUNT], server={"sessions_max": 1})
    seen = visit(server, microphone=write(tmp_path / "silence.wav", 20.0))
    seen.page.add_init_script(_KEEP_PEERS)
    seen.page.get_by_test_id("talk").click()
    seen.phase("listening")
    say(seen, FACT)
    first = ticket(seen)

    seen.page.reload()
    seen.phase("listening")
    assert "reconnecting" in [change["phase"] for change in seen.page.evaluate("duplexDebug.phases()")]
    shows(seen, FACT, ANSWERS[0])
    expect(seen.page.locator(".break")).to_have_count(0)
    assert seen.page.evaluate("duplexDebug.state().microphone") == "live"
    assert ticket(seen) not in (None, first), "each return has its own token"

    seen.page.evaluate("peers.at(-1).close()")
    seen.until("duplexDebug.phases().filter((change) => change.phase === 'reconnecting').length === 2")
    seen.phase("listening")
    shows(seen, FACT, ANSWERS[0])
    say(seen, QUESTION)
    shows(seen, FACT, ANSWERS[0], QUESTION, ANSWERS[1])

    opened, before = seen.page.evaluate("channels.length"), ticket(seen)
    seen.page.evaluate("channels.at(-1).close()")
    seen.until(f"channels.length > {opened} && channels.at(-1).readyState === 'open'")
    assert seen.page.evaluate("channels.at(-1).protocol").startswith("duplex-last.event_")
    say(seen, AGAIN)
    shows(seen, FACT, ANSWERS[0], QUESTION, ANSWERS[1], AGAIN, ANSWERS[0])
    assert seen.page.evaluate("duplexDebug.phases()")[-1]["phase"] == "listening"
    assert ticket(seen) not in (None, before)

    seen.page.get_by_test_id("text").fill(TELL)
    seen.page.get_by_test_id("send").click()
    seen.phase("speaking")
    seen.until("[...document.querySelectorAll('.heard')].at(-1).textContent.includes('three')")
    seen.page.reload()
    seen.phase("listening")
    last = seen.page.get_by_test_id("caption-assistant").last
    expect(last).to_contain_text("One")
    expect(last.get_by_test_id("remark")).to_have_text("interrupted")
    assert "twenty" not in (last.text_content() or "")

    seen.page.get_by_test_id("talk").click()
    seen.phase("idle")
    seen.page.reload()
    assert ticket(seen) is None, "who ends a conversation does not come back to it"
    assert seen.page.evaluate("duplexDebug.state().phase") == "idle"
    assert seen.complaints == []
