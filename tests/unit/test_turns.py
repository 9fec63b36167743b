import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.config import TurnSettings
from duplex.session.config import TurnDetection
from duplex.session.turns import Fact, TurnTracker, limits_for
from duplex.units import Samples, Span

pytestmark = pytest.mark.unit
WINDOW = 1536


def run(probabilities: list[float], detection: TurnDetection | None = None, **settings: int) -> list[tuple[int, Fact]]:
    """Return (window, fact) for a track of windows; an end closes the turn."""
    tracker = TurnTracker(limits_for(detection or TurnDetection(), TurnSettings(**settings)))
    facts = []
    for i, probability in enumerate(probabilities):
        fact = tracker.window(Span(Samples(i * WINDOW), Samples((i + 1) * WINDOW)), probability)
        if fact is not None and fact not in (Fact.VOICED, Fact.PAUSE):
            facts.append((i, fact))
        if fact in (Fact.ENDED, Fact.LIMIT):
            tracker.close()
    return facts


def test_an_onset_needs_three_voiced_windows_in_a_row() -> None:
    assert run([0.9, 0.9, 0.1, 0.9, 0.9, 0.1]) == []
    assert run([0.9, 0.9, 0.9]) == [(2, Fact.ONSET)]


def test_between_the_thresholds_the_last_verdict_stands() -> None:
    assert run([0.9, 0.4, 0.4]) == [(2, Fact.ONSET)]
    assert run([0.4, 0.4, 0.4, 0.4]) == []


def test_looks_come_after_352_ms_of_silence_and_every_300_after() -> None:
    facts = run([0.9] * 10 + [0.0] * 30)
    assert facts == [(2, Fact.ONSET), (20, Fact.LOOK), (30, Fact.LOOK), (39, Fact.LOOK)]


def test_speech_that_goes_on_takes_the_looks_back_and_one_window_may_be_a_click() -> None:
    assert (19, Fact.RESUMED) in run([0.9] * 10 + [0.0] * 8 + [0.9, 0.9])
    assert not any(fact is Fact.RESUMED for _, fact in run([0.9] * 10 + [0.0] * 8 + [0.9, 0.0]))


def test_server_vad_ends_by_silence_alone() -> None:
    facts = run([0.9] * 10 + [0.0] * 30, TurnDetection(kind="server_vad", silence_ms=500))
    assert facts == [(2, Fact.ONSET), (20, Fact.LOOK), (25, Fact.ENDED)]


@pytest.mark.parametrize(("eagerness", "hold_ms"), [("low", 8000), ("medium", 2000), ("high", 1000), ("auto", 2000)])
def test_an_unsure_end_is_held_no_longer_than_the_eagerness_says(eagerness: str, hold_ms: int) -> None:
    facts = run([0.9] * 10 + [0.0] * 300, TurnDetection(eagerness=eagerness))  # type: ignore[arg-type]
    ended = next(i for i, fact in facts if fact is Fact.ENDED)
    assert hold_ms <= (ended - 9) * 32 <= hold_ms + 32


def test_continuous_sound_ends_at_the_greatest_length() -> None:
    facts = run([0.9] * 100, turn_ms_max=1600)
    assert [i for i, fact in facts if fact is Fact.LIMIT] == [49, 99]


@given(st.lists(st.floats(0, 1), max_size=300))
def test_facts_alternate_whatever_is_heard(probabilities: list[float]) -> None:
    facts = run(probabilities, turn_ms_max=3000)
    is_open = False
    for _, fact in facts:
        assert is_open != (fact is Fact.ONSET)
        is_open = fact not in (Fact.ENDED, Fact.LIMIT)
