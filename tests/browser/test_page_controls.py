"""The page's controls in a real browser: camera, mute, keys, devices, and what it reports of its playback."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_harness import Open, Serve, Visit
from microphone_wav import write
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

STORY = " ".join(f"This is sentence number {n} of a long story." for n in range(1, 13))
FRAMES_SENT = "duplexDebug.stats().then((all) => all.find((s) => s.type === 'outbound-rtp' && s.kind === 'video')?.framesSent ?? 0)"
READ = (
    "fetch('/metrics').then((r) => r.text()).then("
    '(t) => /^duplex_camera_readings_total\\{[^}]*outcome="read"[^}]*\\} [1-9]/m.test(t))'
)
CUTS = "duplexDebug.phases().filter(({phase}) => phase === 'interrupted').length"
FRONT_ERROR_MS_MAX = 500.0
"""A busy machine's; benchmarks/playback_front.py measures."""


def of(visit: Visit, testid: str) -> Locator:
    return visit.page.get_by_test_id(testid)


def test_keys_camera_mute_and_devices(serve: Serve, visit: Open, tmp_path: Path) -> None:
    server = serve(script=[STORY], reads=["Via Roma 12"])
    seen = visit(server, microphone=write(tmp_path / "hum.wav", *["s00"] * 20))
    page, keys = seen.page, seen.page.keyboard
    expect(of(seen, "camera")).to_be_disabled()
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "the focus is seen"
    page.evaluate("document.activeElement.blur()")
    keys.press("Space")
    seen.until("duplexDebug.levels('user').some(({rms}) => rms > 0.01)")
    expect(of(seen, "mute")).to_be_enabled(timeout=30_000)

    keys.press("m")
    expect(of(seen, "mute")).to_have_attribute("aria-label", "Unmute the microphone")
    seen.until("duplexDebug.levels('user').slice(-5).every(({rms}) => rms === 0)")
    keys.press("m")
    seen.until("duplexDebug.levels('user').slice(-5).some(({rms}) => rms > 0)")
    keys.press("m")

    keys.press("c")
    expect(of(seen, "camera-view")).to_be_visible()
    seen.until(f"{FRAMES_SENT}.then((frames) => frames > 0)")
    seen.until(READ)
    keys.press("c")
    expect(of(seen, "camera-view")).to_be_hidden()
    expect(of(seen, "camera")).to_have_attribute("aria-label", "Turn on the camera: text that you show is read")
    page.wait_for_timeout(200)  # what was in the encoder
    frames = page.evaluate(FRAMES_SENT)
    page.wait_for_timeout(500)
    assert page.evaluate(FRAMES_SENT) == frames, "nothing is sent while it is off"

    keys.press("/")
    keys.type("Tell me a story, mate?")
    keys.press("Enter")
    seen.phase("speaking")
    seen.until("duplexDebug.fronts().length >= 2")
    fronts = page.evaluate("duplexDebug.fronts()")
    assert all(abs(front["errorMs"] + front["concealedMs"]) < FRONT_ERROR_MS_MAX for front in fronts)
    assert {"made", "sent", "played"} <= {span["row"] for span in page.evaluate("duplexDebug.timeline().spans")}
    assert page.evaluate("duplexDebug.state().microphone") == "muted", "a letter typed is no shortcut"

    page.evaluate("document.activeElement.blur()")
    cuts = page.evaluate(CUTS)
    keys.press("?")
    expect(of(seen, "devices")).to_be_visible()
    microphones = of(seen, "device-microphone").locator("option")
    expect(microphones).not_to_have_count(1)
    of(seen, "device-microphone").select_option(index=1)
    seen.until("duplexDebug.state().microphone === 'muted'")
    keys.press("Escape")
    expect(of(seen, "devices")).to_be_hidden()
    assert page.evaluate(CUTS) == cuts, "the first Escape closes what is open"
    of(seen, "stats-open").click()
    expect(of(seen, "stats")).to_contain_text("Error p50 / p95")
    keys.press("Escape")
    seen.phase("interrupted")
    assert page.evaluate("duplexDebug.timeline().cuts.length") > 0
    assert (seen.complaints, seen.foreign) == ([], [])


def test_the_choice_of_devices_lasts_until_the_device_is_gone(serve: Serve, visit: Open, tmp_path: Path) -> None:
    seen = visit(serve(script=[STORY]), microphone=write(tmp_path / "silence.wav", 30.0))
    page = seen.page
    chosen = "JSON.parse(localStorage.getItem('duplex.devices') ?? '{}').audioinput"
    used = (
        "duplexDebug.state().microphone === 'live' && document.querySelector('[data-testid=device-microphone]').value"
    )
    of(seen, "talk").click()
    seen.phase("listening")
    of(seen, "devices-open").click()
    options = of(seen, "device-microphone").locator("option")
    expect(options).not_to_have_count(1)
    of(seen, "device-microphone").select_option(index=1)
    device = of(seen, "device-microphone").input_value()
    assert device == page.evaluate(chosen) != ""

    page.reload()
    seen.phase("listening")
    seen.until(f"({used}) === '{device}'")
    page.evaluate("localStorage.setItem('duplex.devices', JSON.stringify({audioinput: 'unplugged'}))")
    page.reload()
    seen.phase("listening")
    seen.until(f"({chosen}) === undefined")
    seen.until(f"({used}) === ''")
    assert (seen.complaints, seen.foreign) == ([], [])


def test_a_refused_camera_leaves_the_conversation(serve: Serve, visit: Open) -> None:
    seen = visit(serve(script=[STORY], reads=["Via Roma 12"]))
    of(seen, "text").fill("Hello")
    of(seen, "send").click()
    seen.phase("speaking")
    of(seen, "camera").click()
    expect(of(seen, "notice")).to_contain_text("The camera is blocked")
    expect(of(seen, "notice-retry")).to_be_enabled()
    of(seen, "notice-dismiss").click()
    expect(of(seen, "notice")).to_be_hidden()
    seen.phase("speaking")
    expect(of(seen, "camera-view")).to_be_hidden()


def test_a_model_that_does_not_read_the_camera_is_shown_none(serve: Serve, visit: Open) -> None:
    seen = visit(serve(script=[STORY]))
    of(seen, "text").fill("Hello")
    of(seen, "send").click()
    seen.phase("speaking")
    expect(of(seen, "camera")).to_be_disabled()
    expect(of(seen, "camera")).to_have_attribute("aria-label", "This model does not read the camera")
