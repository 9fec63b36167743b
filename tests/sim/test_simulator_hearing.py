"""What a profile says of hearing and voice: a VAD's tail, an unsure or hasty end of turn, an answer's first silence."""

from __future__ import annotations

import statistics

import pytest

from loadgen.sim.network import Network
from loadgen.sim.person import TurnRow
from loadgen.sim.profile import Hearing, Profile, Voice, load
from loadgen.sim.world import Options, Result, World
from loadgen.trace import SessionTrace, Turn

pytestmark = pytest.mark.sim

QUIET = Options(network=Network(delay_ms=0, jitter_ms=0), admission=False)


def _run(hearing: Hearing, voice: Voice | None = None, pauses: tuple[tuple[float, float], ...] = ()) -> Result:
    profile: Profile = load("large")
    changed = profile.model_copy(update={"hearing": hearing, "voice": voice or profile.voice})
    turn = Turn(gap_s=1.0, speech_s=3.0, words=8, answer_words=10, pauses=pauses)
    sessions = [SessionTrace(session=f"s{n}", at_s=20.0 * n, turns=(turn, turn)) for n in range(10)]
    return World(changed, "listener", QUIET, seed=3).run(sessions)


def _rows(hearing: Hearing, voice: Voice | None = None) -> list[TurnRow]:
    return _run(hearing, voice).rows


def _ttfas(rows: list[TurnRow]) -> float:
    return statistics.fmean(row.ttfas_s for row in rows if row.ttfas_s is not None)


def test_a_tail_of_the_vad_delays_the_answer_by_as_much() -> None:
    plain, tailed = _ttfas(_rows(Hearing())), _ttfas(_rows(Hearing(tail_ms=(64.0,))))
    assert tailed - plain == pytest.approx(0.064, abs=0.01)


def test_an_answer_is_heard_once_its_first_silence_is_over() -> None:
    voice = load("large").voice
    silent = voice.model_copy(update={"lead_in_ms": (50.0,)})
    assert _ttfas(_rows(Hearing(), silent)) - _ttfas(_rows(Hearing(), voice)) == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize(("asks", "least_s"), [(1, 0.6), (2, 1.0)])
def test_an_end_of_turn_that_is_not_seen_waits_for_the_next_look(asks: int, least_s: float) -> None:
    rows = _rows(Hearing(unsure=(1.0,) * asks))
    assert all(row.ttfas_s is not None for row in rows)
    assert all(least_s <= row.split["endpointing"] < least_s + 0.2 for row in rows)


def test_a_share_of_ends_that_is_not_seen_is_about_that_share() -> None:
    late = [row.split["endpointing"] > 0.5 for row in _rows(Hearing(unsure=(0.4,)))]
    assert 0.1 < sum(late) / len(late) < 0.7


def test_a_hasty_end_of_turn_answers_into_a_pause_and_the_rest_is_answered_too() -> None:
    pauses = ((1.5, 0.45),)
    sure, hasty = _run(Hearing(), pauses=pauses), _run(Hearing(hasty=1.0), pauses=pauses)
    assert all(row.ttfas_s is not None for row in (*sure.rows, *hasty.rows))
    ended = "duplex_endpointing_seconds"
    assert hasty.totals[ended] > 1.5 * sure.totals[ended]  # each turn ends twice


def test_the_same_seed_draws_the_same() -> None:
    hearing = Hearing(tail_ms=(10.0, 40.0, 90.0), unsure=(0.3, 0.1), hasty=0.5)
    first, second = (_run(hearing, pauses=((1.5, 0.3),)) for _ in range(2))
    assert first.rows == second.rows and first.decisions == second.decisions
