"""The camera over a real transport."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable

import numpy as np
import pytest
from aiortc.codecs.h264 import H264Encoder
from aiortc.codecs.vpx import Vp8Encoder
from media_harness import Client, Plane, Sink, Talker, opus_packets, plane, tone, until

from duplex.config import MediaSettings
from duplex.media import rtcp, rtp

pytestmark = pytest.mark.media


class Camera:
    """Sends pictures whose red level counts, at 30 a second."""

    def __init__(self, client: Client, codec: str, payload_type: int) -> None:
        self._client = client
        self._encoder = Vp8Encoder() if codec == "VP8" else H264Encoder()
        self._writer = rtp.RtpWriter(ssrc=555, payload_type=payload_type, rtp_seq=10)
        self.number = 0

    def send(self, *, lost: bool = False, key: bool = False) -> None:
        from fractions import Fraction  # noqa: PLC0415

        import av  # noqa: PLC0415

        rgb = np.zeros((360, 640, 3), np.uint8)
        rgb[:, :, 0] = min(30 + 2 * self.number, 250)
        rgb[180:, :, 1] = 200
        frame = av.VideoFrame.from_ndarray(rgb, format="rgb24").reformat(format="yuv420p")
        frame.pts, frame.time_base = self.number * 3000, Fraction(1, 90_000)
        payloads, _ = self._encoder.encode(frame, force_keyframe=key)
        for i, payload in enumerate(payloads):
            packet = self._writer.write(payload, rtp_ts=self.number * 3000, marker=i == len(payloads) - 1)
            if not lost:
                self._client.send_rtp(packet)
        self.number += 1

    async def film(self, frames: int, *, lost: Callable[[int], bool] = lambda n: False) -> None:
        for _ in range(frames):
            self.send(lost=lost(self.number))
            await asyncio.sleep(1 / 30)


def offering(codec: str) -> Callable[[str], str]:
    """Leave one codec in the offer's video section."""

    def change(sdp: str) -> str:
        head, mark, video = sdp.partition("m=video")
        if codec == "H264":
            video = re.sub(r"a=rtpmap:(\d+) VP8/90000", r"a=rtpmap:\1 AV1/90000", video)
        return head + mark + video

    return change


def video_type(answer: str, codec: str) -> int:
    match = re.search(rf"a=rtpmap:(\d+) {codec}/90000", answer)
    assert match is not None
    return int(match[1])


@pytest.mark.parametrize("codec", ["VP8", "H264"])
async def test_the_newest_picture_is_sampled_a_few_times_a_second(codec: str) -> None:
    async with plane(media=MediaSettings(video_fps_max=5, video_edge_px_max=320)) as on:
        client, sink = Client(video=True), Sink()
        peer = on.peer(sink)
        answer = await client.connect(peer, offering(codec))
        assert "3gpp" not in answer and "a=rtcp-fb" in answer and "nack pli" in answer
        await until(lambda: "connected" in sink.events, "connected")
        loop = asyncio.get_running_loop()
        start = loop.time()
        await Camera(client, codec, video_type(answer, codec)).film(45)
        await until(lambda: len(sink.frames) >= 5, "pictures")
        assert len(sink.frames) <= 5 * (loop.time() - start) + 2
        assert sink.frames[0].rgb.shape == (180, 320, 3)
        reds = [int(f.rgb[40, 160, 0]) for f in sink.frames]
        assert all(b > a - 6 for a, b in itertools.pairwise(reds)) and reds[-1] - reds[0] > 30
        assert [f.at for f in sink.frames] == sorted(f.at for f in sink.frames)
        await client.close()
        await peer.close("server")


async def test_c53_a_keyframe_is_asked_for_at_most_twice_a_second(plane: Plane) -> None:
    client, sink = Client(video=True), Sink()
    peer = plane.peer(sink)
    answer = await client.connect(peer)
    await until(lambda: "connected" in sink.events, "connected")
    camera = Camera(client, "VP8", video_type(answer, "VP8"))
    loop = asyncio.get_running_loop()
    start = loop.time()
    await camera.film(45, lost=lambda n: n == 0)
    asked = [r for r in client.reports if isinstance(r, rtcp.PictureLoss)]
    assert 1 <= len(asked) <= 1 + 2 * (loop.time() - start)
    assert all(a.media_ssrc == 555 for a in asked)
    assert sink.frames == []  # nothing corrupt is shown
    camera.send(key=True)
    await camera.film(20)
    await until(lambda: sink.frames, "a picture after the keyframe")
    await client.close()
    await peer.close("server")


async def test_c45_a_flood_of_pictures_that_nobody_decodes_stays_bounded(plane: Plane) -> None:
    client, sink = Client(video=True), Sink()
    peer = plane.peer(sink)
    answer = await client.connect(peer)
    await until(lambda: "connected" in sink.events, "connected")
    camera = Camera(client, "VP8", video_type(answer, "VP8"))
    camera.send(key=True)
    for _ in range(400):  # faster than real time
        camera.send()
        if camera.number % 20 == 0:
            await asyncio.sleep(0)
    await Talker(client).talk(opus_packets(tone(440, 0.2)))
    await until(lambda: sink.heard_samples > sink.silent_samples, "audio is served")
    stats = peer.stats()
    assert stats is not None and stats.video is not None
    assert stats.video.kept <= 300
    await client.close()
    await peer.close("server")


async def test_garbage_as_video_harms_nothing(plane: Plane) -> None:
    client, sink = Client(video=True), Sink()
    peer = plane.peer(sink)
    answer = await client.connect(peer)
    await until(lambda: "connected" in sink.events, "connected")
    writer = rtp.RtpWriter(ssrc=9, payload_type=video_type(answer, "VP8"), rtp_seq=1)
    for payload in (b"", b"\xff", b"\x90\xff\xff", b"\x10\x00\x9d\x01\x2a" + bytes(200), bytes(1000)):
        client.send_rtp(writer.write(payload, rtp_ts=1, marker=True))
    await Talker(client).talk(opus_packets(tone(440, 0.2)))
    await until(lambda: sink.heard_samples > sink.silent_samples, "audio is served")
    assert sink.frames == [] and not any(e.startswith("closed") for e in sink.events)
    await client.close()
    await peer.close("server")
