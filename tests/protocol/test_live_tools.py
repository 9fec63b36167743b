"""A function call over a real WebSocket, by the openai client: offered, called, answered."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from live_server import live
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection

pytestmark = pytest.mark.protocol
CEILING_S = 20.0
TOOL: Any = {
    "type": "function", "name": "get_weather", "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}  # fmt: skip


async def until_done(connection: AsyncRealtimeConnection) -> Any:
    """Return the next response, and fail on an error before it."""
    async for event in connection:
        assert event.type != "error", event
        if event.type == "response.done":
            return event.response
    raise AssertionError("the connection ended")


async def test_the_openai_client_offers_a_tool_carries_out_the_call_and_hears_of_the_result() -> None:
    async with live("Sunny.") as (url, _), AsyncOpenAI(api_key="none", base_url=f"{url}/v1") as client:
        async with asyncio.timeout(CEILING_S), client.realtime.connect(model="sim") as connection:
            await connection.session.update(
                session={"type": "realtime", "output_modalities": ["text"], "tools": [TOOL], "tool_choice": "auto"}
            )
            text = 'call get_weather {"city": "Paris"}'
            await connection.conversation.item.create(
                item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
            )
            await connection.response.create()
            (call,) = (await until_done(connection)).output
            assert (call.type, call.name, json.loads(call.arguments)) == (
                "function_call", "get_weather", {"city": "Paris"},
            )  # fmt: skip
            await connection.conversation.item.create(
                item={"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}
            )
            await connection.response.create()
            (said,) = (await until_done(connection)).output
            assert said.content[0].text == "The function gave 18 degrees."
