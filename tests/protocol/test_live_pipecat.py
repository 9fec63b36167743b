"""A client as Pipecat's are, by its wire: /api/offer, trickle, RTVI on the channel `chat`, and coming back by its pc_id."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from live_server import live

from duplex.telemetry import Observer

pytestmark = pytest.mark.protocol

Message = dict[str, Any]
SCRIPT = "One two three. Four five six. Seven eight nine."


class Pipecat:
    """An aiortc peer that listens, and its messages."""

    def __init__(self, http: ClientSession) -> None:
        self.http = http
        self.pc_id: str | None = None
        self.messages: asyncio.Queue[Message] = asyncio.Queue(maxsize=1000)
        self.connect_anew()

    def connect_anew(self) -> None:
        self.peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.channel = self.peer.createDataChannel("chat")
        self.opened = asyncio.Event()
        self.channel.on("open", self.opened.set)
        self.channel.on("message", lambda text: self.messages.put_nowait(json.loads(text)))
        self.peer.addTransceiver("audio", direction="sendrecv")

    async def offer(self, *, restart: bool = False, **data: Any) -> ClientResponse:
        """Send an offer without candidates, as a browser does that trickles."""
        await self.peer.setLocalDescription(await self.peer.createOffer())
        lines = self.peer.localDescription.sdp.splitlines(keepends=True)
        self.found = [line.removeprefix("a=").strip() for line in lines if line.startswith("a=candidate:")]
        sdp = "".join(line for line in lines if not line.startswith(("a=candidate:", "a=end-of-candidates")))
        body = {"sdp": sdp, "type": "offer", "pc_id": self.pc_id, "restart_pc": restart, **data}
        return await self.http.post("/api/offer", json=body)

    async def connect(self, *, restart: bool = False, **data: Any) -> None:
        response = await self.offer(restart=restart, **data)
        assert response.status == 200, await response.text()
        answer = await response.json()
        assert answer["type"] == "answer"
        self.pc_id = answer["pc_id"]
        await self.peer.setRemoteDescription(RTCSessionDescription(sdp=answer["sdp"], type="answer"))
        assert (await self.trickle(self.found)).status == 200
        await self.opened.wait()

    async def trickle(self, candidates: list[str]) -> ClientResponse:
        found = [{"candidate": line, "sdp_mid": "0", "sdp_mline_index": 0} for line in [*candidates, ""]]
        return await self.http.patch("/api/offer", json={"pc_id": self.pc_id, "candidates": found})

    def send(self, kind: str, id_: str = "m1", **data: Any) -> None:
        self.channel.send(json.dumps({"label": "rtvi-ai", "type": kind, "id": id_, "data": data}))

    async def until(self, kind: str) -> list[Message]:
        """Take messages up to the first of a type."""
        seen = [await self.messages.get()]
        while seen[-1]["type"] != kind:
            seen.append(await self.messages.get())
        return seen

    async def ready(self, **data: Any) -> Message:
        await self.connect(**data)
        self.send("client-ready", version="2.1.0", about={"library": "a test"})
        return (await self.until("bot-ready"))[-1]


@asynccontextmanager
async def served(*script: str, **sections: Any) -> AsyncIterator[tuple[ClientSession, Observer]]:
    async with live(*(script or (SCRIPT,)), **sections) as (url, observer), ClientSession(url) as http:
        yield http, observer


async def gone(observer: Observer) -> None:
    while observer.value("duplex_sessions"):  # noqa: ASYNC110 - under the ceiling of `live`
        await asyncio.sleep(0.01)


def vanish(peer: RTCPeerConnection) -> None:
    """Fall silent without a goodbye: the sockets close as those of a killed process do."""
    for protocol in peer.sctp.transport.transport._connection._protocols:
        protocol.transport.abort()


def outputs(messages: list[Message]) -> list[tuple[str, str]]:
    return [(m["data"]["text"], m["data"]["spoken_status"]) for m in messages if m["type"] == "bot-output"]


async def test_a_conversation() -> None:
    async with served() as (http, observer):
        client = Pipecat(http)
        session = {"type": "realtime", "instructions": "Be brief."}
        assert (await client.ready(requestData={"session": session, "theirs": 1}))["data"]["version"] == "2.1.0"
        client.send("client-message", "q1", t="session.update", d={"type": "realtime", "instructions": "Be kind."})
        updated = (await client.until("server-response"))[-1]
        assert (updated["id"], updated["data"]["d"]["instructions"]) == ("q1", "Be kind.")

        client.send("send-text", content="Count.", options={})
        seen = await client.until("bot-stopped-speaking")
        kinds = [message["type"] for message in seen]
        assert kinds[0] == "user-llm-text"
        assert kinds.index("bot-llm-started") < kinds.index("bot-started-speaking") < kinds.index("bot-output")
        assert [text for text, status in outputs(seen) if status == "completed"] == [
            "One two three.", "Four five six.", "Seven eight nine.",
        ]  # fmt: skip

        client.send("send-text", content="Again.")
        await client.until("bot-output")
        client.send("send-text", "m2", content="Stop.", options={"audio_response": False})
        cut = await client.until("bot-llm-started")
        assert "bot-stopped-speaking" in [message["type"] for message in cut]
        heard = [message["data"]["spoken_progress"] for message in cut if message["type"] == "bot-output"][-1]
        assert f"{heard['accumulated_text']} {heard['remaining_text']}".strip() in SCRIPT
        assert outputs(await client.until("bot-output")) == [(SCRIPT, "new")]

        client.send("dtmf", "m3", buttons=["1"])
        assert (await client.until("error-response"))[-1]["id"] == "m3"
        client.send("disconnect-bot")
        assert (await client.until("signalling"))[-1]["message"] == {"type": "peerLeft"}
        await gone(observer)
        assert (await client.trickle([])).status == 404
        await client.peer.close()


async def test_nothing_is_said_before_the_client_is_ready() -> None:
    async with served(session={"greeting_text": "Hello there.", "greeting_delay_ms": 0}) as (http, _):
        client = Pipecat(http)
        await client.connect()
        client.send("append-to-context", "m1", role="tool", content="x")  # answered once it is ready
        client.send("client-ready", version="2.1.0")
        assert [message["type"] for message in await client.until("error-response")] == ["bot-ready", "error-response"]
        assert ("Hello there.", "new") in outputs(await client.until("bot-output"))
        await client.peer.close()


async def test_a_client_comes_back_by_its_pc_id() -> None:
    async with served() as (http, observer):
        client = Pipecat(http)
        await client.ready()
        client.send("send-text", content="My dog is called Rex.")
        await client.until("bot-output")
        former, pc_id = client.peer, client.pc_id
        client.connect_anew()
        await client.connect(restart=True)
        seen = await client.until("server-message")
        assert seen[-1]["data"] == {"type": "duplex.session.resumed"}
        assert "bot-ready" not in [message["type"] for message in seen]
        assert client.pc_id == pc_id
        assert observer.value("duplex_sessions") == 1
        client.send("send-text", content="Go on.")
        await client.until("bot-stopped-speaking")
        await former.close()
        await client.peer.close()  # a Pipecat client has no other goodbye
        await gone(observer)


async def test_a_client_that_vanishes_is_waited_for() -> None:
    async with served(server={"vanish_timeout_s": 0.5}) as (http, observer):
        client = Pipecat(http)
        await client.ready()
        client.send("send-text", content="My dog is called Rex.")
        await client.until("bot-output")
        former = client.peer
        vanish(former)
        while not observer.value("duplex_sessions_detached"):  # noqa: ASYNC110 - under the ceiling of `live`
            await asyncio.sleep(0.01)
        assert (await client.trickle([])).status == 404  # there is no connection
        client.connect_anew()
        refused = await client.offer()
        assert (refused.status, (await refused.json())["error"]["code"]) == (409, "connection_lost")
        await client.connect(restart=True)
        seen = await client.until("server-message")
        assert [message["type"] for message in seen[-3:]] == [
            "user-stopped-speaking", "bot-stopped-speaking", "server-message",
        ]  # fmt: skip
        assert observer.value("duplex_resumes_total", outcome="resumed") == 1
        for peer in (former, client.peer):
            await peer.close()


async def test_one_whose_session_is_over_gets_a_new_one_and_is_told() -> None:
    async with served() as (http, observer):
        client = Pipecat(http)
        client.pc_id = "rt_of-a-session-that-is-no-more"
        await client.connect(restart=True)
        seen = await client.until("bot-ready")
        assert seen[0]["data"] == {"type": "duplex.session.lost"}
        assert observer.value("duplex_sessions") == 1
        await client.peer.close()


async def test_an_offer_again_with_more_candidates_has_the_same_answer() -> None:
    async with served() as (http, _):
        client = Pipecat(http)
        first = await (await client.offer()).json()
        client.pc_id = first["pc_id"]
        sdp = client.peer.localDescription.sdp
        again = await http.post("/api/offer", json={"sdp": sdp, "type": "offer", "pc_id": client.pc_id})
        assert await again.json() == first
        other = Pipecat(http)
        other.pc_id = client.pc_id
        refused = await other.offer()
        assert (refused.status, (await refused.json())["error"]["code"]) == (409, "invalid_offer")
        for peer in (client.peer, other.peer):
            await peer.close()


async def test_what_is_refused() -> None:
    keys = {"app": "app-key-of-32-characters-or-more", "other": "other-key-of-32-characters-or-so"}
    async with served(server={"api_keys": keys, "candidates_max": 8}) as (http, observer):
        client = Pipecat(http)
        assert (await client.offer()).status == 401
        http.headers["Authorization"] = f"Bearer {keys['app']}"
        for body in (b"", b"{", b'{"sdp": 3}', b'{"sdp": "x", "type": "answer"}'):
            assert (await http.post("/api/offer", data=body)).status == 400
        refused = await client.offer(requestData={"session": {"audio": {"output": {"speed": 9}}}})
        assert (refused.status, (await refused.json())["error"]["param"]) == (400, "session.audio.output.speed")
        assert (await client.offer(requestData={"session": "x"})).status == 400
        assert observer.value("duplex_sessions") == 0
        answered = await (await client.offer()).json()
        client.pc_id = answered["pc_id"]
        assert (await client.trickle(["candidate:1 1 udp 1 nowhere.local 9 typ host"] * 9)).status == 400
        assert (await client.trickle(["candidate:1 1 udp 1 nowhere.local 9 typ host"])).status == 200
        http.headers["Authorization"] = f"Bearer {keys['other']}"
        assert (await client.trickle([])).status == 404
        await client.peer.close()
