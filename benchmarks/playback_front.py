"""How well does the page know what has been played? Its reports of `getStats` against its own audio thread.

Headless Chromium opens the page of a server with the test double, whose voice sounds from its first sample on, and asks for
replies in writing. While a reply plays the SDK reports its playback front twice a second; the AudioWorklet of the page knows
when the reply became audible. The error is the reported front less the time since then; positive: the report is ahead of the
ear. The worklet cannot tell a reply from what the browser makes up for late packets, so figures are given for all reports and
for those of replies without such sound up to then (less than 10 ms); `concealed_share` says how many there were not.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
from typing import Any

from playwright.async_api import Page, async_playwright

from benchmarks.browser_call import server_process
from benchmarks.report import quantiles, write

_FLAGS = ["--no-sandbox", "--allow-loopback-in-peer-connection", "--disable-background-networking"]
_SCRIPT = '["This is a reply of the test double, and it goes on for about as long as a person likes to listen to it."]'
_REPLY_S_MAX = 60
_POLL_S = 0.1
_CONCEALED_MS_MAX = 10


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


async def run(replies: int) -> dict[str, Any]:
    """Return the figures of some replies in one call."""
    async with (
        server_process("--model", "sim", "--set", f"model.options.script={_SCRIPT}") as url,
        async_playwright() as driver,
    ):
        browser = await driver.chromium.launch(executable_path=shutil.which("chromium"), args=_FLAGS)
        page = await browser.new_page()
        await page.goto(f"{url}/?debug")
        for number in range(1, replies + 1):
            await ask(page, number)
        fronts: list[dict[str, float]] = await page.evaluate("duplexDebug.fronts()")
        await browser.close()
    fair = [front["errorMs"] for front in fronts if front["concealedMs"] < _CONCEALED_MS_MAX]
    return {
        "replies": replies,
        "error_ms": quantiles([abs(error) for error in fair]),
        "signed_error_ms": quantiles(fair),
        "error_ms_all_reports": quantiles([abs(front["errorMs"]) for front in fronts]),
        "concealed_share": round(1 - len(fair) / max(1, len(fronts)), 3),
        "load_average_at_the_end": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Measure and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replies", type=int, default=10)
    write("playback_front", asyncio.run(run(parser.parse_args().replies)))


if __name__ == "__main__":
    main()
