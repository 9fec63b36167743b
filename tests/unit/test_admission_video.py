"""A lowered video rate: fewer pictures, each from one keyframe that was asked for, and all of it back afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from fractions import Fraction
from typing import Any

import av
import numpy as np
import pytest
from aiortc.codecs.vpx import Vp8Encoder

from duplex.config import MediaSettings
from duplex.media.contract import VideoFrame
from duplex.media.rtp import RtpPacket
from duplex.media.video import VideoIn, VideoRate
from duplex.units import MonoNs, ns_from_ms, seconds_from_ns

pytestmark = pytest.mark.unit

FRAME_MS = 100


class AtOnce(Executor):
    """Decodes where it stands, and counts the frames."""

    def __init__(self) -> None:
        self.decoded = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.decoded += len(args[0])
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class Camera:
    """Ten frames a second of VP8; a keyframe first, and whenever it is asked for one."""

    def __init__(self, rate: VideoRate) -> None:
        self.seen: list[VideoFrame] = []
        self.executor = AtOnce()
        self.asked = 0
        self.now = MonoNs(0)
        self.number = 0
        self._packets = self._film()
        self._wanted = True
        self.video = VideoIn(
            sink=self,  # type: ignore[arg-type]
            codec="VP8", settings=MediaSettings(video_fps_max=2.0), executor=self.executor, ask_keyframe=self._ask,
            rate=rate,
        )  # fmt: skip

    def see(self, frame: VideoFrame) -> None:
        self.seen.append(frame)

    def _ask(self, ssrc: int) -> None:
        self.asked += 1
        self._wanted = True

    def _film(self) -> Iterator[list[RtpPacket]]:
        encoder, seq = Vp8Encoder(), 0
        while True:
            image = np.full((48, 64, 3), self.number % 200, np.uint8)
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format="yuv420p")
            frame.pts, frame.time_base = self.number * 9000, Fraction(1, 90_000)
            payloads, _ = encoder.encode(frame, force_keyframe=self._wanted)
            self._wanted = False
            yield [
                RtpPacket(
                    payload_type=96, rtp_seq=(seq := seq + 1) & 0xFFFF, rtp_ts=self.number * 9000, ssrc=5,
                    marker=payload is payloads[-1], payload=payload,
                )
                for payload in payloads
            ]  # fmt: skip

    async def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 1000 / FRAME_MS)):
            for packet in next(self._packets):
                self.video.receive(packet, self.now)
            self.number += 1
            for _ in range(FRAME_MS // 20):
                self.now = MonoNs(self.now + ns_from_ms(20))
                self.video.tick(self.now)
                await asyncio.sleep(0)  # a decoder's result comes through the loop


async def test_a_lowered_rate_takes_fewer_pictures_and_decodes_one_frame_for_each() -> None:
    rate = VideoRate()
    camera = Camera(rate)
    await camera.run(10)
    assert 18 <= len(camera.seen) <= 21
    assert camera.executor.decoded >= 90  # every frame leads to the next
    rate.share = 0.25
    await camera.run(3)  # what was kept when the rate fell is decoded once more
    seen, decoded = len(camera.seen), camera.executor.decoded
    await camera.run(20)
    assert 8 <= len(camera.seen) - seen <= 10
    assert camera.executor.decoded - decoded == len(camera.seen) - seen
    newest = camera.seen[-1]
    assert seconds_from_ns(MonoNs(camera.now - newest.at)) < 2.5
    assert abs(int(newest.rgb[24, 32, 0]) - (newest.at // ns_from_ms(FRAME_MS)) % 200) < 12


async def test_the_full_rate_comes_back() -> None:
    rate = VideoRate()
    camera = Camera(rate)
    rate.share = 0.125
    await camera.run(10)
    rate.share = 1.0
    await camera.run(1)
    seen, asked = len(camera.seen), camera.asked
    await camera.run(10)
    assert 18 <= len(camera.seen) - seen <= 21
    assert camera.asked == asked
