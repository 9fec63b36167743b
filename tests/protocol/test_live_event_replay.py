"""A client that says on its return what it saw last gets the rest, on the real server: by address, first event, data channel."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import ClientWebSocketResponse
from test_live_call import Caller
from test_live_resume import Served, restored, say, served
from test_live_resume import _bearer as bearer
from test_live_websocket import of, until

pytestmark = pytest.mark.protocol

RESUME = {"type": "session.update", "session": {"type": "realtime", "duplex": {"resume": True}}}


async def texts_until(ws: ClientWebSocketResponse, kind: str) -> list[str]:
    """Receive events, as they came, up to the first of a type."""
    texts = [await ws.receive_str()]
    while json.loads(texts[-1])["type"] != kind:
        texts.append(await ws.receive_str())
    return texts


def read(texts: list[str]) -> list[dict[str, Any]]:
    return [json.loads(text) for text in texts]


async def talk(ws: ClientWebSocketResponse, text: str, mark: str) -> None:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    await ws.send_json({"type": "conversation.item.create", "event_id": f"item_{mark}", "item": item})
    await ws.send_json({"type": "response.create", "event_id": f"reply_{mark}"})


async def lost_socket(server: Served) -> tuple[list[str], str]:
    """Hold a conversation on a WebSocket and lose it; returns what was sent, and the token."""
    ws = await server.http.ws_connect("/v1/realtime", headers=bearer())
    await until(ws, "conversation.created")
    await ws.send_json(RESUME)
    token = (await until(ws, "duplex.session.token"))[-1]["token"]
    await talk(ws, "Count.", "1")
    texts = await texts_until(ws, "response.done")
    await ws.send_json({"type": "conversation.item.delete", "item_id": "none"})
    texts += await texts_until(ws, "error")
    await ws.close(code=1001)
    await server.until(sessions=1, detached=1)
    return texts, str(token)


async def test_a_websocket_gets_what_it_missed_and_goes_on() -> None:
    async with served() as server:
        sent, token = await lost_socket(server)
        ids = [event["event_id"] for event in read(sent)]
        seen = [event["type"] for event in read(sent)].index("response.done")
        headers = {**bearer(), "Duplex-Resume": token}
        back = await server.http.ws_connect(f"/v1/realtime?last_event_id={ids[seen - 1]}", headers=headers)
        told = await texts_until(back, "duplex.session.token")
        assert told[: len(sent) - seen] == sent[seen:], "byte for byte"
        resumed = of(read(told), "duplex.session.resumed")
        assert (resumed[0]["replayed"], resumed[0]["items"]) == (len(sent) - seen, 0)
        assert "session.created" not in [event["type"] for event in read(told)]
        await talk(back, "Count.", "1")  # it may have got lost: the server knows better
        await talk(back, "Again.", "2")
        await until(back, "response.done")
        assert [prompt[-1] for prompt in server.prompts()] == ["Count.", "Count. Again."], (
            "nobody heard the first answer"
        )
        assert server.observer.value("duplex_repeated_events_total") == 2
        assert server.observer.value("duplex_replayed_events_total") == len(sent) - seen
        await back.close()
        await server.until(sessions=0, detached=0)


async def test_the_first_event_of_a_new_websocket_brings_the_session_back() -> None:
    async with served() as server:
        sent, token = await lost_socket(server)
        last = read(sent)[-2]["event_id"]
        back = await server.http.ws_connect("/v1/realtime", headers=bearer())
        await until(back, "conversation.created")
        await back.send_json({"type": "duplex.session.resume", "token": token, "last_event_id": last})
        told = await texts_until(back, "duplex.session.token")
        assert told[0] == sent[-1]
        assert server.host.sessions == 1, "the session that was opened meanwhile is gone"
        await back.send_json({"type": "duplex.session.resume", "event_id": "mine", "token": token})
        refused = (await until(back, "error"))[-1]["error"]
        assert (refused["code"], refused["event_id"]) == ("session_not_resumable", "mine")
        await talk(back, "Still there?", "3")
        await until(back, "response.done")
        assert server.prompts()[-1] == ["Count. Still there?"]
        await back.close()
        await server.until(sessions=0, detached=0)


async def test_an_old_token_brings_nothing_back_and_leaves_the_new_session_as_it_is() -> None:
    async with served() as server:
        _, token = await lost_socket(server)
        other = {"type": "duplex.session.resume", "token": "rt_wrong", "event_id": "mine"}
        fresh = await server.http.ws_connect("/v1/realtime", headers=bearer())
        await fresh.send_json(other)
        assert (await until(fresh, "error"))[-1]["error"]["code"] == "session_not_resumable"
        await fresh.send_json({"type": "duplex.session.resume", "token": token})
        assert (await until(fresh, "error"))[-1]["error"]["code"] == "session_not_resumable", "not the first event"
        await talk(fresh, "New.", "1")
        await until(fresh, "response.done")
        assert server.prompts()[-1] == ["New."]
        assert server.host.sessions == 2
        await fresh.close()


async def test_a_lost_call_gets_what_it_missed_by_its_new_channel() -> None:
    async with served() as server:
        first = Caller()
        _, told = await server.call(first)
        say(first, "Count.")
        sent = await first.until("output_audio_buffer.stopped")
        await first.peer.close()
        await server.until(sessions=1, detached=1)
        back = Caller(protocol=f"duplex-last.{sent[-3]['event_id']}")
        _, missed = await server.call(back, told[-1]["token"])
        assert missed[:2] == sent[-2:]
        assert [event["type"] for event in missed[2:]] == ["duplex.session.resumed", "duplex.session.token"]
        await back.peer.close()


async def test_a_channel_that_drops_while_the_call_lives_comes_back_on_another() -> None:
    async with served(script=" ".join(f"This is sentence {n}." for n in range(3))) as server:
        caller = Caller()
        await server.call(caller)
        say(caller, "Tell me.")
        seen = (await caller.until("output_audio_buffer.started"))[-1]
        caller.channel.close()
        while caller.channel.readyState != "closed":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert (server.host.sessions, server.observer.value("duplex_sessions_detached")) == (1, 0)
        caller.open(f"duplex-last.{seen['event_id']}")
        missed = await caller.until("duplex.session.token")
        arrived = [int(event["event_id"].split("_")[1]) for event in [seen, *missed]]
        assert list(dict.fromkeys(arrived)) == list(range(arrived[0], arrived[-1] + 1)), "in order, without a hole"
        rest = await caller.until("output_audio_buffer.stopped")
        assert {done["response"]["status"] for done in of([*missed, *rest], "response.done")} == {"completed"}
        caller.send("duplex.session.resume", token=missed[-1]["token"])
        again = await caller.until("duplex.session.token")
        assert restored(again)[0] == "Tell me.", "without a last event the conversation is told as it stands"
        await caller.peer.close()
