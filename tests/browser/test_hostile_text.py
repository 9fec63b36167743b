"""Markup wherever words of others are shown (C72), and a dashboard whose server asks for a key."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import pytest
from browser_harness import Open, Serve, Visit
from microphone_wav import write
from playwright.sync_api import Route, expect

pytestmark = pytest.mark.browser

KEY = "key-SECRET123-SECRET123"
MARKUP = "<img src=x onerror=window.__p=1> <script>window.__p=2</script> [a](javascript:window.__p=3)"
"""The test double sends it word by word: the tag is split over its deltas."""
INSERTED = "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.__p = 4\">')"


def shows_no_element(seen: Visit, *places: str) -> None:
    """Nothing but text came of the markup."""
    for place in places:
        shown = seen.page.get_by_test_id(place)
        assert "<img src=x" in shown.first.inner_text(), place
        assert shown.locator("img, script, a").count() == 0, place
    assert seen.page.evaluate("window.__p") is None


def test_markup_of_model_and_speaker_is_text(serve: Serve, visit: Open, tmp_path: Path) -> None:
    """C72: the reply's transcript, the user's, and what is typed."""
    server = serve(script=[MARKUP], transcripts=[MARKUP])
    seen = visit(server, microphone=write(tmp_path / "question.wav", 1.0, "s00", 20.0))
    seen.page.get_by_test_id("talk").click()
    expect(seen.page.get_by_test_id("caption-user").get_by_test_id("words")).to_have_text(MARKUP, timeout=30_000)
    seen.phase("speaking")
    deltas = "duplexDebug.traffic().filter(({event}) => event.type === 'response.output_audio_transcript.delta')"
    seen.until("duplexDebug.traffic().some(({event}) => event.type === 'output_audio_buffer.stopped')")
    assert seen.page.evaluate(f"{deltas}.length") >= 2
    shows_no_element(seen, "captions")
    assert seen.complaints == []
    seen.page.get_by_test_id("talk").click()
    seen.phase("idle")


def test_markup_of_errors_and_names_is_text_and_the_policy_holds(serve: Serve, visit: Open) -> None:
    """C72: a refusal's message, the model's name and notice; and what the page would insert by mistake does not run."""
    server = serve()
    seen = visit(server)

    def refuse(route: Route) -> None:
        route.fulfill(status=400, json={"error": {"type": "invalid_request_error", "code": "c", "message": MARKUP}})

    def rename(route: Route) -> None:
        model = {"name": MARKUP, "test_double": True, "notice": MARKUP, "voices": [MARKUP], "sessions_max": 1}
        route.fulfill(json={"model": model, "version": MARKUP})

    seen.page.route("**/v1/realtime/calls", refuse)
    seen.page.route("**/v1/duplex/info", rename)
    seen.page.reload()
    seen.page.get_by_test_id("text").fill("How is Paris?")
    seen.page.get_by_test_id("send").click()
    expect(seen.page.get_by_test_id("notice")).to_contain_text("The server refused the call")
    shows_no_element(seen, "notice")
    assert seen.page.locator("body").locator("img").count() == 0
    seen.page.evaluate(INSERTED)
    expect(seen.page.locator("img")).to_have_count(1)
    seen.until("document.images[0].complete")
    assert seen.page.evaluate("window.__p") is None
    assert any("Content Security Policy" in line for line in seen.complaints)


def test_markup_on_the_dashboard_is_text(serve: Serve, visit: Open) -> None:
    """C72: names of the model, its stages and limits."""
    server = serve()
    with urllib.request.urlopen(f"{server.url}/v1/duplex/live?once=1", timeout=10) as answer:
        snapshot = json.load(answer)
    snapshot["model"]["name"] = snapshot["version"] = MARKUP
    for named in (*snapshot["stages"], *snapshot["admission"]["limits"]):
        named["name"] = MARKUP
    seen = visit(server)

    def stream(route: Route) -> None:
        route.fulfill(content_type="text/event-stream", body=f"data: {json.dumps(snapshot)}\n\n")

    seen.page.route("**/v1/duplex/live", stream)
    seen.page.goto(f"{server.url}/dashboard?debug")
    expect(seen.page.get_by_test_id("model-name")).to_have_text(MARKUP)
    shows_no_element(seen, "model-name", "stage-rows", "limit-rows")
    assert seen.page.locator("main img").count() == 0


def test_the_dashboard_asks_for_a_key_and_does_not_keep_it(serve: Serve, visit: Open, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"app={KEY}\n")
    server = serve(server={"api_keys_file": str(keys)})
    seen = visit(server)
    seen.page.goto(f"{server.url}/dashboard?debug")
    dialog, box = seen.page.get_by_test_id("access"), seen.page.get_by_test_id("access-key")
    expect(dialog).to_be_visible()
    expect(seen.page.get_by_test_id("link-label")).to_have_text("Key needed")
    box.fill("key-0000000000000000")
    seen.page.get_by_test_id("access-submit").click()
    expect(dialog).to_contain_text("does not take this key")
    box.fill(KEY)
    seen.page.get_by_test_id("access-submit").click()
    expect(seen.page.get_by_test_id("link-label")).to_have_text("Live")
    expect(dialog).not_to_be_visible()
    seen.page.reload()
    expect(seen.page.get_by_test_id("link-label")).to_have_text("Live")
    stored = str(seen.page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])"))
    secret = re.search(r"ek_[0-9A-Za-z_-]{40,}", stored)
    assert secret is not None
    assert KEY not in stored + seen.page.content() + "".join(server.output)
    opened = seen.page.evaluate(
        "token => fetch('/v1/realtime/calls', {method: 'POST', headers: {Authorization: `Bearer ${token}`}})"
        ".then(({status}) => status)",
        secret[0],
    )
    assert opened == 403, "it watches, and opens no session"
    assert seen.foreign == []
