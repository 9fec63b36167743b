"""Audio over a real transport: field cases of kind 2, and what clients get wrong."""

from __future__ import annotations

import asyncio
import gc
import os
import random

import av
import numpy as np
import pytest
from media_harness import Client, Plane, Sink, Talker, opus_packets, pitch, session, tone, until

from duplex.media import opus, rtcp, rtp
from duplex.media.peer import WebRtcPeer
from duplex.payloads import Int16Array

pytestmark = pytest.mark.media

MS_16K = 16


def voiced(sink: Sink, threshold: int = 500) -> tuple[float, float]:
    """Return start and end in ms of what was heard above `threshold`."""
    loud = np.flatnonzero(np.abs(sink.audio()) > threshold)
    return loud[0] / MS_16K, loud[-1] / MS_16K


def played(peer: WebRtcPeer) -> int:
    stats = peer.stats()
    return 0 if stats is None else stats.audio.played


def resident_mb() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def test_c13_stereo_is_heard_as_one_channel_mixed(plane: Plane) -> None:
    codec = av.CodecContext.create("libopus", "w")
    codec.sample_rate, codec.format, codec.layout, codec.bit_rate = 48_000, "s16", "stereo", 96_000
    left = tone(440, 1.0)
    payloads = []
    for block in np.stack([left, np.zeros_like(left)], axis=1).reshape(-1, 1920):
        frame = av.AudioFrame.from_ndarray(block.reshape(1, -1), format="s16", layout="stereo")
        frame.sample_rate = 48_000
        payloads += [bytes(p) for p in codec.encode(frame)]
    client, sink = Client(), Sink()
    async with session(plane, client, sink) as (peer, _):
        await Talker(client).talk(payloads)
        await until(lambda: played(peer) == len(payloads), "heard")
        start, end = voiced(sink)
        assert abs(end - start - len(payloads) * 20) <= 20
        middle = sink.audio()[int((start + 200) * MS_16K) : int((end - 200) * MS_16K)]
        assert abs(pitch(middle, 16_000) - 440) <= 4.4
        assert abs(np.abs(middle).max() / 4000 - 1) < 0.15


@pytest.mark.parametrize("lost", [{10}, set(range(0, 100, 20))], ids=["one", "every twentieth"])
async def test_c14_losses_cost_what_was_lost_and_leave_no_delay(plane: Plane, lost: set[int]) -> None:
    client, sink = Client(), Sink()
    loop = asyncio.get_running_loop()
    async with session(plane, client, sink) as (peer, _):
        packets = opus_packets(np.concatenate([tone(440, 2.0), tone(440, 0.2, peak=0)]))
        marks: list[float] = []

        async def watch() -> None:
            heard = sink.heard_samples - sink.silent_samples
            await until(lambda: sink.heard_samples - sink.silent_samples >= heard + 100 * 320, "two seconds are heard")
            marks.append(loop.time())

        watching = asyncio.ensure_future(watch())
        start = loop.time()
        await Talker(client).talk(None if i in lost else p for i, p in enumerate(packets))
        await watching
        assert marks[0] - start <= 2.0 + 0.15  # the hundredth packet leaves at 1.98 s
        stats = peer.stats()
        assert stats is not None
        assert stats.audio.lost == len(lost - {0})
        began, ended = voiced(sink)
        assert abs(ended - began - 2000) <= 60


async def test_c16_wraps_jumps_back_and_a_new_ssrc_are_heard_on(plane: Plane) -> None:
    client, sink = Client(), Sink()
    async with session(plane, client, sink) as (peer, _):
        await until(lambda: sink.heard_samples, "time passes")
        gc.collect()
        loop, before = asyncio.get_running_loop(), resident_mb()
        origin, heard = loop.time(), sink.heard_samples
        packets = opus_packets(tone(440, 2.4))
        talker = Talker(client, rtp_seq=65_500, rtp_ts=2**32 - 24_000)
        await talker.talk(packets[:40])  # both wrap
        talker.rtp_ts -= 60 * 48_000
        await talker.talk(packets[40:80])
        dice = random.Random(3)
        talker.ssrc, talker.rtp_ts, talker.rtp_seq = 99, dice.getrandbits(32), dice.getrandbits(16)
        await talker.talk(packets[80:])
        await asyncio.sleep(0.1)
        elapsed = 1000 * (loop.time() - origin)
        assert abs((sink.heard_samples - heard) / MS_16K - elapsed) <= 150
        began, ended = voiced(sink)
        between = np.abs(sink.audio()[int(began * MS_16K) : int(ended * MS_16K)])
        quiet = np.convolve(between > 300, np.ones(100 * MS_16K), "valid")
        assert quiet.min() > 0  # no gap of 100 ms
        assert resident_mb() - before < 5
        assert peer.stats().audio.restarts >= 1


def packets_of(pcm: Int16Array, durations_ms: list[float]) -> list[tuple[bytes, float]]:
    """Encode with another packet time per packet, through libopus itself."""
    from duplex.media.opus import _encoder  # noqa: PLC0415 - the raw binding, for frame sizes that we never send

    state = _encoder.create_state(48_000, 1, 2049)
    packets, at = [], 0
    for duration in durations_ms:
        n = round(duration * 48)
        packets.append((_encoder.encode(state, pcm[at : at + n].tobytes(), n, 1275), duration))
        at += n
    _encoder.destroy(state)
    return packets


PTIMES = {
    "2.5": [2.5] * 320,
    "10": [10.0] * 80,
    "20": [20.0] * 40,
    "40": [40.0] * 20,
    "60": [60.0] * 13,
    "20→60→10": [20.0] * 10 + [60.0] * 6 + [10.0] * 24,
}


@pytest.mark.parametrize("name", PTIMES)
async def test_c17_any_packet_time_is_heard_in_place_and_length(plane: Plane, name: str) -> None:
    durations = PTIMES[name]
    client, sink, loop = Client(), Sink(), asyncio.get_running_loop()
    async with session(plane, client, sink) as (peer, _):
        talker, start = Talker(client), loop.time()
        due = 0.0
        for payload, duration in packets_of(tone(440, sum(durations) / 1000), durations):
            due += duration / 1000
            await asyncio.sleep(max(0.0, start + due - loop.time()))
            talker.send(payload, step=round(duration * 48))
        await until(lambda: played(peer) == len(durations), "heard")
        began, ended = voiced(sink)
        assert abs(ended - began - sum(durations)) <= max(20, *durations)  # one frame


async def test_c20_gaps_between_sentences_are_gaps_in_timestamps(plane: Plane) -> None:
    client, sink = Client(), Sink()
    async with session(plane, client, sink):
        await until(lambda: len(client.came) > 5, "the silence before")
        for _ in range(3):
            sink.to_say = list(tone(440, 0.3).reshape(-1, 960))
            await until(lambda: not sink.to_say, "said")
            await asyncio.sleep(0.7)
        first = client.came[0]
        for came in client.came:
            ticks = ((came.packet.rtp_ts - first.packet.rtp_ts + 2**31) % 2**32 - 2**31) / 48_000
            assert abs(ticks - (came.at - first.at)) <= 0.03
        assert sum(c.packet.marker for c in client.came) == 3
        longest = max(b.at - a.at for a, b in zip(client.came, client.came[1:], strict=False))
        assert longest <= 0.45  # DTX keeps the stream alive


async def test_what_is_said_arrives_whole(plane: Plane) -> None:
    client, sink = Client(), Sink()
    async with session(plane, client, sink):
        sink.to_say = list(tone(440, 1.0).reshape(-1, 960))
        await until(lambda: not sink.to_say, "said")
        await asyncio.sleep(0.15)
        decoder = opus.Decoder()
        pcm = np.concatenate([decoder.decode(c.packet.payload) for c in client.came])
        loud = np.flatnonzero(np.abs(pcm) > 500)
        assert abs((loud[-1] - loud[0]) / MS_16K - 1000) <= 20
        assert abs(pitch(pcm[loud[0] : loud[-1]], 16_000) - 440) <= 4.4
        assert {c.packet.level for c in client.came if len(c.packet.payload) > 2 and c.packet.level != 127}


async def test_zero_length_and_corrupt_packets_kill_nothing(plane: Plane) -> None:
    client, sink = Client(), Sink()
    async with session(plane, client, sink) as (peer, _):
        packets: list[bytes | None] = list(opus_packets(tone(440, 1.0)))
        packets[5], packets[15], packets[25], packets[35] = (
            b"",
            b"\xff\xff\xff",
            bytes([0x7B, 0xFF, 0]),
            os.urandom(900),
        )
        await Talker(client).talk(packets)
        await until(lambda: sink.heard_samples - sink.silent_samples >= 15_600, "heard on")
        stats = peer.stats()
        assert stats is not None and stats.undecodable >= 2
        assert not any(e.startswith("closed") for e in sink.events)


async def test_datagrams_that_are_not_the_clients_are_dropped(plane: Plane) -> None:
    client, sink = Client(), Sink()
    async with session(plane, client, sink) as (peer, _):
        for size in (1, 2, 11, 12, 60, 1400, 3000):
            client.send_raw(bytes([0x80]) + os.urandom(size - 1))
            client.send_raw(bytes([0x80, 200][:size]) + os.urandom(max(size - 2, 0)))
        talker = Talker(client, payload_type=77)
        talker.send(b"of no negotiated type")
        client.send_rtp(rtp.RtpWriter(ssrc=1, payload_type=96, rtp_seq=1).write(b"", rtp_ts=0, marker=False))
        client.send_rtcp(rtcp.bye(7))
        client.send_rtcp(bytes([0x80, 201, 0xFF, 0xFF, 0, 0, 0, 0]))
        await Talker(client).talk(opus_packets(tone(440, 0.3)))
        await until(lambda: sink.heard_samples - sink.silent_samples >= 4000, "still heard")
        stats = peer.stats()
        assert stats is not None and stats.unauthentic >= 12


async def test_reports_go_both_ways(plane: Plane) -> None:
    client, sink, loop = Client(), Sink(), asyncio.get_running_loop()
    async with session(plane, client, sink):
        sink.to_say = list(tone(440, 1.2).reshape(-1, 960))
        talking = asyncio.ensure_future(
            Talker(client).talk(p if i % 10 else None for i, p in enumerate(opus_packets(tone(440, 1.2))))
        )
        await until(lambda: any(isinstance(r, rtcp.Reports) and r.ntp and r.blocks for r in client.reports), "a report")
        report = next(r for r in client.reports if isinstance(r, rtcp.Reports) and r.ntp and r.blocks)
        assert abs(report.blocks[0].fraction_lost - 0.1) < 0.05
        mine = rtcp.ReceivedStream(ssrc=report.ssrc, clock_rate=48_000)
        now = rtcp.MonoNs(int(loop.time() * 1e9))
        for came in client.came:
            mine.add(came.packet.rtp_seq, came.packet.rtp_ts, now)
        mine.heard_report(report, now)
        await asyncio.sleep(0.05)
        later = rtcp.MonoNs(int(loop.time() * 1e9))
        answer = rtcp.SentStream(ssrc=5, cname="client").report(
            now=later, wall=rtcp.WallNs(0), rtp_ts=0, blocks=[mine.block(later)]
        )
        client.send_rtcp(answer)
        await until(lambda: sink.reports, "the session is told")
        told = sink.reports[0]
        assert told.packets_lost == 0
        assert told.rtt_ms is not None and told.rtt_ms < 60
        await talking


async def test_reported_loss_brings_fec(plane: Plane) -> None:
    client, sink = Client(), Sink()
    async with session(plane, client, sink) as (peer, _):
        sink.to_say = list(tone(440, 1.0).reshape(-1, 960))
        await until(lambda: sum(len(c.packet.payload) > 20 for c in client.came) > 8, "packets")
        ours = client.came[0].packet.ssrc
        block = rtcp._BLOCK.pack(ours, 26 << 24 | 10, 100, 0, 0, 0)  # a tenth lost
        client.send_rtcp(
            rtcp.SentStream(ssrc=5, cname="c").report(now=rtcp.MonoNs(0), wall=rtcp.WallNs(0), rtp_ts=0, blocks=[block])
        )
        await until(lambda: sink.reports, "the report")
        stats = peer.stats()
        assert stats is not None and stats.fec
        await until(lambda: not sink.to_say, "said")
        speech = [c.packet.payload[0] >> 3 for c in client.came if len(c.packet.payload) > 20]
        assert min(speech) < 16 < max(speech)  # CELT at first, SILK with FEC later


async def test_what_is_heard_is_timely(plane: Plane) -> None:
    """A packet is heard at once, not after a playout delay (the median, against a generous ceiling)."""
    client, sink, loop = Client(), Sink(), asyncio.get_running_loop()
    async with session(plane, client, sink):
        waits, packets = [], opus_packets(tone(440, 0.6))
        talker = Talker(client)
        for packet in packets:
            heard, start = len(sink.heard), loop.time()
            talker.send(packet)
            await until(lambda heard=heard: len(sink.heard) > heard, "heard")
            waits.append(loop.time() - start)
            await asyncio.sleep(max(0.0, 0.02 - waits[-1]))
        assert sorted(waits)[len(waits) // 2] < 0.02
