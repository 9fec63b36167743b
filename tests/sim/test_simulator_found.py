"""Far clients, and loops that are refused: what the simulator found broken once."""

from __future__ import annotations

import pytest
from duplex_models.sim import SimOptions
from pydantic import ValidationError

from duplex.session.messages import Network
from loadgen.sim.profile import Cost
from tests.sim.simulated import CLEAN, Watched, caller, chosen, crowd, profile, simulate, thinker
from tests.sim.world import Server

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("rtt_ms", [40, 240, 440, 640, 900])
def test_a_long_round_trip_makes_no_underruns_on_the_production_actor(rtt_ms: int) -> None:
    server = Server(SimOptions(vad="level", script=("one two three, " * 30,), vocode_s=0.02))
    session = server.connect()
    session.actor.post(Network(rtt_ms=rtt_ms, jitter_ms=0, lost=0))
    session.type_text("go")
    server.advance(12_000)
    assert server.total("duplex_underruns_total") == 0


@pytest.mark.parametrize("delay_ms", [20, 120, 220, 320, 450])
def test_a_long_round_trip_makes_no_underruns_in_the_simulator(delay_ms: int) -> None:
    _, result = simulate([caller("far")], network=CLEAN.model_copy(update={"delay_ms": delay_ms}))
    assert [row.gaps for row in result.rows] == [0]


def test_a_refused_caller_of_a_closed_loop_asks_again_until_it_is_served() -> None:
    model = profile(think=thinker(prefill=Cost(base=1500)))
    callers = crowd(20, answer_words=10, turns=2)
    world = Watched(model, options=chosen(admission=True))
    result = world.run(callers, concurrency=8)
    assert result.refused > 0 and result.sessions == 20
    assert len(result.rows) == 40 and not any(row.refused for row in result.rows)


def test_a_device_without_a_place_is_refused() -> None:
    with pytest.raises(ValidationError):
        profile(devices={"cpu": 0, "think": 1, "talk": 1, "vocode": 1})
