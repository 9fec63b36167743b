"""The parts of the simulator by themselves: clock, devices, egress, listener, microphone, engines, faults."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.payloads import Address, Clause, Job, JobId, Latents, Pace, Prompt, StageError
from duplex.session.messages import Heard
from duplex.stages.contract import Role
from duplex.timeline.ledger import Kind, SentRange
from duplex.units import MonoNs, Samples, ns_from_ms
from loadgen.sim.clock import Clock, Device, SharedDevice
from loadgen.sim.egress import PACKET, PACKET_NS, Egress, Packets
from loadgen.sim.engine import StreamTalk, Think
from loadgen.sim.faults import Fault
from loadgen.sim.faults import parse as parse_fault
from loadgen.sim.kv import KvCache
from loadgen.sim.listener import Listener
from loadgen.sim.microphone import WINDOW, Microphone
from loadgen.sim.network import Network, Path
from loadgen.sim.profile import Cost, Profile, Stage, Talker, Thinker
from loadgen.sim.stages import word_marks

pytestmark = pytest.mark.unit


def ms(value: float) -> MonoNs:
    return MonoNs(ns_from_ms(value))


# Clock and devices. ---------------------------------------------------------------------------------------------------


def test_calls_come_in_order_of_time_then_of_scheduling() -> None:
    clock, seen = Clock(), list[str]()
    for name, at in (("late", 20), ("a", 10), ("b", 10), ("past", -5)):
        clock.call_at(ms(at), lambda name=name: seen.append(name))  # type: ignore[misc]
    clock.post(lambda: seen.append("posted"))
    clock.advance(ms(10))
    assert seen == ["past", "posted", "a", "b"]
    assert clock.now() == ms(10)
    clock.advance(ms(100))
    assert seen[-1] == "late"


def test_a_cancelled_call_does_not_come() -> None:
    clock, seen = Clock(), list[int]()
    cancel = clock.call_at(ms(10), lambda: seen.append(1))
    clock.call_at(ms(10), lambda: seen.append(2))
    cancel()
    clock.advance(ms(20))
    assert seen == [2]


def test_time_stops_when_it_is_told_to() -> None:
    clock, seen = Clock(), list[int]()
    for number in range(5):
        clock.call_at(ms(number), lambda number=number: seen.append(number))  # type: ignore[misc]
    clock.advance(ms(100), stop=lambda: len(seen) == 3)
    assert (seen, clock.now()) == ([0, 1, 2], ms(2))


def test_a_step_that_raises_gives_its_exception_as_its_result() -> None:
    clock, got = Clock(), list[Any]()
    clock.steps["x"] = lambda done: done()
    clock.run("x", lambda: 1 // 0, got.append)
    assert isinstance(got[0], ZeroDivisionError)


@pytest.mark.parametrize(("parallel", "ends"), [(1, [10, 30, 60]), (2, [10, 20, 40]), (3, [10, 20, 30])])
def test_a_device_does_so_many_steps_at_once_in_order_of_arrival(parallel: int, ends: list[int]) -> None:
    clock, got = Clock(), list[int]()
    device = Device(clock, parallel)
    for length in (10, 20, 30):
        device.run(length / 1000, lambda: got.append(clock.now() // 1_000_000))
    clock.advance(ms(1000))
    assert got == ends
    assert device.busy_s == pytest.approx(0.06)


def test_a_shared_device_slows_all_alike_where_its_cores_do_not_suffice() -> None:
    clock, got = Clock(), list[float]()
    device = SharedDevice(clock, 2)
    for length in (0.01, 0.02, 0.02):
        device.run(length, lambda: got.append(clock.now() / 1e6))
    clock.advance(ms(1000))
    # three on two cores: 10 ms of work take 15; then two have 10 ms left and a core each
    assert got == [pytest.approx(15, abs=0.01), pytest.approx(25, abs=0.01), pytest.approx(25, abs=0.01)]
    assert device.busy_s == pytest.approx(0.05, abs=1e-5)


# The way out. ---------------------------------------------------------------------------------------------------------


class Way:
    """An egress whose packets are kept."""

    def __init__(self, phase_ms: float = 0) -> None:
        self.clock = Clock()
        self.packets: list[Packets] = []
        self.ranges: list[SentRange] = []
        self.gaps: list[int] = []
        self.egress = Egress(self.clock, ns_from_ms(phase_ms), self._sent)

    def say(self, packets: float, last: bool = False, reply: str = "r") -> None:
        address = Address(session="s", lane=0, epoch=0, reply=reply)
        self.egress.enqueue(address, Samples(round(packets * PACKET)), last)

    def until(self, when_ms: float) -> None:
        self.clock.call_at(ms(when_ms), lambda: None)
        self.clock.advance(ms(when_ms))

    def times(self, reply: str = "r") -> list[float]:
        """Return when each packet of a reply left, in milliseconds."""
        return [
            (p.sent_at + n * PACKET_NS) / 1e6 for p in self.packets if p.reply == reply for n in range(p.count)
        ]  # fmt: skip

    def content(self) -> int:
        return sum(sent.length for sent in self.ranges if sent.kind is Kind.CONTENT)

    def _sent(self, ranges: tuple[SentRange, ...], packets: Packets | None, gap: Samples) -> None:
        self.ranges += ranges
        if packets is not None:
            self.packets.append(packets)
        if gap:
            self.gaps.append(gap)


def test_packets_leave_every_20_ms_in_their_phase() -> None:
    way = Way(phase_ms=7)
    way.until(10)
    way.say(25, last=True)
    way.until(1000)
    assert way.times() == [27 + 20 * n for n in range(25)]
    assert [p.last for p in way.packets] == [False] * (len(way.packets) - 1) + [True]
    assert way.content() == 25 * PACKET and not way.gaps


def test_running_dry_inside_a_reply_is_a_gap_of_that_length() -> None:
    way = Way()
    way.say(5)
    way.until(200)  # the last packet's time ends at 100
    way.say(5, last=True)
    way.until(1000)
    assert way.times() == [0, 20, 40, 60, 80, 200, 220, 240, 260, 280]
    assert way.gaps == [5 * PACKET]
    assert [sent.length for sent in way.ranges if sent.kind is Kind.SILENCE] == [5 * PACKET]


def test_between_replies_nothing_is_a_gap() -> None:
    way = Way()
    way.say(2, last=True)
    way.until(500)
    way.say(2, last=True, reply="next")
    way.until(1000)
    assert way.times("next") == [500, 520]
    assert not way.gaps


def test_part_of_a_packet_waits_for_its_rest_unless_the_reply_is_over() -> None:
    way = Way()
    way.say(1.5)
    way.until(100)
    assert way.content() == PACKET
    way.say(0, last=True)
    way.until(300)
    assert way.content() == 1.5 * PACKET
    assert len(way.times()) == 2


def test_a_reply_waits_for_the_end_of_the_one_before() -> None:
    way = Way()
    way.say(10, last=True)
    way.say(3, last=True, reply="next")
    way.until(1000)
    assert way.times() == [20 * n for n in range(10)]
    assert way.times("next") == [200, 220, 240]


@given(st.integers(0, 30), st.integers(0, 700))
def test_a_cut_takes_back_exactly_what_has_not_left(packets: int, at_ms: int) -> None:
    way = Way()
    if packets:
        way.say(packets)
    way.until(at_ms)
    ranges = way.egress.cut()
    left = min(packets, at_ms // 20 + 1)
    told = way.content() + sum(sent.length for sent in ranges if sent.kind is Kind.CONTENT)
    assert told == left * PACKET
    assert sum(p.count for p in way.packets) == left
    way.until(2000)
    assert sum(p.count for p in way.packets) == left  # nothing leaves after a cut


# The listener. --------------------------------------------------------------------------------------------------------


class Fixed(Path):
    """A way whose delays and losses are given, packet by packet."""

    def __init__(self, network: Network, extra_ms: dict[int, float], lost: set[int]) -> None:
        super().__init__(network, random.Random(0))
        self._extra_ms, self._lost, self._number = extra_ms, lost, -1

    def lost(self) -> bool:
        self._number += 1
        return self._number in self._lost

    def transit_ns(self) -> int:
        return ns_from_ms(self.network.delay_ms + self._extra_ms.get(self._number, 0.0))


def listen(extra_ms: dict[int, float] | None = None, lost: set[int] | None = None, count: int = 20) -> Listener:
    """Hear twenty packets over a way of 30 ms with a buffer of 60 ms."""
    network = Network(delay_ms=30, jitter_ms=0, client_buffer_ms=60)
    listener = Listener(Fixed(network, extra_ms or {}, lost or set()), lambda *_: None, lambda *_: None)
    listener.take(Packets(reply="r", first=0, count=count, sent_at=ms(1000), last=True))
    return listener


def test_the_first_packet_sounds_one_buffer_after_it_came() -> None:
    heard = listen().replies["r"]
    assert (heard.began, heard.ends) == (ms(1090), ms(1090 + 400))
    assert not heard.gaps_ns and heard.complete


def test_a_lost_packet_is_concealed() -> None:
    heard = listen(lost={3, 4, 9}).replies["r"]
    assert (heard.concealed, heard.gaps_ns, heard.ends) == (3, [], ms(1490))


def test_lost_packets_before_the_first_one_move_the_beginning() -> None:
    heard = listen(lost={0, 1}).replies["r"]
    assert (heard.began, heard.concealed) == (ms(1130), 0)


def test_lateness_within_the_buffer_is_not_heard_beyond_it_moves_the_rest() -> None:
    assert not listen({5: 59}).replies["r"].gaps_ns
    heard = listen({5: 85}).replies["r"]
    assert heard.gaps_ns == [ns_from_ms(25)]
    assert heard.ends == ms(1490 + 25)
    twice = listen({5: 85, 10: 85}).replies["r"]
    assert twice.gaps_ns == [ns_from_ms(25)]  # by then the buffer is that much deeper


def test_a_gap_that_was_sent_is_heard() -> None:
    listener = listen(count=5)
    listener.replies["r"].complete = False
    listener.take(Packets(reply="r", first=5, count=5, sent_at=ms(1000 + 100 + 80), last=True))
    assert listener.replies["r"].gaps_ns == [ns_from_ms(80)]


def test_first_and_last_sound_are_told_once_each() -> None:
    told: list[tuple[str, str, int]] = []
    path = Path(Network(delay_ms=30, jitter_ms=0, client_buffer_ms=60), random.Random(0))
    listener = Listener(
        path, lambda r, t: told.append(("first", r, t)), lambda r, t: told.append(("last", r, t)), (15.0,)
    )
    listener.take(Packets(reply="r", first=0, count=2, sent_at=ms(0), last=False))
    listener.take(Packets(reply="r", first=2, count=1, sent_at=ms(40), last=True))
    assert told == [("first", "r", ms(105)), ("last", "r", ms(150))]  # a reply begins with 15 ms of silence


@pytest.mark.parametrize(("jitter_ms", "loss"), [(0, 0), (8, 0.05), (40, 0.3)])
def test_a_way_has_its_delay_jitter_and_loss(jitter_ms: float, loss: float) -> None:
    path = Path(Network(delay_ms=30, jitter_ms=jitter_ms, loss=loss), random.Random(1))
    times = [path.transit_ns() / 1e6 for _ in range(4000)]
    assert min(times) >= 30
    assert sum(times) / len(times) - 30 == pytest.approx(jitter_ms, rel=0.1)
    assert sum(path.lost() for _ in range(4000)) / 4000 == pytest.approx(loss, abs=0.03)


# The microphone. ------------------------------------------------------------------------------------------------------


def hear(spans_ms: list[tuple[float, float]], ignores: bool = True) -> list[tuple[float, Heard]]:
    """Speak at these times; return when the core is told what."""
    clock, got = Clock(), list[tuple[float, Heard]]()
    microphone = Microphone(clock, ns_from_ms(50), lambda h: got.append((clock.now() / 1e6, h)), lambda: ignores)
    for begin, end in spans_ms:
        microphone.speak(ms(begin), ms(end))
    clock.advance(ms(60_000))
    return got


def test_windows_follow_each_other_without_holes_and_come_after_their_delay() -> None:
    got = hear([(500, 1700), (2000, 2400)])
    assert got[0][1].span.start == 0
    for (_, one), (_, other) in zip(got, got[1:], strict=False):
        assert other.span.start == one.span.end
    for when, heard in got:
        assert heard.span.end % WINDOW == 0
        if heard.span.start or heard.probability > 0.5:
            assert when == pytest.approx(heard.span.end / 48 + 50)
    voiced = sum(len(heard.span) for _, heard in got if heard.probability > 0.5) / 48
    assert voiced == pytest.approx(1200 + 400, abs=32)


def test_around_a_change_each_window_is_told_by_itself_and_long_speech_in_spans() -> None:
    got = hear([(0, 8000)])
    sizes = [len(heard.span) // WINDOW for _, heard in got]
    assert sizes[:10] == [1] * 10
    assert max(sizes) == 8
    end = next(n for n, (_, heard) in enumerate(got) if heard.probability < 0.5)
    assert sizes[end : end + 10] == [1] * 10
    assert len(got) < 0.5 * 8000 / 32


def test_silence_that_changes_nothing_is_not_told() -> None:
    got = hear([(0, 1000)])
    assert got[-1][0] < 1000 + 2500
    again = hear([(0, 1000), (30_000, 31_000)])
    assert not [when for when, _ in again if 4000 < when < 30_000]
    ignored_by_nobody = hear([(0, 1000)], ignores=False)
    assert ignored_by_nobody[-1][0] > 59_000


# Engines. -------------------------------------------------------------------------------------------------------------

PROFILE = Profile(
    name="p", source="round numbers", devices={"d": 1}, vad_ms=0, sessions_max=1,
    end_of_turn=Stage(device="d", cost=Cost()), transcribe=Stage(device="d", cost=Cost()), vocode=Stage(device="d", cost=Cost()),
    think=Thinker(device="d", slots=4, decode=Cost(base=10), prefill=Cost(per_unit=1), tokens_per_word=2, read_batch=2),
    talk=Talker(device="d", kind="engine", cost=Cost(base=10), first=Cost(base=5), pieces=(1, 3)),
)  # fmt: skip


def job(number: int, role: Role, payload: Any) -> Job:
    address = Address(session=f"s{number}", lane=0, epoch=0, reply="r")
    return Job(id=JobId(number), stage=role, address=address, payload=payload, pace=Pace(since=MonoNs(0)))


class Thinking:
    """A thinker of five words an answer, 50 tokens a prompt."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.out: list[tuple[int, float, Any]] = []
        kv = KvCache("keep", 0, 0.0, 0)
        self.engine = Think(PROFILE, self.clock, Device(self.clock, 1), kv, lambda job: 5, lambda job: 50)

    def submit(self, number: int) -> None:
        made = job(number, Role.THINK, Prompt(messages=()))
        self.engine.submit(made, lambda out: self.out.append((number, self.clock.now() / 1e6, out)))

    def until(self, when_ms: float) -> None:
        self.clock.call_at(ms(when_ms), lambda: None)
        self.clock.advance(ms(when_ms))

    def text(self, number: int) -> str:
        return "".join(out.text for n, _, out in self.out if n == number)


def test_a_thinker_reads_then_makes_a_token_of_all_in_one_step() -> None:
    thinking = Thinking()
    for number in (1, 2, 3):
        thinking.submit(number)
    thinking.until(1000)
    # the first prompt is read by itself (50 ms), then the next two together
    assert [when for n, when, _ in thinking.out if n == 1] == [120, 140, 160, 180, 200]
    assert [when for n, when, _ in thinking.out if n == 2] == [120, 140, 160, 180, 200]
    assert thinking.text(1) == thinking.text(3) == "words words words words word. "
    finishes = [out.finish for n, _, out in thinking.out if n == 1]
    assert finishes == [None] * 4 + ["stop"]
    assert sum(out.tokens for n, _, out in thinking.out if n == 1) == 5


def test_prompts_are_read_in_the_schedulers_order() -> None:
    thinking = Thinking()
    for number in (1, 2, 3, 4):
        thinking.submit(number)
    thinking.engine.reorder([JobId(4), JobId(3), JobId(2), JobId(1)])
    thinking.until(105)
    ready = [run.job.id for run in thinking.engine._runs.values() if run.ready]
    assert ready == [1, 3, 4]  # 1 was being read before there was any order


def test_a_paused_job_makes_nothing_and_goes_on_where_it_was() -> None:
    thinking = Thinking()
    thinking.submit(1)
    thinking.until(75)
    thinking.engine.pause(JobId(1))
    thinking.until(500)
    assert len(thinking.out) == 1
    thinking.engine.resume(JobId(1))
    thinking.until(1000)
    assert thinking.text(1) == "words words words words word. "


def test_an_aborted_or_released_job_makes_nothing_more() -> None:
    thinking = Thinking()
    thinking.submit(1)
    thinking.submit(2)
    thinking.until(135)
    before = len(thinking.out)
    thinking.engine.abort(JobId(1))
    thinking.engine.release("s2")
    thinking.engine.abort(JobId(99))
    thinking.until(1000)
    assert len(thinking.out) == before


def test_a_broken_engine_fails_what_runs_and_what_comes_and_then_works_again() -> None:
    thinking = Thinking()
    thinking.submit(1)
    thinking.until(65)
    thinking.engine.broken_until = ms(200)
    thinking.until(100)
    thinking.submit(2)
    assert [(n, out.reason) for n, _, out in thinking.out if isinstance(out, StageError)] == [
        (1, "think is broken"),
        (2, "think is broken"),
    ]
    thinking.until(250)
    thinking.submit(3)
    thinking.until(1000)
    assert thinking.text(3) == "words words words words word. "


def test_a_stalled_engine_begins_no_step_until_it_is_over() -> None:
    thinking = Thinking()
    thinking.submit(1)
    thinking.engine.stalled_until = ms(300)
    thinking.until(1000)
    assert thinking.out[0][1] == 300 + 20


def test_a_talker_gives_the_first_frame_at_once_then_larger_pieces() -> None:
    clock, out = Clock(), list[tuple[float, Latents]]()
    engine = StreamTalk(PROFILE, clock, Device(clock, 1))
    words = 4  # 18 frames
    for index in (0, 1):
        made = job(index, Role.TALK, Clause(index=index, text="word " * words, voice="v"))
        engine.submit(made, lambda piece: out.append((clock.now() / 1e6, piece)))  # type: ignore[arg-type]
        clock.advance(ms(1000 * (index + 1)))
    first, second = ([piece for _, piece in out if piece.clause == index] for index in (0, 1))
    assert [piece.frames for piece in first] == [1, 3, 3, 3, 3, 3, 2]
    assert [piece.frames for piece in second] == [3, 3, 3, 3, 3, 3]
    assert [piece.last for piece in first] == [False] * 6 + [True]
    assert out[0][0] == 5 + 10  # only a reply's first clause is read before
    assert sum(len(piece.words) for piece in first) == words


@given(st.integers(1, 12), st.integers(1, 60), st.integers(1, 9))
def test_every_word_ends_in_exactly_one_piece(words: int, frames: int, size: int) -> None:
    text = " ".join(["word"] * words)
    marks = [
        (first + mark.end, mark.text_end)
        for first in range(0, frames, size)
        for mark in word_marks(text, first, min(frames, first + size), frames)
        if 0 < mark.end <= size
    ]
    expected = [end for n in range(words) if (end := round(frames * (n + 1) / words)) > 0]
    assert [end for end, _ in marks] == expected
    assert marks[-1] == (frames, len(text))


# Faults. --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("stall:talk@30+2.5", Fault(kind="stall", stage="talk", at_s=30, for_s=2.5)),
        ("crash@1", Fault(kind="crash", stage="vocode", at_s=1, for_s=0)),
        ("disconnect@60", Fault(kind="disconnect", at_s=60)),
        ("slow@0.5", Fault(kind="slow", at_s=0.5)),
    ],
)
def test_a_fault_is_read(text: str, fault: Fault) -> None:
    assert parse_fault(text) == fault


@pytest.mark.parametrize("text", ["", "stall", "stall@", "flood@3", "stall@soon", "stall@1+x", "@3"])
def test_a_bad_fault_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ValueError, match=r"KIND\[:STAGE\]@SECONDS"):
        parse_fault(text)
