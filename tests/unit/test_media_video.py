"""Frames from packets, and pictures from frames."""

from __future__ import annotations

import random
from fractions import Fraction

import av
import numpy as np
import pytest
from aiortc.codecs.h264 import H264Encoder
from aiortc.codecs.vpx import Vp8Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex.media.rtp import RtpPacket
from duplex.media.video import EncodedFrame, FrameAssembler, PictureDecoder
from duplex.units import MonoNs, ns_from_ms

pytestmark = pytest.mark.unit


def picture(number: int, width: int = 320, height: int = 240) -> av.VideoFrame:
    rgb = np.zeros((height, width, 3), np.uint8)
    rgb[:, :, 0] = 10 * (number % 20) + 30
    rgb[height // 2 :, :, 1] = 200
    rgb[::8, :, 2] = np.arange(width) % 256  # detail, so that a frame takes several packets
    frame = av.VideoFrame.from_ndarray(rgb, format="rgb24").reformat(format="yuv420p")
    frame.pts, frame.time_base = number * 3000, Fraction(1, 90_000)
    return frame


def packets(codec: str, frames: int, *, keys: tuple[int, ...] = (0,)) -> list[list[RtpPacket]]:
    """Per frame its packets, as aiortc's own encoders make them."""
    encoder = Vp8Encoder() if codec == "VP8" else H264Encoder()
    seq, sent = 65_530, []
    for number in range(frames):
        payloads, _ = encoder.encode(picture(number), force_keyframe=number in keys)
        of_frame = []
        for i, payload in enumerate(payloads):
            of_frame.append(
                RtpPacket(
                    payload_type=96,
                    rtp_seq=seq & 0xFFFF,
                    rtp_ts=number * 3000,
                    ssrc=5,
                    marker=i == len(payloads) - 1,
                    payload=payload,
                )
            )
            seq += 1
        sent.append(of_frame)
    return sent


def ms(value: float) -> MonoNs:
    return MonoNs(ns_from_ms(value))


def assembled(assembler: FrameAssembler, sent: list[list[RtpPacket]], first_ms: float = 0) -> list[EncodedFrame]:
    return [f for i, frame in enumerate(sent) for p in frame for f in assembler.push(p, ms(first_ms + 33 * i))]


@pytest.mark.parametrize("codec", ["VP8", "H264"])
def test_all_frames_come_whole_and_decode_to_the_newest(codec: str) -> None:
    assembler = FrameAssembler(codec)
    frames = assembled(assembler, packets(codec, 12))
    assert len(frames) == 12
    assert [f.key for f in frames][:2] == [True, False]
    assert not assembler.wants_key
    rgb = PictureDecoder(codec, 160).decode(frames)
    assert rgb is not None
    assert rgb.shape == (120, 160, 3)
    assert abs(int(rgb[20, 80, 0]) - (10 * 11 + 30)) < 30
    assert rgb[100, 80, 1] > 150 > 100 > rgb[20, 80, 1]


@pytest.mark.parametrize("codec", ["VP8", "H264"])
def test_c53_after_a_loss_nothing_until_a_keyframe(codec: str) -> None:
    sent = packets(codec, 20, keys=(0, 14))
    sent[5] = sent[5][1:] if len(sent[5]) > 1 else []
    assembler = FrameAssembler(codec)
    before = assembled(assembler, sent[:5])
    after = assembled(assembler, sent[5:13], first_ms=5 * 33)
    assert len(before) == 5
    assert after == []
    assert assembler.wants_key
    resumed = assembled(assembler, sent[13:], first_ms=13 * 33)
    assert len(resumed) == 6
    assert resumed[0].key
    assert PictureDecoder(codec, 320).decode(resumed) is not None


def test_c53_a_lost_first_keyframe_is_wanted() -> None:
    assembler = FrameAssembler("VP8")
    assert assembled(assembler, packets("VP8", 5)[1:]) == []
    assert assembler.wants_key


@pytest.mark.parametrize("codec", ["VP8", "H264"])
def test_reordered_packets_are_put_right(codec: str) -> None:
    sent = packets(codec, 10)
    flat = [p for frame in sent for p in frame]
    for i in range(1, len(flat) - 1, 3):
        flat[i], flat[i + 1] = flat[i + 1], flat[i]
    assembler = FrameAssembler(codec)
    assert len([f for i, p in enumerate(flat) for f in assembler.push(p, ms(i))]) == 10


def test_padding_and_repeats_are_passed_over() -> None:
    assembler = FrameAssembler("VP8")
    sent = packets("VP8", 6)
    flat = [p for frame in sent for p in frame]
    frames = []
    shift = 0
    for p in flat:
        moved = RtpPacket(
            payload_type=96,
            rtp_seq=(p.rtp_seq + shift) & 0xFFFF,
            rtp_ts=p.rtp_ts,
            ssrc=5,
            marker=p.marker,
            payload=p.payload,
        )
        frames += assembler.push(moved, ms(0)) + assembler.push(moved, ms(0))
        if p.marker:
            shift += 1
            empty = RtpPacket(
                payload_type=96,
                rtp_seq=(p.rtp_seq + shift) & 0xFFFF,
                rtp_ts=p.rtp_ts,
                ssrc=5,
                marker=False,
                payload=b"",
            )
            frames += assembler.push(empty, ms(0))
    assert len(frames) == 6


def test_a_new_source_begins_with_a_keyframe() -> None:
    assembler = FrameAssembler("VP8")
    sent = packets("VP8", 4)
    assembled(assembler, sent)
    other = [
        [
            RtpPacket(payload_type=96, rtp_seq=p.rtp_seq, rtp_ts=p.rtp_ts, ssrc=6, marker=p.marker, payload=p.payload)
            for p in frame
        ]
        for frame in packets("VP8", 4)
    ]
    assert len(assembled(assembler, other)) == 4


def test_pictures_are_scaled_to_the_longer_edge_and_never_up() -> None:
    frames = assembled(FrameAssembler("VP8"), packets("VP8", 1))
    big = PictureDecoder("VP8", 4096).decode(frames)
    assert big is not None and big.shape == (240, 320, 3)


def test_a_corrupt_keyframe_raises_and_no_picture_is_handed_on() -> None:
    decoder = PictureDecoder("VP8", 320)
    broken = EncodedFrame(data=b"\x10\x02\x00\x9d\x01\x2a", key=True, disposable=False, at=ms(0))
    with pytest.raises(av.error.FFmpegError):
        decoder.decode([broken])


def test_a_picture_too_large_to_decode_is_refused() -> None:
    frames = assembled(FrameAssembler("VP8"), packets("VP8", 1))
    data = bytearray(frames[0].data)
    data[6:10] = (16_383).to_bytes(2, "little") * 2
    with pytest.raises(av.error.FFmpegError):
        PictureDecoder("VP8", 320).decode([EncodedFrame(data=bytes(data), key=True, disposable=False, at=ms(0))])


@pytest.mark.parametrize("codec", ["VP8", "H264"])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_hostile_packets_make_no_more_than_was_sent(codec: str, seed: int) -> None:
    dice = random.Random(seed)
    assembler = FrameAssembler(codec)
    size = made = 0
    for i in range(300):
        payload = dice.randbytes(dice.randrange(0, 60))
        packet = RtpPacket(
            payload_type=96,
            rtp_seq=dice.choice([i, dice.randrange(65_536)]),
            rtp_ts=dice.randrange(4),
            ssrc=dice.choice([1, 1, 1, 2]),
            marker=dice.random() < 0.3,
            payload=payload,
        )
        size += len(payload) + 20
        made += sum(len(f.data) for f in assembler.push(packet, ms(i)))
    assert made <= size
