"""Responses beside the conversation with the real host: on WebSocket through the openai client, and on its own wire."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse
from live_server import live
from openai import AsyncOpenAI

pytestmark = pytest.mark.protocol
Event = dict[str, Any]


async def until_done(ws: ClientWebSocketResponse, count: int) -> list[Event]:
    """Receive events until so many responses have ended."""
    seen: list[Event] = []
    while sum(event["type"] == "response.done" for event in seen) < count:
        seen.append(await ws.receive_json())
    return seen


def item(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


async def test_speech_and_two_responses_beside_it_run_at_once() -> None:
    async with live("One two three four five.", "Pleased.", "Six seven.") as (url, _), ClientSession(url) as client:
        async with client.ws_connect("/v1/realtime") as ws:
            beside = {"conversation": "none", "input": [item("How nice.")]}
            await ws.send_json({"type": "response.create", "response": {"instructions": "Count."}})
            for response in (beside | {"output_modalities": ["text"], "metadata": {"n": "1"}}, beside):
                await ws.send_json({"type": "response.create", "response": response})
            seen = await until_done(ws, 3)
    done = {event["response"]["id"]: event["response"] for event in seen if event["type"] == "response.done"}
    talk, written, spoken = [event["response"]["id"] for event in seen if event["type"] == "response.created"]
    assert [done[reply]["status"] for reply in (talk, written, spoken)] == ["completed"] * 3
    (content,) = done[written]["output"][0]["content"]  # the thinker's queue decides which text of its script that is
    assert content["type"] == "output_text" and content["text"]
    assert done[written]["metadata"] == {"n": "1"}
    assert [done[reply]["conversation_id"] is None for reply in (talk, written, spoken)] == [False, True, True]
    heard = {event["response_id"] for event in seen if event["type"] == "response.output_audio.delta"}
    assert heard == {talk, spoken}
    (entered,) = [event["item"]["id"] for event in seen if event["type"] == "conversation.item.added"]
    assert entered == done[talk]["output"][0]["id"]
    assert not [event for event in seen if event["type"] == "error"]


async def test_the_openai_client_asks_beside_the_conversation_and_takes_it_back() -> None:
    long = " ".join(["word"] * 200)
    async with live("Pleased.", long, long) as (url, _):
        openai = AsyncOpenAI(api_key="none", base_url=f"{url}/v1")
        async with openai.realtime.connect(model="any") as connection:
            await connection.conversation.item.create(item=item("How nice."))  # type: ignore[arg-type]
            created = await asyncio.wait_for(_next(connection, "conversation.item.added"), 10)
            reference: Any = {"type": "item_reference", "id": created.item.id}
            await connection.response.create(response={
                "conversation": "none", "input": [reference], "output_modalities": ["text"], "metadata": {"topic": "mood"},
            })  # fmt: skip
            done = (await _next(connection, "response.done")).response
            assert (done.status, done.conversation_id, done.metadata) == ("completed", None, {"topic": "mood"})
            assert done.usage.input_token_details.text_tokens == 2
            for _ in range(2):
                await connection.response.create(response={"conversation": "none", "input": [reference]})
            first = (await _next(connection, "response.created")).response.id
            await connection.response.cancel(response_id=first)
            assert (await _next(connection, "response.done")).response.id == first
        await openai.close()


async def _next(connection: Any, kind: str) -> Any:
    async for event in connection:
        assert event.type != "error", event
        if event.type == kind:
            return event
    raise AssertionError("the connection ended")
