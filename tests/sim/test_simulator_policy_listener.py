"""listener: the one who would run dry first is served first, then who has heard nothing yet, then who is least ahead."""

from __future__ import annotations

import pytest

from duplex.pacing.urgency import Urgency
from duplex.stages.contract import Role
from tests.sim.simulated import crowd, interrupter, narrow, profile, simulate, watch_plans

pytestmark = pytest.mark.sim


def test_the_first_in_every_step_is_the_most_urgent_one(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = watch_plans(monkeypatch)
    simulate(crowd(12, 0.3, answer_words=12), narrow(20, pieces=(1,)), "listener")
    critical = classes = 0
    for decision in decisions:
        if decision.role is not Role.VOCODE or not decision.chosen:
            continue
        (taken,) = decision.chosen
        rank = decision.ranks[taken.job.id]
        assert rank == min(decision.ranks.values())
        if rank[0] == Urgency.CRITICAL and taken.pace.dry_at is not None:
            dry = [work.pace.dry_at for work in decision.works if work.pace.dry_at is not None]
            assert taken.pace.dry_at == min(dry)
            critical += len(dry) > 1
        classes += len({urgency for urgency, _ in decision.ranks.values()}) > 1
    assert critical > 20
    assert classes > 20


def test_it_serves_without_a_gap_where_order_of_arrival_and_rounds_do_not() -> None:
    gaps, waits = {}, {}
    for policy in ("listener", "fcfs", "round_robin"):
        world, result = simulate(crowd(10, 0.2, answer_words=30), narrow(14), policy)
        gaps[policy] = sum(row.gaps for row in result.rows)
        waits[policy] = max(world.waits_ms(name)[0] for name in world.everyone)
    assert gaps["listener"] == 0
    assert gaps["fcfs"] > 0 and gaps["round_robin"] > 0
    assert waits["listener"] < waits["fcfs"] / 2


def test_an_interruption_wastes_the_lead_and_no_more() -> None:
    ours, theirs = (
        simulate([interrupter("i", after_s=4.0, answer_words=60)], profile(), policy)[1]
        for policy in ("listener", "fcfs")
    )
    assert 0 < ours.unheard_s < 0.1 * theirs.unheard_s
