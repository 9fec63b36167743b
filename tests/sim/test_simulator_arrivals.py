"""Open arrivals come at their times whatever the server does; a closed loop holds its number; refused turns are misses."""

from __future__ import annotations

import pytest

from loadgen.sim.faults import Fault
from loadgen.sim.person import TurnRow
from loadgen.sim.profile import Cost
from loadgen.sim.world import Slo
from tests.sim.simulated import Watched, chosen, crowd, profile, simulate, thinker

pytestmark = pytest.mark.sim


def test_open_arrivals_come_at_their_times_though_the_server_stands_still() -> None:
    sessions = crowd(20, 0.37, answer_words=5)
    world, result = simulate(sessions, faults=(Fault(kind="stall", stage="think", at_s=0, for_s=9),))
    assert world.arrivals == [(session.session, pytest.approx(session.at_s)) for session in sessions]
    waited = {row.session: row.ttfas_s for row in result.rows}
    assert waited["c000"] is not None and waited["c000"] > 6  # from the end of the speech, not from when it was served


def test_a_closed_loop_holds_its_number_until_nobody_is_left_to_come() -> None:
    world = Watched(profile())
    there: list[tuple[float, int, int]] = []
    world.every(0.1, lambda: there.append((world.now_s, len(world.people), len(world._line))))
    result = world.run(crowd(16, answer_words=8), concurrency=4)
    assert not result.aborted and result.sessions == 16
    full = [count for when, count, waiting in there if when > 20 and waiting]
    assert len(full) > 20 and set(full) == {4}
    assert max(count for _, count, _ in there) == 4
    assert sorted(name for name, _ in world.arrivals) == [session.session for session in crowd(16)]


def test_a_refused_caller_costs_all_its_turns() -> None:
    model = profile(sessions_max=2)
    world = Watched(model, options=chosen(admission=True))
    result = world.run(crowd(6, 0.5, turns=2, answer_words=8))
    assert (result.sessions, result.refused) == (2, 4)
    refused = [row for row in result.rows if row.refused]
    assert {row.session for row in refused} == {"c002", "c003", "c004", "c005"} and len(refused) == 8
    assert not any(Slo().met(row) for row in refused)
    assert all(Slo().met(row) for row in result.rows if not row.refused)
    assert all(row.ttfas_s is None for row in refused)


def test_a_refused_caller_leaves_no_trace_at_the_stages() -> None:
    world = Watched(profile(sessions_max=1), options=chosen(admission=True))
    world.run(crowd(3, 0.5, answer_words=8))
    assert {span.address.session for span in world.spans} == {world.everyone["c000"].session.id}


def test_those_who_were_admitted_keep_the_slo_where_all_of_them_would_not() -> None:
    """A thinker that reads for half a second, one prompt at a time, and a rush of callers."""
    slow = thinker(prefill=Cost(base=500), read_batch=1, slots=64)
    sessions = crowd(40, 0.15, turns=2, answer_words=8)
    _, all_in = simulate(sessions, profile(think=slow, sessions_max=3))
    _, admitted = simulate(sessions, profile(think=slow, sessions_max=3), admission=True)
    slo = Slo(ttfas_s=2.0)
    assert sum(map(slo.met, all_in.rows)) < 0.3 * len(all_in.rows)
    served = [row for row in admitted.rows if not row.refused]
    assert served and sum(map(slo.met, served)) >= 0.9 * len(served)


def test_a_run_is_given_up_when_more_turns_missed_than_may() -> None:
    world = Watched(profile(sessions_max=1), options=chosen(admission=True))
    result = world.run(crowd(6, 0.5, turns=2, answer_words=8), misses_max=3)
    assert result.aborted
    assert len(world.arrivals) == 3  # the second refusal was the fourth missed turn


@pytest.mark.parametrize(
    ("row", "good"),
    [
        ({"ttfas_s": 1.0}, True),
        ({"ttfas_s": 1.01}, False),
        ({"ttfas_s": 0.4, "gap_max_s": 0.1, "gaps": 9, "gap_s": 0.9}, True),
        ({"ttfas_s": 0.4, "gap_max_s": 0.101}, False),
        ({}, False),
        ({"refused": True}, False),
    ],
)
def test_what_a_good_turn_is(row: dict[str, float], good: bool) -> None:
    made = TurnRow(**({"session": "s", "turn": 0, "tenant": "t", "ended_s": 0.0} | row))  # type: ignore[arg-type]
    assert Slo().met(made) is good
