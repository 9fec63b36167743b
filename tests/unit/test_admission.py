"""Admission on simulated time: each limit, the brake, bursts, recovery, and what is shed first."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from duplex.config import AdmissionSettings
from duplex.pacing.admission import Admission, Capacity, Limit
from duplex.pacing.demand import LoopLoad
from duplex.units import MonoNs, ns_from_seconds

pytestmark = pytest.mark.unit

LONG_S = 300


@dataclass
class Stage:
    """A stage's counts, as its runner would keep them."""

    name: str = "talk"
    device: str = "gpu"
    slots: int = 1
    bytes_per_session: int = 0
    busy_s: float = 0.0
    slot_busy_s: float = 0.0
    steps: int = 0

    def work(self, busy_s: float, batch: float = 1.0, step_s: float = 0.01) -> None:
        """Compute for some seconds in batches of one size."""
        self.busy_s += busy_s
        self.slot_busy_s += busy_s * batch
        self.steps += round(busy_s / step_s)


class Server:
    """Sessions that take a constant share of the stages, and the admission under test."""

    def __init__(self, *costs: tuple[Stage, float], prior: int = 10, capacity: Any = None, **settings: Any) -> None:
        self.costs = costs
        self.settings = AdmissionSettings(**settings)
        self.admission = Admission(self.settings, Capacity(sessions_prior=prior, **(capacity or {})))
        self.now = MonoNs(0)
        self.live = 0

    def run(self, seconds: float) -> None:
        """Let sessions live."""
        for _ in range(round(seconds)):
            self.now = MonoNs(self.now + ns_from_seconds(1))
            for stage, cost in self.costs:
                stage.work(min(1.0, cost * self.live))
            self.look()

    def look(self) -> None:
        self.admission.observe([stage for stage, _ in self.costs], self.live, self.now)

    def ask(self) -> str:
        """Ask for one session; return the reason."""
        decision = self.admission.decide(self.live, self.now)
        self.live += decision.admitted
        assert decision.admitted == (decision.reason == "ok")
        assert decision.admitted or decision.retry_after_s >= 1
        return decision.reason

    def fill(self) -> str:
        """Ask until refused; return the reason."""
        return next(reason for _ in range(1000) if (reason := self.ask()) != "ok")

    def saturate(self, seconds: float = LONG_S) -> None:
        """One comes every second, one goes every third."""
        for second in range(round(seconds)):
            self.ask()
            self.run(1)
            self.live -= second % 3 == 0 and self.live > 0

    def turns(self, n: int, ttfas_s: float = 0.5, underrun_s: float = 0.0) -> None:
        for _ in range(n):
            self.admission.turn(ttfas_s, underrun_s, self.now)

    def limit(self, name: str) -> Limit:
        return next(limit for limit in self.admission.limits(self.live) if limit.name == name)


# What is believed, and what is learned. ------------------------------------------------------------------------------


def test_before_anything_is_measured_the_packs_number_is_believed() -> None:
    server = Server((Stage(), 0.0), prior=10)
    server.look()
    assert server.fill() == "stage"
    assert server.live == 10
    assert server.admission.sessions_max() == 10


def test_fifty_arrivals_in_one_instant_are_decided_one_by_one() -> None:
    server = Server((Stage(), 0.02), prior=20)
    server.run(5)
    reasons = [server.ask() for _ in range(50)]
    assert reasons == ["ok"] * 20 + ["stage"] * 30


@pytest.mark.parametrize(("prior", "cost", "carries"), [(10, 0.02, 42), (40, 0.05, 17), (10, 0.4, 2)])
def test_the_measured_share_takes_the_place_of_the_packs_number(prior: int, cost: float, carries: int) -> None:
    server = Server((Stage(), cost), prior=prior)
    server.saturate()
    server.live = min(server.live, carries)
    server.run(LONG_S)
    assert server.limit("talk").per_session == pytest.approx(cost, rel=0.1)
    server.fill()
    assert server.live in (carries - 1, carries)


def test_a_stage_is_never_filled_past_its_target_once_it_is_known() -> None:
    server = Server((Stage(), 0.02), prior=10)
    server.saturate()
    assert server.fill() == "stage"
    assert server.live in (41, 42)


def test_quiet_sessions_do_not_open_the_door_to_any_number() -> None:
    server = Server((Stage(), 0.0), prior=4)
    server.ask()
    server.ask()
    server.run(3600)
    assert server.fill() == "ramp"
    assert server.live == 4
    server.run(20)
    assert server.fill() == "ramp"
    assert server.live == 6


def test_a_lone_talker_does_not_close_the_door_to_the_packs_number() -> None:
    server = Server((Stage(), 0.4), prior=4)
    server.live = 1
    server.run(LONG_S)
    server.live = 0
    server.run(30)
    assert server.fill() == "stage"
    assert server.live == 4


def test_sessions_that_have_just_come_teach_nothing() -> None:
    stage = Stage()
    server = Server((stage, 0.04), prior=20)
    server.live = 10
    server.run(LONG_S)
    share = server.limit("talk").per_session
    server.costs = ((stage, 0.02),)  # ten more, who are silent at first
    server.live = 20
    server.run(server.settings.settle_s - 1)
    assert server.limit("talk").per_session == pytest.approx(share)


def test_an_idle_night_changes_nothing_that_was_learned() -> None:
    server = Server((Stage(), 0.1), prior=20)
    server.live = 4
    server.run(LONG_S)
    server.live = 0
    server.run(10_000)
    assert server.fill() == "stage"
    assert server.live == 8


# The kinds of limit. --------------------------------------------------------------------------------------------------


def batched(stage: Stage, a: float, b: float, jobs_s: float, random: Random) -> None:
    """One second of a batch stage whose step takes a + b × batch: it takes what has come while it computed."""
    left, waiting = 1.0, 0.0
    while left > 0:
        batch = min(stage.slots, int(waiting))
        step_s = a + b * batch if batch else 0.002
        if batch:
            stage.work(step_s, batch, step_s)
        waiting += jobs_s * step_s * random.uniform(0.5, 1.5) - batch
        left -= step_s


def test_a_batch_stage_that_is_always_busy_with_small_batches_has_room() -> None:
    stage, random = Stage(slots=64), Random(1)
    server = Server((stage, 0.0), prior=50)
    server.live = 50
    for second in range(LONG_S):
        batched(stage, 0.01, 0.0001, 50 * 4 * (0.5 + second % 3), random)
        server.run(1)
    before = stage.busy_s
    batched(stage, 0.01, 0.0001, 50 * 4, random)
    assert stage.busy_s - before > 0.5  # nearly all the time
    assert server.limit("talk").load == pytest.approx(
        300 / 3900, rel=0.15
    )  # 64 jobs in 0.01 + 64 × 0.0001 s: 3900 a second
    assert server.admission.decide(server.live, server.now).admitted


def test_a_batch_stage_whose_batches_never_differ_counts_with_its_busy_time() -> None:
    stage = Stage(slots=8)
    server = Server((stage, 0.0), prior=10)
    server.live = 10
    for _ in range(LONG_S):
        stage.work(0.8)
        server.run(1)
    assert server.limit("talk").load == pytest.approx(0.8, rel=0.05)


def test_an_engine_counts_by_its_slots_however_busy_it_is() -> None:
    engine = Stage(name="think", slots=16)
    server = Server((engine, 0.0), prior=10, capacity={"engines": frozenset({"think"})})
    server.live = 10
    for _ in range(LONG_S):
        engine.work(0.99, batch=4)
        server.run(1)
    assert server.limit("think").load == pytest.approx(0.25, rel=0.05)
    server.live = 34
    assert server.admission.decide(33, server.now).reason in ("ok", "ramp")
    assert server.admission.decide(34, server.now).reason == "stage"


def test_two_stages_share_their_device() -> None:
    talk, vocode = Stage(name="talk", device="cpu"), Stage(name="vocode", device="cpu")
    server = Server((talk, 0.05), (vocode, 0.05), prior=30, capacity={"parallelism": {"cpu": 1.0}})
    server.saturate()
    server.fill()
    assert server.live in (7, 8)
    decision = server.admission.decide(server.live, server.now)
    assert (decision.reason, decision.limit) == ("device", "cpu")
    assert server.limit("talk").load < 0.5
    wide = Server((Stage(name="talk", device="cpu"), 0.05), (Stage(name="vocode", device="cpu"), 0.05), prior=30,
                  capacity={"parallelism": {"cpu": 2.0}})  # fmt: skip
    wide.saturate()
    wide.fill()
    assert wide.live in (16, 17)


def test_a_running_engine_keeps_a_thread_of_its_device() -> None:
    engine = Stage(name="think", device="cpu", slots=4)
    server = Server((engine, 0.0), prior=8, capacity={"engines": frozenset({"think"}), "parallelism": {"cpu": 2.0}})
    server.live = 8
    for _ in range(LONG_S):
        engine.work(1.0, batch=2)
        server.run(1)
    assert server.limit("cpu").load == pytest.approx(0.5, rel=0.05)
    assert server.limit("think").load == pytest.approx(0.5, rel=0.05)


def test_the_event_loop_is_a_limit() -> None:
    server = Server(prior=50)
    server.live = 50
    for second in range(LONG_S):
        server.now = MonoNs(ns_from_seconds(second))
        server.admission.observe([LoopLoad(busy_s=0.8 * second)], server.live, server.now)
    assert server.limit("loop").kind == "loop"
    assert server.fill() == "loop"
    assert server.live == 53


def test_declared_memory_is_a_limit_where_it_is_bounded() -> None:
    stage = Stage(bytes_per_session=100)
    server = Server((stage, 0.0), prior=50, memory_bytes_max=1050)
    server.look()
    assert server.fill() == "memory"
    assert server.live == 10
    free = Server((stage, 0.0), prior=50)
    free.look()
    free.fill()
    assert free.live == 50


def test_the_operators_bound_holds_whatever_is_measured() -> None:
    server = Server((Stage(), 0.0), prior=100, capacity={"sessions_max": 3})
    server.run(60)
    assert server.fill() == "sessions_max"
    assert server.live == 3
    assert server.admission.sessions_max() == 3


def test_what_is_full_at_this_moment_is_full_whatever_was_believed() -> None:
    server = Server((Stage(), 0.2), prior=200)
    for _ in range(60):  # more come in each second than the stage can carry at all
        for _ in range(5):
            server.ask()
        server.run(1)
    assert server.live <= 15
    assert server.ask() == "stage"


# The brake. -----------------------------------------------------------------------------------------------------------


def braked(*, live: int = 20, **settings: Any) -> Server:
    server = Server((Stage(), 0.001), prior=100, **settings)
    server.live = live
    server.run(20)
    server.turns(80)
    assert server.ask() == "ok"
    server.turns(20, ttfas_s=1.5)
    return server


def test_a_tenth_of_the_turns_may_miss_and_no_more() -> None:
    server = Server((Stage(), 0.001), prior=100)
    server.live = 20
    server.run(20)
    server.turns(90)
    server.turns(10, ttfas_s=1.5)
    assert server.ask() == "ok"
    server.turns(2, underrun_s=0.2)
    assert server.ask() == "slo"
    assert server.admission.braked(server.now)


def test_a_short_gap_is_no_miss_and_one_bad_turn_no_overload() -> None:
    server = Server((Stage(), 0.001), prior=100)
    server.live = 20
    server.run(20)
    server.turns(10, underrun_s=0.09)
    server.turns(1, ttfas_s=9.0)
    assert server.ask() == "ok"


def test_after_the_brake_the_number_that_was_too_many_is_approached_slowly() -> None:
    server = braked(live=20)
    assert server.ask() == "slo"
    server.run(server.settings.slo_window_s + 1)  # the bad turns are no longer recent
    assert not server.admission.braked(server.now)
    while server.live > 10:  # half of them hang up
        server.live -= 1
    server.run(1)
    assert server.fill() == "slo"
    reached = server.live
    assert reached <= 19
    server.run(5 * server.settings.settle_s)
    server.fill()
    assert server.live == reached + 5


def test_good_turns_release_the_brake_before_the_bad_ones_are_old() -> None:
    server = braked(live=30)
    assert server.ask() == "slo"
    server.turns(181)
    assert not server.admission.braked(server.now)


def test_a_server_that_was_overloaded_and_is_idle_admits_at_once() -> None:
    server = braked()
    assert server.ask() == "slo"
    server.live = 0
    assert server.ask() == "ok"
    server.live = 0
    server.run(1)
    assert [server.ask() for _ in range(10)] == ["ok"] * 10


def test_an_idle_server_admits_one_even_where_one_is_too_much() -> None:
    server = Server((Stage(), 1.0), prior=2)
    server.live = 1
    server.run(LONG_S)
    server.live = 0
    assert server.ask() == "ok"
    assert server.ask() == "stage"


def test_a_lone_sessions_slow_turns_are_not_laid_to_load() -> None:
    server = Server((Stage(), 0.01), prior=4)
    server.live = 1
    server.run(20)
    server.turns(20, ttfas_s=3.0)
    assert server.ask() == "ok"


# What a refused client is told, what is shed. -------------------------------------------------------------------------


def test_retry_after_follows_the_rate_at_which_sessions_end() -> None:
    server = Server((Stage(), 0.0), prior=10, capacity={"sessions_max": 10})
    server.fill()
    assert server.admission.decide(10, server.now).retry_after_s == 5  # nothing has ended yet
    for second in range(200):  # one ends and one begins every four seconds
        if second % 4 == 0:
            server.live -= 1
            server.ask()
        server.run(1)
    waits = [server.admission.decide(10, server.now).retry_after_s for _ in range(40)]
    assert 3 <= waits[0] <= 5
    assert waits == sorted(waits)  # who was refused later is told to come later
    assert waits[-1] == server.settings.retry_after_s_max


def test_video_is_shed_before_anyone_is_refused_and_comes_back_with_hysteresis() -> None:
    stage = Stage()
    server = Server((stage, 0.01), prior=100)
    server.live = 60
    server.run(LONG_S)
    assert server.admission.video_share == 1.0
    server.live = 75
    seen = [server.admission.video_share]
    for _ in range(40):
        server.run(1)
        seen.append(server.admission.video_share)
    steps = [share for share, _ in itertools.groupby(seen)]
    assert steps == [1.0, 0.5, 0.25, 0.125]
    assert server.ask() == "ok"
    server.live = 65  # between the two marks nothing changes
    server.run(30)
    assert server.admission.video_share == 0.125
    server.live = 50
    server.run(30)
    assert server.admission.video_share == 1.0


def test_the_floor_of_the_video_rate_is_kept() -> None:
    server = Server((Stage(), 0.01), prior=100, video_share_min=0.3)
    server.live = 80
    server.run(60)
    assert server.admission.video_share == 0.3


def test_a_look_without_counting_leaves_no_trace() -> None:
    server = Server((Stage(), 0.0), prior=1)
    server.look()
    assert server.admission.full(0, server.now) is None
    server.ask()
    refused = server.admission.full(1, server.now)
    assert refused is not None
    assert refused.reason == "stage"


def test_the_same_history_gives_the_same_decisions() -> None:
    def history() -> list[str]:
        random, server = Random(3), Server((Stage(), 0.03), prior=8)
        reasons = []
        for _ in range(300):
            server.live = max(0, server.live - (random.random() < 0.2))
            reasons.append(server.ask())
            server.turns(1, ttfas_s=random.uniform(0.2, 1.1))
            server.run(1)
        return reasons

    first = history()
    assert first == history()
    assert {"ok", "stage"} <= set(first)


def test_without_measuring_only_the_known_bounds_count() -> None:
    admission = Admission(
        AdmissionSettings(measured=False),
        Capacity(sessions_prior=2, sessions_max=6, engines=frozenset(), parallelism={}),
    )
    for number in range(20):
        admission.turn(9.0, 1.0, MonoNs(number * 1_000_000_000))
    assert [admission.decide(live, MonoNs(30_000_000_000)).admitted for live in (1, 5, 6)] == [True, True, False]
