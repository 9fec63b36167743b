"""fcfs_capped: order of arrival, but nothing that is ahead by the lead target: a cut wastes the lead, and no more."""

from __future__ import annotations

import pytest

from duplex.pacing.urgency import Urgency
from duplex.stages.contract import Role
from tests.sim.simulated import Watched, chosen, crowd, interrupter, narrow, profile, simulate, watch_plans

pytestmark = pytest.mark.sim
STEP_S = 0.16
"""Two codec frames."""


@pytest.mark.parametrize("after_s", [0.5, 2.0, 4.03])
def test_an_interruption_throws_away_at_most_the_lead(after_s: float) -> None:
    world = Watched(profile(), "fcfs_capped", chosen())
    targets: list[int] = []
    world.every(0.05, lambda: targets.extend(p.session.core.lane.target() or 0 for p in world.people.values()))
    result = world.run([interrupter("i", after_s=after_s, answer_words=60)])
    assert 0 < result.unheard_s <= max(targets) / 48_000 + STEP_S


def test_among_those_who_are_not_ahead_the_first_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = watch_plans(monkeypatch)
    simulate(crowd(9, answer_words=15), narrow(20), "fcfs_capped")
    contended = 0
    for decision in decisions:
        if decision.role is not Role.VOCODE or not decision.chosen:
            continue
        due = [work for work in decision.works if decision.ranks[work.job.id][0] != Urgency.HELD]
        (taken,) = decision.chosen
        assert taken.arrived == min(work.arrived for work in due)
        contended += len(due) > 1
    assert contended > 50


def test_it_does_not_know_who_is_about_to_run_dry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What separates it from `listener`: it lets one run dry while it serves another who has time."""
    decisions = watch_plans(monkeypatch)
    simulate(crowd(8, 0.2, answer_words=15), narrow(19), "fcfs_capped")
    regretted = 0
    for decision in decisions:
        if decision.role is Role.VOCODE and decision.chosen:
            dry = {work.job.id: work.pace.dry_at for work in decision.works if work.pace.dry_at is not None}
            taken = dry.get(decision.chosen[0].job.id)
            regretted += taken is not None and min(dry.values()) < taken - 50_000_000
    assert regretted > 10
