"""The camera's reader with its real weights, alone and behind a WebRTC call."""

from __future__ import annotations

import asyncio
import json
import wave
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from aiohttp import ClientSession
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription, VideoStreamTrack
from aiortc.contrib.media import MediaPlayer
from av import VideoFrame
from duplex_models.local.read import Read
from duplex_models.sim import SimOptions, make

from duplex.actor.host import SessionHost
from duplex.config import load
from duplex.payloads import Picture, Reading
from duplex.server.serve import listening
from duplex.stages.contract import Role
from duplex.telemetry import Observer
from duplex.units import MonoNs
from loadgen.jobs import job

pytestmark = [pytest.mark.model, pytest.mark.alone]
CEILING_S = 60.0
SPEECH = Path(__file__).parents[1] / "data" / "speech"


def card(*lines: str, width: int = 640, height: int = 480) -> np.ndarray[Any, Any]:
    """Return a picture of a light card with dark words on it, in a grey room."""
    noise = np.random.default_rng(0).normal(0, 8, (height, width, 3))
    rgb = np.clip(90 + noise, 0, 255).astype(np.uint8)
    cv2.rectangle(rgb, (width // 6, height // 4), (width * 5 // 6, height * 3 // 4), (240, 240, 235), -1)
    for i, line in enumerate(lines):
        place = (width // 5, height // 2 - 20 + i * 60)
        cv2.putText(rgb, line, place, cv2.FONT_HERSHEY_SIMPLEX, width / 640, (20, 20, 20), 2, cv2.LINE_AA)
    return rgb


@pytest.fixture(scope="module")
def reader() -> Read:
    stage = Read(640, 1280)
    stage.load(lambda line: None)
    return stage


def read(reader: Read, rgb: np.ndarray[Any, Any]) -> Reading:
    (result,) = reader.step([job(Picture(rgb=rgb, at=MonoNs(7)))])
    assert isinstance(result, Reading)
    assert result.at == 7
    return result


@pytest.mark.parametrize("size", [(640, 480), (1280, 720)])
def test_nonsense_words_are_read_as_they_stand(reader: Read, size: tuple[int, int]) -> None:
    width, height = size
    assert read(reader, card("blorptic 7431", "zunfelda quix", width=width, height=height)).lines == (
        "blorptic 7431", "zunfelda quix",
    )  # fmt: skip


def test_nothing_is_read_where_nothing_is_written(reader: Read) -> None:
    assert read(reader, card()).lines == ()
    assert read(reader, np.zeros((480, 640, 3), np.uint8)).lines == ()


class Card(VideoStreamTrack):
    """Holds a card before the camera."""

    async def recv(self) -> VideoFrame:
        pts, time_base = await self.next_timestamp()
        frame = VideoFrame.from_ndarray(card("blorptic 7431"), format="rgb24")
        frame.pts, frame.time_base = pts, time_base
        return frame


def question(folder: Path) -> Path:
    """Return a wav of a recorded sentence with silence around it, 48 kHz mono."""
    source = sorted(path for path in SPEECH.iterdir() if path.suffix in (".ogg", ".opus", ".flac", ".wav"))[0]
    resampler = av.AudioResampler(format="s16", layout="mono", rate=48_000)
    with av.open(str(source)) as container:
        pieces = [out.to_ndarray()[0] for frame in container.decode(audio=0) for out in resampler.resample(frame)]
    quiet = np.zeros(48_000 * 2, np.int16)
    path = folder / "question.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(48_000)
        file.writeframes(np.concatenate([quiet, *pieces, quiet, quiet]).tobytes())
    return path


@pytest.mark.parametrize("camera", [True, False])
async def test_what_is_held_before_the_camera_is_in_the_thinkers_prompt(tmp_path: Path, camera: bool) -> None:
    settings = load(server={"port": 0, "close_timeout_s": 1.0}, camera={"wait_ms_max": 3000})
    pack = make(SimOptions(script=("Yes.",)))
    pack = replace(pack, stages=(*pack.stages, Read(640, 1280)), edges=(*pack.edges, (Role.READ, Role.THINK)))
    think: Any = next(stage for stage in pack.stages if stage.spec.name == "think")
    host = SessionHost(settings, pack, Observer().record)
    async with listening(host, settings.server, Observer()) as url, asyncio.timeout(CEILING_S):
        await host.start(lambda line: None)
        peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        events: asyncio.Queue[dict[str, Any]] = asyncio.Queue(maxsize=1000)
        channel = peer.createDataChannel("oai-events")
        channel.on("message", lambda text: events.put_nowait(json.loads(text)))
        microphone = MediaPlayer(str(question(tmp_path)))
        peer.addTrack(microphone.audio)
        if camera:
            peer.addTrack(Card())
        await peer.setLocalDescription(await peer.createOffer())
        async with (
            ClientSession() as http,
            http.post(
                f"{url}/v1/realtime/calls", data=peer.localDescription.sdp, headers={"Content-Type": "application/sdp"}
            ) as answer,
        ):
            assert answer.status == 201
            await peer.setRemoteDescription(RTCSessionDescription(sdp=await answer.text(), type="answer"))
        while (await events.get())["type"] != "response.done":
            pass
        await peer.close()
    asked = think.prompts[0].messages[-1].text
    assert "seconds of speech" in asked
    assert ("blorptic 7431" in asked) == camera
    assert ("camera" in asked) == camera
