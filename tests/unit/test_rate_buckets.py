"""Token buckets: what a caller may do at once, what comes back, and how many callers are remembered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.server.buckets import TokenBuckets
from duplex.units import MonoNs, ns_from_seconds

pytestmark = pytest.mark.unit


def at(seconds: float) -> MonoNs:
    return MonoNs(ns_from_seconds(seconds))


def test_a_full_bucket_then_an_even_rate() -> None:
    buckets = TokenBuckets(per_min=60, callers_max=10)
    assert [buckets.take("a", at(0)) for _ in range(60)] == [0] * 60
    assert buckets.take("a", at(0)) == at(1)
    assert buckets.take("a", at(0.75)) == at(0.25)
    assert buckets.take("a", at(1)) == 0
    assert buckets.take("a", at(1)) == at(1)


def test_a_refusal_costs_nothing() -> None:
    buckets = TokenBuckets(per_min=1, callers_max=10)
    assert buckets.take("a", at(0)) == 0
    assert [buckets.take("a", at(30)) for _ in range(100)] == [at(30)] * 100
    assert buckets.take("a", at(60)) == 0


def test_callers_do_not_touch_each_other() -> None:
    buckets = TokenBuckets(per_min=1, callers_max=10)
    assert buckets.take("a", at(0)) == 0
    assert buckets.take("a", at(0)) > 0
    assert buckets.take("b", at(0)) == 0


def test_a_bucket_holds_no_more_than_a_minute_of_tokens() -> None:
    buckets = TokenBuckets(per_min=2, callers_max=10)
    buckets.take("a", at(0))
    assert [buckets.take("a", at(3600)) == 0 for _ in range(3)] == [True, True, False]


def test_many_callers_are_forgotten_oldest_first() -> None:
    buckets = TokenBuckets(per_min=1, callers_max=100)
    for n in range(1000):
        buckets.take(f"{n}", at(0))
        assert len(buckets) <= 100
    assert buckets.take("999", at(0)) > 0
    assert buckets.take("0", at(0)) == 0


def test_callers_that_are_at_rest_take_no_room() -> None:
    buckets = TokenBuckets(per_min=60, callers_max=100)
    for n in range(50):
        buckets.take(f"{n}", at(0))
    buckets.take("late", at(10))
    assert len(buckets) == 1


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 5)), max_size=200), st.integers(1, 100))
def test_nobody_gets_more_than_the_rate(asked: list[tuple[str, float]], per_min: int) -> None:
    buckets = TokenBuckets(per_min=per_min, callers_max=4)
    now, given_out = 0.0, dict.fromkeys("abcd", 0)
    for caller, pause in asked:
        now += pause
        given_out[caller] += buckets.take(caller, at(now)) == 0
    assert all(count <= per_min * (1 + now / 60) + 1e-6 for count in given_out.values())
