"""Whole sessions with the real ears of `local` on labelled recordings: echo, voices, backchannels, noises."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.turn_taking.cases import Case, cases
from benchmarks.turn_taking.room import Ears, Outcome, run
from benchmarks.turn_taking.score import LATE_S, PACKET_S, WAY_IN_S, WAY_OUT_S, ended_early, latency_s, stop_s, was_cut
from duplex.config import BargeInSettings, EchoSettings, Settings, TurnSettings, UnfinishedSettings

pytestmark = pytest.mark.model
Play = Callable[..., Outcome]


@pytest.fixture(scope="module")
def play() -> Play:
    ears = Ears()
    return lambda case, settings=None: run(case, settings or Settings(), ears)


def some(kind: str, count: int, group: str | None = None) -> list[Case]:
    """Return cases of a kind, spread over all that there are."""
    found = [case for case in cases() if case.kind == kind and group in (None, case.group)]
    return found[:: max(1, len(found) // count)][:count]


@pytest.mark.parametrize("case", some("echo", 2, "-20 dB 120 ms"), ids=lambda case: case.name)
def test_c25_an_echo_alone_lets_the_reply_complete_and_makes_no_turn(play: Play, case: Case) -> None:
    """C25: the reply comes back at −20 dB after 120 ms, in a room at −55 dBFS."""
    outcome = play(case)
    assert not outcome.cuts
    assert len(outcome.of("input_audio_buffer.committed")) == 1, "the question"
    done = [event for _, event in outcome.events if event["type"] == "response.done"]
    assert [event["response"]["status"] for event in done] == ["completed"]


def test_c25_without_the_gate_the_same_echo_interrupts(play: Play) -> None:
    """C25: what the test above would not see if the recordings were harmless."""
    (case,) = some("echo", 1, "-20 dB 120 ms")
    assert play(case, Settings(echo=EchoSettings(gate=False))).cuts


@pytest.mark.parametrize("case", some("voice over echo", 3), ids=lambda case: case.name)
def test_c25_a_voice_over_the_echo_silences_the_reply_within_400_ms(play: Play, case: Case) -> None:
    """C25: a voice 10 dB over the echo; counted to the server's last packet with sound, one packet's grain."""
    stop = stop_s(play(case))
    assert stop is not None
    assert stop - WAY_IN_S - WAY_OUT_S - PACKET_S <= 0.42


def test_an_okay_lets_the_reply_go_on_and_a_wait_cuts_it(play: Play) -> None:
    said = {case.sounds[-1][0]: case for case in cases() if case.group in ("clean", "short clean")}
    assert not was_cut(play(said["backchannel-okay-a"]))
    assert was_cut(play(said["interruption-wait-a"]))
    by_duration = Settings(barge_in=BargeInSettings(confirm="duration", confirm_ms=224))
    assert was_cut(play(said["backchannel-okay-a"], by_duration)), "duration alone cannot tell them"


@pytest.mark.parametrize("kind", ["cough", "click", "knocks", "typing"])
def test_noises_do_not_cut(play: Play, kind: str) -> None:
    assert not any(was_cut(play(case)) for case in some(kind, 2))


def test_a_patient_session_lets_people_finish(play: Play) -> None:
    case = next(case for case in cases() if case.name == "pause-phrase-0.5-0")
    assert ended_early(play(case))
    patient = Settings().model_copy(update={"turn": Settings().turn.model_copy(update={"first_look_ms": 800})})
    assert not ended_early(play(case, patient))


@pytest.mark.parametrize("name", ["s11", "s19", "complete-01-after"])
def test_a_comma_is_no_end_of_a_turn(play: Play, name: str) -> None:
    """ "Wait, stop, that is not what I meant." is silent for 290 ms in its middle."""
    (case,) = (case for case in cases() if case.name == f"fluent-{name}")
    outcome = play(case)
    assert len(outcome.of("input_audio_buffer.committed")) == 1
    assert ended_early(play(case, Settings(turn=TurnSettings(first_look_ms=200)))), "what makes it hard"


def test_a_sentence_that_is_broken_off_is_waited_for_and_a_short_one_that_is_done_is_not(play: Play) -> None:
    """ "Can you send the letter to" – 0.8 s – "my brother in Edinburgh?"; and "what time is it?"."""
    named = {case.name: case for case in cases()}
    broken = named["pause-phrase-0.8-7"]
    assert not ended_early(play(broken))
    assert ended_early(play(broken, Settings(unfinished=UnfinishedSettings(language="")))), "the model alone is sure"
    answer = latency_s(play(named["finished-00"]))
    assert answer is not None and answer < LATE_S
