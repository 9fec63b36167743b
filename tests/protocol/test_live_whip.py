"""A WHIP publisher: an offer, an answer, trickle, media, the end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest
from aiohttp import ClientResponse, ClientSession
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import AudioStreamTrack
from live_server import live
from test_live_pipecat import gone

pytestmark = pytest.mark.protocol

KEY = "app-key-of-32-characters-or-more"
SDP = {"Content-Type": "application/sdp"}
FRAGMENT = {"Content-Type": "application/trickle-ice-sdpfrag"}


class Publisher:
    """An aiortc peer that publishes silence."""

    def __init__(self, direction: str = "sendonly") -> None:
        self.peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.peer.addTransceiver(AudioStreamTrack(), direction=direction)
        self.tracks: list[Any] = []
        self.peer.on("track", self.tracks.append)

    async def publish(self, http: ClientSession, *, trickles: bool = False) -> ClientResponse:
        """Send the offer and take the answer."""
        await self.peer.setLocalDescription(await self.peer.createOffer())
        lines = self.peer.localDescription.sdp.splitlines(keepends=True)
        self.fragment = "".join(line for line in lines if line.startswith(("a=ice-", "m=", "a=mid:", "a=candidate:")))
        kept = (line for line in lines if not (trickles and line.startswith(("a=candidate:", "a=end-of"))))
        response = await http.post("/whip", data="".join(kept), headers=SDP)
        if response.status == 201:
            await self.peer.setRemoteDescription(RTCSessionDescription(sdp=await response.text(), type="answer"))
        return response

    async def connected(self) -> None:
        while self.peer.connectionState != "connected":  # noqa: ASYNC110 - under the ceiling of `live`
            await asyncio.sleep(0.01)


async def test_a_publisher_from_its_offer_to_its_end() -> None:
    async with live() as (url, observer), ClientSession(url) as http:
        publisher = Publisher()
        created = await publisher.publish(http, trickles=True)
        assert (created.status, created.content_type) == (201, "application/sdp")
        assert created.headers["Accept-Patch"] == "application/trickle-ice-sdpfrag"
        assert "a=recvonly" in await created.text()
        place, tag = created.headers["Location"], created.headers["ETag"]
        matching = {**FRAGMENT, "If-Match": tag}
        statuses = [
            (await http.patch(place, data=publisher.fragment, headers=headers)).status
            for headers in (FRAGMENT, {**SDP, "If-Match": tag}, {**FRAGMENT, "If-Match": '"x"'}, {**FRAGMENT, "If-Match": "*"})
        ]  # fmt: skip
        assert statuses == [428, 415, 412, 422]
        assert (await http.patch(place, data=publisher.fragment, headers=matching)).status == 204
        await publisher.connected()
        while not observer.value("duplex_stage_compute_seconds", stage="vad"):  # noqa: ASYNC110 - it is heard
            await asyncio.sleep(0.01)
        assert (await http.post(place, data="", headers=SDP)).status == 405
        assert (await http.delete(place)).status == 200
        await gone(observer)
        assert (await http.delete(place)).status == 200  # the closing may arrive first
        assert (await http.patch(place, data="", headers=matching)).status == 404
        assert (await http.delete("/whip/rtc_0")).status == 404
        await publisher.peer.close()


async def test_one_that_offers_to_receive_hears_its_session() -> None:
    greeting = {"greeting_text": "Hello there.", "greeting_delay_ms": 0}
    async with live(session=greeting) as (url, observer), ClientSession(url) as http:
        publisher = Publisher("sendrecv")
        channel = publisher.peer.createDataChannel("oai-events")
        assert (await publisher.publish(http)).status == 201
        loudest = 0
        while loudest < 1000:
            loudest = int(np.abs((await publisher.tracks[0].recv()).to_ndarray().astype(np.int32)).max())
        assert channel.readyState == "open"
        await publisher.peer.close()
        await gone(observer)


@pytest.mark.parametrize("locked", [False, True])
async def test_one_that_only_sends_is_answered_in_text(locked: bool) -> None:
    async with live(server={"api_keys": {"app": KEY}}) as (url, observer), ClientSession(url) as http:
        asked = {"session": {"type": "realtime", "instructions": "Be brief."}, "duplex": {"locked": locked}}
        bearer = {"Authorization": f"Bearer {KEY}"}
        secret = await (await http.post("/v1/realtime/client_secrets", json=asked, headers=bearer)).json()
        http.headers["Authorization"] = f"Bearer {secret['value']}"
        publisher, events = Publisher(), asyncio.Queue[dict[str, Any]](maxsize=1000)
        channel = publisher.peer.createDataChannel("oai-events")
        channel.on("message", lambda text: events.put_nowait(json.loads(text)))
        assert (await publisher.publish(http)).status == 201
        session = (await events.get())["session"]
        assert (session["output_modalities"], "instructions" in session) == (["text"], not locked)
        channel.send(json.dumps({"type": "response.create"}))
        kinds = [(await events.get())["type"]]
        while kinds[-1] != "response.done":
            kinds.append((await events.get())["type"])
        assert "response.output_text.delta" in kinds
        assert not {"output_audio_buffer.started", "response.output_audio_transcript.delta"} & {*kinds}
        await publisher.peer.close()
        await gone(observer)


async def test_what_is_refused_and_what_is_taken_by_anybody() -> None:
    async with live(server={"api_keys": {"app": KEY}, "cors_origins": ("https://there.example",)}) as (url, observer):
        async with ClientSession(url) as http:
            publisher = Publisher()
            refused = await publisher.publish(http)
            assert (refused.status, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
            origin = {"Origin": "https://there.example", "Access-Control-Request-Method": "PATCH"}
            for headers in ({}, origin):
                taken = await http.options("/whip", headers=headers)
                assert (taken.status, taken.headers["Accept-Post"]) == (204, "application/sdp")
            assert "PATCH" in taken.headers["Access-Control-Allow-Methods"]
            assert "ETag" in taken.headers["Access-Control-Expose-Headers"]
            http.headers["Authorization"] = f"Bearer {KEY}"
            assert (await http.options("/whip", headers={"Origin": "https://elsewhere.example"})).status == 403
            assert (await http.post("/whip", json={})).status == 415
            assert (await http.post("/whip", data="v=0\r\n", headers=SDP)).status == 400
            assert observer.value("duplex_sessions") == 0
            await publisher.peer.close()
