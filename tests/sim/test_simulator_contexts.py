"""What a long conversation costs a thinker that attends to all of it."""

from __future__ import annotations

import pytest

from loadgen.sim.network import Network
from loadgen.sim.profile import load
from loadgen.sim.world import Options, World
from loadgen.trace import SessionTrace, Turn

pytestmark = pytest.mark.sim


def _think_s(**costs: float) -> list[float]:
    """Return the thinker's part of each of five turns with long answers."""
    profile = load("large")
    changed = profile.model_copy(update={"think": profile.think.model_copy(update=costs)})
    turn = Turn(gap_s=1.0, speech_s=3.0, words=8, answer_words=60)
    sessions = [SessionTrace(session="s", at_s=0.0, turns=(turn,) * 5)]
    options = Options(network=Network(delay_ms=0, jitter_ms=0), admission=False)
    rows = World(changed, "listener", options, seed=1).run(sessions).rows
    return [row.split["think"] for row in rows]


def test_without_such_a_cost_all_turns_but_the_first_take_the_same() -> None:
    _, *later = _think_s()
    assert max(later) - min(later) < 0.001


@pytest.mark.parametrize("cost", ["read_context_us", "step_context_us"])
def test_each_turn_takes_longer_than_the_one_before(cost: str) -> None:
    plain, costly = _think_s(), _think_s(**{cost: 10.0})
    extra = [with_it - without for with_it, without in zip(costly, plain, strict=True)]
    assert extra == sorted(extra)
    assert extra[-1] > extra[1] > 0


def test_reading_pays_for_pairs_of_tokens() -> None:
    one, two = _think_s(read_context_us=5.0), _think_s(read_context_us=10.0)
    plain = _think_s()
    assert two[-1] - plain[-1] == pytest.approx(2 * (one[-1] - plain[-1]), rel=0.01)
