"""Headless Chromium against the real server with the `sim` pack, on loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import pytest
from browser_harness import ROOT, Open, RunningServer, Serve, Server, Visit, toml
from playwright.sync_api import Browser, Playwright, sync_playwright

CLIENT = ROOT / "web_client"
_CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--use-fake-device-for-media-stream",
    "--allow-loopback-in-peer-connection",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]


def left_out(reason: str) -> NoReturn:
    """Say loudly that a test could not run; in CI that is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"left out, and CI may leave nothing out: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def built_page() -> Path:
    """The built page, made anew where its sources are newer."""
    index = CLIENT / "dist" / "index.html"
    sources = [*(CLIENT / "sdk").rglob("*"), *(CLIENT / "page").rglob("*"), CLIENT / "vite.config.ts"]
    newest = max(path.stat().st_mtime for path in sources)
    if not index.is_file() or index.stat().st_mtime < newest:
        npm = shutil.which("npm")
        if npm is None or not (CLIENT / "node_modules").is_dir():
            left_out("the page is not built and npm has not installed what builds it: npm ci in web_client/")
        subprocess.run([npm, "run", "build"], cwd=CLIENT, check=True, capture_output=True, timeout=120)
    return index.parent


@pytest.fixture
def serve(built_page: Path, tmp_path: Path) -> Iterator[Serve]:
    """Start servers: `serve(script=[...], server={...}, settings={"turn": {...}})`; options are the sim pack's.

    They end with the test, and wait for no page that has left without a hang-up, as pages do that may come back.
    """
    with ExitStack() as stack:

        def start(
            *, server: dict[str, Any] | None = None, settings: dict[str, dict[str, Any]] | None = None, **options: Any
        ) -> Server:
            config = tmp_path / f"config{len(list(tmp_path.glob('config*.toml')))}.toml"
            config.write_text(
                toml(
                    {
                        **(settings or {}),
                        "server": {"drain_timeout_s": 0.0, **(server or {})},
                        "admission": {"measured": False},
                        "model": {"pack": "sim"},
                        "model.options": options,
                    }
                )
            )
            return stack.enter_context(RunningServer(config))

        yield start


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """The driver of the browsers. It keeps a loop running in this thread, so it must be gone before other modules' tests."""
    with sync_playwright() as driver:
        yield driver


def launch(playwright: Playwright, *flags: str) -> Browser:
    """Start a browser."""
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    return playwright.chromium.launch(executable_path=executable, headless=True, args=[*_CHROMIUM_FLAGS, *flags])


@pytest.fixture(scope="module")
def deaf(playwright: Playwright) -> Iterator[Browser]:
    """The browser of all pages without a microphone; they share nothing of it but its process."""
    with launch(playwright) as browser:
        yield browser


@pytest.fixture
def visit(playwright: Playwright, deaf: Browser) -> Iterator[Open]:
    """Open the page of a server, in a browser of its own if it hears something; the server may still be loading meanwhile.

    `microphone` is the wav that it hears, once; without one the microphone is there and refused.
    """
    with ExitStack() as stack:

        def open_page(server: Server, *, microphone: Path | None = None, **context: Any) -> Visit:
            browser = deaf
            if microphone is not None:
                heard = f"--use-file-for-fake-audio-capture={microphone}%noloop"
                browser = stack.enter_context(launch(playwright, heard, "--use-fake-ui-for-media-stream"))
            page = stack.enter_context(browser.new_page(**context))
            seen = Visit(page=page)
            seen.watch(server.url)
            page.goto(f"{server.url}/?debug")
            return seen

        yield open_page
