"""oracle: knows when it will be interrupted, and makes nothing that begins to play after that."""

from __future__ import annotations

import pytest

from tests.sim.simulated import caller, crowd, interrupter, profile, simulate, vocoder

pytestmark = pytest.mark.sim
STEP_S = 0.16
"""Two codec frames: one may have begun before the interruption."""


@pytest.mark.parametrize("after_s", [1.0, 2.5, 4.03])
def test_nothing_is_made_that_will_be_cut(after_s: float) -> None:
    sessions = [interrupter("i", after_s=after_s, answer_words=40), *crowd(4, 0.2, answer_words=30)]
    oracle, foresaw = simulate(sessions, policy="oracle")
    listener, did_not = simulate(sessions, policy="listener")
    assert foresaw.unheard_s <= STEP_S
    assert foresaw.unheard_s < did_not.unheard_s
    assert oracle.row("i").gaps == 0
    assert oracle.row("i").heard_s == pytest.approx(after_s, abs=STEP_S)
    assert oracle.row("i", 1).heard_s == pytest.approx(listener.row("i", 1).heard_s)


def test_a_gap_before_the_cut_is_not_made_either() -> None:
    """Between the onset of the voice and its confirmation nothing more is made, whatever else happens at the stages."""
    sessions = [interrupter(f"i{n}", 0.3 * n, after_s=3.0, answer_words=40) for n in range(6)]
    world, result = simulate(sessions, policy="oracle")
    assert result.unheard_s <= 6 * STEP_S
    assert [world.row(f"i{n}").gaps for n in range(6)] == [0] * 6


def test_without_interruptions_it_is_the_listener() -> None:
    sessions, model = (
        [*crowd(5, 0.2, answer_words=12), caller("b", 1.0, backchannels=((1.0, 0.2),))],
        profile(vocode=vocoder(30)),
    )
    assert simulate(sessions, model, "oracle")[1].decisions == simulate(sessions, model, "listener")[1].decisions
