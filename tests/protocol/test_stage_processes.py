"""Stages in processes of their own, killed and stopped: their replies fail, the server says so, and they come back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse
from duplex_models.sim import SimOptions, make

from duplex.actor.host import SessionHost
from duplex.config import Settings, StageSettings
from duplex.payloads import Role
from duplex.server.serve import listening
from duplex.stages.contract import ModelPack, PackError
from duplex.stages.process import ProcessBatch, isolated
from duplex.telemetry import Observer

pytestmark = pytest.mark.protocol
CEILING_S = 60.0
OPTIONS = SimOptions(vad="level", script=("One two three.",), talk_s=0.3)


@asynccontextmanager
async def served() -> AsyncIterator[tuple[str, SessionHost, Observer]]:
    """Serve the test double, its talker in a process; yields when it is ready."""
    stages = StageSettings(processes=("talk",), heartbeat_s=0.1, heartbeats_missed_max=4, restart_s_first=0.1)
    settings = Settings(server={"port": 0, "close_timeout_s": 1.0}, stages=stages, log_level="error")  # type: ignore[arg-type]
    observer = Observer()
    host = SessionHost(settings, make(OPTIONS), observer.record)
    async with listening(host, settings.server, observer) as url, asyncio.timeout(CEILING_S):
        await host.start(lambda line: None)
        yield url, host, observer


def talker(host: SessionHost) -> ProcessBatch:
    """Return the talker that serves at the moment."""
    stage: Any = host._runners.runners[Role.TALK]._watchdog.stage
    assert isinstance(stage, ProcessBatch)
    return stage


async def reply(ws: ClientWebSocketResponse) -> str:
    """Wait for a reply's end and return how it ended."""
    while (event := await ws.receive_json())["type"] != "response.done":
        pass
    return str(event["response"]["status"])


@pytest.mark.parametrize(("number", "reason"), [(signal.SIGKILL, "exit"), (signal.SIGSTOP, "hang")])
async def test_a_stage_whose_process_is_killed_or_stopped_comes_back(number: signal.Signals, reason: str) -> None:
    async with served() as (url, host, observer), ClientSession(url) as http:
        async with http.ws_connect("/v1/realtime") as ws, http.ws_connect("/v1/realtime") as other:
            await ws.send_json({"type": "response.create"})
            while (await ws.receive_json())["type"] != "response.created":
                pass
            while not host._runners.runners[Role.TALK].load().running:  # noqa: ASYNC110 - under the ceiling of `served`
                await asyncio.sleep(0.005)
            before = talker(host)
            assert before.pid is not None
            os.kill(before.pid, number)
            assert await reply(ws) == "failed"
            while host.ready:  # noqa: ASYNC110 - a raised step is told before the end of its process
                await asyncio.sleep(0.001)
            async with http.get("/readyz") as response:
                assert response.status == 503
                assert "stage talk" in await response.text()
            async with http.get("/healthz") as response:
                assert response.status == 200
            async with http.post(
                "/v1/realtime/calls", data=b"v=0", headers={"Content-Type": "application/sdp"}
            ) as response:
                assert response.status == 503
            await other.send_json({"type": "response.create"})  # waits for the next talker
            assert await reply(other) == "completed"
            assert host.ready
            assert talker(host) is not before
            with pytest.raises(ProcessLookupError):
                os.kill(before.pid, 0)
            await ws.send_json({"type": "response.create"})
            assert await reply(ws) == "completed"
        assert observer.value("duplex_stage_restarts_total", stage="talk", reason=reason) == 1
        assert observer.value("duplex_stage_up", stage="talk") == 1
        last = talker(host).pid
    assert last is not None
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)


def broken() -> Any:
    """Make no stage."""
    raise PackError("no weights here")


def test_a_process_that_cannot_load_says_why() -> None:
    spec = next(stage.spec for stage in make(OPTIONS).stages if stage.spec.role is Role.TALK)
    stage = ProcessBatch(spec, broken, StageSettings())
    with pytest.raises(PackError, match="no weights here"):
        stage.load(lambda line: None)
    dying = ProcessBatch(spec, partial(os._exit, 3), StageSettings())
    with pytest.raises(PackError, match="ended while it loaded"):
        dying.load(lambda line: None)


def test_a_stage_that_cannot_have_a_process_is_refused() -> None:
    pack: ModelPack = make(OPTIONS, after=lambda seconds, call: lambda: None)
    with pytest.raises(PackError, match="think of the model pack sim cannot have a process"):
        isolated(pack, StageSettings(processes=("think",)))
    with pytest.raises(PackError, match="has no tick"):
        isolated(pack, StageSettings(processes=("tick",)))
    assert isolated(pack, StageSettings(processes=())).stages == pack.stages
