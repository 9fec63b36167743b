"""chunk_deadline: who has no chunk, or whose newest one plays within a second, is pressing; nothing is held."""

from __future__ import annotations

import pytest

from duplex.pacing.urgency import Urgency
from duplex.stages.contract import Role
from duplex.units import ns_from_seconds
from tests.sim.simulated import caller, crowd, narrow, simulate, watch_plans

pytestmark = pytest.mark.sim
SESSIONS = [*crowd(8, 0.1, answer_words=25), caller("new", 3.0, answer_words=5)]


def test_pressing_work_goes_first_in_order_of_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = watch_plans(monkeypatch)
    simulate(SESSIONS, narrow(14), "chunk_deadline")
    mixed = 0
    for decision in decisions:
        if decision.role is not Role.VOCODE or len(decision.works) < 2:
            continue
        pressing = [
            work for work in decision.works
            if work.pace.newest_starts is None or work.pace.newest_starts - decision.now <= ns_from_seconds(1)
        ]  # fmt: skip
        (taken,) = decision.chosen
        rivals = pressing or decision.works
        assert taken.arrived == min(work.arrived for work in rivals)
        mixed += 0 < len(pressing) < len(decision.works)
    assert mixed > 20


def test_a_newcomer_is_pressing_and_who_is_far_ahead_makes_way() -> None:
    world, _ = simulate(SESSIONS, narrow(14), "chunk_deadline")
    assert world.waits_ms("new")[0] <= 14
    assert max(world.waits_ms("c000")) > 14


def test_who_presses_does_not_run_dry_where_round_robin_lets_them() -> None:
    gaps = {
        policy: sum(row.gaps for row in simulate(crowd(9, 0.2, answer_words=30), narrow(14), policy)[1].rows)
        for policy in ("chunk_deadline", "round_robin")
    }
    assert gaps["chunk_deadline"] == 0 < gaps["round_robin"]


def test_nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = watch_plans(monkeypatch)
    _, result = simulate([caller("a", answer_words=60)], policy="chunk_deadline")
    assert all(urgency != Urgency.HELD for decision in decisions for urgency, _ in decision.ranks.values())
    made = [decision.now for decision in decisions if decision.role is Role.VOCODE]
    assert max(made) / 1e9 < 0.5 * result.duration_s  # the whole answer is there long before it has been heard
