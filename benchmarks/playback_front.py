"""How well does the page know what has been played? Its reports against its own audio thread.

Headless Chromium opens the page of a server with the test double, whose voice sounds from its first sample on, and asks for
replies in writing. While a reply plays the SDK reports its playback front twice a second; the AudioWorklet of the page knows
when the reply became audible. The error is the reported front less the time since then; positive: the report is ahead of the
ear. The browser stretches and shortens sound to fill or empty its buffer, so the same time holds less or more of the reply: that
is taken off the time by the browser's own count since the onset, and the plain comparison with the clock is given as well
(`error_ms_by_the_clock`). The worklet cannot tell a reply from what the browser makes up for late packets, so figures are given
for all reports and for those of replies without such sound up to then (less than 10 ms); `concealed_share` says how many there
were not. Each call is a browser of its own, as the error is nearly constant within one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
from typing import Any

from playwright.async_api import Page, Playwright, async_playwright

from benchmarks.browser_call import server_process
from benchmarks.report import quantiles, write

_FLAGS = ["--no-sandbox", "--allow-loopback-in-peer-connection", "--disable-background-networking"]
_SCRIPT = '["This is a reply of the test double, and it goes on for about as long as a person likes to listen to it."]'
_REPLY_S_MAX = 60
_POLL_S = 0.1
_CONCEALED_MS_MAX = 10
_PAUSE_S = 1.5
"""Before the next question. The first one begins its call."""


async def ask(page: Page, number: int) -> None:
    """Have one reply spoken to its end."""
    await page.get_by_test_id("text").fill(f"Question {number}")
    await page.get_by_test_id("send").click()
    ended = (
        "duplexDebug.traffic().filter(({event}) => event.type === 'output_audio_buffer.stopped').length"
        f" === {number} && duplexDebug.state().phase === 'listening'"
    )
    # Not wait_for_function: the page's policy forbids eval.
    for _ in range(round(_REPLY_S_MAX / _POLL_S)):
        if await page.evaluate(ended):
            return
        await asyncio.sleep(_POLL_S)
    raise TimeoutError(f"reply {number} did not end")


async def call(url: str, driver: Playwright, replies: int) -> list[dict[str, float]]:
    """Return the comparisons of one call with some replies."""
    browser = await driver.chromium.launch(executable_path=shutil.which("chromium"), args=_FLAGS)
    page = await browser.new_page()
    await page.goto(f"{url}/?debug")
    for number in range(1, replies + 1):
        await ask(page, number)
        await asyncio.sleep(_PAUSE_S)
    fronts: list[dict[str, float]] = await page.evaluate("duplexDebug.fronts()")
    await browser.close()
    return fronts


async def run(calls: int, replies: int) -> dict[str, Any]:
    """Return the figures of some calls."""
    arguments = ("--model", "sim", "--set", f"model.options.script={_SCRIPT}")
    async with server_process(*arguments) as url, async_playwright() as driver:
        by_call = [await call(url, driver, replies) for _ in range(calls)]
    fronts = [front for each in by_call for front in each]
    fair = [front["errorMs"] for front in fronts if front["concealedMs"] < _CONCEALED_MS_MAX]
    return {
        "calls": calls,
        "replies": replies,
        "error_ms": quantiles([abs(error) for error in fair]),
        "signed_error_ms": quantiles(fair),
        "error_ms_all_reports": quantiles([abs(front["errorMs"]) for front in fronts]),
        "error_ms_by_the_clock": quantiles([abs(front["errorMs"] - front["stretchedMs"]) for front in fronts]),
        "signed_error_ms_by_call": [quantiles([front["errorMs"] for front in each]) for each in by_call],
        "concealed_share": round(1 - len(fair) / max(1, len(fronts)), 3),
        "load_average_at_the_end": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Measure and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replies", type=int, default=3, help="in each call")
    parser.add_argument("--calls", type=int, default=4)
    given = parser.parse_args()
    write("playback_front", asyncio.run(run(given.calls, given.replies)))


if __name__ == "__main__":
    main()
