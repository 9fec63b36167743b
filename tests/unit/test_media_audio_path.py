"""The audio path without a network: what is heard, and which packets leave at which tick."""

from __future__ import annotations

import numpy as np
import pytest

from duplex.config import MediaSettings
from duplex.media import opus, rtp
from duplex.media.audio_path import AudioIn, AudioOut, Outgoing
from duplex.media.codec import AudioCodec
from duplex.media.contract import OutputPacket, ReceiverReport, VideoFrame
from duplex.payloads import Int16Array
from duplex.units import MonoNs, RtpTicks, ns_from_ms

pytestmark = pytest.mark.unit

OPUS = AudioCodec(name="opus", payload_type=111, clock_rate=48_000)
PCMU = AudioCodec(name="PCMU", payload_type=0, clock_rate=8_000)


class Sink:
    def __init__(self) -> None:
        self.heard: list[Int16Array] = []
        self.silent = 0
        self.say: dict[int, Int16Array] = {}
        self.tick = 0
        self.asked: list[RtpTicks | None] = []

    def hear(self, pcm: Int16Array, arrived: MonoNs | None = None) -> None:
        self.heard.append(pcm)

    def hear_silence(self, n: int) -> None:
        self.silent += n

    def next_packet(self, now: MonoNs, rtp_ts: RtpTicks | None = None) -> OutputPacket | None:
        self.asked.append(rtp_ts)
        pcm = self.say.get(self.tick)
        return None if pcm is None else OutputPacket(pcm=pcm, epoch=0)

    def report(self, report: ReceiverReport) -> None: ...
    def see(self, frame: VideoFrame) -> None: ...
    def connected(self) -> None: ...
    def channel_open(self) -> None: ...
    def receive(self, text: str | bytes) -> None: ...
    def closed(self, reason: str) -> None: ...


def ms(value: float) -> MonoNs:
    return MonoNs(ns_from_ms(value))


def tone(frames: int, peak: float = 8000) -> list[Int16Array]:
    pcm = np.asarray(peak * np.sin(2 * np.pi * 440 * np.arange(frames * 960) / 48_000), dtype=np.int16)
    return list(pcm.reshape(-1, 960))


def hear(payloads: list[bytes | None], sink: Sink, codec: AudioCodec = OPUS) -> AudioIn:
    path = AudioIn(sink=sink, codec=codec, settings=MediaSettings(), now=ms(0))
    step = codec.clock_rate // 50
    for i, payload in enumerate(payloads):
        now = ms(20 * (i + 1))
        if payload is not None:
            packet = rtp.RtpPacket(
                payload_type=codec.payload_type, rtp_seq=i, rtp_ts=i * step, ssrc=1, marker=False, payload=payload
            )
            path.receive(packet, now)
        path.advance(now)
    return path


def encoded(frames: list[Int16Array]) -> list[bytes]:
    encoder = opus.Encoder(bitrate=32_000, complexity=5)
    return [encoder.encode(f) for f in frames]


def test_what_is_sent_is_heard_in_length_and_level() -> None:
    sink = Sink()
    hear(list(encoded(tone(50))), sink)
    pcm = np.concatenate(sink.heard)
    assert len(pcm) + sink.silent == 16_000
    assert abs(np.abs(pcm[3200:]).max() / 8000 - 1) < 0.1


def test_zero_length_and_corrupt_packets_are_counted_and_time_goes_on() -> None:
    packets: list[bytes | None] = list(encoded(tone(50)))
    packets[10], packets[20], packets[30] = b"", b"\xff\xff\xff", bytes([0x7B, 0xFF, 0])
    sink = Sink()
    path = hear(packets, sink)
    assert path.undecodable == 3
    assert abs(sum(map(len, sink.heard)) + sink.silent - 16_000) <= 640


def test_a_loss_is_filled() -> None:
    packets: list[bytes | None] = [p if i % 20 else None for i, p in enumerate(encoded(tone(100)))]
    sink = Sink()
    path = hear(packets, sink)
    assert path.stats().lost == 4
    assert abs(sum(map(len, sink.heard)) + sink.silent - 32_000) <= 640


def test_surplus_is_taken_from_quiet_packets_only() -> None:
    loud, quiet = encoded(tone(30)), encoded(tone(80, peak=20))
    sink = Sink()
    path = AudioIn(sink=sink, codec=OPUS, settings=MediaSettings(), now=ms(0))
    for i, payload in enumerate([*loud, *quiet]):
        now = ms(300 + max(0, i - 14) * 20)  # the first fifteen come at once, after a stall
        packet = rtp.RtpPacket(payload_type=111, rtp_seq=i, rtp_ts=i * 960, ssrc=1, marker=False, payload=payload)
        path.receive(packet, now)
        path.advance(now)
    loud_heard = sum(len(p) for p in sink.heard if np.abs(p).max() > 1000)
    assert loud_heard >= 30 * 320 - 320  # the codec's own delay apart, all of it
    total = sum(map(len, sink.heard)) + sink.silent
    assert total / 16 <= 300 + 95 * 20 + 150  # within the bound of C16 again


def said(sink: Sink, ticks: int, codec: AudioCodec = OPUS, first: int = 0) -> list[tuple[int, rtp.RtpPacket]]:
    out = AudioOut(
        sink=sink,
        codec=codec,
        writer=rtp.RtpWriter(ssrc=1, payload_type=codec.payload_type, rtp_seq=0, level_id=1),
        settings=MediaSettings(),
        rtp_ts=2**32 - 4000,
        measure_level=True,
    )
    packets = []
    for number in range(first, first + ticks):
        sink.tick = number
        outgoing: Outgoing | None = out.tick(number, ms(20 * number))
        if outgoing is not None:
            packets.append((number, rtp.parse(outgoing.data, level_id=1)))
    return packets


def test_c20_timestamps_follow_time_and_a_talk_spurt_is_marked() -> None:
    sink = Sink()
    frames = tone(50)
    sink.say = {10 + i: f for i, f in enumerate(frames)} | {135 + i: f for i, f in enumerate(frames)}
    packets = said(sink, 200)
    for number, packet in packets:
        assert packet.rtp_ts == (2**32 - 4000 + 960 * number) % 2**32
    assert [n for n, p in packets if p.marker] == [10, 135]
    assert [sink.asked[n] for n, _ in packets] == [packet.rtp_ts for _, packet in packets]
    assert [p.rtp_seq for _, p in packets] == list(range(len(packets)))


def test_speech_ends_in_encoded_silence_then_dtx() -> None:
    sink = Sink()
    sink.say = dict(enumerate(tone(5)))
    packets = dict(said(sink, 100))
    assert all(len(packets[n].payload) > 2 for n in range(10))  # five of speech, five of silence
    later = [n for n in packets if n >= 10]
    assert later == [10, 30, 50, 70, 90]
    assert all(len(packets[n].payload) == 1 for n in later)
    decoder = opus.Decoder()
    heard = [decoder.decode(packets[n].payload) for n in (*range(10), 10)]
    assert np.abs(heard[-2]).max() <= 20  # what is left (-64 dBFS) is the decoder's decaying offset
    assert np.abs(heard[-1]).max() <= 20


def test_g711_says_silence_all_the_time() -> None:
    sink = Sink()
    sink.say = dict(enumerate(tone(5)))
    packets = said(sink, 60, PCMU)
    assert len(packets) == 60
    assert [p.rtp_ts for _, p in packets][:2] == [2**32 - 4000, 2**32 - 3840]
    assert set(packets[-1][1].payload) == {0xFF}


def test_levels_are_told() -> None:
    sink = Sink()
    sink.say = {0: tone(1)[0]}
    packets = said(sink, 2)
    assert abs((packets[0][1].level or 0) - 15) <= 1  # 8000 peak
    assert packets[1][1].level == rtp.LEVEL_SILENT


def test_reported_loss_switches_to_silk_with_fec() -> None:
    sink = Sink()
    sink.say = dict(enumerate(tone(100)))
    writer = rtp.RtpWriter(ssrc=1, payload_type=111, rtp_seq=0)
    out = AudioOut(sink=sink, codec=OPUS, writer=writer, settings=MediaSettings(), rtp_ts=0, measure_level=False)

    def config(number: int) -> int:
        sink.tick = number
        outgoing = out.tick(number, ms(20 * number))
        assert outgoing is not None
        return rtp.parse(outgoing.data).payload[0] >> 3

    assert {config(n) for n in range(10)} == {31}
    out.report(0.1, ms(300))
    assert out.protected
    assert max([config(n) for n in range(20, 40)][2:]) < 16
