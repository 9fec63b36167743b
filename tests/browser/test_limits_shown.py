"""What the page shows of a conversation's bounds and of its recording: pictures under test-results/, and that it fits."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_harness import Open, Serve
from microphone_wav import write
from playwright.sync_api import expect
from test_looks import OVERFLOW, PICTURES, REDRAWN_MS, SCHEMES, SIZES

pytestmark = pytest.mark.browser

QUESTION = "Tell me of the sea, of the ships that are on it, and of the people who live beside it all their lives."
LENGTH_S = 25
"""Long enough for a busy machine: the conversation is told of its end when it has hardly begun."""
WARNING_S = 23.0


def test_recording_limits_and_the_end(serve: Serve, visit: Open, tmp_path: Path) -> None:
    server = serve(
        script=["The sea is wide."],
        transcripts=["Well, let me think about that, because there is a lot to say."],
        history_tokens=64,
        settings={
            "recording": {"directory": str(tmp_path / "recordings")},
            "session": {"length_s_max": LENGTH_S, "ending_warning_s": WARNING_S, "ending_grace_s": 1.0},
            "turn": {"turn_ms_max": 2000},
        },
    )
    # What the microphone plays sounds for longer than a turn may.
    seen = visit(server, microphone=write(tmp_path / "talk.wav", 0.5, "s00", 40.0))
    page = seen.page

    def pictures(name: str) -> None:
        for size, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                page.wait_for_timeout(REDRAWN_MS)
                page.screenshot(path=PICTURES / f"{size}-{scheme}-{name}.png", animations="disabled")
            assert not page.evaluate(OVERFLOW), f"{name}: the page fits its window"

    recorded, notice, left = (page.get_by_test_id(each) for each in ("recorded", "notice", "time-left"))
    expect(recorded).to_have_text("")
    page.get_by_test_id("talk").click()
    expect(notice).to_contain_text("This conversation ends in 0:", timeout=30_000)
    expect(recorded).to_have_text("Recorded")
    pictures("ending")
    page.get_by_test_id("notice-dismiss").click()
    expect(notice).to_be_hidden()
    expect(page.get_by_test_id("limited").first).to_contain_text("A turn is at most 2 s long.", timeout=10_000)
    seen.until("duplexDebug.state().captions.some(({playout}) => playout === 'drained')")
    page.get_by_test_id("mute").click()
    for _ in range(2):
        page.get_by_test_id("text").fill(QUESTION)
        page.get_by_test_id("send").click()
        seen.phase("speaking")
        seen.phase("listening")
    expect(page.get_by_text("The model no longer knows what is above")).to_be_visible()
    expect(left).to_contain_text("0:")
    pictures("limits")
    expect(notice).to_contain_text("The conversation has ended", timeout=1000 * LENGTH_S)
    seen.phase("idle")
    pictures("ended")
    expect(recorded).to_have_text("")
    expect(left).to_be_hidden()
    assert seen.complaints == []
