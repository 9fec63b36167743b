"""The measures' names are those of the design, and a misspelt one does not pass."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from duplex.telemetry import MEASURES, Observer

pytestmark = pytest.mark.unit

DESIGNED = {
    "duplex_ttfas_seconds": {"observed"},
    "duplex_endpointing_seconds": set(),
    "duplex_stage_queue_seconds": {"stage"},
    "duplex_stage_compute_seconds": {"stage"},
    "duplex_transfer_seconds": set(),
    "duplex_invariant_violations_total": {"invariant"},  # ADR-0008
    "duplex_server_overhead_seconds": set(),
    "duplex_underruns_total": {"observed"},
    "duplex_underrun_seconds_total": {"observed"},
    "duplex_barge_in_seconds": {"part"},
    "duplex_barge_in_total": {"outcome"},
    "duplex_stale_packets_total": set(),
    "duplex_unheard_audio_seconds_total": set(),
    "duplex_unheard_tokens_total": set(),
    "duplex_turn_holds_total": {"outcome"},
    "duplex_speculation_total": {"outcome"},
    "duplex_limits_total": {"limit"},
    "duplex_camera_readings_total": {"outcome"},
    "duplex_image_readings_total": {"outcome"},
    "duplex_recordings_total": {"outcome"},
    "duplex_lead_seconds": set(),
    "duplex_playback_error_seconds": set(),
    "duplex_sessions": set(),
    "duplex_admission_total": {"decision", "reason"},
    "duplex_event_loop_lag_seconds": set(),
    "duplex_send_lateness_seconds": set(),
}  # fmt: skip
FOR_DASHBOARDS = {
    "duplex_ttfas_part_seconds": {"part"},
    "duplex_stage_queued_jobs": {"stage"},
    "duplex_stage_queued_media_seconds": {"stage"},
    "duplex_stage_running_jobs": {"stage"},
    "duplex_stage_up": {"stage"},
    "duplex_stage_restarts_total": {"stage", "reason"},
    "duplex_stage_busy_seconds_total": {"stage"},
    "duplex_stage_job_seconds_total": {"stage"},
    "duplex_sessions_detached": set(),
    "duplex_resumes_total": {"outcome"},
    "duplex_replayed_events_total": set(),
    "duplex_repeated_events_total": set(),
    "duplex_unsent_events_total": set(),
    "duplex_unknown_fields_total": {"event"},
    "duplex_sessions_max": set(),
    "duplex_replies_total": {"status"},
    "duplex_function_calls_total": {"outcome"},
    "duplex_prefill_total": {"outcome"},
    "duplex_event_loop_tasks": set(),
    "duplex_threads": set(),
}
EXPECTED = DESIGNED | FOR_DASHBOARDS
PAGE = Path(__file__).parents[2] / "docs" / "observability.md"


def test_the_measures_are_those_of_the_design() -> None:
    assert {name: set(measure.labels) for name, measure in MEASURES.items()} == EXPECTED


def test_the_page_explains_every_measure_and_no_other() -> None:
    assert set(re.findall(r"^\| `(duplex_\w+)", PAGE.read_text(), re.MULTILINE)) == set(MEASURES)


def test_what_is_looked_up_is_brought_up_to_date_before_it_is_shown() -> None:
    observer = Observer()
    observer.before_showing(lambda: observer.observe("duplex_sessions_max", 7))
    assert "duplex_sessions_max 7.0" in observer.render().decode()


def test_another_may_take_every_measure_too() -> None:
    observer, taken = Observer(), []
    observer.also(lambda name, value, labels: taken.append((name, value, dict(labels))))
    observer.observe("duplex_ttfas_seconds", 0.5, observed="sent")
    observer.count("duplex_stale_packets_total")
    assert taken == [("duplex_ttfas_seconds", 0.5, {"observed": "sent"}), ("duplex_stale_packets_total", 1, {})]


def test_every_measure_is_rendered_under_its_name() -> None:
    observer = Observer()
    for name, labels in EXPECTED.items():
        observer.record(name, 1.0, dict.fromkeys(labels, "x"))
        assert observer.value(name, **dict.fromkeys(labels, "x")) == 1.0
    shown = observer.render().decode()
    families = set(re.findall(r"^# TYPE (duplex_\w+) ", shown, re.MULTILINE))
    assert families == set(EXPECTED)
    assert "_created" not in shown


def test_counters_grow_gauges_are_set_and_histograms_count() -> None:
    observer = Observer()
    for value in (3, 1):
        observer.observe("duplex_sessions", value)
        observer.observe("duplex_unheard_tokens_total", value)
        observer.observe("duplex_lead_seconds", value)
        observer.count("duplex_barge_in_total", outcome="confirmed")
    assert observer.value("duplex_sessions") == 1
    assert observer.value("duplex_unheard_tokens_total") == 4
    assert observer.value("duplex_lead_seconds") == 2
    assert observer.value("duplex_barge_in_total", outcome="confirmed") == 2


def test_what_stays_zero_is_shown_as_zero() -> None:
    shown = Observer().render().decode()
    assert "duplex_stale_packets_total 0.0" in shown
    assert 'duplex_underruns_total{observed="client"} 0.0' in shown


def test_observers_share_nothing() -> None:
    one, other = Observer(), Observer()
    one.count("duplex_stale_packets_total")
    assert other.value("duplex_stale_packets_total") == 0


@pytest.mark.parametrize(
    ("name", "labels", "error"),
    [
        ("duplex_no_such_seconds", {}, KeyError),
        ("duplex_ttfas_seconds", {}, ValueError),
        ("duplex_ttfas_seconds", {"session": "s"}, ValueError),
        ("duplex_sessions", {"session": "s"}, ValueError),
    ],
)
def test_wrong_measures_raise(name: str, labels: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        Observer().record(name, 1.0, labels)
