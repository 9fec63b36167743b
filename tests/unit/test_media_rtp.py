"""RTP headers and RTCP packets."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.media import rtcp, rtp
from duplex.units import MonoNs, WallNs, ns_from_ms

pytestmark = pytest.mark.unit


def test_what_is_written_is_read_again() -> None:
    writer = rtp.RtpWriter(ssrc=7, payload_type=111, rtp_seq=0xFFFF, mid="audio", mid_id=4, level_id=2)
    first = rtp.parse(writer.write(b"one", rtp_ts=2**32 + 5, marker=True, level=30), level_id=2)
    second = rtp.parse(writer.write(b"two", rtp_ts=965, marker=False), level_id=2)
    assert (first.payload_type, first.rtp_seq, first.rtp_ts, first.ssrc) == (111, 0xFFFF, 5, 7)
    assert (first.marker, first.payload, first.level) == (True, b"one", 30)
    assert (second.rtp_seq, second.marker, second.level) == (0, False, rtp.LEVEL_SILENT)
    assert writer.next_seq_ext == 0x10001


def test_without_extensions_the_header_is_twelve_bytes() -> None:
    packet = rtp.RtpWriter(ssrc=7, payload_type=0, rtp_seq=1).write(b"x", rtp_ts=1, marker=False)
    assert len(packet) == 13


def test_csrc_padding_and_two_byte_extensions_are_passed_over() -> None:
    extension = struct.pack("!HHBBBB", 0x1000, 1, 2, 1, 0x80 | 41, 0)
    header = struct.pack("!BBHII", 0x80 | 0x20 | 0x10 | 2, 96, 5, 6, 7) + bytes(8)
    packet = rtp.parse(header + extension + b"payload" + bytes([0, 0, 3]), level_id=2)
    assert (packet.payload, packet.level) == (b"payload", 41)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(12),
        bytes([0x8F]) + bytes(11),  # more CSRCs than bytes
        bytes([0x90]) + bytes(11),  # extension cut short
        bytes([0x90]) + bytes(11) + struct.pack("!HH", 0xBEDE, 100),
        bytes([0xA0]) + bytes(11),  # padding of 0
        bytes([0xA0]) + bytes(11) + bytes([200]),
    ],
)
def test_what_is_no_rtp_is_refused(data: bytes) -> None:
    with pytest.raises(rtp.RtpError):
        rtp.parse(data, level_id=1)


@given(data=st.binary(max_size=120), level_id=st.integers(1, 14))
def test_any_bytes_parse_or_raise(data: bytes, level_id: int) -> None:
    try:
        packet = rtp.parse(bytes([0x90]) + data, level_id=level_id)
    except rtp.RtpError:
        return
    assert packet.level is None or 0 <= packet.level <= 127


def test_levels_are_decibels_under_full_scale() -> None:
    assert rtp.level_of(np.zeros(960, np.int16)) == 127
    assert rtp.level_of(np.full(960, -32768, np.int16)) == 0
    assert rtp.level_of((3276.8 * np.sqrt(2) * np.sin(np.arange(960) * np.pi / 48)).astype(np.int16)) == 20


def test_rtcp_is_told_from_rtp() -> None:
    assert rtp.is_rtcp(rtcp.bye(1))
    assert not rtp.is_rtcp(rtp.RtpWriter(ssrc=1, payload_type=111, rtp_seq=1).write(b"", rtp_ts=0, marker=True))


def ms(value: float) -> MonoNs:
    return MonoNs(ns_from_ms(value))


def test_a_round_trip_closes_over_a_sender_report() -> None:
    ours = rtcp.SentStream(ssrc=1, cname="name")
    theirs = rtcp.ReceivedStream(ssrc=1, clock_rate=48_000)
    ours.add(100)
    theirs.add(10, 960, ms(0))
    report = ours.report(now=ms(1000), wall=WallNs(1_700_000_000 * 10**9), rtp_ts=960, blocks=[])
    (sender,) = [p for p in rtcp.parse(report) if isinstance(p, rtcp.Reports)]
    theirs.heard_report(sender, ms(1030))  # 30 ms on the way
    answer = rtcp.SentStream(ssrc=2, cname="peer").report(
        now=ms(1230), wall=WallNs(0), rtp_ts=0, blocks=[theirs.block(ms(1230))]
    )
    (receiver,) = [p for p in rtcp.parse(answer) if isinstance(p, rtcp.Reports)]
    assert receiver.ntp is None  # nothing sent: a receiver report
    rtt = ours.rtt_ns(receiver.blocks[0], ms(1250))  # 20 ms on the way back
    assert rtt is not None
    assert abs(rtt - ns_from_ms(50)) < ns_from_ms(0.1)


def test_an_echo_of_no_report_of_ours_closes_nothing() -> None:
    block = rtcp.ReportBlock(ssrc=1, fraction_lost=0, packets_lost=0, rtp_seq_ext=0, jitter=0, lsr=5, dlsr=0)
    assert rtcp.SentStream(ssrc=1, cname="x").rtt_ns(block, ms(5)) is None


def test_loss_is_counted_cumulatively_and_per_interval() -> None:
    stream = rtcp.ReceivedStream(ssrc=9, clock_rate=48_000)
    for i in range(100):
        if i % 10:
            stream.add((65_530 + i) & 0xFFFF, i * 960, ms(i * 20))
    (reports,) = rtcp.parse(struct.pack("!BBHI", 0x81, 201, 7, 3) + stream.block(ms(2000)))
    assert isinstance(reports, rtcp.Reports)
    block = reports.blocks[0]
    assert block.packets_lost == 9  # packet 0 is before the stream
    assert abs(block.fraction_lost - 9 / 99) < 0.01
    assert block.rtp_seq_ext == 65_530 + 99
    assert block.jitter == 0
    assert stream.block(ms(2100))[4] == 0  # nothing expected since


def test_jitter_is_in_ticks_and_a_jump_of_the_clock_is_none() -> None:
    stream = rtcp.ReceivedStream(ssrc=9, clock_rate=48_000)
    for i in range(400):
        ts = i * 960 + (10**9 if i > 200 else 0)
        stream.add(i, ts & 0xFFFFFFFF, ms(i * 20 + (10 if i % 2 else 0)))
    jitter = struct.unpack("!6I", stream.block(ms(9000)))[3]
    assert 400 <= jitter <= 500  # 10 ms


def test_goodbyes_keyframe_requests_and_extended_reports_are_read() -> None:
    extended = struct.pack("!BBHIBBHII", 0x80, 207, 4, 77, 4, 0, 2, 1, 2)
    packets = list(rtcp.parse(rtcp.picture_loss(5, 6) + extended + rtcp.bye(5)))
    kinds = [type(p).__name__ for p in packets]
    assert kinds == ["Reports", "PictureLoss", "Extended", "Reports", "Bye"]
    assert packets[1] == rtcp.PictureLoss(media_ssrc=6)
    assert packets[2] == rtcp.Extended(ssrc=77, block_types=(4,))
    assert packets[4] == rtcp.Bye(ssrcs=(5,))


@given(data=st.binary(max_size=200))
def test_any_bytes_are_read_as_far_as_they_make_sense(data: bytes) -> None:
    assert len(list(rtcp.parse(data))) <= len(data) // 4
    assert len(list(rtcp.parse(rtcp.bye(1) + data))) >= 2
