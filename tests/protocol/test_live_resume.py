"""Coming back to a conversation after the connection was lost, by WebRTC and by WebSocket, on the real server."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession, FormData, WSServerHandshakeError
from duplex_models.sim import SimOptions, make
from duplex_models.sim.stages import SimThink
from test_live_call import Caller
from test_live_websocket import until
from test_logs_hold_no_secrets import logging_to

from duplex.actor.host import SessionHost
from duplex.config import load
from duplex.server.serve import listening
from duplex.telemetry import Observer

pytestmark = pytest.mark.protocol

APP, OTHER = "app-key-of-32-characters-or-more", "other-key-of-32-characters-or-so"
CALLS = "/v1/realtime/calls"
ASKS = '{"type":"realtime","instructions":"Be brief.","duplex":{"resume":true}}'
ROOM = 2
CEILING_S = 60.0


@dataclass
class Served:
    http: ClientSession
    host: SessionHost
    observer: Observer

    def outcome(self, outcome: str) -> float:
        return self.observer.value("duplex_resumes_total", outcome=outcome)

    def prompts(self) -> list[list[str]]:
        think = next(stage for stage in self.host.pack.stages if isinstance(stage, SimThink))
        return [[message.text for message in prompt.messages] for prompt in think.prompts]

    async def until(self, sessions: int, detached: int) -> None:
        while (self.host.sessions, self.observer.value("duplex_sessions_detached")) != (sessions, detached):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def post(self, caller: Caller, token: str | None = None, key: str = APP) -> ClientResponse:
        """Send a caller's offer."""
        form = FormData()
        form.add_field("sdp", await caller.offer(), content_type="application/sdp")
        form.add_field("session", ASKS, content_type="application/json")
        headers = {"Authorization": f"Bearer {key}", **({} if token is None else {"Duplex-Resume": token})}
        return await self.http.post(CALLS, data=form, headers=headers)

    async def call(self, caller: Caller, token: str | None = None) -> tuple[str, list[dict[str, Any]]]:
        """Connect a caller; returns the call's id and what it was told, up to its token."""
        response = await self.post(caller, token)
        assert response.status == 201, await response.text()
        await caller.connect(await response.text())
        return response.headers["Location"].rsplit("/", 1)[1], await caller.until("duplex.session.token")


@asynccontextmanager
async def served(script: str = "One two three.", **server: Any) -> AsyncIterator[Served]:
    keys = {"app": APP, "other": OTHER}
    settings = load(server={"port": 0, "close_timeout_s": 1.0, "sessions_max": ROOM, "api_keys": keys, **server})
    observer = Observer()
    host = SessionHost(settings, make(SimOptions(script=(script,))), observer.record)
    async with listening(host, settings.server, observer) as url, asyncio.timeout(CEILING_S):
        await host.start(lambda line: None)
        async with ClientSession(url) as http:
            yield Served(http, host, observer)


def say(caller: Caller, text: str) -> None:
    content = [{"type": "input_text", "text": text}]
    caller.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
    caller.send("response.create")


def restored(seen: list[dict[str, Any]]) -> list[str]:
    return [
        next(iter(part.get("text") or part.get("transcript") for part in event["item"]["content"]))
        for event in seen
        if event["type"] == "conversation.item.done" and event.get("duplex", {}).get("restored")
    ]


async def test_a_call_that_is_lost_goes_on_where_it_was() -> None:
    async with served() as server:
        first = Caller()
        call_id, told = await server.call(first)
        token = told[-1]["token"]
        assert told[-1]["window_s"] == 30
        say(first, "My dog is called Rex.")
        await first.until("output_audio_buffer.stopped")
        await first.peer.close()  # no goodbye: nobody hangs up
        await server.until(sessions=1, detached=1)

        foreign = Caller()
        refused = await server.post(foreign, token, key=OTHER)
        assert (refused.status, (await refused.json())["error"]["code"]) == (404, "session_not_resumable")
        assert token not in await refused.text()
        await foreign.peer.close()

        second = Caller()
        same_id, told = await server.call(second, token)
        assert same_id == call_id
        assert [event["type"] for event in told[:3]] == [
            "session.created", "conversation.created", "duplex.session.resumed",
        ]  # fmt: skip
        assert told[0]["session"]["id"] == call_id
        assert told[0]["session"]["instructions"] == "Be brief."
        assert restored(told) == ["My dog is called Rex.", "One two three."]
        assert told[-1]["token"] != token
        say(second, "What is my dog called?")
        await second.until("output_audio_buffer.stopped")
        assert server.prompts()[-1] == [
            "Be brief.",
            "My dog is called Rex.",
            "One two three.",
            "What is my dog called?",
        ]

        third = Caller()
        spent = await server.post(third, token)
        assert spent.status == 404, "a token is good for one return"
        await third.peer.close()
        assert (server.outcome("resumed"), server.outcome("refused")) == (1, 2)

        ended = await server.http.post(f"{CALLS}/{call_id}/hangup", headers={"Authorization": f"Bearer {APP}"})
        assert ended.status == 200
        await server.until(sessions=0, detached=0)
        fourth = Caller()
        assert (await server.post(fourth, told[-1]["token"])).status == 404, "who hangs up does not come back"
        await fourth.peer.close()
        await second.peer.close()


async def test_a_client_that_vanishes_while_it_is_spoken_to_keeps_what_it_heard() -> None:
    story = " ".join(f"This is sentence number {n}." for n in range(1, 20))
    async with served(script=story, vanish_timeout_s=1.0) as server:
        lost, back = Caller(), Caller()
        _, told = await server.call(lost)
        say(lost, "Tell me a story.")
        await lost.until("output_audio_buffer.started")
        # Half open: no packet comes any more, and nobody says so.
        for protocol in lost.peer.sctp.transport.transport._connection._protocols:
            protocol.transport.abort()
        await server.until(sessions=1, detached=1)
        assert server.observer.value("duplex_replies_total", status="cancelled") == 1
        _, told = await server.call(back, told[-1]["token"])
        asked, heard = restored(told)
        assert asked == "Tell me a story."
        assert heard != story
        assert story.startswith(heard)
        for caller in (lost, back):
            await caller.peer.close()


async def test_a_reload_takes_the_half_open_call_over() -> None:
    async with served() as server:
        before, after = Caller(), Caller()
        _, told = await server.call(before)
        _, again = await server.call(after, told[-1]["token"])
        assert "duplex.session.resumed" in [event["type"] for event in again]
        assert (server.host.sessions, server.outcome("taken_over")) == (1, 1)
        while before.peer.connectionState != "closed":  # noqa: ASYNC110 - the server closes the former connection
            await asyncio.sleep(0.01)
        say(after, "Still there?")
        await after.until("output_audio_buffer.stopped")
        await after.peer.close()


async def test_a_session_that_waits_keeps_its_place_until_its_time_is_over() -> None:
    async with served(resume_window_s=1.0, sessions_max=1) as server:
        lost, other = Caller(), Caller()
        _, told = await server.call(lost)
        await lost.peer.close()
        await server.until(sessions=1, detached=1)
        assert (await server.post(other)).status == 503, "the place is kept"
        await server.until(sessions=0, detached=0)
        assert server.outcome("expired") == 1
        late = Caller()
        assert (await server.post(late, told[-1]["token"])).status == 404
        await server.call(other)
        for caller in (late, other):
            await caller.peer.close()


async def test_without_a_window_or_the_wish_a_lost_session_ends() -> None:
    async with served(resume_window_s=0) as server:
        caller = Caller()
        response = await server.post(caller)
        await caller.connect(await response.text())
        told = await caller.until("conversation.created")
        await caller.peer.close()
        await server.until(sessions=0, detached=0)
        assert "duplex.session.token" not in [event["type"] for event in told]
    async with served() as server, server.http.ws_connect("/v1/realtime", headers=_bearer()) as ws:
        told = await until(ws, "conversation.created")
        assert told[0]["session"]["duplex"]["resume"] is False
        assert ws._response.connection is not None
        ws._response.connection.close()
        await server.until(sessions=0, detached=0)


async def test_a_websocket_comes_back_by_its_subprotocol() -> None:
    async with served() as server:
        ws = await server.http.ws_connect("/v1/realtime", headers=_bearer())
        created = (await until(ws, "conversation.created"))[0]["session"]
        await ws.send_json({"type": "session.update", "session": {"type": "realtime", "duplex": {"resume": True}}})
        token = (await until(ws, "duplex.session.token"))[-1]["token"]
        content = [{"type": "input_text", "text": "I live in Oslo."}]
        item = {"type": "message", "role": "user", "content": content}
        await ws.send_json({"type": "conversation.item.create", "item": item})
        await until(ws, "conversation.item.done")
        await ws.close(code=1001)  # a page that reloads
        await server.until(sessions=1, detached=1)
        back = await server.http.ws_connect(
            "/v1/realtime", headers=_bearer(), protocols=("realtime", f"duplex-resume.{token}")
        )
        assert back.protocol == "realtime"
        told = await until(back, "duplex.session.token")
        assert told[0]["session"]["id"] == created["id"]
        assert restored(told) == ["I live in Oslo."]
        with pytest.raises(WSServerHandshakeError) as refused:
            await server.http.ws_connect("/v1/realtime", headers={**_bearer(), "Duplex-Resume": token})
        assert refused.value.status == 404
        caller = Caller()
        assert (await server.post(caller, told[-1]["token"])).status == 404, "the other transport"
        await caller.peer.close()
        await back.close()  # a goodbye
        await server.until(sessions=0, detached=0)


async def test_no_token_is_logged_or_measured() -> None:
    written = io.StringIO()
    with logging_to(written):
        async with served() as server:
            first, second = Caller(), Caller()
            _, told = await server.call(first)
            _, again = await server.call(second, told[-1]["token"])
            protocols = ("realtime", "duplex-resume.rt_wrong")
            with pytest.raises(WSServerHandshakeError):
                await server.http.ws_connect("/v1/realtime", headers=_bearer(), protocols=protocols)
            measures = await (await server.http.get("/metrics", headers=_bearer())).text()
            for caller in (first, second):
                await caller.peer.close()
    shown = written.getvalue() + measures
    assert "session_resumed" in shown
    for token in (told[-1]["token"], again[-1]["token"], "rt_wrong"):
        assert token not in shown


async def test_a_server_that_drains_waits_for_nobody_who_is_away() -> None:
    async with served() as server:
        caller = Caller()
        await server.call(caller)
        await caller.peer.close()
        await server.until(sessions=1, detached=1)
        await server.host.drain()
        assert server.host.sessions == 0


def _bearer() -> dict[str, str]:
    return {"Authorization": f"Bearer {APP}"}
