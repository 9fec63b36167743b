"""Stages that stall or break, people who vanish, a client that is slow: the others live on, and everything is given back."""

from __future__ import annotations

from collections import Counter

import pytest

from duplex.session.events import Failure, ReplyDone
from loadgen.sim.faults import Fault
from tests.sim.simulated import POLICIES, Watched, caller, chosen, crowd, profile, simulate

pytestmark = pytest.mark.sim
STAGES = ("transcribe", "think", "talk", "vocode")
TWO = [caller(f"c{n}", 0.2 * n, turns=2, answer_words=12) for n in range(2)]


def ends(world: Watched) -> Counter[str]:
    """Return how many replies ended how."""
    return Counter(event.reply.status for _, _, event in world.events if isinstance(event, ReplyDone))


@pytest.mark.parametrize("stage", [*STAGES, "end_of_turn"])
def test_a_stage_that_stalls_makes_answers_late_and_nothing_else(stage: str) -> None:
    calm, _ = simulate(TWO)
    world, result = simulate(TWO, faults=(Fault(kind="stall", stage=stage, at_s=1.8, for_s=1.5),))
    assert ends(world) == {"completed": 4}
    assert Counter(span.outcome for span in world.spans) == {"done": len(world.spans)}
    for name in ("c0", "c1"):
        (late, after), (usual, _) = world.everyone[name].rows, calm.everyone[name].rows
        assert late.ttfas_s - usual.ttfas_s == pytest.approx(0.85, abs=0.25)  # type: ignore[operator]
        assert late.heard_s == pytest.approx(usual.heard_s, abs=0.02)
        assert after.ttfas_s == pytest.approx(usual.ttfas_s, abs=0.1)
    assert not any(row.gaps for row in result.rows)


def test_a_stall_in_the_middle_of_an_answer_is_a_gap_of_its_length_less_the_lead() -> None:
    world, result = simulate([caller("a")], faults=(Fault(kind="stall", stage="vocode", at_s=5, for_s=1.5),))
    (row,) = result.rows
    assert row.gaps == 1
    assert 1.0 < row.gap_s < 1.5
    assert world.totals["duplex_underruns_total{observed=sent}"] == 1
    assert world.totals["duplex_underrun_seconds_total{observed=sent}"] == pytest.approx(row.gap_s, abs=0.001)


@pytest.mark.parametrize("stage", ["think", "talk", "vocode"])
def test_a_stage_that_crashes_fails_the_replies_it_holds_and_the_next_turn_is_answered(stage: str) -> None:
    world, _ = simulate(TWO, faults=(Fault(kind="crash", stage=stage, at_s=1.8, for_s=1),))
    assert ends(world) == {"failed": 2, "completed": 2}
    failures = [event for _, _, event in world.events if isinstance(event, Failure)]
    assert [(event.code, event.kind, event.message) for event in failures] == [
        ("stage_failed", "server_error", f"{stage} is broken")
    ] * 2
    for name in ("c0", "c1"):
        first, second = world.everyone[name].rows
        assert first.ttfas_s is None
        assert second.ttfas_s is not None and second.heard_s > 4
    world.settle()
    assert world.runners.idle


def test_a_crash_in_the_middle_of_an_answer_ends_it_there_and_the_talk_goes_on() -> None:
    world, result = simulate(TWO, faults=(Fault(kind="crash", stage="vocode", at_s=4.5, for_s=0.3),))
    assert ends(world) == {"failed": 2, "completed": 2}
    heard = {name: [row.heard_s for row in person.rows] for name, person in world.everyone.items()}
    assert all(1 < broken < 3 and whole > 4 for broken, whole in heard.values())
    assert result.duration_s < 15  # nobody waits for what will not come


def test_a_transcription_that_fails_leaves_its_turn_unanswered_and_the_next_one_is_answered() -> None:
    world, _ = simulate(TWO, faults=(Fault(kind="crash", stage="transcribe", at_s=1.5, for_s=1),))
    assert ends(world) == {"completed": 2}
    assert [[row.ttfas_s is None for row in person.rows] for person in world.everyone.values()] == [[True, False]] * 2


def test_without_its_end_of_turn_model_a_turn_ends_by_silence() -> None:
    world, result = simulate(TWO, faults=(Fault(kind="crash", stage="end_of_turn", at_s=0, for_s=60),))
    assert ends(world) == {"completed": 4}
    assert all(row.ttfas_s is not None and row.ttfas_s < 3 for row in result.rows)


@pytest.mark.parametrize("stage", ["transcribe", "talk", "vocode"])
def test_a_stall_beyond_the_watchdog_fails_what_it_holds_alone_and_sessions_live_on(stage: str) -> None:
    sessions = [caller(f"c{n}", 0.2 * n, turns=3, answer_words=12) for n in range(2)]
    settings = {"stages": {"step_timeout_s": 2}}
    world, _ = simulate(sessions, faults=(Fault(kind="stall", stage=stage, at_s=1.8, for_s=3),), settings=settings)
    outcomes = Counter(span.outcome for span in world.spans_of(stage))
    people = world.everyone.values()
    unanswered = sum(person.rows[0].ttfas_s is None for person in people)
    assert 1 <= unanswered <= outcomes["failed"]
    assert all(person.rows[2].ttfas_s is not None for person in people)
    world.settle()
    assert world.runners.idle
    assert Counter(span.job for span in world.spans) == world.submitted


@pytest.mark.parametrize("policy", POLICIES)
def test_everything_is_given_back_when_everybody_hangs_up(policy: str) -> None:
    world, result = simulate(
        crowd(8, 0.2, turns=2), policy=policy, faults=(Fault(kind="disconnect", at_s=3.0, share=1),)
    )
    assert result.duration_s == pytest.approx(3.0)
    assert world.spans  # they were in the middle of it
    world.settle(1)
    assert world.runners.idle
    assert not world.runners.lanes._epochs
    assert not world.kv._contexts
    for stage in world.runners.graph.nodes.values():
        assert not getattr(stage, "_runs", {})
    assert Counter(span.job for span in world.spans) == world.submitted
    assert all(row.cut_short for row in result.rows) and len(result.rows) == 16


def test_those_who_stay_do_not_hear_that_somebody_left() -> None:
    sessions = crowd(8, 0.2, answer_words=20)
    world, _ = simulate(sessions, faults=(Fault(kind="disconnect", at_s=4.0, share=0.5),))
    stayed = [person.rows[0] for person in world.everyone.values() if not person.rows[0].cut_short]
    assert 0 < len(stayed) < 8
    assert all(row.gaps == 0 and row.heard_s > 7 for row in stayed)


@pytest.mark.parametrize("policy", ["fcfs", "listener"])
def test_a_slow_client_hears_gaps_and_the_others_hear_nothing_of_it(policy: str) -> None:
    sessions = crowd(10, 0.2, turns=2, answer_words=12)
    calm, _ = simulate(sessions, policy=policy)
    world, _ = simulate(sessions, policy=policy, faults=(Fault(kind="slow", at_s=2.5, share=0.3),))
    slow = [name for name, person in world.everyone.items() if person.session.listener._path.network.jitter_ms == 1000]
    assert 0 < len(slow) < 8
    for name, person in world.everyone.items():
        if name in slow:
            assert person.rows[1].gaps > 0
            continue
        for row, usual in zip(person.rows, calm.everyone[name].rows, strict=True):
            assert row.gaps == 0
            assert row.ttfas_s == pytest.approx(usual.ttfas_s, abs=0.041)  # a tick or two of 20 ms


def test_an_unknown_stage_is_refused() -> None:
    world = Watched(profile(), options=chosen(faults=(Fault(kind="crash", stage="nose", at_s=1),)))
    with pytest.raises(ValueError, match="there is no stage 'nose'"):
        world.run(TWO)
