"""round_robin: whoever was served longest ago is next, so that a newcomer, who never was, does not wait for the round."""

from __future__ import annotations

import pytest

from duplex.stages.contract import Role
from tests.sim.simulated import Watched, caller, crowd, narrow, simulate, watch_plans

pytestmark = pytest.mark.sim


def served(world: Watched) -> list[str]:
    """Return who got the vocoder, in order."""
    return [world.name_of(span.address.session) for span in world.spans_of("vocode")]


def test_two_that_both_wait_take_turns() -> None:
    world, _ = simulate(crowd(2, answer_words=8), narrow(100), "round_robin")
    order = served(world)
    both = order[order.index("c001") : max(i for i, name in enumerate(order) if name == "c000")]
    assert len(both) > 20
    assert all(one != other for one, other in zip(both, both[1:], strict=False))


def test_the_next_one_is_who_was_served_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = watch_plans(monkeypatch)
    simulate(crowd(5, 0.3, answer_words=15), narrow(14), "round_robin")
    contended = [each for each in decisions if each.role is Role.VOCODE and len(each.works) > 1]
    assert len(contended) > 50
    for decision in contended:
        assert decision.chosen[0].served == min(work.served for work in decision.works)


def test_a_newcomer_comes_next() -> None:
    sessions = [*crowd(9, 0.1, answer_words=30), caller("new", 3.0, answer_words=5)]
    world, _ = simulate(sessions, narrow(14), "round_robin")
    assert world.waits_ms("new")[0] <= 14
