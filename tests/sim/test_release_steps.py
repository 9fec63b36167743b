"""A step that only releases sessions is a step: nothing computes beside it."""

import pytest
from duplex_models.sim import SimOptions

from tests.sim.world import Server

pytestmark = pytest.mark.sim


def test_a_release_does_not_let_two_steps_of_a_stage_run_at_once() -> None:
    server = Server(SimOptions(vad="level", script=("word " * 60,)))
    server.world.costs["vocode"] = lambda: 0.03
    under_way, most = [0], [0]
    run = server.world.run

    def watched(stage, step, done):  # type: ignore[no-untyped-def]
        if stage == "vocode":
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        run(
            stage,
            step,
            lambda results: (under_way.__setitem__(0, under_way[0] - (stage == "vocode")), done(results))[1],
        )

    server.world.run = watched  # type: ignore[method-assign]
    sessions = [server.connect() for _ in range(12)]
    for session in sessions:
        session.type_text("go")
        server.advance(300)
    for session in sessions[::2]:
        session.leave()
        server.advance(47)
    server.advance(4000)
    assert most[0] == 1
    server.check()
