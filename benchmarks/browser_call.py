"""A call by headless Chromium with a wav as its microphone: what it said and heard, sample-accurate on one clock."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
import wave
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
from aiohttp import web
from numpy.typing import NDArray
from playwright.async_api import async_playwright

RATE = 48_000
BLOCK = 128
LOUD = 300
"""Peak (of 32767) above which a block is sound."""
_PAGE = Path(__file__).parent / "page"
SPEECH = Path(__file__).parents[1] / "tests" / "data" / "speech"
_FLAGS = [
    "--no-sandbox", "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream",
    "--allow-loopback-in-peer-connection", "--disable-background-networking", "--autoplay-policy=no-user-gesture-required",
]  # fmt: skip
Pcm = NDArray[np.int16]


def speech(path: Path) -> Pcm:
    """Return a recording at 48 kHz, mono."""
    resampler = av.AudioResampler("s16", "mono", RATE)
    pieces = []
    with av.open(str(path)) as container:
        for frame in container.decode(audio=0):
            pieces += [out.to_ndarray()[0] for out in resampler.resample(frame)]
        pieces += [out.to_ndarray()[0] for out in resampler.resample(None)]
    return np.concatenate(pieces)


def edges(pcm: Pcm, loud: int = LOUD) -> tuple[int, int]:
    """Return the first and one past the last loud sample: the label of where its energy begins and ends."""
    sounding = np.flatnonzero(np.abs(pcm.astype(np.int32)) > loud)
    return int(sounding[0]), int(sounding[-1]) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One call, on the browser's clock."""

    user: NDArray[np.int32]
    """Peak of each block of 128 samples (2.67 ms) of the microphone."""
    reply: NDArray[np.int32]
    """The same of what the server's audio sounded like after the browser's jitter buffer."""
    events: list[dict[str, Any]]
    """{wall: ms since 1970, block, event}."""
    clock: list[tuple[int, int]]
    """(block, ms since 1970), now and then."""
    stats: dict[str, Any]

    def seconds(self, block: float) -> float:
        return block * BLOCK / RATE

    def wall_s(self, block: float) -> float:
        """Return seconds since 1970 of a block (the earliest of the page's clock readings is the least delayed)."""
        offset = min(wall / 1000 - self.seconds(at) for at, wall in self.clock)
        return offset + self.seconds(block)

    def first_loud(self, track: NDArray[np.int32], start: int, end: int | None = None) -> int | None:
        found = np.flatnonzero(track[start:end] > LOUD)
        return start + int(found[0]) if len(found) else None


@contextlib.asynccontextmanager
async def page_server() -> AsyncIterator[str]:
    """Serve the benchmark's page on a free port."""
    app = web.Application()
    app.router.add_static("/", _PAGE)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/index.html"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def server_process(*arguments: str) -> AsyncIterator[str]:
    """Run `duplex serve` in a process of its own; yields its URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "duplex.cli", "serve", "--port", "0", "--set", 'server.cors_origins=["*"]', *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            while not (line := await process.stdout.readline()).startswith(b"ready "):
                if not line:
                    raise RuntimeError("the server did not start")
        yield line.decode().split()[1]
    finally:
        process.terminate()
        await process.wait()


async def call(url: str, microphone: Pcm, session: dict[str, Any], greet: str | None = None) -> Heard:
    """Hold one call for as long as the microphone's audio lasts.

    Args:
        url: the server; must allow the page's origin.
        microphone: 48 kHz mono.
        session: session object of the call.
        greet: text to type first.
    """
    seconds = len(microphone) / RATE
    with tempfile.TemporaryDirectory() as folder:
        wav = Path(folder, "mic.wav")
        with wave.open(str(wav), "wb") as out:
            out.setnchannels(1)
            out.setsampwidth(2)
            out.setframerate(RATE)
            out.writeframes(microphone.tobytes())
        flags = [*_FLAGS, f"--use-file-for-fake-audio-capture={wav}%noloop"]
        async with page_server() as address, async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
            page = await browser.new_page()
            await page.goto(address)
            await page.wait_for_function("globalThis.call")
            await page.evaluate("([url, session]) => call.start(url, session)", [url, session])
            if greet is not None:
                content = [{"type": "input_text", "text": greet}]
                item = {"type": "message", "role": "user", "content": content}
                await page.evaluate("(e) => call.send(e)", {"type": "conversation.item.create", "item": item})
                await page.evaluate("(e) => call.send(e)", {"type": "response.create"})
            await asyncio.sleep(seconds)
            got: dict[str, Any] = await page.evaluate("() => call.finish()")
            await browser.close()
    rows = np.asarray(got["rows"], dtype=np.int32)
    return Heard(
        user=rows[:, 0], reply=rows[:, 1], events=got["events"], clock=[(int(b), int(w)) for b, w in got["clock"]],
        stats=got["stats"],
    )  # fmt: skip


def dump(heard: Heard, path: Path) -> None:
    """Keep a call's events for a closer look."""
    path.write_text(json.dumps(heard.events, indent=1))
