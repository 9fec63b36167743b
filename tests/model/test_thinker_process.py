"""The default model's thinker, really killed and really stopped: its reply fails, the server recovers, nobody else notices."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSServerHandshakeError

from tests.model.caller import EventLog
from tests.model.local_server import LocalServer, within

pytestmark = [pytest.mark.model, pytest.mark.alone]
FAILS_S = 15.0
"""Five, and as many more for a busy machine as its heartbeats may be late."""
BACK_S = 60.0
STAGES = 7


def readyz(server: LocalServer) -> tuple[int, list[str]]:
    """Return the status and the reasons."""
    try:
        with urllib.request.urlopen(f"{server.url}/readyz", timeout=10) as answer:
            return answer.status, []
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())["reasons"]


class Talk(EventLog):
    """A session on a WebSocket that reads all the time, as a client does."""

    def __init__(self, ws: ClientWebSocketResponse) -> None:
        super().__init__()
        self._ws = ws

    async def listen(self) -> None:
        """Take events until the socket closes."""
        async for message in self._ws:
            self.add(message.json())

    async def ask(self) -> None:
        """Write a turn, and ask for its reply."""
        text = {"type": "input_text", "text": "What is the capital of France?"}
        item = {"type": "message", "role": "user", "content": [text]}
        await self._ws.send_json({"type": "conversation.item.create", "item": item})
        await self._ws.send_json({"type": "response.create"})

    async def status(self) -> str:
        """Wait for the reply's end and return how it ended."""
        return str((await self.until("response.done"))["response"]["status"])


@asynccontextmanager
async def talk(http: ClientSession) -> AsyncIterator[Talk]:
    """Hold a session."""
    async with http.ws_connect("/v1/realtime") as ws, asyncio.TaskGroup() as tasks:
        session = Talk(ws)
        ears = tasks.create_task(session.listen())
        await session.until("conversation.created")
        yield session
        ears.cancel()


@pytest.mark.parametrize(
    ("number", "word"), [(signal.SIGKILL, "lost its process"), (signal.SIGSTOP, "made no progress")]
)
async def test_a_killed_or_stopped_thinker_fails_its_reply_and_comes_back(
    server: LocalServer, number: signal.Signals, word: str
) -> None:
    restarts = server.measure("duplex_stage_restarts_total")
    async with ClientSession(server.url) as http, talk(http) as active, talk(http) as other:
        await active.ask()
        await active.until("response.created")
        (child,) = server.children
        os.kill(child, number)
        async with asyncio.timeout(FAILS_S):
            assert await active.status() == "failed"
        (error,) = active.of("error")
        assert error["error"]["code"] == "stage_failed"
        assert word in error["error"]["message"]
        status, reasons = await asyncio.to_thread(readyz, server)
        assert (status, len(reasons)) == (503, 1)
        assert f"stage thinker {word}" in reasons[0]
        with pytest.raises(WSServerHandshakeError) as refused:
            await http.ws_connect("/v1/realtime")
        assert refused.value.status == 503
        await within(BACK_S, lambda: readyz(server)[0] == 200, "the thinker is back")
        assert child not in server.children
        for session in (active, other):
            await session.ask()
            assert await session.status() == "completed"
        assert not other.of("error")
    assert server.measure("duplex_stage_restarts_total") == restarts + 1
    assert server.logged("stage_up")[-1]["stage"] == "thinker"
    assert server.measure("duplex_stage_up") == STAGES
