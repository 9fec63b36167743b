"""A server as a subprocess, and a page that is watched while it is used."""

from __future__ import annotations

import functools
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from playwright.sync_api import ConsoleMessage, Page, Request

ROOT = Path(__file__).resolve().parents[2]
READY_S_MAX = 60.0
STEP_S_MAX = 30.0
"""Ceiling of every wait; a pass takes a fraction of it."""
_POLL_MS = 25
_END_S_MAX = 10.0


@dataclass(kw_only=True)
class Server:
    """A server that runs or is about to: it loads while the caller does something else, such as starting a browser."""

    process: subprocess.Popen[str]
    output: list[str] = field(default_factory=list)
    """What it has printed so far."""
    ready: queue.SimpleQueue[str | None] = field(default_factory=queue.SimpleQueue)
    """Its URL once it serves; None when it ends."""

    @functools.cached_property
    def url(self) -> str:
        """Its address; waits for its `ready` line."""
        try:
            url = self.ready.get(timeout=READY_S_MAX)
        except queue.Empty:
            url = None
        if url is None:
            pytest.fail(f"the server did not start:\n{''.join(self.output)}")
        return url


Serve = Callable[..., Server]


@dataclass(kw_only=True)
class Visit:
    """An open page and what it did beside its work."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    """Errors on its console or uncaught."""
    foreign: list[str] = field(default_factory=list)
    """Requests to anywhere but its own server."""

    def watch(self, server_url: str) -> None:
        """Note what goes wrong on the page, and what it asks of others."""

        def console(message: ConsoleMessage) -> None:
            if message.type == "error":
                self.complaints.append(message.text)

        def request(asked: Request) -> None:
            if not asked.url.startswith(server_url):
                self.foreign.append(asked.url)

        self.page.on("console", console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", request)

    def until(self, expression: str, ceiling_s: float = STEP_S_MAX) -> None:
        """Wait for a JavaScript expression to be true; evaluated from outside, for the page's policy forbids eval."""
        deadline = time.perf_counter() + ceiling_s
        while not self.page.evaluate(expression):
            if time.perf_counter() > deadline:
                phases = self.page.evaluate("window.duplexDebug?.phases()")
                problem = self.page.evaluate("window.duplexDebug?.state().problem")
                traffic = self.page.evaluate("window.duplexDebug?.traffic().slice(-12)")
                pytest.fail(f"never came true: {expression}\n{phases=}\n{problem=}\n{traffic=}")
            self.page.wait_for_timeout(_POLL_MS)

    def phase(self, phase: str) -> None:
        """Wait for the conversation to be in a phase."""
        self.until(f"duplexDebug.state().phase === {json.dumps(phase)}")


Open = Callable[..., Visit]


class RunningServer:
    """Context manager of a server with a configuration file: from its start to its end."""

    def __init__(self, config: Path) -> None:
        self._command = [sys.executable, "-m", "duplex.cli", "serve", "--port", "0", "--config", str(config)]

    def __enter__(self) -> Server:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("DUPLEX_")}
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        server = Server(process=self._process)
        self._reader = threading.Thread(target=self._read, args=(server.output, server.ready), daemon=True)
        self._reader.start()
        return server

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(_END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self, output: list[str], ready: queue.SimpleQueue[str | None]) -> None:
        if self._process.stdout is None:
            return
        for line in self._process.stdout:
            output.append(line)
            if line.startswith("ready http"):
                ready.put(line.split()[1].rstrip("/"))
        ready.put(None)


def toml(tables: dict[str, dict[str, Any]]) -> str:
    """Write flat tables of JSON-like values; TOML writes those the same way."""
    lines: list[str] = []
    for table, values in tables.items():
        lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items()), ""]
    return "\n".join(lines)
