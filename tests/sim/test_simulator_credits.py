"""Credits: bounded policies keep text within `clauses_ahead` and audio within the lead target plus one step; others know no bound."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from loadgen.sim.profile import Cost, Profile
from tests.sim.simulated import BOUNDED, FRAME_S, Watched, caller, chosen, profile, talker

pytestmark = pytest.mark.sim
WORDS = 60
"""21 s."""
SLOW_TALKER = profile(talk=talker(kind="batch", cost=Cost(base=1500)))
"""The thinker has made five clauses before the first one sounds."""
MODELS = {"engine": profile(), "batch": profile(talk=talker(kind="batch", cost=Cost(base=20, per_unit=1)))}


@dataclass
class Ahead:
    """How far ahead of its listener a session was, at many moments."""

    clauses: list[int] = field(default_factory=list)
    lead_s: list[float] = field(default_factory=list)
    over_target_s: list[float] = field(default_factory=list)


def run(policy: str, model: Profile, settings: dict[str, dict[str, int]]) -> Ahead:
    world = Watched(model, policy, chosen(settings=settings))
    seen = Ahead()

    def look() -> None:
        for person in world.people.values():
            core = person.session.core
            state = core.lane_state(world.clock.now())
            speech = core._replies._turns._speech
            if speech is not None and not speech._text_done:
                seen.clauses.append(len(speech._waiting))
            if state.lead and state.target is not None:
                seen.lead_s.append(state.lead / 48_000)
                seen.over_target_s.append((state.lead - state.target) / 48_000)

    world.every(0.01, look)
    world.run([caller("a", answer_words=WORDS), caller("b", 0.7, answer_words=WORDS)])
    return seen


@pytest.mark.parametrize("clauses", [1, 2, 4])
@pytest.mark.parametrize("policy", ["fcfs_capped", "listener"])
def test_the_thinker_is_at_most_so_many_clauses_ahead(policy: str, clauses: int) -> None:
    seen = run(policy, SLOW_TALKER, {"pacing": {"clauses_ahead": clauses}})
    assert max(seen.clauses) == clauses


@pytest.mark.parametrize("policy", ["fcfs", "round_robin", "chunk_deadline"])
def test_an_unbounded_thinker_runs_on(policy: str) -> None:
    seen = run(policy, SLOW_TALKER, {"pacing": {"clauses_ahead": 1}})
    assert max(seen.clauses) > 4


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("policy", BOUNDED)
def test_the_lead_stays_within_its_target_and_one_step(policy: str, kind: str) -> None:
    """A step is a piece of two frames, or of a whole clause at most `chunk_ms_max`."""
    step_s = {"engine": 2 * FRAME_S, "batch": 0.4}[kind]
    seen = run(policy, MODELS[kind], {})
    assert len(seen.lead_s) > 1000
    assert max(seen.over_target_s) <= step_s
    assert max(seen.lead_s) > 0.3


@pytest.mark.parametrize("policy", ["fcfs", "round_robin", "chunk_deadline"])
def test_an_unbounded_lead_is_as_long_as_the_answer(policy: str) -> None:
    assert max(run(policy, MODELS["engine"], {}).lead_s) > 15
