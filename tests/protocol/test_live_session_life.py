"""A session's beginning and end on the real server: greeted, joined without a microphone, ended at its greatest length."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import ClientSession, WSMsgType
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame
from live_server import live
from structlog.testing import capture_logs

from duplex.talk import read_recording

pytestmark = pytest.mark.protocol
SPEECH = Path(__file__).parents[1] / "data" / "speech" / "s00.flac"
RATE = 48_000
Event = dict[str, Any]


class Microphone(MediaStreamTrack):
    """Gives nothing until it is switched on; then a sentence, and silence after it."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self.on = asyncio.Event()
        self._speech = read_recording(SPEECH)
        self._at = 0
        self._next = 0.0

    async def recv(self) -> AudioFrame:
        await self.on.wait()
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now - 0.02) + 0.02
        await asyncio.sleep(self._next - now)
        pcm = np.zeros(960, np.int16)
        piece = self._speech[self._at : self._at + 960]
        pcm[: len(piece)] = piece
        frame = AudioFrame.from_ndarray(pcm[None, :], format="s16", layout="mono")
        frame.pts, frame.sample_rate, frame.time_base = self._at, RATE, Fraction(1, RATE)
        self._at += 960
        return frame


class Caller:
    """A WebRTC client: its events, and the loudest sample it has heard."""

    def __init__(self, microphone: Microphone | None = None) -> None:
        self.peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.events: asyncio.Queue[Event] = asyncio.Queue(maxsize=1000)
        self.loudest = 0
        self.closed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._channel = self.peer.createDataChannel("oai-events")
        self._channel.on("message", lambda text: self.events.put_nowait(json.loads(text)))
        self.peer.on("track", self._listen)
        self.peer.on("connectionstatechange", self._state)
        if microphone is not None:
            self.peer.addTrack(microphone)
        else:
            self.peer.addTransceiver("audio", direction="recvonly")

    def _state(self) -> None:
        if self.peer.connectionState == "closed":
            self.closed.set()

    def _listen(self, track: Any) -> None:
        async def listen() -> None:
            while True:
                try:
                    frame = await track.recv()
                except MediaStreamError:
                    return
                self.loudest = max(self.loudest, int(np.abs(frame.to_ndarray().astype(np.int32)).max()))

        task = asyncio.ensure_future(listen())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def call(self, http: ClientSession) -> None:
        await self.peer.setLocalDescription(await self.peer.createOffer())
        offer, headers = self.peer.localDescription.sdp, {"Content-Type": "application/sdp"}
        async with http.post("/v1/realtime/calls", data=offer, headers=headers) as answer:
            assert answer.status == 201
            await self.peer.setRemoteDescription(RTCSessionDescription(sdp=await answer.text(), type="answer"))

    async def until(self, kind: str) -> list[Event]:
        """Take events up to the first of a type."""
        seen = [await self.events.get()]
        while seen[-1]["type"] != kind:
            seen.append(await self.events.get())
        return seen

    def send(self, kind: str, **fields: Any) -> None:
        self._channel.send(json.dumps({"type": kind, **fields}))


def spoken(event: Event) -> str:
    return str(event["response"]["output"][0]["content"][0]["transcript"])


async def test_c11_joined_without_a_microphone_one_is_greeted_answered_and_heard_when_it_is_switched_on() -> None:
    microphone = Microphone()
    caller = Caller(microphone)
    async with (
        live("One two three.", session={"greeting_text": "Welcome here."}) as (url, _),
        ClientSession(url) as http,
    ):
        with capture_logs() as lines:
            await caller.call(http)
            greeted = await caller.until("response.done")
            assert greeted[0]["session"]["duplex"]["greeting"] == {"text": "Welcome here."}
            assert spoken(greeted[-1]) == "Welcome here."
            await caller.until("output_audio_buffer.stopped")
            assert caller.loudest > 1000
            caller.loudest, connected = 0, len(lines)
            item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Count."}]}
            caller.send("conversation.item.create", item=item)
            caller.send("response.create")
            answered = await caller.until("output_audio_buffer.stopped")
            assert spoken(next(e for e in answered if e["type"] == "response.done")) == "One two three."
            assert caller.loudest > 1000
            assert lines[connected:] == []  # silence is no news
            microphone.on.set()
            heard = await caller.until("input_audio_buffer.committed")
            assert [e["type"] for e in heard if e["type"].startswith("input_audio_buffer.speech")] == [
                "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
            ]  # fmt: skip
            assert "error" not in [e["type"] for e in [*greeted, *answered, *heard]]
        await caller.peer.close()


async def test_a_session_at_its_greatest_length_says_so_and_is_closed_on_both_transports() -> None:
    limits = {"length_s_max": 2, "ending_warning_s": 1.0, "ending_grace_s": 0.0}
    caller = Caller()
    async with live(session=limits) as (url, observer), ClientSession(url) as http:
        await caller.call(http)
        async with http.ws_connect("/v1/realtime") as ws:
            seen: list[Event] = []
            while (message := await ws.receive()).type is WSMsgType.TEXT:
                seen.append(json.loads(message.data))
            kinds = [event["type"] for event in seen]
            assert kinds == ["session.created", "conversation.created", "error"]
            assert seen[0]["session"]["expires_at"] == pytest.approx(datetime.now(UTC).timestamp(), abs=10)
            assert seen[2]["error"]["code"] == "session_expired"
            assert (message.type, message.data, message.extra) == (WSMsgType.CLOSE, 1000, "expired")
        ended = await caller.until("error")
        (ending,) = (event for event in ended if event["type"] == "duplex.session.ending")
        assert ending["seconds_left"] <= 1.0
        assert ended[-1]["error"]["code"] == "session_expired"
        await caller.closed.wait()
        assert observer.value("duplex_limits_total", limit="session") == 2
        assert observer.value("duplex_sessions") == 0
        await caller.peer.close()
