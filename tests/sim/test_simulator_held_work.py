"""HELD work takes no place in a step, and a slot of an engine goes to whom it is due: taken for a first reply, given back after."""

from __future__ import annotations

from typing import Any

import pytest

from duplex.config import PacingSettings, SchedulingSettings, StageSettings
from duplex.pacing.policies import make_policy
from duplex.pacing.urgency import Urgency
from duplex.payloads import Address, Clause, Job, JobId, Pace, Payload, StageError
from duplex.stages.contract import Role
from duplex.stages.engine_runner import EngineRunner
from duplex.stages.lanes import Lanes
from duplex.stages.runner import RunnerContext
from duplex.units import MonoNs, ns_from_ms
from loadgen.sim.clock import Clock, Device
from loadgen.sim.engine import StreamTalk
from tests.sim.simulated import BOUNDED, crowd, profile, simulate, talker, thinker, vocoder, watch_plans

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("policy", BOUNDED)
def test_held_work_never_rides_along(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = watch_plans(monkeypatch)
    simulate(crowd(6, 0.3, answer_words=20), profile(vocode=vocoder(20, batch_max=8)), policy)
    both = 0
    for decision in decisions:
        held = {job for job, (urgency, _) in decision.ranks.items() if urgency == Urgency.HELD}
        assert not held & {work.job.id for work in decision.chosen}
        both += bool(held) and bool(decision.chosen) and len(decision.chosen) < 8
    assert both > 20  # there was room, and somebody who was not taken along


@pytest.mark.parametrize("policy", ["fcfs", "round_robin", "chunk_deadline"])
def test_unbounded_policies_hold_nothing(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = watch_plans(monkeypatch)
    simulate(crowd(3, 0.3, answer_words=20), policy=policy)
    assert len(decisions) > 20
    assert all(urgency != Urgency.HELD for decision in decisions for urgency, _ in decision.ranks.values())


# One engine with one slot, by itself. ---------------------------------------------------------------------------------


class OneSlot:
    """A talker with one slot under a policy; keeps what the runner tells it."""

    def __init__(self, policy: str = "listener", pausable: bool = True) -> None:
        self.clock = Clock()
        self.log: list[tuple[str, int]] = []
        self.pieces: list[int] = []
        """Job of each output."""
        model = profile(talk=talker(10, slots=1, pieces=(1,)))
        stage: Any = StreamTalk(model, self.clock, Device(self.clock, 1))
        stage.spec = type(stage.spec)(
            **{name: getattr(stage.spec, name) for name in stage.spec.__slots__} | {"pausable": pausable}
        )
        for act in ("submit", "pause", "resume"):
            self._log(stage, act)
        lanes = Lanes()
        lanes.open("s")
        self.runner = EngineRunner(
            stage,
            RunnerContext(
                lanes=lanes, executor=self.clock, deliver=self._delivered, observe=lambda *_: None, on_span=lambda _: None,
                policy=make_policy(SchedulingSettings(policy=policy), PacingSettings()),  # type: ignore[arg-type]
                weights={}, settings=StageSettings(queue_ms_max=60_000),
            ),
        )  # fmt: skip

    def submit(self, number: int, words: int, **pace: Any) -> None:
        clause = Clause(index=1, text="word " * words, voice="v")
        address = Address(session="s", lane=0, epoch=0, reply="r")
        job = Job(id=JobId(number), stage=Role.TALK, address=address, payload=clause, pace=self._pace(pace))
        self.runner.submit(job)

    def repace(self, number: int, **pace: Any) -> None:
        self.runner.repace(JobId(number), self._pace(pace))

    def advance(self, until_ms: float) -> None:
        self.clock.advance(MonoNs(ns_from_ms(until_ms)))

    def _pace(self, pace: dict[str, Any]) -> Pace:
        given = {name: MonoNs(ns_from_ms(ms)) for name, ms in pace.items()}
        return Pace(**({"since": MonoNs(0)} | given))

    def _log(self, stage: Any, act: str) -> None:
        original = getattr(stage, act)

        def logged(job: Any, *rest: Any) -> None:
            self.log.append((act, getattr(job, "id", job)))
            original(job, *rest)

        setattr(stage, act, logged)

    def _delivered(self, job: Job, out: Payload | StageError) -> None:
        assert not isinstance(out, StageError)
        self.pieces.append(job.id)


def test_a_first_reply_takes_the_slot_of_one_that_is_ahead_and_gives_it_back() -> None:
    engine = OneSlot()
    engine.submit(1, words=30, dry_at=5000)  # 132 frames, one in 10 ms
    engine.advance(200)
    engine.submit(2, words=3, since=150)  # 13 frames, without sound so far
    engine.advance(5000)
    assert engine.log == [("submit", 1), ("pause", 1), ("submit", 2), ("resume", 1)]
    first = engine.pieces.index(2)
    last = len(engine.pieces) - 1 - engine.pieces[::-1].index(2)
    assert set(engine.pieces[first : last + 1]) == {2}
    assert engine.pieces.count(1) == 132 and engine.pieces.count(2) == 13


def test_one_that_would_run_dry_takes_the_slot_back_at_once() -> None:
    engine = OneSlot()
    engine.submit(1, words=30, dry_at=5000)
    engine.advance(200)
    engine.submit(2, words=30, since=150)
    engine.advance(300)
    engine.repace(2, since=150, dry_at=2000)  # it sounds by now: no more urgent than the other one
    engine.advance(400)
    assert engine.log == [("submit", 1), ("pause", 1), ("submit", 2)]  # nothing is swapped for nothing
    engine.repace(1, dry_at=405)
    engine.advance(401)
    assert engine.log[3:] == [("pause", 2), ("resume", 1)]


def test_a_slot_changes_hands_as_soon_as_the_running_one_has_begun_to_sound() -> None:
    engine = OneSlot()
    engine.submit(1, words=30, since=0)
    engine.submit(2, words=3, since=10)  # as urgent, but younger
    engine.advance(100)
    assert engine.log == [("submit", 1)]
    engine.repace(1, since=0, dry_at=2000)
    engine.advance(101)
    assert engine.log[1:] == [("pause", 1), ("submit", 2)]


def test_held_work_gives_its_slot_up_and_takes_it_again_when_it_is_due() -> None:
    engine = OneSlot()
    engine.submit(1, words=30, dry_at=900, hold_until=-1)
    engine.advance(100)
    engine.repace(1, dry_at=1500, hold_until=600)
    engine.advance(599)
    made = len(engine.pieces)
    assert engine.log == [("submit", 1), ("pause", 1)]
    engine.advance(700)
    assert engine.log[2:] == [("resume", 1)]
    assert len(engine.pieces) > made


def test_a_session_that_is_released_leaves_nothing_in_the_engine() -> None:
    engine = OneSlot()
    engine.submit(1, words=30, dry_at=5000)
    engine.submit(2, words=30, dry_at=5000)
    engine.advance(200)
    engine.runner.release("s")
    made = len(engine.pieces)
    engine.advance(5000)
    assert engine.runner.idle
    assert len(engine.pieces) == made


def test_an_engine_that_cannot_pause_is_left_alone() -> None:
    engine = OneSlot(pausable=False)
    engine.submit(1, words=30, dry_at=5000)
    engine.advance(200)
    engine.submit(2, words=3, since=150)
    engine.repace(1, dry_at=5000, hold_until=4000)
    engine.advance(5000)
    assert engine.log == [("submit", 1), ("submit", 2)]
    assert engine.pieces == [1] * 132 + [2] * 13


@pytest.mark.parametrize("policy", ["fcfs", "round_robin", "chunk_deadline"])
def test_policies_without_urgency_pause_nothing(policy: str) -> None:
    engine = OneSlot(policy)
    engine.submit(1, words=30, dry_at=5000, newest_starts=0)
    engine.advance(200)
    engine.submit(2, words=3, since=150, newest_starts=0)
    engine.advance(5000)
    assert engine.log == [("submit", 1), ("submit", 2)]


def test_whole_conversations_through_one_slot_of_a_thinker_that_cannot_pause() -> None:
    world, result = simulate(crowd(3, 0.2), profile(think=thinker(slots=1, pausable=False)))
    assert [span.outcome for span in world.spans_of("think")] == ["done"] * 3
    ended = [span.ended_at for span in world.spans_of("think")]
    begun = [span.began_at for span in world.spans_of("think")]
    assert begun[1:] == ended[:-1]  # one after the other, each to its end
    assert all(row.heard_s > 10 for row in result.rows)
