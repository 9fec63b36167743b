"""The jitter buffer on simulated time."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex.media.jitter import Arrival, Conceal, JitterBuffer, Play, Quiet, Recover, Silence, Step
from duplex.units import MonoNs, ns_from_ms

pytestmark = pytest.mark.unit

START_MS = 20
LATE_MS = 120


@dataclass(frozen=True, kw_only=True)
class Sent:
    at_ms: float
    seq: int
    ts: int
    duration: int = 960
    ssrc: int = 1
    dtx: bool = False


@dataclass
class Run:
    """A buffer driven by packets and 20 ms ticks, and everything it decided."""

    buffer: JitterBuffer
    steps: list[tuple[float, Step]] = field(default_factory=list)

    def of(self, kind: type[Step]) -> list[Step]:
        return [step for _, step in self.steps if isinstance(step, kind)]

    def played(self) -> list[int]:
        return [step.packet.rtp_seq for step in self.of(Play) if isinstance(step, Play)]

    def samples(self) -> int:
        return sum(s.packet.duration if isinstance(s, Play) else s.duration for _, s in self.steps)

    def delays(self, sent: Iterable[Sent]) -> list[float]:
        """Wait of each played packet in the buffer, ms."""
        came = {(p.seq & 0xFFFF, p.ssrc): p.at_ms for p in sent}
        return [at - came[s.packet.rtp_seq, s.packet.ssrc] for at, s in self.steps if isinstance(s, Play)]


def run(sent: Iterable[Sent], end_ms: int = 4000, *, clock_rate: int = 48_000, tick_offset_ms: float = 0.0) -> Run:
    buffer = JitterBuffer(
        now=MonoNs(0), clock_rate=clock_rate, depth_ms_min=20, depth_ms_max=400, late_ms=LATE_MS, conceal_ms_max=100
    )
    result = Run(buffer)
    ticks = [(m + tick_offset_ms, 1, None) for m in range(0, end_ms, 20)]
    for at, _, packet in sorted([*((p.at_ms, 0, p) for p in sent), *ticks], key=lambda e: e[:2]):
        now = MonoNs(ns_from_ms(at))
        if packet is not None:
            arrival = Arrival(
                rtp_seq=packet.seq & 0xFFFF,
                rtp_ts=packet.ts & 0xFFFFFFFF,
                ssrc=packet.ssrc,
                payload=b"voice",
                duration=packet.duration,
                dtx=packet.dtx,
            )
            buffer.push(arrival, now)
        result.steps += [(at, step) for step in buffer.poll(now)]
    return result


def stream(n: int, *, seq: int = 100, ts: int = 5000, ptime_ms: float = 20.0, duration: int = 960) -> list[Sent]:
    return [
        Sent(at_ms=START_MS + (i + 1) * ptime_ms, seq=seq + i, ts=ts + i * duration, duration=duration)
        for i in range(n)
    ]


def moved(packet: Sent, at_ms: float) -> Sent:
    return Sent(at_ms=at_ms, seq=packet.seq, ts=packet.ts, duration=packet.duration)


def test_a_clean_stream_passes_at_once_and_in_full() -> None:
    sent = stream(180)
    result = run(sent)
    assert result.played() == [p.seq for p in sent]
    assert max(result.delays(sent)) == 0
    assert not result.of(Recover)


def test_time_without_media_is_silent_and_real() -> None:
    result = run([])
    assert not result.of(Conceal)
    assert result.samples() == 3980 * 48  # ticks 0 to 3980 ms


def test_c14_one_loss_is_recovered_and_leaves_no_delay() -> None:
    sent = stream(180)
    lost = [p for p in sent if p.seq != 110]
    result = run(lost)
    assert len(result.of(Recover)) == 1
    delays = result.delays(lost)
    assert max(delays) <= 40
    assert max(delays[12:]) == 0  # the hole given up, nothing waits any more
    assert result.samples() == run(sent).samples()


def test_c14_five_per_cent_loss_costs_five_per_cent() -> None:
    sent = [p for i, p in enumerate(stream(180)) if i % 20]
    result = run(sent)
    assert result.played() == [p.seq for p in sent]
    assert len(result.of(Recover)) == 8  # the first of the nine is before the stream


def test_a_burst_is_concealed_then_silent_then_recovered() -> None:
    sent = [p for i, p in enumerate(stream(100)) if not 40 <= i < 55]
    result = run(sent, end_ms=2000)
    concealed = sum(s.duration for s in result.of(Conceal) if isinstance(s, Conceal))
    assert 100 * 48 <= concealed <= 220 * 48  # 100 ms in the hole, 100 ms after the stream's end
    assert result.played() == [p.seq for p in sent]


@pytest.mark.parametrize("stall_ms", [30, 60, 100])
def test_packets_that_are_late_together_are_heard_whole(stall_ms: int) -> None:
    """Making something up before them would only stretch the sound."""
    sent = [moved(p, max(p.at_ms, START_MS + 1500 + stall_ms)) if i >= 75 else p for i, p in enumerate(stream(180))]
    result = run(sent, end_ms=int(sent[-1].at_ms))
    assert result.played() == [p.seq for p in sent]
    assert result.of(Conceal) == []
    assert result.samples() == run(stream(180), end_ms=int(sent[-1].at_ms)).samples()


def test_a_stream_that_ends_without_a_word_is_filled_after_the_wait() -> None:
    result = run(stream(50), end_ms=START_MS + 1000 + LATE_MS + 2 * 20)
    assert [step.duration for step in result.of(Conceal) if isinstance(step, Conceal)] == [960]
    marked = [*stream(49), Sent(at_ms=START_MS + 1000, seq=149, ts=5000 + 49 * 960, duration=960, dtx=True)]
    assert len(run(marked, end_ms=START_MS + 1000 + LATE_MS).of(Silence)) > 1  # one is before the stream


def test_reordering_within_the_depth_is_put_right() -> None:
    plain = stream(150)
    sent = [moved(p, p.at_ms + 25) if i > 60 and i % 10 == 0 else p for i, p in enumerate(plain)]
    jittery = [moved(p, p.at_ms + (i % 3) * 12) for i, p in enumerate(plain[:60])]
    result = run([*jittery, *sent[60:]])
    assert result.played() == [p.seq for p in plain]
    assert result.buffer.stats().late == 0


def test_duplicates_are_dropped() -> None:
    sent = stream(50)
    again = [moved(p, p.at_ms + 3) for p in sent]
    held_twice = [Sent(at_ms=1200, seq=200, ts=200_000), Sent(at_ms=1201, seq=200, ts=200_000)]
    result = run([*sent, *again, *held_twice], end_ms=2000)
    assert result.played() == [*(p.seq for p in sent), 200]
    stats = result.buffer.stats()
    assert (stats.late, stats.duplicates) == (50, 1)


def test_the_depth_follows_jitter_both_ways() -> None:
    dice = random.Random(5)
    plain = stream(700)
    sent = [moved(p, p.at_ms + (dice.uniform(0, 80) if i < 200 else 0)) for i, p in enumerate(plain)]
    at_jitter = run(sent[:200], end_ms=4200).buffer.stats().depth_ms
    after = run(sent, end_ms=14_500).buffer.stats().depth_ms
    assert 50 <= at_jitter <= 90
    assert after == 20


def test_a_stall_costs_no_speech_and_time_is_taken_back_in_silence() -> None:
    sent = [moved(p, max(p.at_ms, 1500)) if 1200 < p.at_ms < 1500 else p for p in stream(180)]
    result = run(sent)
    assert result.played() == [p.seq for p in sent]
    may_skip = [s for s in result.of(Play) if isinstance(s, Play) and s.quiet is Quiet.SKIP]
    assert len(may_skip) > 10  # 280 ms more than real time were given on


def test_quiet_packets_left_out_bring_back_real_time() -> None:
    buffer = JitterBuffer(
        now=MonoNs(0), clock_rate=48_000, depth_ms_min=20, depth_ms_max=400, late_ms=LATE_MS, conceal_ms_max=100
    )
    for i in range(15):  # 300 ms at once
        buffer.push(Arrival(rtp_seq=i, rtp_ts=i * 960, ssrc=1, payload=b"v", duration=960), MonoNs(ns_from_ms(20)))
    assert buffer.emitted == 300 * 48
    for step in buffer.poll(MonoNs(ns_from_ms(20))):
        if isinstance(step, Play) and step.quiet is Quiet.SKIP:
            buffer.skipped(step.packet.duration)
    # Real time, the depth that such a burst measures, the allowance, one packet.
    assert buffer.emitted / 48 <= 20 + buffer.stats().depth_ms + 40 + 20


@pytest.mark.parametrize("per_mille", [-10, 10])
def test_a_sender_of_another_clock_is_followed_without_growing(per_mille: int) -> None:
    sent = [moved(p, START_MS + (p.at_ms - START_MS) * (1 - per_mille / 1000)) for p in stream(5000)]
    buffer = JitterBuffer(
        now=MonoNs(0), clock_rate=48_000, depth_ms_min=20, depth_ms_max=400, late_ms=LATE_MS, conceal_ms_max=100
    )
    worst = 0.0
    for i, packet in enumerate(sent):
        now = MonoNs(ns_from_ms(packet.at_ms))
        buffer.push(Arrival(rtp_seq=i & 0xFFFF, rtp_ts=packet.ts, ssrc=1, payload=b"v", duration=960), now)
        for step in buffer.poll(now):
            if isinstance(step, Play) and step.quiet is Quiet.SKIP:
                buffer.skipped(960)
            if isinstance(step, Play) and step.quiet is Quiet.DOUBLE:
                buffer.doubled(960)
        worst = max(worst, abs(buffer.emitted / 48 - packet.at_ms))
    assert worst <= 150


def test_without_quiet_packets_the_clock_is_followed_by_counted_drops() -> None:
    sent = [moved(p, START_MS + (p.at_ms - START_MS) * 0.8) for p in stream(400)]
    result = run(sent, end_ms=6500)
    assert result.buffer.stats().dropped > 0
    assert result.buffer.emitted / 48 <= 6500 + 480


def test_c16_wraps_jumps_and_a_new_ssrc_are_followed() -> None:
    first = stream(100, seq=65_500, ts=2**32 - 48_000)
    back = [Sent(at_ms=p.at_ms, seq=p.seq, ts=p.ts - 60 * 48_000 if i >= 60 else p.ts) for i, p in enumerate(first)]
    other = [Sent(at_ms=2020 + (i + 1) * 20, seq=7 + i, ts=123_456 + i * 960, ssrc=99) for i in range(80)]
    result = run([*back, *other], end_ms=3640)
    played = [(s.packet.ssrc, s.packet.rtp_seq) for s in result.of(Play) if isinstance(s, Play)]
    assert played == [*((1, p.seq & 0xFFFF) for p in back), *((99, p.seq) for p in other)]
    assert abs(result.samples() / 48 - 3620) <= 60  # heard time is real time
    fills = [s.duration for s in result.of(Silence) if isinstance(s, Silence)]
    assert sum(fills) <= 100 * 48


def test_a_straggler_of_the_ssrc_before_is_dropped_but_a_return_is_heard() -> None:
    a = stream(50)
    b = [Sent(at_ms=1040 + i * 20, seq=i, ts=i * 960, ssrc=2) for i in range(60)]
    straggler = Sent(at_ms=1065, seq=150, ts=5000 + 50 * 960)
    back = [Sent(at_ms=2250 + i * 20, seq=400 + i, ts=900_000 + i * 960) for i in range(10)]
    result = run([*a, *b, straggler, *back], end_ms=2600)
    assert 150 not in result.played()
    assert result.played()[-10:] == [p.seq for p in back]


def test_a_restarted_sequence_is_heard_from_its_second_packet() -> None:
    sent = [*stream(50), *[Sent(at_ms=1040 + i * 20, seq=40_000 + i, ts=77 + i * 960) for i in range(20)]]
    result = run(sent, end_ms=1600)
    assert result.played()[-19:] == list(range(40_001, 40_020))


@pytest.mark.parametrize("duration", [120, 480, 960, 1920, 2880])
def test_c17_any_packet_time_gives_the_same_length(duration: int) -> None:
    seconds = 3
    n = seconds * 48_000 // duration
    sent = stream(n, ptime_ms=duration / 48, duration=duration)
    result = run(sent, end_ms=START_MS + seconds * 1000)
    assert result.played() == [p.seq & 0xFFFF for p in sent]
    # Time before the first packet is declared silent while that packet is still being filled.
    assert abs(result.samples() - (START_MS + seconds * 1000) * 48) <= max(duration, 960)
    assert not result.of(Conceal)


def test_c17_changing_packet_times_lose_nothing() -> None:
    sent: list[Sent] = []
    at, ts = float(START_MS), 0
    for i in range(120):
        duration = (960, 2880, 480)[i // 40]
        at += duration / 48
        sent.append(Sent(at_ms=at, seq=i, ts=ts, duration=duration))
        ts += duration
    result = run(sent, end_ms=int(at))
    assert result.played() == [p.seq for p in sent]
    assert abs(result.samples() / 48 - at) <= 100


def test_dtx_gaps_are_silence_not_loss() -> None:
    talk = stream(50)
    hint = Sent(at_ms=1040, seq=150, ts=talk[-1].ts + 960, dtx=True)
    resumed = [Sent(at_ms=1460 + i * 20, seq=151 + i, ts=hint.ts + 21 * 960 + i * 960) for i in range(20)]
    result = run([*talk, hint, *resumed], end_ms=1860)
    assert not result.of(Conceal)
    assert not result.of(Recover)
    assert result.buffer.stats().lost == 0
    assert abs(result.samples() / 48 - 1860) <= 40


def test_c20_a_sender_that_stops_its_clock_is_heard_on() -> None:
    first = stream(50)
    later = [Sent(at_ms=2520 + i * 20, seq=150 + i, ts=first[-1].ts + 960 * (i + 1)) for i in range(50)]
    result = run([*first, *later], end_ms=3600)
    assert result.played() == [p.seq for p in [*first, *later]]
    assert abs(result.samples() / 48 - 3600) <= 60 + 2 * LATE_MS  # waited for once in the pause, once after the end


def test_g711_clocks_count_at_8_khz() -> None:
    sent = [Sent(at_ms=START_MS + (i + 1) * 20, seq=i, ts=i * 160) for i in range(100)]
    result = run([p for p in sent if p.seq != 50], end_ms=START_MS + 2000, clock_rate=8000)
    assert len(result.of(Recover)) == 1
    assert abs(result.samples() / 48 - 2020) <= 40


def test_held_media_is_bounded() -> None:
    sent = [Sent(at_ms=40, seq=0, ts=0), *[Sent(at_ms=41, seq=2 + i, ts=(2 + i) * 960) for i in range(400)]]
    buffer = run(sent, end_ms=60).buffer
    assert buffer.stats().held <= 20


@given(
    seed=st.integers(0, 2**32 - 1),
    loss=st.floats(0, 0.4),
    jitter_ms=st.floats(0, 150),
    copies=st.floats(0, 0.2),
)
@settings(max_examples=60, deadline=None)
def test_every_packet_is_accounted_for(seed: int, loss: float, jitter_ms: float, copies: float) -> None:
    dice = random.Random(seed)
    sent: list[Sent] = []
    for packet in stream(150):
        for _ in range(1 + (dice.random() < copies)):
            if dice.random() >= loss:
                sent.append(moved(packet, packet.at_ms + dice.uniform(0, jitter_ms)))
    result = run(sent, end_ms=4000)
    stats = result.buffer.stats()
    assert stats.pushed == len(sent)
    assert stats.pushed == stats.played + stats.late + stats.duplicates + stats.dropped + stats.held
    assert result.played() == sorted(set(result.played()))  # in order, none twice
    assert result.buffer.emitted == result.samples() == stats.played * 960 + stats.filled
    made_up = [step for step in result.of(Conceal) + result.of(Recover) if isinstance(step, Conceal | Recover)]
    assert stats.concealed == sum(step.duration for step in made_up)
    assert abs(result.samples() / 48 - 4000) <= 480


@given(
    seed=st.integers(0, 2**32 - 1),
    seq=st.integers(0, 0xFFFF),
    ts=st.integers(0, 0xFFFFFFFF),
)
@settings(max_examples=40, deadline=None)
def test_wrapping_changes_nothing(seed: int, seq: int, ts: int) -> None:
    def decisions(seq: int, ts: int) -> list[tuple[float, str, int]]:
        dice = random.Random(seed)
        sent = [moved(p, p.at_ms + dice.uniform(0, 60)) for p in stream(120, seq=seq, ts=ts) if dice.random() > 0.05]
        return [
            (at, type(s).__name__, s.packet.duration if isinstance(s, Play) else s.duration)
            for at, s in run(sent, end_ms=2600).steps
        ]

    assert decisions(seq, ts) == decisions(100, 5000)


@given(packets=st.lists(st.tuples(st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF), st.integers(0, 3)), max_size=120))
@settings(max_examples=60, deadline=None)
def test_hostile_headers_never_make_more_than_real_time_and_the_bound(packets: list[tuple[int, int, int]]) -> None:
    sent = [Sent(at_ms=20 + i * 5, seq=seq, ts=ts, ssrc=ssrc) for i, (seq, ts, ssrc) in enumerate(packets)]
    end_ms = 20 + 5 * len(packets) + 200
    result = run(sent, end_ms=end_ms)
    assert result.buffer.stats().held <= 256
    assert result.samples() / 48 <= end_ms + 20 + 2 * 480 + 1000
