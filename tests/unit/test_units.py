import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.units import Samples, Span, Unwrapper, convert, ms_from_samples, samples_from_ms

pytestmark = pytest.mark.unit


@given(st.integers(0, 2**16 - 1), st.lists(st.integers(-3000, 3000), max_size=200))
def test_unwrapping_follows_steps_across_the_wrap(start: int, steps: list[int]) -> None:
    unwrapper = Unwrapper(16)
    assert unwrapper.unwrap(start) == start
    position = furthest = start
    for step in steps:
        position = furthest + step
        assert unwrapper.unwrap(position % 2**16) == position
        furthest = max(furthest, position)


@given(st.integers(0, 10**9))
def test_conversion_from_the_start_never_drifts(n: int) -> None:
    assert abs(convert(n, 22_050, 48_000) - n * 48_000 / 22_050) < 1


def test_milliseconds_are_exact_at_48_khz() -> None:
    assert samples_from_ms(32) == 1536
    assert ms_from_samples(samples_from_ms(12_345)) == 12_345


def test_a_span_cannot_end_before_it_starts() -> None:
    with pytest.raises(ValueError, match="ends before"):
        Span(Samples(2), Samples(1))
