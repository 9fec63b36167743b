"""fcfs: order of arrival, as far ahead as it goes; what was made ahead is lost at an interruption."""

from __future__ import annotations

import pytest

from duplex.stages.contract import Role
from tests.sim.simulated import caller, crowd, interrupter, narrow, profile, simulate, watch_plans

pytestmark = pytest.mark.sim
ANSWER_S = profile().words_s(60)
"""21 s."""


def test_an_interruption_throws_away_nearly_the_whole_answer() -> None:
    world, result = simulate([interrupter("i", after_s=4.0, answer_words=60)], policy="fcfs")
    heard_s = world.row("i").heard_s
    assert 4.0 <= heard_s < 5.0
    assert result.unheard_s == pytest.approx(ANSWER_S - heard_s, abs=0.1)  # all of it was there
    assert world.totals["duplex_unheard_tokens_total"] > 60 * 0.7


def test_a_step_takes_who_came_first(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = watch_plans(monkeypatch)
    simulate(crowd(4, answer_words=15), narrow(14), "fcfs")
    contended = [each for each in decisions if each.role is Role.VOCODE and len(each.works) > 1]
    assert len(contended) > 50
    for decision in contended:
        (taken,) = decision.chosen
        assert taken.arrived == min(work.arrived for work in decision.works)


def test_a_newcomer_waits_behind_all_who_are_far_ahead() -> None:
    world, _ = simulate([*crowd(9, 0.1, answer_words=30), caller("new", 3.0, answer_words=5)], narrow(14), "fcfs")
    assert world.waits_ms("new")[0] > 5 * 14
