"""SIGTERM: no new sessions, those that live may finish within a bound, and whoever asks is told how many are left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, WSServerHandshakeError
from duplex_models.sim import SimOptions, make
from fake_host import until

from duplex.actor.host import SessionHost
from duplex.config import ServerSettings, Settings
from duplex.server.serve import serve
from duplex.telemetry import Observer

pytestmark = pytest.mark.protocol

CEILING_S = 30.0


class Running:
    """A server in this process, as `duplex serve` runs it."""

    def __init__(self, drain_timeout_s: float, close_timeout_s: float) -> None:
        server = ServerSettings(port=0, drain_timeout_s=drain_timeout_s, close_timeout_s=close_timeout_s)
        self.settings = Settings(server=server, log_level="error")
        self.observer = Observer()
        self.host: SessionHost | None = None
        self.ready = asyncio.get_running_loop().create_future()
        self.task = asyncio.ensure_future(
            serve(self._make_host, server, self.observer, progress=lambda line: None, ready=self.ready.set_result)
        )

    def _make_host(self) -> SessionHost:
        self.host = SessionHost(self.settings, make(SimOptions(vad="level")), self.observer.record)
        return self.host

    @property
    def sessions(self) -> int:
        assert self.host is not None
        return self.host.sessions

    async def stop(self, client: ClientSession) -> None:
        """Signal, and wait until it shows."""
        os.kill(os.getpid(), signal.SIGTERM)
        while (await client.get("/readyz")).status != 503:  # noqa: ASYNC110 - under the ceiling of `running`
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(
    drain_timeout_s: float = 600, close_timeout_s: float = 1.0
) -> AsyncIterator[tuple[Running, ClientSession]]:
    server = Running(drain_timeout_s, close_timeout_s)
    async with asyncio.timeout(CEILING_S):
        async with ClientSession(await server.ready) as client:
            yield server, client
        if not server.task.done():
            await asyncio.wait([server.task])


async def text_turn(ws: ClientWebSocketResponse) -> str:
    """Ask in text; return the reply's status."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Count."}]}
    await ws.send_str(json.dumps({"type": "conversation.item.create", "item": item}))
    await ws.send_str(json.dumps({"type": "response.create", "response": {"output_modalities": ["text"]}}))
    while True:
        event = await ws.receive_json()
        if event["type"] == "response.done":
            return str(event["response"]["status"])


async def closed_with(ws: ClientWebSocketResponse) -> tuple[int | None, str]:
    """Receive up to the close; return its code and reason."""
    while True:
        message = await ws.receive()
        if message.type == WSMsgType.CLOSE:
            return message.data, str(message.extra)


async def test_a_draining_server_refuses_new_sessions_and_serves_the_live_ones_to_their_end() -> None:
    async with running() as (server, client):
        async with client.ws_connect("/v1/realtime") as one, client.ws_connect("/v1/realtime") as two:
            await one.receive_json()
            await two.receive_json()
            await server.stop(client)
            shown = await (await client.get("/readyz")).json()
            assert shown == {"status": "draining", "reasons": ["draining"], "sessions": 2}
            assert (await client.get("/healthz")).status == 200
            refused = await client.post("/v1/realtime/calls", data=b"v=0", headers={"Content-Type": "application/sdp"})
            assert refused.status == 503
            assert "draining" in (await refused.json())["error"]["message"]
            assert int(refused.headers["Retry-After"]) >= 1
            with pytest.raises(WSServerHandshakeError) as third:
                await client.ws_connect("/v1/realtime")
            assert third.value.status == 503
            assert server.observer.value("duplex_admission_total", decision="refused", reason="draining") == 2
            assert await text_turn(one) == "completed"
            await one.close()
            await until(lambda: server.sessions == 1)
            assert (await (await client.get("/readyz")).json())["sessions"] == 1
            assert await text_turn(two) == "completed"
            assert not server.task.done()
        await server.task  # ends with the last session, long before its bound


async def test_sessions_that_do_not_end_within_the_bound_are_closed_with_a_reason() -> None:
    async with running(drain_timeout_s=0.2) as (server, client), client.ws_connect("/v1/realtime") as ws:
        await ws.receive_json()
        await server.stop(client)
        assert await closed_with(ws) == (1001, "server")
        await ws.close()
        await server.task
        assert server.sessions == 0


async def test_a_second_signal_ends_at_once() -> None:
    async with running() as (server, client), client.ws_connect("/v1/realtime") as ws:
        await ws.receive_json()
        await server.stop(client)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await closed_with(ws) == (1001, "server")
        await ws.close()
        with pytest.raises(asyncio.CancelledError):
            await server.task


async def test_an_idle_server_stops_at_once() -> None:
    async with running() as (server, _):
        os.kill(os.getpid(), signal.SIGTERM)
        await server.task


class Slow:
    """A session whose client takes long to close: no sooner than all others close too."""

    def __init__(self, barrier: asyncio.Barrier, fails: bool) -> None:
        self._barrier = barrier
        self._fails = fails

    async def close(self, reason: str) -> None:
        assert reason == "server"
        await self._barrier.wait()
        if self._fails:
            raise RuntimeError("a defect of the session")


async def test_sessions_are_closed_together_and_one_that_fails_keeps_nothing_open() -> None:
    closed: list[str] = []
    pack = make(SimOptions(vad="level"))
    pack.stages[0].close = lambda: closed.append("stage")  # type: ignore[method-assign]
    host = SessionHost(Settings(log_level="error"), pack, Observer().record)
    barrier = asyncio.Barrier(3)
    host._actors = {str(n): Slow(barrier, fails=n == 1) for n in range(3)}  # type: ignore[misc]
    async with asyncio.timeout(CEILING_S):
        await host.close()
    assert closed == ["stage"]
