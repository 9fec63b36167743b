"""Runs the programs of programs/ against a server, each with its plan, and takes down what they report."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import sync_playwright

from tests.browser.browser_harness import ROOT, RunningServer, toml
from tests.clients.clients import Client
from tests.speech import fact_audio, facts, sentence_audio

Pack = Literal["sim", "local"]
HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
VENV_PYTHON = ROOT / ".venv-clients" / "bin" / "python"
KEY = "a-key-of-the-client-tests"
RATE = 24_000
PROGRAM_S_MAX = 240.0
_AT_ONCE: dict[Pack, int] = {"sim": 8, "local": 3}
"""Programs at a time: with the test double they wait most of the time, with the model they share two cores."""
_WAIT_STOP, _WITHOUT_A_PAUSE = 11, 8
"""Sentences of the test data."""
_WORD_MS = 250
_SCRIPT = "one two three four five six seven eight nine ten eleven twelve."
_STORY = " ".join(f"word{i}" for i in range(100)) + "."
"""Goes on for longer than a slow machine needs to hear that it is interrupted."""
_CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--allow-loopback-in-peer-connection",
    "--ignore-certificate-errors",
    "--autoplay-policy=no-user-gesture-required",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a step of a program went."""

    step: str
    ok: bool
    seconds: float
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All of a program."""

    outcomes: tuple[Outcome, ...]
    noise: str
    """The end of what it wrote besides."""

    def passed(self, step: str) -> bool:
        """Return whether a step was taken and went well."""
        return any(outcome.step == step and outcome.ok for outcome in self.outcomes)

    @property
    def problems(self) -> str:
        """What went wrong, to be read; empty: nothing."""
        wrong = [f"{outcome.step}: {outcome.error}" for outcome in self.outcomes if not outcome.ok]
        if not any(outcome.step == "clean end" for outcome in self.outcomes):
            wrong.append(f"it never came to its end: {self.noise}")
        return "\n".join(wrong)


class Runs:
    """Programs against servers; each pack's server is started when it is first asked for, and all its programs with it.

    Args:
        folder: for what is made on the way.
        wanted: which programs will be asked for, by pack.
    """

    def __init__(self, folder: Path, wanted: dict[Pack, list[Client]]) -> None:
        self._folder = folder
        self._wanted = wanted
        self._stack = ExitStack()
        self._running: dict[Pack, dict[Client, Future[Report]]] = {}
        self._pages = _PageServer(folder / "pages")
        self._stack.callback(self._pages.stop)
        if any(client.runs == "page" for clients in wanted.values() for client in clients):
            _bundle(folder / "pages")

    def of(self, client: Client, pack: Pack) -> Report:
        """Return a program's report, when it has ended."""
        if pack not in self._running:
            self._start(pack)
        return self._running[pack][client].result(PROGRAM_S_MAX * len(self._wanted[pack]))

    def stop(self) -> None:
        """End the servers."""
        self._stack.close()

    def _start(self, pack: Pack) -> None:
        config = self._folder / f"{pack}.toml"
        config.write_text(_config(pack, self._pages.origin, self._folder / "tls"))
        server = self._stack.enter_context(RunningServer(config))
        pool = self._stack.enter_context(ThreadPoolExecutor(_AT_ONCE[pack]))
        plan = _plan(pack, server.url, self._folder)
        self._running[pack] = {client: pool.submit(self._run, client, pack, plan) for client in self._wanted[pack]}

    def _run(self, client: Client, pack: Pack, plan: dict[str, Any]) -> Report:
        folder = self._folder / f"{pack}-{client.program}"
        folder.mkdir()
        certificate = self._folder / "tls" / "self-signed.pem"
        if client.runs == "page":
            secret = _secret(plan, certificate)
            return self._pages.run(client.program, plan | {"key": secret}, pack)
        (folder / "plan.json").write_text(json.dumps(plan))
        python = sys.executable if client.runs == "here" else str(VENV_PYTHON)
        command = ["node", f"{client.program}.js"] if client.runs == "node" else [python, f"{client.program}.py"]
        trust = {"SSL_CERT_FILE": str(certificate), "NODE_EXTRA_CA_CERTS": str(certificate)}
        try:
            ended = subprocess.run(
                [*command, str(folder / "plan.json")], cwd=PROGRAMS, env=os.environ | trust, capture_output=True,
                text=True, timeout=PROGRAM_S_MAX,
            )  # fmt: skip
            out, noise = ended.stdout, ended.stderr
        except subprocess.TimeoutExpired as stopped:
            out, noise = ((text or b"").decode() for text in (stopped.stdout, stopped.stderr))
        lines = [json.loads(line) for line in out.splitlines() if line.startswith('{"step":')]
        return _report(lines, noise)


def _report(lines: Iterable[dict[str, Any]], noise: str) -> Report:
    return Report(outcomes=tuple(Outcome(**line) for line in lines), noise=noise[-2000:])


def _config(pack: Pack, origin: str, tls: Path) -> str:
    """Return the server's configuration: behind a key and TLS, as those who point stock clients at it run it."""
    options = {"word_ms": _WORD_MS, "script": [_SCRIPT]} if pack == "sim" else {}
    return toml(
        {
            "server": {"tls": True, "tls_dir": str(tls), "cors_origins": [origin]},
            "server.api_keys": {"test": KEY},
            "admission": {"measured": False},
            "pacing": {"lead_ms_websocket": 1500},
            "model": {"pack": pack},
            "model.options": options,
        }
    )


def _plan(pack: Pack, url: str, folder: Path) -> dict[str, Any]:
    asked, written = facts()[0], facts()[1]
    knows = pack == "local"
    # The test double takes any pause for the end of a turn: what it is interrupted with has none.
    interruption = sentence_audio(_WAIT_STOP if knows else _WITHOUT_A_PAUSE, RATE)
    recordings = {"question": fact_audio(0, "af_sarah", RATE), "interruption": interruption}
    folder = folder / f"{pack}-recordings"
    folder.mkdir()
    for name, pcm in recordings.items():
        pcm.astype("<i2").tofile(folder / f"{name}.pcm")
    return {
        "url": url,
        "key": KEY,
        **{name: str(folder / f"{name}.pcm") for name in recordings},
        "answers": asked.accept if knows else (),
        "text": written.ask,
        "text_answers": written.accept if knows else (),
        "story": "Tell me about the history of London." if knows else f"repeat {_STORY}",
        "tool_request": None if knows else 'call open_door {"room": "kitchen"}',
        "patient": not knows,  # the model's answers may take half a minute to hear
        "word_ms": None if knows else _WORD_MS,
    }


def _secret(plan: dict[str, Any], certificate: Path) -> str:
    """Return a short-lived secret, as an app's own server makes one for a page."""
    request = urllib.request.Request(
        f"{plan['url']}/v1/realtime/client_secrets", data=b"{}", headers={"Authorization": f"Bearer {plan['key']}"}
    )
    with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=str(certificate))) as answer:
        secret: str = json.load(answer)["value"]
    return secret


def _bundle(folder: Path) -> None:
    """Make the pages' scripts, each with its package."""
    pages = sorted(str(path) for path in PROGRAMS.glob("*_page.js"))
    esbuild = HERE / "node_modules" / ".bin" / "esbuild"
    flags = ["--bundle", "--format=esm", "--log-level=warning", f"--outdir={folder}"]
    subprocess.run([esbuild, *pages, *flags], cwd=HERE, check=True)


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


class _PageServer:
    """Serves the pages from an origin of its own, and opens each in a Chromium of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        handler = functools.partial(_QuietHandler, directory=folder)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def run(self, program: str, plan: dict[str, Any], pack: Pack) -> Report:
        """Open a program's page, and close it when it has finished."""
        name = f"{pack}-{program}"
        folder = self._folder / name
        folder.mkdir()
        for recording in ("question", "interruption"):
            shutil.copy(plan[recording], folder / f"{recording}.pcm")
        (folder / "plan.json").write_text(json.dumps(plan))
        script = f'<script type="module" src="/{program}.js"></script>\n'
        (folder / "index.html").write_text((PROGRAMS / "page.html").read_text() + script)
        complaints: list[str] = []
        executable = shutil.which("chromium") or shutil.which("google-chrome")
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=executable, headless=True, args=_CHROMIUM_FLAGS)
            page = browser.new_page()
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto(f"{self.origin}/{name}/")
            page.wait_for_function("window.finished", timeout=1000 * PROGRAM_S_MAX)
            lines = page.evaluate("window.outcomes")
            browser.close()
        return _report(lines, "\n".join(complaints))

    def stop(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
