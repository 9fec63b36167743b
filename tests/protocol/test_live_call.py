"""A WebRTC call made by the openai client, with an aiortc peer as its media."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from live_server import live
from openai import AsyncOpenAI, BadRequestError, UnprocessableEntityError

from duplex.telemetry import Observer

pytestmark = pytest.mark.protocol

Event = dict[str, Any]


class Caller:
    """An aiortc peer that only listens, and its events."""

    def __init__(self, protocol: str = "") -> None:
        self.peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.events: asyncio.Queue[Event] = asyncio.Queue(maxsize=1000)
        self.loudest = 0
        self.tracks: list[Any] = []
        self.open(protocol)
        self.peer.on("track", self.tracks.append)
        self.peer.addTransceiver("audio", direction="recvonly")

    def open(self, protocol: str) -> None:
        """Open the channel of events, at first or again."""
        self.channel = self.peer.createDataChannel("oai-events", protocol=protocol)
        self.channel.on("message", lambda text: self.events.put_nowait(json.loads(text)))

    async def offer(self) -> str:
        await self.peer.setLocalDescription(await self.peer.createOffer())
        return str(self.peer.localDescription.sdp)

    async def connect(self, answer: str) -> None:
        await self.peer.setRemoteDescription(RTCSessionDescription(sdp=answer, type="answer"))

    async def listen(self) -> None:
        """Remember the loudest sample until the track ends."""
        while True:
            try:
                frame = await self.tracks[0].recv()
            except MediaStreamError:
                return
            self.loudest = max(self.loudest, int(np.abs(frame.to_ndarray().astype(np.int32)).max()))

    async def until(self, kind: str) -> list[Event]:
        """Take events up to the first of a type."""
        seen = [await self.events.get()]
        while seen[-1]["type"] != kind:
            seen.append(await self.events.get())
        return seen

    def send(self, kind: str, **fields: Any) -> None:
        self.channel.send(json.dumps({"type": kind, **fields}))


async def gone(observer: Observer) -> None:
    while observer.value("duplex_sessions"):  # noqa: ASYNC110 - under the ceiling of `live`
        await asyncio.sleep(0.01)


async def test_a_call_of_the_openai_client() -> None:
    async with live("One two three.") as (url, observer):
        openai, caller = AsyncOpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0), Caller()
        session: Any = {"type": "realtime", "instructions": "Be brief.", "audio": {"output": {"voice": "marin"}}}
        created = await openai.realtime.calls.create(sdp=await caller.offer(), session=session)
        await caller.connect(created.text)
        seen = await caller.until("session.created")
        assert len(seen) == 1
        assert seen[0]["session"]["instructions"] == "Be brief."
        async with asyncio.TaskGroup() as tasks:
            ears = tasks.create_task(caller.listen())
            item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Count."}]}
            caller.send("conversation.item.create", item=item)
            caller.send("response.create")
            kinds = [event["type"] for event in await caller.until("output_audio_buffer.stopped")]
            ears.cancel()
        assert kinds.count("response.done") == 1
        assert kinds.index("response.content_part.added") < kinds.index("output_audio_buffer.started")
        assert "response.output_audio.delta" not in kinds
        assert caller.loudest > 1000
        caller.send("input_audio_buffer.append", audio="AAAA", event_id="mine")
        refused = (await caller.until("error"))[-1]["error"]
        assert (refused["code"], refused["event_id"]) == ("unsupported_on_transport", "mine")
        call_id = created.response.headers["Location"].rsplit("/", 1)[1]
        await openai.realtime.calls.hangup(call_id)
        await gone(observer)
        await openai.realtime.calls.hangup(call_id)  # hanging up twice is no error: the closing may have arrived first
        await caller.peer.close()
        await openai.close()


async def test_a_call_that_is_refused_leaves_nothing() -> None:
    async with live() as (url, observer):
        openai, caller = AsyncOpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0), Caller()
        session: Any = {"type": "realtime", "audio": {"output": {"speed": 9}}}
        with pytest.raises(BadRequestError) as refused:
            await openai.realtime.calls.create(sdp=await caller.offer(), session=session)
        assert refused.value.param == "session.audio.output.speed"
        with pytest.raises((BadRequestError, UnprocessableEntityError)) as refused_sdp:
            await openai.realtime.calls.create(sdp="not an offer")
        assert refused_sdp.value.code == "invalid_offer"
        await gone(observer)
        await caller.peer.close()
        await openai.close()
