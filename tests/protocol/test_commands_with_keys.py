"""`duplex talk`, `trace`, `ready` and the load generator against a server with keys and TLS."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from duplex_models.sim import SimOptions, make

from duplex.actor.host import SessionHost
from duplex.cli import FAILED, main
from duplex.client_key import headers_of
from duplex.config import load
from duplex.server.serve import listening
from duplex.server.tls import open_tls
from duplex.telemetry import Observer
from duplex.telemetry.hub import Telemetry
from duplex.telemetry.setup import ProcessClock
from loadgen.live.options import LiveOptions
from loadgen.live.result import result
from loadgen.live.run import Run
from loadgen.trace import parse

pytestmark = pytest.mark.protocol

CEILING_S = 60.0
KEY = "key-0123456789abcdef"
SPEECH = Path(__file__).parents[1] / "data" / "speech" / "s00.flac"
TRACE = [
    {"duplex_trace": 1, "name": "one"},
    {"session": "s0", "at_s": 0.0, "turns": [{"gap_s": 0.3, "speech_s": 1.6, "words": 4, "answer_words": 2}]},
]


@asynccontextmanager
async def keyed(ready: bool = True, **server: Any) -> AsyncIterator[str]:
    """Serve with a key; yields the URL."""
    settings = load(server={"port": 0, "close_timeout_s": 1.0, "api_keys": {"app": KEY}, **server})
    observer = Observer()
    looks = Telemetry(settings.telemetry, observer, ProcessClock())
    host = SessionHost(settings, make(SimOptions(script=("One two.",))), observer.record, looks)
    tls = open_tls(settings.server, {}, datetime.now(UTC))
    async with listening(host, settings.server, observer, looks, tls) as url, asyncio.timeout(CEILING_S):
        if ready:
            await host.start(lambda line: None)
        yield url


async def run(command: Callable[[list[str]], int], *arguments: str) -> int:
    return await asyncio.to_thread(command, list(arguments))


async def test_talk_brings_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DUPLEX_API_KEY", raising=False)
    (tmp_path / "key").write_text(f"{KEY}\n")
    async with keyed() as url:
        assert await run(main, "talk", str(SPEECH), "--url", url) == FAILED
        assert "API key" in capsys.readouterr().err
        assert await run(main, "talk", str(SPEECH), "--url", url, "--key-file", str(tmp_path / "key")) == 0
    assert "One two." in capsys.readouterr().out


async def test_trace_brings_the_key_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with keyed() as url:
        monkeypatch.setenv("DUPLEX_API_KEY", KEY)
        assert await run(main, "trace", "--url", url) == 0
        assert "no session has a trace" in capsys.readouterr().out
        monkeypatch.setenv("DUPLEX_API_KEY", "key-0000000000000000")
        assert await run(main, "trace", "--url", url) == FAILED
        assert "API key" in capsys.readouterr().err


@pytest.mark.parametrize(("transport", "processes"), [("websocket", 1), ("webrtc", 0)])
async def test_the_load_generator_brings_its_key(transport: Any, processes: int) -> None:
    said = parse([json.dumps(line) for line in TRACE])
    async with keyed() as url:
        options = LiveOptions(url=url, key=KEY, transport=transport, processes=processes)
        found = result(await Run(options, said).measure(), options, said, "loadgen live")
    assert found["server"]["model"]["name"] == "sim"
    assert "duplex_ttfas_seconds{observed=sent}" in json.dumps(found), "the server's own measures need the key too"
    assert [row["status"] for row in found["sessions"]] == ["ended"]
    assert KEY not in json.dumps(found)


async def test_only_a_key_or_a_secret_for_the_dashboard_sees_the_server_live() -> None:
    async with keyed() as url, ClientSession(url) as client:
        statuses = {None: await watched(client, None), "key": await watched(client, KEY)}
        for scope in ("sessions", "dashboard"):
            body, headers = {"duplex": {"scope": scope}}, headers_of(KEY)
            async with client.post("/v1/realtime/client_secrets", json=body, headers=headers) as response:
                statuses[scope] = await watched(client, (await response.json())["value"])
    assert statuses == {None: 401, "key": 200, "sessions": 403, "dashboard": 200}


async def watched(client: ClientSession, credential: str | None) -> int:
    async with client.get("/v1/duplex/live?once=1", headers=headers_of(credential)) as response:
        return response.status


@pytest.mark.parametrize("tls", [False, True])
async def test_a_health_check_asks_as_the_server_listens(
    tls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DUPLEX_SERVER__TLS", json.dumps(tls))
    host = {"host": "0.0.0.0"} if tls else {}
    async with keyed(ready=False, tls=tls, tls_dir=tmp_path, **host) as url:
        port = re.findall(r":(\d+)", url)[0]
        flags = [flag for name, value in host.items() for flag in (f"--{name}", value)]
        assert await run(main, "ready", "--port", port, *flags) == FAILED
        assert "not_ready" in capsys.readouterr().err
    async with keyed(tls=tls, tls_dir=tmp_path, **host) as url:
        port = re.findall(r":(\d+)", url)[0]
        assert await run(main, "ready", "--port", port, *flags) == 0
    assert await run(main, "ready", "--port", port, "--timeout", "1", *flags) == FAILED
