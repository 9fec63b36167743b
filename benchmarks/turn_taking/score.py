"""From outcomes to figures: what was cut, held and answered, how fast, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.report import quantiles
from benchmarks.turn_taking.cases import ANSWERED, CUT, ONE_TURN
from benchmarks.turn_taking.room import Outcome

PACKET_S = 0.02
WAY_IN_S = 0.04
"""From the mouth to the server: one packet, and the shallowest jitter buffer."""
WAY_OUT_S = 0.062
"""From a packet's leaving until it is heard, 95th percentile in Chromium on one machine (results/barge_in.json, `client`)."""
AIM_S = 0.55
LATE_S = 1.0
"""An answer to a complete question that begins to be heard later than this was held for nothing."""


def stop_s(outcome: Outcome) -> float | None:
    """Return the time from the event's onset until the reply is silent at the listener; None: it was not cut."""
    cut = next((at for at in outcome.cuts if at >= outcome.case.onset_s), None)
    if cut is None:
        return None
    silent = next((began for began, ended in outcome.holds if ended is None and began >= outcome.case.onset_s), cut)
    return min(silent, cut) - outcome.case.onset_s + PACKET_S + WAY_IN_S + WAY_OUT_S


def was_cut(outcome: Outcome) -> bool:
    """Return whether the reply was cut at or after the event, or (echo, which sounds all the time) at all."""
    return bool(outcome.cuts) if outcome.case.kind == "echo" else stop_s(outcome) is not None


def was_held(outcome: Outcome) -> bool:
    """Return whether the reply was withheld at the event and went on."""
    return any(ended is not None for began, ended in outcome.holds if began >= outcome.case.onset_s)


def latency_s(outcome: Outcome) -> float | None:
    """Return the time from the end of the first question (or of the sentence with a pause) until its answer is heard."""
    end = outcome.case.question_end_s if outcome.case.question_end_s is not None else outcome.case.offset_s
    first = next((at for at in outcome.sounding if at >= end), None)
    return None if first is None else first - end + WAY_IN_S + WAY_OUT_S


def cut_in(outcome: Outcome) -> bool:
    """Return whether the user was answered in a pause: the reply sounds before the rest of the sentence was over."""
    return any(at < outcome.case.offset_s for at in outcome.sounding)


def ended_early(outcome: Outcome) -> bool:
    """Return whether the turn was committed in the pause, answered aloud or not."""
    return any(at < outcome.case.offset_s for at in outcome.of("input_audio_buffer.committed"))


def share(hits: int, of: int) -> dict[str, Any]:
    """Return a share in percent with its 95 % interval (Wilson)."""
    if not of:
        return {"n": 0}
    z, p = 1.96, hits / of
    middle = (p + z * z / (2 * of)) / (1 + z * z / of)
    half = z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return {
        "hits": hits,
        "n": of,
        "percent": round(100 * p, 1),
        "from": round(100 * max(0.0, middle - half), 1),
        "to": round(100 * min(1.0, middle + half), 1),
    }


def part(outcomes: Iterable[Outcome], *tests: Callable[[Outcome], bool]) -> list[dict[str, Any]]:
    """Return the share of outcomes that pass each test."""
    listed = list(outcomes)
    return [share(sum(test(each) for each in listed), len(listed)) for test in tests]


def figures_of(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the figures of one kind of case, or of one group of it."""
    expected = outcomes[0].case.expected
    if expected == ANSWERED:
        answers = [answer for each in outcomes if (answer := latency_s(each)) is not None]
        held = share(sum(answer > LATE_S for answer in answers) + len(outcomes) - len(answers), len(outcomes))
        return {"answered_late": held, "answer_ms": quantiles(answers, 1000)}
    if expected == ONE_TURN:
        early, aloud = part(outcomes, ended_early, cut_in)
        answers = [answer for each in outcomes if (answer := latency_s(each)) is not None]
        return {"turn_ended_in_pause": early, "cut_in_on_pause": aloud, "answer_ms": quantiles(answers, 1000)}
    if expected == CUT:
        stops = [stop for each in outcomes if (stop := stop_s(each)) is not None]
        within, missed, held = part(
            outcomes, lambda o: (stop_s(o) or math.inf) <= AIM_S, lambda o: stop_s(o) is None, was_held
        )
        return {
            "stopped_in_time": within,
            "missed": missed,
            "held_then_let_go": held,
            "stop_ms": quantiles(stops, 1000),
        }
    cut, held = part(outcomes, was_cut, was_held)
    gaps = [ended - began for each in outcomes for began, ended in each.holds if ended is not None]
    return {"false_cuts": cut, "false_holds": held, "held_ms": quantiles(gaps, 1000)}


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the figures by kind and group, and how fast questions are answered."""
    kinds: dict[str, Any] = {}
    for kind in dict.fromkeys(each.case.kind for each in outcomes):
        of_kind = [each for each in outcomes if each.case.kind == kind]
        groups = dict.fromkeys(each.case.group for each in of_kind)
        kinds[kind] = figures_of(of_kind)
        if len(groups) > 1:
            kinds[kind]["by_group"] = {g: figures_of([o for o in of_kind if o.case.group == g]) for g in groups}
    asked = [each for each in outcomes if each.case.question_end_s is not None]
    latencies = [latency for each in asked if (latency := latency_s(each)) is not None]
    late = share(sum(latency > LATE_S for latency in latencies), len(latencies))
    return {"kinds": kinds, "answer_ms": quantiles(latencies, 1000), "answered_late": late}
