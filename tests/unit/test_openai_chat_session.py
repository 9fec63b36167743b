"""Whole sessions whose thinker is another server: what a cancel, a failure and a hang-up do to it and to the client."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse
from duplex_models.openai_chat.options import parse
from duplex_models.openai_chat.think import RemoteThink
from duplex_models.sim import SimOptions, make

from duplex.actor.host import SessionHost
from duplex.config import load
from duplex.payloads import Role
from duplex.server.serve import listening
from duplex.telemetry import Observer
from tests.unit.openai_chat_server import CEILING_S, FakeChatServer, Reply, Streaming, endless, hello

pytestmark = pytest.mark.protocol
Event = dict[str, Any]


@asynccontextmanager
async def talking(*replies: Reply) -> AsyncIterator[tuple[FakeChatServer, ClientWebSocketResponse]]:
    """Serve one session, with the test double for all but the thinker; yields the thinker's server and the session."""
    server = await asyncio.to_thread(FakeChatServer, *replies)
    think = RemoteThink(parse({"url": server.url, "model": "m"}))
    double = make(SimOptions())
    pack = dataclasses.replace(
        double, stages=tuple(think if stage.spec.role is Role.THINK else stage for stage in double.stages)
    )
    settings, observer = load(server={"port": 0, "close_timeout_s": 1.0}), Observer()
    host = SessionHost(settings, pack, observer.record)
    try:
        async with asyncio.timeout(CEILING_S), listening(host, settings.server, observer) as url:
            await host.start(lambda line: None)
            async with ClientSession(url) as client, client.ws_connect("/v1/realtime") as ws:
                await until(ws, "conversation.created")
                yield server, ws
    finally:
        await asyncio.to_thread(server.stop)


async def until(ws: ClientWebSocketResponse, kind: str) -> Event:
    """Return the next event of a type."""
    while True:
        event: Event = await ws.receive_json()
        if event["type"] == kind:
            return event


async def say(ws: ClientWebSocketResponse, text: str) -> None:
    content = [{"type": "input_text", "text": text}]
    await ws.send_json(
        {"type": "conversation.item.create", "item": {"type": "message", "role": "user", "content": content}}
    )
    await ws.send_json({"type": "response.create"})


async def gone(server: FakeChatServer, since: float) -> float:
    """Return how long after `since` the thinker's server saw its client go."""
    assert await asyncio.to_thread(server.gone.wait, CEILING_S)
    return server.gone_at - since


async def test_a_reply_is_spoken_and_the_next_request_holds_it() -> None:
    async with talking(hello) as (server, ws):
        for text in ("Hi", "And?"):
            await say(ws, text)
            done = (await until(ws, "response.done"))["response"]
            assert done["status"] == "completed"
            assert done["output"][0]["content"][0]["transcript"] == "Hello there."
        said = [(message["role"], message["content"]) for message in server.requests[1].body["messages"]]
        assert said[-3:] == [("user", "Hi"), ("assistant", "Hello there."), ("user", "And?")]


async def test_a_cancel_closes_the_stream_within_a_second_and_the_session_goes_on() -> None:
    async with talking(endless, hello) as (server, ws):
        await say(ws, "Talk.")
        await until(ws, "response.output_audio.delta")
        cut_at = time.monotonic()
        await ws.send_json({"type": "response.cancel"})
        assert await gone(server, cut_at) < 1.0
        assert (await until(ws, "response.done"))["response"]["status"] == "cancelled"
        await say(ws, "Hi")
        assert (await until(ws, "response.done"))["response"]["status"] == "completed"


async def test_a_client_that_leaves_closes_the_stream() -> None:
    async with talking(endless) as (server, ws):
        await say(ws, "Talk.")
        await until(ws, "response.output_audio.delta")
        left_at = time.monotonic()
        await ws.close()
        assert await gone(server, left_at) < 1.0


async def test_a_failure_in_the_middle_fails_that_reply_alone_with_the_reason() -> None:
    async def breaks(answer: Streaming) -> None:
        await answer.begin()
        await answer.delta(content="Well, that is a question. ")
        answer.hang_up()

    async with talking(breaks, hello) as (_, ws):
        await say(ws, "Talk.")
        failed = (await until(ws, "response.done"))["response"]
        assert failed["status"] == "failed"
        assert "connection was lost" in failed["status_details"]["error"]["message"]
        await say(ws, "Hi")
        assert (await until(ws, "response.done"))["response"]["status"] == "completed"


async def test_a_torrent_of_text_is_bounded_and_its_stream_closed() -> None:
    async def torrent(answer: Streaming) -> None:
        await answer.begin()
        while True:
            await answer.delta(content=" many words and no end of them," * 20)

    async with talking(torrent) as (server, ws):
        began_at = time.monotonic()
        await say(ws, "Talk.")
        assert await gone(server, began_at) < CEILING_S
