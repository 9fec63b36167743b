"""`WS /v1/realtime?call_id=`: the openai client beside a WebRTC call."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import ClientSession, WSMsgType, WSServerHandshakeError
from fake_host import FakeHost, served
from live_server import live
from openai import AsyncOpenAI
from test_live_call import Caller, gone

pytestmark = pytest.mark.protocol
KEY = "key-0123456789abcdef"
OTHER = "key-fedcba9876543210"


async def a_call(url: str) -> tuple[AsyncOpenAI, Caller, str]:
    """Return a client, the caller of a call that it has created, and the call's id."""
    openai, caller = AsyncOpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0), Caller()
    created = await openai.realtime.calls.create(sdp=await caller.offer())
    await caller.connect(created.text)
    await caller.until("session.created")
    return openai, caller, created.response.headers["Location"].rsplit("/", 1)[1]


async def test_the_openai_client_leads_a_call_from_the_side() -> None:
    async with live("One two three.") as (url, observer):
        openai, caller, call_id = await a_call(url)
        async with openai.realtime.connect(call_id=call_id) as side:
            assert (await side.recv()).type == "session.created"
            await side.response.cancel(event_id="mine")
            await side.conversation.item.create(
                item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Count."}]}
            )
            await side.response.create()
            kinds: list[str] = []
            async for event in side:
                kinds.append(event.type)
                if event.type == "output_audio_buffer.stopped":
                    break
            assert kinds.count("error") == 1
            theirs = [event["type"] for event in await caller.until("output_audio_buffer.stopped")]
            assert [kind for kind in kinds if kind not in ("error", "conversation.created")] == [
                kind for kind in theirs if kind != "conversation.created"
            ]
            caller.send("conversation.item.create", item={"type": "message", "role": "user", "content": []})
            assert (await caller.until("error"))[-1]["error"]["code"] == "missing_required_parameter"
        async with ClientSession(url) as http, http.ws_connect("/v1/realtime", params={"call_id": call_id}) as socket:
            assert json.loads((await socket.receive()).data)["type"] == "session.created"
            await openai.realtime.calls.hangup(call_id)
            while (message := await socket.receive()).type == WSMsgType.TEXT:
                pass
            assert (message.type, message.data, message.extra) == (WSMsgType.CLOSE, 1000, "call_ended")
            with pytest.raises(WSServerHandshakeError) as refused:
                await http.ws_connect("/v1/realtime", params={"call_id": call_id})
            assert refused.value.status == 404
        await gone(observer)
        await caller.peer.close()
        await openai.close()


async def test_an_event_too_large_for_the_call_is_told_of_there_and_whole_on_the_side() -> None:
    async with live() as (url, observer):
        openai, caller, call_id = await a_call(url)
        async with openai.realtime.connect(call_id=call_id) as side:
            # Three bytes each, and a text within its bound.
            part: Any = {"type": "input_text", "text": "\u5b57" * 100_000}
            await side.conversation.item.create(item={"type": "message", "role": "user", "content": [part]})
            whole = [await side.recv() for _ in range(4)][2:]
            assert [event.type for event in whole] == ["conversation.item.added", "conversation.item.done"]
            assert all(len(event.to_json().encode()) > 300_000 for event in whole)
            errors = [(await caller.until("error"))[-1] for _ in whole]
            assert [error["duplex"]["unsent"]["type"] for error in errors] == [event.type for event in whole]
            assert {error["error"]["code"] for error in errors} == {"event_not_sent"}
            assert observer.value("duplex_unsent_events_total") == 2
            await side.send({"type": "session.update", "session": {"type": "realtime", "instructions": "Be brief."}})
            await caller.until("session.updated")
        await openai.realtime.calls.hangup(call_id)
        await gone(observer)
        await caller.peer.close()
        await openai.close()


async def joined(client: ClientSession, key: str, call_id: str = "rtc_1") -> int:
    headers = {"Authorization": f"Bearer {key}"}
    try:
        async with client.ws_connect("/v1/realtime", params={"call_id": call_id}, headers=headers) as socket:
            await socket.receive()
            return 101
    except WSServerHandshakeError as error:
        return error.status


async def test_a_side_channel_takes_the_calls_own_key() -> None:
    server: dict[str, Any] = {"api_keys": {"app": KEY, "other": OTHER}, "side_channels_max": 1}
    async with live(server=server) as (url, observer), ClientSession(url) as client:
        openai, caller = AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0), Caller()
        created = await openai.realtime.calls.create(sdp=await caller.offer())
        await caller.connect(created.text)
        await caller.until("session.created")
        call_id = created.response.headers["Location"].rsplit("/", 1)[1]
        secret = (await openai.realtime.client_secrets.create()).value
        assert await joined(client, OTHER, call_id) == 404
        assert await joined(client, secret, call_id) == 403
        assert await joined(client, KEY, "sess_1") == 404
        assert await joined(client, KEY, call_id) == 101
        headers = {"Authorization": f"Bearer {KEY}"}
        async with client.ws_connect("/v1/realtime", params={"call_id": call_id}, headers=headers) as first:
            await first.receive()
            assert await joined(client, KEY, call_id) == 429
        stranger = AsyncOpenAI(api_key=OTHER, base_url=f"{url}/v1", max_retries=0)
        async with client.post(
            f"/v1/realtime/calls/{call_id}/hangup", headers={"Authorization": f"Bearer {OTHER}"}
        ) as refused:
            assert refused.status == 404
        await openai.realtime.calls.hangup(call_id)
        await gone(observer)
        await asyncio.gather(caller.peer.close(), openai.close(), stranger.close())


@pytest.mark.parametrize("verb", ["accept", "reject", "refer"])
async def test_what_is_for_sip_calls_is_refused_with_a_reason(verb: str) -> None:
    async with served(FakeHost()) as client, client.post(f"/v1/realtime/calls/rtc_1/{verb}", json={}) as response:
        error = (await response.json())["error"]
        assert (response.status, error["code"]) == (400, "sip_only")
        assert verb in error["message"]
