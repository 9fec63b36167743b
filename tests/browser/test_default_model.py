"""The page with the default models: a spoken question is understood, answered right and aloud, and the answer interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_harness import Open, RunningServer, Server, toml
from microphone_wav import write
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.alone]
ANSWERED_MS_MAX = 30_000


@pytest.fixture
def default_model(built_page: Path, tmp_path: Path) -> Iterator[Server]:
    config = tmp_path / "config.toml"
    config.write_text(toml({"server": {"drain_timeout_s": 0.0}, "model": {"pack": "local"}}))
    with RunningServer(config) as server:
        yield server


def test_a_question_is_answered_aloud_and_a_story_is_interrupted(
    default_model: Server, visit: Open, tmp_path: Path
) -> None:
    # What is the capital city of Japan? / Tell me a short story about a brave little mouse. / Wait, stop …
    microphone = write(tmp_path / "talk.wav", 1.0, "s07", 9.0, "s06", 5.0, "s11", 20.0)
    seen = visit(default_model, microphone=microphone)
    page = seen.page
    expect(page.get_by_test_id("model-notice")).to_contain_text("very small")
    page.get_by_test_id("talk").click()
    users, replies = page.get_by_test_id("caption-user"), page.get_by_test_id("caption-assistant")
    expect(users.first).to_contain_text("capital city of Japan", ignore_case=True, timeout=ANSWERED_MS_MAX)
    expect(replies.first).to_contain_text("Tokyo", timeout=ANSWERED_MS_MAX)
    expect(replies.first).to_contain_text("heard after", timeout=ANSWERED_MS_MAX)
    loudest = page.evaluate("Math.max(0, ...duplexDebug.levels('assistant').map(({rms}) => rms))")
    assert loudest > 0.01, "the answer is audible"
    seen.phase("interrupted")
    expect(replies.nth(1)).to_have_attribute("data-playout", "cut")
    expect(users.nth(2)).to_contain_text("stop", ignore_case=True, timeout=ANSWERED_MS_MAX)
    assert seen.complaints == []
