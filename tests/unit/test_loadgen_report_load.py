"""Who begins when, how a ramp climbs, what rows come to, and what of the server's measures grew."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Any

import pytest

from loadgen.live import load, server, stats
from loadgen.live.options import LiveOptions, OptionError, Ramp, Slo
from loadgen.live.rows import Pulse, SessionRow, TurnRow, from_json, to_json
from loadgen.trace import Trace, parse

pytestmark = pytest.mark.unit
TURN = '{"gap_s": 1, "speech_s": 1, "words": 3, "answer_words": 5}'


def trace(cv: float = 1.0) -> Trace:
    return parse(
        [
            f'{{"duplex_trace": 1, "name": "t", "arrivals_cv": {cv}}}',
            *(f'{{"session": "s{n}", "at_s": {n}, "turns": [{TURN}]}}' for n in range(3)),
        ]
    )


def options(**fields: Any) -> LiveOptions:
    return LiveOptions(url="http://127.0.0.1:1", **fields)


def row(**fields: Any) -> TurnRow:
    return TurnRow(
        **{
            "session": "s",
            "turn": 0,
            "transport": "webrtc",
            "end_at_s": 1.0,
            "status": "answered",
            "ttfas_s": 0.5,
            **fields,
        }
    )


def session(**fields: Any) -> SessionRow:
    return SessionRow(
        **{"session": "s", "transport": "webrtc", "began_at_s": 0.0, "ended_at_s": 9.0, "status": "ended", **fields}
    )


def test_sessions_are_held_in_order_and_again_under_new_names() -> None:
    held = list(islice(load.assignments(trace(), options(transport="mixed")), 5))
    assert [one.name for one in held] == ["s0", "s1", "s2", "s0#2", "s1#2"]
    assert [one.transport for one in held] == ["webrtc", "websocket", "webrtc", "websocket", "webrtc"]


def test_open_arrivals_are_the_traces_own_or_drawn_anew_at_a_rate() -> None:
    assert list(load.arrivals(trace(), options())) == [0.0, 1.0, 2.0]
    assert list(load.arrivals(trace(), options(sessions=2))) == [0.0, 1.0]
    even = list(islice(load.arrivals(trace(cv=0.0), options(rate=4.0)), 4))
    assert even == [0.0, 0.25, 0.5, 0.75]
    drawn = list(islice(load.arrivals(trace(), options(rate=4.0)), 2000))
    assert drawn == list(islice(load.arrivals(trace(), options(rate=4.0)), 2000))
    assert sum(b - a for a, b in pairwise(drawn)) / 1999 == pytest.approx(0.25, rel=0.1)


def test_after_a_refusal_a_talker_waits_as_long_as_it_is_asked_to() -> None:
    assert load.retry_s(session()) == 0.0
    assert load.retry_s(session(status="refused", retry_after_s=7.0)) == 7.0
    assert load.retry_s(session(status="failed")) == 1.0
    assert load.retry_s(session(status="refused", retry_after_s=900.0)) == 30.0


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, ""),
        ({"ttfas_s": 1.0}, ""),
        ({"ttfas_s": 1.01}, "late"),
        ({"underrun_s_max": 0.1}, ""),
        ({"underrun_s_max": 0.12}, "underrun"),
        ({"ttfas_s": None, "early": True}, ""),
        ({"status": "refused", "ttfas_s": None}, "refused"),
        ({"status": "unanswered", "ttfas_s": None}, "unanswered"),
        ({"status": "lost", "ttfas_s": None}, "lost"),
    ],
)
def test_a_turn_misses_the_slo_for_one_reason(fields: dict[str, Any], why: str) -> None:
    assert load.miss(row(**fields), Slo()) == why


def test_nothing_measured_does_not_hold() -> None:
    assert load.verdict([], Slo()) == load.Verdict(turns=0, share=0.0, holds=False, misses={})


def climb(shares: list[float], most: float = 1000) -> load.Climb:
    """Climb through steps of these shares."""
    ramp = load.Climb(ramp=Ramp(by=10, most=most), load=10, unit="talkers")
    for share in shares:
        assert not ramp.over
        verdict = load.Verdict(turns=100, share=share, holds=share >= 0.9, misses={})
        ramp.take(load.Step(load=ramp.load, from_s=0, to_s=1, verdict=verdict))
    return ramp


def test_a_ramp_ends_when_a_step_fails_twice_and_says_what_held() -> None:
    ramp = climb([1.0, 0.95, 0.5, 0.6])
    assert ramp.over
    assert ramp.held == 20
    assert [step.load for step in ramp.steps] == [10, 20, 30, 30]


def test_a_step_that_fails_once_is_measured_again() -> None:
    ramp = climb([1.0, 0.5, 0.95])
    assert not ramp.over
    assert (ramp.held, ramp.load) == (20, 30)


def test_a_ramp_ends_at_its_bound_and_may_hold_nothing() -> None:
    assert climb([1.0, 1.0], most=20).over
    assert climb([0.0, 0.0]).held is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"url": "ftp://x"}, "--url"),
        ({"concurrency": 5, "rate": 1.0, "duration_s": 1}, "exclude"),
        ({"concurrency": 5}, "--duration"),
        ({"rate": 0.0}, "--rate"),
        ({"processes": 99}, "--processes"),
        ({"timeout_s": 0.5}, "--timeout"),
        ({"slo": Slo(share=1.5)}, "--slo-share"),
        ({"ramp": Ramp(by=0)}, "--ramp-by"),
        ({"ramp": Ramp(), "duration_s": 3.0}, "--ramp"),
    ],
)
def test_wrong_options_are_refused_by_name(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        LiveOptions(**{"url": "http://127.0.0.1:1", **fields}).check()


def test_rows_survive_the_way_between_processes() -> None:
    pulse = Pulse(process=1, at_s=1.0, live=3, cpu=0.2, late_ms_p50=1.0, late_ms_p99=2.0)
    for one in (row(split={"think": 0.1}), session(), pulse):
        assert from_json(to_json(one)) == one


def test_aggregates_count_what_happened() -> None:
    turns = [
        row(ttfas_s=0.2),
        row(ttfas_s=0.4, underruns=2, underrun_s=0.3, underrun_s_max=0.2),
        row(interrupted=True, stop_s=0.5, stale_s=0.1),
        row(interrupted=True, stop_s=None),
        row(status="refused", ttfas_s=None),
    ]
    found = stats.aggregates(turns, [session(), session(status="refused", refusal_s=0.01)], Slo())
    assert found["turns"] == {"n": 5, "answered": 4, "unanswered": 0, "refused": 1, "lost": 0}
    assert found["slo"] == {"share": 0.6, "holds": False, "misses": {"underrun": 1, "refused": 1}}
    assert found["underruns"] == {"n": 2, "s": 0.3, "longest_s": 0.2, "turns": 1}
    assert found["interruptions"] == {"n": 2, "not_stopped": 1}
    assert found["ttfas_s"]["n"] == 4
    assert found["stale_s"] == 0.1
    assert found["sessions"] == {"n": 2, "ended": 1, "refused": 1}


def test_a_time_line_has_a_row_per_second() -> None:
    turns = [row(done_at_s=0.5, ttfas_s=0.2), row(done_at_s=2.5, ttfas_s=0.4, underruns=1, underrun_s=0.2)]
    pulses = [Pulse(process=p, at_s=1.1, live=p + 1, cpu=0.1, late_ms_p50=1.0, late_ms_p99=1.0) for p in range(2)]
    line = stats.timeline(turns, [], pulses)
    assert [second["t_s"] for second in line] == [0, 1, 2]
    assert [second["live"] for second in line] == [None, 3, None]
    assert [second["ttfas_p50_s"] for second in line] == [0.2, 0.2, pytest.approx(0.3)]
    assert [second["underruns"] for second in line] == [0, 0, 1]


def test_growth_of_the_servers_histograms_is_told_in_quantiles() -> None:
    def look(low: float, high: float) -> server.Series:
        name = "duplex_x_seconds"
        return {
            (f"{name}_bucket", (("le", "0.1"),)): low,
            (f"{name}_bucket", (("le", "0.2"),)): high,
            (f"{name}_bucket", (("le", "+Inf"),)): high,
            (f"{name}_count", ()): high,
            ("duplex_n_total", ()): high,
            ("process_cpu_seconds_total", ()): high,
        }

    grown = server.growth(look(10, 10), look(20, 110))
    assert grown["duplex_x_seconds"]["n"] == 100
    assert grown["duplex_x_seconds"]["p50"] == pytest.approx(0.1 + 0.1 * 40 / 90, abs=1e-4)
    assert grown["duplex_n_total"] == 100
    assert grown["process_cpu_seconds"] == 100
    assert server.growth(None, look(1, 1)) == {}
