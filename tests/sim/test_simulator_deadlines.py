"""Nobody starves past the deadline while there is capacity; fronts only move forward; sent audio never overtakes made audio."""

from __future__ import annotations

import pytest

from tests.sim.simulated import (
    POLICIES,
    Watched,
    caller,
    chosen,
    crowd,
    interrupter,
    narrow,
    profile,
    simulate,
    vocoder,
)

pytestmark = pytest.mark.sim
DEADLINE_S = 1.0
WAY_S = 0.14
"""To the listener: send tick, network, jitter buffer."""


def test_first_audio_does_not_wait_behind_those_who_only_get_ahead() -> None:
    """A full house of long answers could fill the vocoder with work ahead of time for ten seconds and more."""
    newcomers = [caller(f"new{n}", 4.0 + n, answer_words=5) for n in range(6)]
    model = narrow(14)
    ours, _ = simulate([*crowd(8, answer_words=60), *newcomers], model)
    theirs, _ = simulate([*crowd(8, answer_words=60), *newcomers], model, "fcfs")
    first_waits = [[world.waits_ms(f"new{n}")[0] for n in range(6)] for world in (ours, theirs)]
    assert max(first_waits[0]) <= 14  # the step under way
    assert max(first_waits[1]) > 60
    assert all(ours.row(f"new{n}").ttfas_s < DEADLINE_S for n in range(6))


@pytest.mark.parametrize("deadline_s", [0.6, 1.0, 2.0])
def test_a_first_reply_is_promoted_at_its_deadline(deadline_s: float) -> None:
    """Here everybody else runs dry all the time: without its promotion the newcomer would wait until they have left."""
    scene = [*crowd(8, 0.2, answer_words=15), caller("new", 4.0, answer_words=3)]
    settings = {"pacing": {"first_deadline_ms": round(deadline_s * 1000)}}
    world, result = simulate(scene, narrow(20, pieces=(1,)), settings=settings)
    assert sum(row.gaps for row in result.rows) > 100
    ttfas_s = world.row("new").ttfas_s
    assert ttfas_s is not None and deadline_s <= ttfas_s <= deadline_s + WAY_S + 0.02


def test_without_a_promotion_it_would_starve() -> None:
    scene = [*crowd(8, 0.2, answer_words=30), caller("new", 4.0, answer_words=3)]
    settings = {"pacing": {"first_deadline_ms": 60_000}}
    world, _ = simulate(scene, narrow(20, pieces=(1,)), settings=settings)
    assert world.row("new").ttfas_s is None


@pytest.mark.parametrize("policy", POLICIES)
def test_fronts_are_in_order_and_never_move_back(policy: str) -> None:
    world = Watched(profile(vocode=vocoder(40, batch_max=2)), policy, chosen())
    fronts: dict[str, tuple[int, int, int]] = {}

    def look() -> None:
        for person in world.people.values():
            lane = person.session.core.lane
            for reply in lane:
                now = (reply.generated, lane.sent(reply), lane.played(reply))
                assert now[0] >= now[1] >= now[2]
                before = fronts.get(reply.id, (0, 0, 0))
                assert all(new >= old for new, old in zip(now, before, strict=True))
                fronts[reply.id] = now

    world.every(0.03, look)
    world.run([*crowd(4, 0.3, answer_words=15), interrupter("i", 0.5, after_s=1.0, answer_words=15)])
    assert len(fronts) >= 6
    assert min(played for _, _, played in fronts.values()) > 0
