"""Drafts among many callers: answers come sooner, nobody else waits for them, and their sound is accounted for."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Any

import pytest

from duplex.pacing.urgency import Urgency
from duplex.stages.contract import Role
from loadgen.sim.world import Result
from loadgen.trace import SessionTrace
from tests.sim.simulated import (
    Watched,
    caller,
    chosen,
    crowd,
    interrupter,
    profile,
    simulate,
    thinker,
    watch_plans,
)

pytestmark = pytest.mark.sim
ON: dict[str, Any] = {"turn": {"speculate": True}}
OFF: dict[str, Any] = {"turn": {"speculate": False}}


def scene() -> list[SessionTrace]:
    """Answers that are interrupted, and turns with pauses in them."""
    return [
        *(interrupter(f"i{n}", n * 0.3, after_s=1.1 * n + 0.7, answer_words=25) for n in range(3)),
        *(caller(f"c{n}", n * 0.7, turns=2, answer_words=20, pauses=((0.6, 0.4),)) for n in range(3)),
    ]


def ttfas(result: Result) -> list[float]:
    return [row.ttfas_s for row in result.rows if row.ttfas_s is not None]


@pytest.mark.parametrize("callers", [1, 12])
def test_answers_come_sooner(callers: int) -> None:
    sessions = crowd(callers, 0.37, turns=2, answer_words=12)
    _, without = simulate(sessions, settings=OFF)
    world, with_drafts = simulate(sessions, settings=ON)
    assert len(ttfas(with_drafts)) == len(ttfas(without)) == 2 * callers
    assert median(ttfas(with_drafts)) < median(ttfas(without)) - 0.08
    assert max(ttfas(with_drafts)) <= max(ttfas(without))
    assert world.totals["duplex_speculation_total{outcome=adopted}"] == 2 * callers


@pytest.mark.parametrize("policy", ["listener", "fcfs_capped", "fcfs"])
def test_the_sound_of_drafts_is_accounted_for_as_all_sound_is(policy: str) -> None:
    world = Watched(profile(), policy, chosen(settings=ON))
    world.run(scene())
    world.settle()
    accounts = world.accounts.values()
    assert sum(account.thrown for account in accounts) > 0
    assert [each.vocoded for each in accounts] == [each.made + each.thrown for each in accounts]
    assert [each.made for each in accounts] == [each.left + each.cut for each in accounts]
    assert Counter(span.job for span in world.spans) == world.submitted
    assert world.runners.idle
    assert "invariant" not in "".join(world.totals)
    assert world.totals["duplex_speculation_total{outcome=resumed}"] >= 6


def test_a_draft_is_served_after_everyone_and_beside_nobody_who_cannot_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = watch_plans(monkeypatch)
    pauses = ((0.4, 0.3), (0.9, 0.3))
    simulate(crowd(24, 0.21, answer_words=15, pauses=pauses), profile(think=thinker(slots=4)), settings=ON)
    served, kept_out = 0, 0
    for decision in decisions:
        drafts = {work.job.id for work in decision.works if work.pace.speculative}
        taken = {work.job.id for work in decision.chosen}
        others = {job: rank[0] for job, rank in decision.ranks.items() if job not in drafts}
        pressed = any(urgency <= Urgency.FIRST for urgency in others.values())
        served += bool(drafts & taken)
        kept_out += bool(drafts) and pressed
        assert not (drafts & taken and pressed), decision
        if drafts & taken:
            assert all(job in taken for job, urgency in others.items() if urgency < Urgency.SPECULATIVE)
    assert served > 50 and kept_out > 10


def test_a_talker_that_streams_stops_where_a_draft_has_sound_enough() -> None:
    world = Watched(profile(), "listener", chosen(settings=ON))
    most: list[int] = []

    def look() -> None:
        for person in world.people.values():
            draft = person.session.core._replies._speculation._draft
            if draft is not None and draft.turns._speech is not None:
                most.append(draft.reply.generated + draft.turns._speech._unvoiced())

    world.every(0.01, look)
    world.run([caller("c", speech_s=4.0, pauses=((1.0, 1.5),))])
    piece = 2 * 80 * 48
    assert 48 * 600 <= max(most) < 48 * 600 + 2 * piece
    world.settle()
    assert world.runners.idle


@pytest.mark.parametrize("pausable", [True, False])
def test_a_saturated_engine_keeps_no_slot_for_a_draft(pausable: bool) -> None:
    """Two who pause in the middle of a sentence, where a slow thinker would think of an answer; others ask meanwhile."""
    model = profile(think=thinker(slots=2, decode={"base": 60}, pausable=pausable))
    hesitant = [caller(f"h{n}", speech_s=4.0, pauses=((1.0, 1.5),), answer_words=40) for n in range(2)]
    asking = crowd(2, 0.05, first_s=0.1, speech_s=1.6, answer_words=10)
    alone, _ = simulate(asking, model, settings=OFF)
    world, _ = simulate([*hesitant, *asking], model, settings=ON)
    for name in ("c000", "c001"):
        late = (world.row(name).ttfas_s or 9) - (alone.row(name).ttfas_s or 0)
        assert late < 0.07, "later than without any drafts by more than the step that was under way"
    assert ("duplex_speculation_total{outcome=preempted}" in world.totals) == (not pausable)
    assert not [span for span in world.spans if span.role is Role.THINK and span.outcome == "failed"]
