"""The sliding window: rings that forget, quantiles over what is left, and a history that is computed when it is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.telemetry.window import BARGE_INS, SESSIONS, TTFAS, UNDERRUN_S, UNDERRUNS, Key, Series, Window, quantiles
from duplex.units import MonoNs, ns_from_seconds

pytestmark = pytest.mark.unit

UNIX_S = 1_700_000_000.0
LABELS = {TTFAS: {"observed": "sent"}, UNDERRUNS: {"observed": "sent"}, UNDERRUN_S: {"observed": "sent"},
          BARGE_INS: {"outcome": "confirmed"}, SESSIONS: {}}  # fmt: skip


def at(seconds: float) -> MonoNs:
    return MonoNs(ns_from_seconds(seconds))


def make(values_max: int = 1000) -> Window:
    return Window(window_s=60, bucket_s=5, history_s=30, values_max=values_max, now=at(0))


def record(window: Window, key: Key, value: float, seconds: float) -> None:
    window.record(key[0], value, LABELS[key], at(seconds))


@given(st.lists(st.floats(0, 10), max_size=40), st.integers(1, 12))
def test_a_series_holds_the_newest_values(values: list[float], values_max: int) -> None:
    series = Series(values_max)
    for number, value in enumerate(values):
        series.add(value, MonoNs(number))
    assert list(series.between(0, len(values))) == values[-values_max:]
    assert series.last_before(len(values)) == (values[-1] if values else None)


def test_a_series_can_grow_while_its_values_are_used() -> None:
    series = Series(10)
    series.add(1.0, MonoNs(1))
    taken = series.between(0, 5)
    series.add(2.0, MonoNs(2))
    assert list(taken) == [1.0]


@given(st.lists(st.floats(0, 10), min_size=1, max_size=50))
def test_quantiles_are_those_of_the_values(values: list[float]) -> None:
    found = quantiles(np.array(values))
    assert found.n == len(values)
    assert found.p50 == pytest.approx(np.percentile(values, 50), abs=1e-4)
    assert found.p90 == pytest.approx(np.percentile(values, 90), abs=1e-4)
    assert found.p95 == pytest.approx(np.percentile(values, 95), abs=1e-4)


def test_what_is_older_than_the_window_does_not_count() -> None:
    window = make()
    record(window, TTFAS, 9.0, 1)
    record(window, TTFAS, 0.4, 50)
    record(window, TTFAS, 0.6, 70)
    found = window.quantiles(*TTFAS, now=at(70))
    assert (found.n, found.p50) == (2, 0.5)
    assert window.quantiles("duplex_ttfas_seconds", "heard", now=at(70)).p50 is None


def test_counters_have_a_window_and_a_total() -> None:
    window = make()
    for seconds in (1, 50, 60):
        record(window, UNDERRUNS, 2, seconds)
        record(window, UNDERRUN_S, 0.25, seconds)
    record(window, UNDERRUNS, 0, 61)
    window.record("duplex_underruns_total", 5, {"observed": "client"}, at(62))
    assert window.amount(UNDERRUNS, now=at(70)) == 4
    assert window.total(*UNDERRUNS) == 6
    assert window.total(*UNDERRUN_S) == 0.75
    assert window.total("duplex_underruns_total") == 11


def test_outcomes_and_refusals_are_told_apart() -> None:
    window = make()
    for outcome in ("confirmed", "refused", "confirmed"):
        window.record("duplex_barge_in_total", 1, {"outcome": outcome}, at(1))
    assert window.amounts("duplex_barge_in_total", now=at(2)) == {"confirmed": 2, "refused": 1}
    assert window.amounts("duplex_barge_in_total", now=at(100)) == {}
    for decision, reason in (("admitted", "ok"), ("refused", "slo"), ("refused", "stage"), ("refused", "slo")):
        window.record("duplex_admission_total", 1, {"decision": decision, "reason": reason}, at(3))
    assert window.totals("duplex_admission_total", "refused") == {"slo": 2, "stage": 1}
    assert window.total("duplex_admission_total", "admitted") == 1


def test_a_total_of_nothing_is_nothing() -> None:
    assert make().total("duplex_stale_packets_total") == 0
    assert make().totals("duplex_admission_total", "refused") == {}


def test_the_history_has_a_bucket_for_every_five_seconds() -> None:
    window = make()
    record(window, SESSIONS, 3, 0.5)
    record(window, TTFAS, 0.5, 1)
    record(window, TTFAS, 0.7, 6)
    record(window, SESSIONS, 1, 7)
    record(window, BARGE_INS, 1, 8)
    record(window, UNDERRUNS, 2, 11)
    buckets = window.history(at(12), UNIX_S)
    assert [bucket.at_s for bucket in buckets] == [UNIX_S - 12, UNIX_S - 7, UNIX_S - 2]
    assert [bucket.ttfas_p50_s for bucket in buckets] == [0.5, 0.7, None]
    assert [bucket.sessions for bucket in buckets] == [3, 3, 1]
    assert [bucket.barge_ins for bucket in buckets] == [0, 1, 0]
    assert [bucket.underruns for bucket in buckets] == [0, 0, 2]


def test_closed_buckets_stay_and_the_last_one_fills() -> None:
    window = make()
    record(window, TTFAS, 0.5, 1)
    first = window.history(at(6), UNIX_S)[0]
    record(window, TTFAS, 0.9, 6.5)
    again = window.history(at(7), UNIX_S + 1)
    assert again[0] == first
    assert again[-1].ttfas_p50_s == 0.9


@given(st.lists(st.floats(0.1, 400), min_size=1, max_size=12))
def test_whenever_it_is_looked_at_the_history_is_gapless_and_bounded(looks: list[float]) -> None:
    window = make()
    for seconds in sorted(looks):
        starts = [bucket.at_s for bucket in window.history(at(seconds), seconds)]
        assert np.diff(starts) == pytest.approx(5.0, abs=2e-3)
        assert len(starts) <= 6
        assert -0.001 <= seconds - starts[-1] <= 5.001


def test_after_hours_without_a_watcher_only_the_newest_buckets_are_computed() -> None:
    window = make()
    record(window, TTFAS, 0.5, 1)
    record(window, TTFAS, 0.8, 9_990)
    buckets = window.history(at(10_000), UNIX_S)
    assert len(buckets) <= 6
    assert [bucket.ttfas_p50_s for bucket in buckets if bucket.ttfas_p50_s] == [0.8]
