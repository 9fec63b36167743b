"""A camera's frames over WebRTC: sampled, newest first, and shown to the model with the turn."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest
from aiohttp import ClientSession
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription, VideoStreamTrack
from av import VideoFrame
from duplex_models.sim import SimOptions, make

from duplex.actor.host import SessionHost
from duplex.config import Settings, load
from duplex.server.serve import listening
from duplex.telemetry import Observer

pytestmark = pytest.mark.protocol
CEILING_S = 30.0


class Camera(VideoStreamTrack):
    """Shows one colour, then another."""

    def __init__(self) -> None:
        super().__init__()
        self.rgb = (200, 30, 30)

    async def recv(self) -> VideoFrame:
        pts, time_base = await self.next_timestamp()
        frame = VideoFrame.from_ndarray(np.full((240, 320, 3), self.rgb, np.uint8), format="rgb24")
        frame.pts, frame.time_base = pts, time_base
        return frame


async def test_the_model_is_shown_the_newest_frame_of_the_camera() -> None:
    settings: Settings = load(server={"port": 0, "close_timeout_s": 1.0}, media={"video_fps_max": 10})
    pack = make(SimOptions(script=("Yes.",)))
    think: Any = next(stage for stage in pack.stages if stage.spec.name == "think")
    host = SessionHost(settings, pack, Observer().record)
    async with listening(host, settings.server, Observer()) as url, asyncio.timeout(CEILING_S):
        await host.start(lambda line: None)
        peer, camera = RTCPeerConnection(RTCConfiguration(iceServers=[])), Camera()
        events: asyncio.Queue[dict[str, Any]] = asyncio.Queue(maxsize=1000)
        channel = peer.createDataChannel("oai-events")
        channel.on("message", lambda text: events.put_nowait(json.loads(text)))
        peer.addTransceiver("audio", direction="recvonly")
        peer.addTrack(camera)
        await peer.setLocalDescription(await peer.createOffer())
        async with (
            ClientSession() as http,
            http.post(
                f"{url}/v1/realtime/calls", data=peer.localDescription.sdp, headers={"Content-Type": "application/sdp"}
            ) as answer,
        ):
            assert answer.status == 201
            await peer.setRemoteDescription(RTCSessionDescription(sdp=await answer.text(), type="answer"))

        async def ask() -> np.ndarray[Any, Any]:
            shown = len(think.shown)
            while len(think.shown) == shown:
                channel.send(json.dumps({"type": "response.create"}))
                while (await events.get())["type"] != "response.done":
                    pass
                await asyncio.sleep(0.2)
            return think.shown[-1]

        while (await events.get())["type"] != "session.created":
            pass
        first = await ask()
        assert first.shape[2] == 3
        assert np.abs(first.mean(axis=(0, 1)) - (200, 30, 30)).max() < 40
        camera.rgb = (30, 30, 200)
        await asyncio.sleep(1.5)
        assert np.abs((await ask()).mean(axis=(0, 1)) - (30, 30, 200)).max() < 40
        assert len(think.shown) < 20
        await peer.close()
