"""The egress queue: what leaves, in which order, and how a cut, a duck and a hold sound (field cases C22, C23)."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.media.egress import EgressQueue
from duplex.media.resample import StreamResampler
from duplex.payloads import Address, Audio
from duplex.stages.lanes import Lanes
from duplex.timeline.ledger import Kind
from duplex.units import Samples, convert

pytestmark = pytest.mark.unit
PACKET = 960
Pcm = np.ndarray[Any, Any]


def address(reply: str = "a", epoch: int = 0) -> Address:
    return Address(session="s", lane=0, epoch=epoch, reply=reply)


def tone(n: int, hz: float = 440, rate: int = 48_000, level: int = 32_000, start: int = 0) -> Pcm:
    return np.rint(level * np.sin(2 * np.pi * hz * (start + np.arange(n)) / rate)).astype(np.int16)


def audio(pcm: Pcm, rate: int = 48_000) -> Audio:
    return Audio(clause=0, pcm=pcm, rate=rate, last=False)


class Ear:
    """Pops packets and keeps them."""

    def __init__(self, queue_ms_max: int = 60_000) -> None:
        self.lanes = Lanes()
        self.lanes.open("s")
        self.queue = EgressQueue("s", 0, 48_000, self.lanes, queue_ms_max)
        self.packets: list[Pcm] = []

    def listen(self, packets: int) -> Pcm:
        got = []
        for _ in range(packets):
            popped = self.queue.pop(PACKET)
            got.append(np.zeros(PACKET, np.int16) if popped is None else popped.pcm)
        self.packets += got
        return np.concatenate(got)

    def cut(self, epoch: int, fade_ms: int = 8) -> None:
        self.lanes.cut("s", 0, epoch)
        self.queue.cut(epoch, fade_ms)


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=30))
def test_what_leaves_is_what_was_queued(lengths: list[int]) -> None:
    ear = Ear()
    pcm = tone(sum(lengths))
    at = 0
    for i, n in enumerate(lengths):
        assert ear.queue.enqueue(address(), audio(pcm[at : at + n]), last=i == len(lengths) - 1)
        at += n
    heard = ear.listen(-(-len(pcm) // PACKET) + 1)
    assert np.array_equal(heard[: len(pcm)], pcm)
    assert not heard[len(pcm) :].any()
    report = ear.queue.report()
    assert report is not None and report.underruns == 0
    assert sum(each.length for each in report.ranges if each.kind is Kind.CONTENT) == len(pcm)


@pytest.mark.parametrize("phase", range(0, 109, 7))
def test_a_cut_is_one_fade_and_then_silence(phase: int) -> None:
    ear = Ear()
    ear.queue.enqueue(address(), audio(tone(48_000, start=phase)), last=False)
    ear.listen(7)
    ear.cut(1)
    after = ear.listen(10)
    joined = np.concatenate([ear.packets[6], after]).astype(int)
    slope = np.abs(np.diff(tone(48_000).astype(int))).max()
    assert np.abs(np.diff(joined)).max() <= 1.5 * slope
    assert np.abs(after[:200]).max() > 5000
    assert not after[480:].any()
    assert ear.queue.pop(PACKET) is None


def test_a_cut_before_anything_left_is_silent() -> None:
    ear = Ear()
    ear.queue.enqueue(address(), audio(tone(48_000)), last=False)
    ear.cut(1)
    assert ear.queue.pop(PACKET) is None


def test_stale_audio_is_turned_away_when_it_is_queued() -> None:
    ear = Ear()
    ear.cut(1)
    assert not ear.queue.enqueue(address(epoch=0), audio(tone(960)), last=False)
    assert ear.queue.pop(PACKET) is None
    assert ear.queue.enqueue_gate.stale == 1


def test_stale_audio_is_turned_away_when_it_would_leave() -> None:
    ear = Ear()
    ear.queue.enqueue(address("a"), audio(tone(1500)), last=True)
    ear.lanes.cut("s", 0, 1)
    ear.queue.enqueue(address("b", epoch=1), audio(tone(960, hz=880)), last=True)
    assert np.array_equal(ear.listen(1), tone(960, hz=880))
    assert ear.queue.send_gate.stale == 1


def test_a_duck_lowers_and_restores_within_one_packet() -> None:
    ear = Ear()
    ear.queue.enqueue(address(), audio(tone(48_000)), last=False)
    ear.listen(2)
    ear.queue.duck(12)
    ear.listen(1)
    low = np.abs(ear.listen(2)).max()
    ear.queue.duck(0)
    ear.listen(1)
    full = np.abs(ear.listen(2)).max()
    assert 0.23 < low / full < 0.27
    heard = np.concatenate(ear.packets).astype(int)
    assert np.abs(np.diff(heard)).max() <= 1.5 * np.abs(np.diff(tone(48_000).astype(int))).max()


def test_a_hold_withholds_at_once_and_resumes_at_a_words_start() -> None:
    ear = Ear()
    ramp = np.arange(20_000, dtype=np.int16)
    ear.queue.enqueue(address(), audio(ramp), last=True)
    ear.listen(5)
    ear.queue.hold()
    assert not ear.listen(10)[480:].any()
    ear.queue.release("a", Samples(3000))
    resumed = ear.listen(3)
    assert np.array_equal(resumed[960:1920], ramp[3960:4920])
    assert resumed[0] == 0 and resumed[500] == 3500
    report = ear.queue.report()
    assert report is not None
    sent = [(each.content_start, each.length) for each in report.ranges if each.kind is Kind.CONTENT]
    assert sent == [(0, 4800), (3000, 2880)]


def test_running_dry_inside_a_reply_is_an_underrun_and_its_end_is_not() -> None:
    ear = Ear()
    ear.queue.enqueue(address(), audio(tone(1500)), last=False)
    ear.listen(4)
    ear.queue.enqueue(address(), audio(tone(1500)), last=True)
    ear.listen(4)
    report = ear.queue.report()
    assert report is not None
    assert report.underruns == 1
    assert report.underrun == 4 * PACKET - 1500


def test_the_queue_is_bounded() -> None:
    ear = Ear(queue_ms_max=100)
    taken = sum(ear.queue.enqueue(address(), audio(tone(960)), last=False) for _ in range(50))
    assert 5 <= taken <= 7


@pytest.mark.parametrize("piece", [1, 7, 480, 1001, 5000])
def test_pieces_leave_no_ticks_and_no_clipped_tail(piece: int) -> None:
    n = round(10.007 * 24_000)
    source = tone(n, hz=440, rate=24_000, level=20_000)
    ear = Ear(queue_ms_max=20_000)
    for start in range(0, n, piece):
        ear.queue.enqueue(address(), audio(source[start : start + piece], rate=24_000), last=start + piece >= n)
    heard = ear.listen(503).astype(float)
    length = convert(n, 24_000, 48_000)
    ideal = 20_000 * np.sin(2 * np.pi * 440 * np.arange(length) / 48_000)
    error = heard[500 : length - 500] - ideal[500:-500]
    snr = 10 * np.log10(np.mean(ideal**2) / np.mean(error**2))
    assert snr > 45
    assert np.abs(heard[length - 2400 : length - 100]).max() > 15_000
    assert not heard[length:].any()


def test_full_scale_saturates_instead_of_wrapping() -> None:
    square = np.where(np.arange(24_000) % 100 < 50, 32_767, -32_768).astype(np.int16)
    out = StreamResampler(24_000, 48_000).push(square, last=True).astype(int)
    assert out.max() > 32_000 and out.min() < -32_000
    middle = out[::1].reshape(-1, 100)[10:-10]
    assert all(row[20:40].min() > 20_000 or row[20:40].max() < -20_000 for row in middle)


@given(
    st.sampled_from([(22_050, 48_000), (24_000, 48_000), (22_050, 24_000), (24_000, 16_000)]),
    st.lists(st.integers(0, 3000), max_size=20),
)
def test_resampled_length_is_exact(rates: tuple[int, int], pieces: list[int]) -> None:
    resampler = StreamResampler(*rates)
    total = sum(len(resampler.push(np.zeros(n, np.int16))) for n in pieces)
    total += len(resampler.push(np.zeros(0, np.int16), last=True))
    assert total == convert(sum(pieces), *rates)
