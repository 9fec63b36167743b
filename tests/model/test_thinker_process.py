"""The default model's thinker, really killed and really stopped: its reply fails, the server recovers, nobody else notices."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.error
import urllib.request
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSServerHandshakeError

from tests.model.local_server import LocalServer, within

pytestmark = pytest.mark.model
FAILS_S = 15.0
"""Five, and as many more for a busy machine as its heartbeats may be late."""
BACK_S = 60.0


def readyz(server: LocalServer) -> tuple[int, list[str]]:
    """Return the status and the reasons."""
    try:
        with urllib.request.urlopen(f"{server.url}/readyz", timeout=10) as answer:
            return answer.status, []
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())["reasons"]


async def ask(ws: ClientWebSocketResponse) -> None:
    """Write a turn, and ask for its reply."""
    text = {"type": "input_text", "text": "What is the capital of France?"}
    item = {"type": "message", "role": "user", "content": [text]}
    await ws.send_json({"type": "conversation.item.create", "item": item})
    await ws.send_json({"type": "response.create"})


async def until(ws: ClientWebSocketResponse, kind: str) -> dict[str, Any]:
    """Wait for an event of a type."""
    while (event := await ws.receive_json(timeout=BACK_S))["type"] != kind:
        pass
    return dict(event)


@pytest.mark.parametrize(
    ("number", "word"), [(signal.SIGKILL, "lost its process"), (signal.SIGSTOP, "made no progress")]
)
async def test_a_killed_or_stopped_thinker_fails_its_reply_and_comes_back(
    server: LocalServer, number: signal.Signals, word: str
) -> None:
    restarts = server.measure("duplex_stage_restarts_total")
    async with ClientSession(server.url) as http:
        async with http.ws_connect("/v1/realtime") as ws, http.ws_connect("/v1/realtime") as other:
            await until(other, "conversation.created")
            await ask(ws)
            await until(ws, "response.created")
            (child,) = server.children
            os.kill(child, number)
            async with asyncio.timeout(FAILS_S):
                error = (await until(ws, "error"))["error"]
                assert (await until(ws, "response.done"))["response"]["status"] == "failed"
            assert (error["code"], word in error["message"]) == ("stage_failed", True)
            status, reasons = await asyncio.to_thread(readyz, server)
            assert (status, len(reasons)) == (503, 1)
            assert f"stage thinker {word}" in reasons[0]
            with pytest.raises(WSServerHandshakeError) as refused:
                await http.ws_connect("/v1/realtime")
            assert refused.value.status == 503
            await within(BACK_S, lambda: readyz(server)[0] == 200, "the thinker is back")
            assert child not in server.children
            for session in (ws, other):
                await ask(session)
                assert (await until(session, "response.done"))["response"]["status"] == "completed"
    assert server.measure("duplex_stage_restarts_total") == restarts + 1
    assert server.logged("stage_up")[-1]["stage"] == "thinker"
    assert server.measure("duplex_stage_up") == 6
