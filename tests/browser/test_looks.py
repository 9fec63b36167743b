"""What the page looks like: pictures for the eye under test-results/, and that it fits and does not move."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from browser_harness import ROOT, Open, Serve
from microphone_wav import write

pytestmark = pytest.mark.browser

PICTURES = ROOT / "test-results" / "page"
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
SCHEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
REDRAWN_MS = 50
"""After a change of colours: canvases are drawn anew. What glides is at its end in a picture without animations."""
SCRIPT = [
    "The capital of Italy is Rome. It lies on the Tiber, and about three million people live there.",
    "It covers five hundred square miles. Most of it is parks and farmland.",
]
TURNED = {"width": 844, "height": 390}
"""A phone held across."""
INSIDE = (
    "(({left, top, right, bottom}) => left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight)"
    "(document.querySelector('[data-testid=split]').getBoundingClientRect())"
)
OVERFLOW = "document.documentElement.scrollWidth > innerWidth || document.documentElement.scrollHeight > innerHeight"
PLACES = (
    "JSON.stringify(['talk', 'mute', 'camera', 'stop', 'strip', 'text', 'state'].map((id) => {"
    " const {left, top, width, height} = document.querySelector(`[data-testid=${id}]`).getBoundingClientRect();"
    " return id === 'state' ? [top, height] : [left, top, width, height]; }))"
)


@pytest.mark.parametrize("size", list(SIZES))
def test_pictures(serve: Serve, visit: Open, tmp_path: Path, size: str) -> None:
    server = serve(
        script=SCRIPT,
        transcripts=["What is the capital of Italy?"],
        reads=["Via Roma 12"],
        first_token_s=0.15,
        server={"resume_window_s": 1.0},  # "lost" is shown when coming back is out of reach
    )
    width, height = SIZES[size]
    seen = visit(
        server,
        microphone=write(tmp_path / "question.wav", 1.0, "s00", 30.0),
        viewport={"width": width, "height": height},
        device_scale_factor=2 if size == "phone" else 1,
        has_touch=size == "phone",
    )
    page = seen.page
    pictures = 0

    def picture(name: str) -> None:
        nonlocal pictures
        pictures += 1
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(REDRAWN_MS)
            page.screenshot(path=PICTURES / f"{size}-{scheme}-{pictures}-{name}.png", animations="disabled")
        assert not page.evaluate(OVERFLOW), f"{name}: the page fits its window"

    seen.until("document.querySelector('[data-testid=model-notice]').textContent !== ''")
    places = page.evaluate(PLACES)
    picture("idle")
    page.get_by_test_id("talk").click()
    seen.until("duplexDebug.state().userSpeaking")
    page.wait_for_timeout(300)
    picture("listening")
    seen.phase("speaking")
    page.get_by_test_id("camera").click()
    page.get_by_test_id("camera-view").wait_for()
    page.wait_for_timeout(1_500)
    assert page.evaluate(PLACES) == places, "nothing moves when the conversation goes on"
    picture("speaking")
    page.get_by_test_id("stop").click()
    seen.phase("interrupted")
    picture("interrupted")
    page.get_by_test_id("text").fill("And how large is it?")
    page.get_by_test_id("send").click()
    seen.phase("speaking")
    page.wait_for_timeout(800)
    page.get_by_test_id("ttfas").first.click()
    picture("split")
    page.keyboard.press("Escape")
    if size == "phone":
        page.set_viewport_size(TURNED)
        page.get_by_test_id("ttfas").first.click()
        picture("turned")
        assert page.evaluate(INSIDE), "all parts of the latency are in the window"
        assert page.get_by_test_id("model-notice").is_visible(), "what the model is worth is said however it is held"
        page.keyboard.press("Escape")
        page.set_viewport_size({"width": width, "height": height})
    page.get_by_test_id("devices-open").click()
    picture("devices")
    page.keyboard.press("Escape")
    server.process.terminate()
    page.get_by_test_id("notice").wait_for(timeout=40_000)
    picture("lost")
    assert page.evaluate(PLACES) == places, "notices move nothing"
