"""`input_image` on the wire: what is taken, what is refused and how, and what the client is shown of it."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse
from duplex_models.sim import SimOptions, make
from duplex_models.sim.stages import SimThink
from openai import AsyncOpenAI
from PIL import Image
from test_live_call import Caller

from duplex.actor.host import SessionHost
from duplex.config import load
from duplex.server.serve import listening
from duplex.telemetry import Observer

pytestmark = pytest.mark.protocol
CEILING_S = 30.0
WORDS = "blorptic 7431"
BOUNDS = {"image_bytes_max": 2000, "image_px_max": 10_000, "images_max": 2}


def url(kind: str = "PNG", width: int = 40, height: int = 30, noise: bool = False) -> str:
    file = io.BytesIO()
    picture = Image.effect_noise((width, height), 90) if noise else Image.new("RGB", (width, height), "white")
    picture.save(file, kind)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"


def image(image_url: Any = None, **fields: Any) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url() if image_url is None else image_url} | fields


@asynccontextmanager
async def reading(*reads: str, **bounds: int) -> AsyncIterator[tuple[str, SimThink]]:
    """Serve with a reader that finds these texts, and with small bounds; yields the URL and the thinker."""
    settings = load(server={"port": 0, "close_timeout_s": 1.0}, conversation=bounds or BOUNDS)
    pack, observer = make(SimOptions(script=("Yes.",), reads=reads)), Observer()
    (thinker,) = (stage for stage in pack.stages if isinstance(stage, SimThink))
    host = SessionHost(settings, pack, observer.record)
    async with listening(host, settings.server, observer) as address, asyncio.timeout(CEILING_S):
        await host.start(lambda line: None)
        yield address, thinker


async def answer(ws: ClientWebSocketResponse, role: str, *content: dict[str, Any]) -> dict[str, Any]:
    """Send an item and return the event that says what became of it."""
    item = {"type": "message", "role": role, "content": list(content)}
    await ws.send_json({"type": "conversation.item.create", "event_id": "mine", "item": item})
    while True:
        event: dict[str, Any] = await ws.receive_json()
        if event["type"] in ("error", "conversation.item.done"):
            return event


PART = "item.content.0"
REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("user", image("http://127.0.0.1:1/x.png"), "unsupported", f"{PART}.image_url"),
    ("user", image("https://example.com/x.png"), "unsupported", f"{PART}.image_url"),
    ("user", image("data:image/gif;base64,R0lGODlh"), "unsupported", f"{PART}.image_url"),
    ("user", image("data:image/png;base64,R0lGODlh"), "invalid_image", f"{PART}.image_url"),
    ("user", image("data:image/png;base64,AAA"), "invalid_image", f"{PART}.image_url"),
    ("user", image(url(width=101, height=100)), "image_too_large", f"{PART}.image_url"),
    ("user", image(url(noise=True, width=90, height=90)), "image_too_large", f"{PART}.image_url"),
    ("user", image(7), "invalid_type", f"{PART}.image_url"),
    ("user", image(""), "missing_required_parameter", f"{PART}.image_url"),
    ("user", {"type": "input_image"}, "missing_required_parameter", f"{PART}.image_url"),
    ("system", image(), "unsupported", f"{PART}.type"),
    ("assistant", image(), "unsupported", f"{PART}.type"),
]


async def test_each_image_that_is_not_taken_is_one_error_with_its_place_and_no_item() -> None:
    async with (
        reading(WORDS) as (address, _),
        ClientSession(address) as client,
        client.ws_connect("/v1/realtime") as ws,
    ):
        for role, part, code, param in REFUSED:
            event = await answer(ws, role, part)
            assert event["type"] == "error", (role, code, param)
            error = event["error"]
            assert (error["code"], error["param"], error["event_id"]) == (code, param, "mine"), error
            assert error["type"] == "invalid_request_error"
        third = await answer(ws, "user", image(), image(), image())
        assert (third["error"]["code"], third["error"]["param"]) == ("invalid_value", "item.content.2")
        done = await answer(ws, "user", image(url("JPEG"), detail="high"), image(url("WEBP")))
        assert done["previous_item_id"] is None, "nothing of what was refused is in the conversation"
        assert [part["duplex"]["format"] for part in done["item"]["content"]] == ["jpeg", "webp"]


async def test_a_model_without_a_reader_says_so() -> None:
    async with reading() as (address, _), ClientSession(address) as client, client.ws_connect("/v1/realtime") as ws:
        error = (await answer(ws, "user", image()))["error"]
        assert (error["code"], error["param"]) == ("unsupported", f"{PART}.type")
        assert "reads no images" in error["message"]


async def test_the_openai_client_shows_a_picture_and_is_answered_from_it() -> None:
    async with reading(WORDS) as (address, thinker):
        openai = AsyncOpenAI(api_key="none", base_url=f"{address}/v1")
        async with openai.realtime.connect(model="sim") as connection:
            content: Any = [{"type": "input_text", "text": "What is this?"}, image(detail="auto")]
            item: Any = {"type": "message", "role": "user", "id": "shown", "content": content}
            await connection.conversation.item.create(item=item)
            await connection.response.create(response={"output_modalities": ["text"]})
            async for event in connection:
                if event.type == "response.done":
                    break
            assert thinker.prompts[-1].messages[-1].text == f"What is this?\nText in picture: {WORDS}"
            await connection.conversation.item.retrieve(item_id="shown")
            async for event in connection:
                if event.type == "conversation.item.retrieved":
                    break
        await openai.close()
    kept: Any = event.item
    assert [part.type for part in kept.content] == ["input_text", "input_image"]
    assert kept.content[1].image_url is None
    assert kept.content[1].duplex["text"] == WORDS


async def test_a_call_takes_what_its_data_channel_does() -> None:
    large = url(noise=True, width=440, height=440)
    assert 200_000 < len(large) < 256 * 1024
    async with reading(WORDS, image_bytes_max=2**20) as (address, _), ClientSession(address) as client:
        caller = Caller()
        headers = {"Content-Type": "application/sdp"}
        async with client.post("/v1/realtime/calls", data=await caller.offer(), headers=headers) as response:
            assert response.status == 201
            await caller.connect(await response.text())
        await caller.until("conversation.created")
        item = {"type": "message", "role": "user", "content": [image(large)]}
        caller.send("conversation.item.create", item=item)
        done = (await caller.until("conversation.item.done"))[-1]
        await caller.peer.close()
    assert done["item"]["content"][0]["duplex"]["width"] == 440
