"""Does the assistant stop when it is interrupted, go on when it is not, and let people finish?

Labelled recordings are played to the production session with the real ears of the pack `local`, on simulated time. Printed: false
cuts, misses, false holds, answers in pauses and response latency by kind of sound, with 95 % intervals; then the trade-off between
stopping fast and stopping for nothing, by duration and by words. See docs/turn-taking.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

import structlog

from benchmarks.report import quantiles, write
from benchmarks.turn_taking.cases import Case, cases
from benchmarks.turn_taking.make_sounds import SOUNDS
from benchmarks.turn_taking.room import Ears, Outcome, run
from benchmarks.turn_taking.score import AIM_S, ended_early, latency_s, part, share, stop_s, summary, was_cut, was_held
from duplex.config import BargeInSettings, Settings

DURATIONS_MS = (160, 224, 320, 416, 512, 640)
HOLDS_MS = (160, 224, 256, 320, 416)
PATIENCE: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("eagerness auto", "auto", {}),
    ("without words", "auto", {"unfinished": {"language": ""}}),
    ("end_probability 0.8", "auto", {"turn": {"end_probability": 0.8}}),
    ("first_look_ms 200", "auto", {"turn": {"first_look_ms": 200}}),
    ("first_look_ms 480", "auto", {"turn": {"first_look_ms": 480}}),
    ("first_look_ms 600", "auto", {"turn": {"first_look_ms": 600}}),
    ("eagerness low", "low", {}),
    ("low, end_probability 0.9", "low", {"turn": {"end_probability": 0.9}}),
)
"""Settings that let people pause: name, the session's eagerness, the server's settings."""
CURVE_KINDS = {"interruption": ("clean", "short clean"), "backchannel": ("clean",), "cough": ("-16 dBFS",)}


def main() -> None:
    """Measure, or write the labels beside the sounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", action="store_true", help="only write sounds/labels.json")
    parser.add_argument("--kind", action="append", help="only these kinds, no curve, and nothing is written")
    parser.add_argument("--every", type=int, default=1, help="only every n-th case, where time is short")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    chosen = [case for case in cases() if not options.kind or case.kind in options.kind][:: options.every]
    if options.labels:
        write_labels(chosen)
        return
    began = time.perf_counter()
    ears = Ears()
    figures = summary([run(case, Settings(), ears) for case in chosen])
    print_summary(figures)
    if options.kind:
        return
    figures["curve"] = curve(chosen, ears)
    print_curve(figures["curve"])
    figures["patience"] = patience(chosen, ears)
    print_patience(figures["patience"])
    figures["every"] = options.every
    figures["audio_minutes"] = round(sum(case.length_s for case in chosen) / 60, 1)
    figures["wall_s"] = round(time.perf_counter() - began)
    write("turn_taking", figures)


def write_labels(chosen: Sequence[Case]) -> None:
    """Keep what is played when, and what has to come of it."""
    lines = ",\n".join(json.dumps(case.label()) for case in chosen)
    (SOUNDS / "labels.json").write_text(f"[\n{lines}\n]\n")


def curve(chosen: Sequence[Case], ears: Ears) -> list[dict[str, Any]]:
    """Return the trade-off: how fast interruptions stop the reply, and what else does, by setting."""
    played = [case for case in chosen if case.group in CURVE_KINDS.get(case.kind, ())]
    settings = [
        BargeInSettings(confirm="duration", confirm_ms=ms, resolve_ms=max(700, ms + 100)) for ms in DURATIONS_MS
    ]
    settings += [BargeInSettings(confirm="semantic", hold_ms=ms) for ms in HOLDS_MS]
    return [_point(each, [run(case, Settings(barge_in=each), ears) for case in played]) for each in settings]


def _point(settings: BargeInSettings, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    real = [each for each in outcomes if each.case.kind == "interruption"]
    stops = [stop for each in real if (stop := stop_s(each)) is not None]
    point: dict[str, Any] = {
        "confirm": settings.confirm,
        "ms": settings.confirm_ms if settings.confirm == "duration" else settings.hold_ms,
        "stop_ms": quantiles(stops, 1000),
        "stopped_in_time": share(sum(stop <= AIM_S for stop in stops), len(real)),
        "missed": share(len(real) - len(stops), len(real)),
    }
    for kind in ("backchannel", "cough"):
        cut, held = part((each for each in outcomes if each.case.kind == kind), was_cut, was_held)
        point |= {f"{kind}_cut": cut, f"{kind}_held": held}
    return point


def patience(chosen: Sequence[Case], ears: Ears) -> list[dict[str, Any]]:
    """Return the other trade-off: how soon questions are answered, and how often a pause is taken for an end."""
    paused = [case for case in chosen if case.kind in ("pause", "fluent")]
    asked = [case for case in chosen if case.kind == "cough" and case.group in CURVE_KINDS["cough"]]
    points = []
    for name, eagerness, changes in PATIENCE:
        turn = {"type": "semantic_vad", "eagerness": eagerness}
        wire = {"type": "realtime", "audio": {"input": {"turn_detection": turn}}}
        settings = Settings(**changes)
        outcomes = [run(case, settings, ears, wire) for case in paused]
        answers = [answer for case in asked if (answer := latency_s(run(case, settings, ears, wire))) is not None]
        by_group = {
            group: part((each for each in outcomes if each.case.group == group), ended_early)[0]
            for group in dict.fromkeys(case.group for case in paused)
        }
        points.append({"setting": name, "answer_ms": quantiles(answers, 1000), "ended_in_pause": by_group})
    return points


def print_patience(points: Sequence[dict[str, Any]]) -> None:
    """Print one line for each setting."""
    for point in points:
        pauses = "; ".join(f"{group} {_percent(figure)}" for group, figure in point["ended_in_pause"].items())
        answer = point["answer_ms"]
        print(
            f"{point['setting']:26s} answer p50 {answer['p50']:.0f} p95 {answer['p95']:.0f}; ended in pause: {pauses}"
        )


def _percent(figure: dict[str, Any]) -> str:
    return f"{figure['hits']}/{figure['n']} = {figure['percent']:.1f} % ({figure['from']:.0f}–{figure['to']:.0f})"


def print_summary(figures: dict[str, Any]) -> None:
    """Print one line for each kind and group."""
    for kind, of_kind in figures["kinds"].items():
        for name, group in {"": of_kind, **of_kind.get("by_group", {})}.items():
            shares = {key: value for key, value in group.items() if isinstance(value, dict) and "hits" in value}
            parts = [f"{key.replace('_', ' ')} {_percent(value)}" for key, value in shares.items()]
            times = [
                f"{key.replace('_', ' ')} p50 {group[key]['p50']:.0f} p95 {group[key]['p95']:.0f} max {group[key]['max']:.0f}"
                for key in ("stop_ms", "held_ms", "answer_ms")
                if group.get(key, {}).get("n")
            ]
            print(f"{kind if not name else '  ' + name:22s} " + "; ".join(parts + times), flush=True)
    answer = figures["answer_ms"]
    if answer["n"]:
        print(
            f"answer heard after p50 {answer['p50']:.0f} p95 {answer['p95']:.0f} ms; late {_percent(figures['answered_late'])}"
        )


def print_curve(points: Sequence[dict[str, Any]]) -> None:
    """Print one line for each setting."""
    for point in points:
        stop = point["stop_ms"]
        print(
            f"{point['confirm']:9s} {point['ms']:4d} ms: stop p50 {stop['p50']:.0f} p95 {stop['p95']:.0f}, in time "
            f"{_percent(point['stopped_in_time'])}, missed {_percent(point['missed'])}; backchannels cut "
            f"{_percent(point['backchannel_cut'])}, held {_percent(point['backchannel_held'])}; coughs cut "
            f"{_percent(point['cough_cut'])}"
        )


if __name__ == "__main__":
    main()
