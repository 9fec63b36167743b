"""Partial transcripts: when they are asked for, and what of them is sure enough to be told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.payloads import JobId
from duplex.session.partials import Partials
from duplex.units import samples_from_ms

pytestmark = pytest.mark.unit
EVERY = samples_from_ms(700)
words = st.lists(st.sampled_from(["a", "b", "c"]), max_size=6).map(" ".join)


def opened() -> Partials:
    partials = Partials(EVERY)
    partials.open(samples_from_ms(1000))
    return partials


def test_one_is_asked_for_at_a_time_and_not_too_often() -> None:
    partials = opened()
    assert [partials.due(samples_from_ms(ms)) for ms in (1600, 1699, 1700)] == [False, False, True]
    partials.begin(JobId(1), samples_from_ms(1800))
    assert not partials.due(samples_from_ms(9000))
    partials.take("one")
    assert [partials.due(samples_from_ms(ms)) for ms in (2499, 2500)] == [False, True]
    partials.begin(JobId(2), samples_from_ms(2500))
    assert (partials.drop(), partials.drop()) == (2, None)
    assert not Partials(samples_from_ms(0)).due(samples_from_ms(10_000))


def test_what_two_in_a_row_agree_on_is_told() -> None:
    partials = opened()
    texts = ["I want two", "I want to book.", "I want to book a table", "I want to book a table for"]
    assert [partials.take(text) for text in texts] == ["", "I want", " to", " book a table"]
    assert partials.take("") == "" and partials.close() == "I want to book a table"
    assert partials.close() == ""


def test_what_is_likely_is_the_newest_text_but_for_its_last_word() -> None:
    partials = opened()
    assert partials.likely == ""
    for text, likely in (("I", ""), ("I want two", "I want"), ("I want to book.", "I want to"), ("", "")):
        partials.take(text)
        assert partials.likely == likely
    partials.take("one two")
    partials.open(samples_from_ms(9000))
    assert partials.likely == ""


@given(st.lists(words, max_size=12))
def test_what_was_told_only_grows_and_is_the_start_of_what_was_agreed_on(texts: list[str]) -> None:
    partials, told = opened(), ""
    for before, text in zip(["", *texts], texts, strict=False):
        told += (delta := partials.take(text))
        assert partials.told == told
        if delta:
            assert before.split()[: len(told.split())] == text.split()[: len(told.split())] == told.split()
