"""The measures of DESIGN.md §6, and what dashboards need beside them, as Prometheus metrics.

`MEASURES` is the list; a name that is not in it raises, so that a misspelt measure fails its first test. No label names a
session or a tenant. `observed` says where it was seen: `sent`, `heard` (our estimate) or `client` (its own report).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

_TURN = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
_FAST = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.1, 0.2, 0.5, 1.0, 5.0)
_LEAD = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One measure; docs/observability.md says what each is for."""

    kind: Literal["histogram", "counter", "gauge"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = _TURN
    """Upper bounds in seconds; histograms only."""
    preset: tuple[str, ...] = ()
    """Values of the one label that are shown as 0 before they happen."""


def _histogram(text: str, *labels: str, buckets: tuple[float, ...] = _TURN) -> Measure:
    return Measure(kind="histogram", help=text, labels=labels, buckets=buckets)


def _counter(text: str, *labels: str, preset: tuple[str, ...] = ()) -> Measure:
    return Measure(kind="counter", help=text, labels=labels, preset=preset)


def _gauge(text: str, *labels: str) -> Measure:
    return Measure(kind="gauge", help=text, labels=labels)


_WHERE = ("sent", "heard", "client")
MEASURES: Final[dict[str, Measure]] = {
    "duplex_ttfas_seconds": _histogram("End of the user's speech to the first audible sample", "observed"),
    "duplex_ttfas_part_seconds": _histogram(
        "Parts of it: endpointing, transcribe, think, talk, vocode, send; they add up to it turn by turn", "part"
    ),
    "duplex_endpointing_seconds": _histogram("End of the user's speech to the decision that the turn has ended"),
    "duplex_stage_queue_seconds": _histogram("Wait of a job in a stage's queue", "stage", buckets=_FAST),
    "duplex_stage_compute_seconds": _histogram("One step of a stage, or an engine's whole job", "stage", buckets=_FAST),
    "duplex_stage_queued_jobs": _gauge("Jobs that wait for a stage", "stage"),
    "duplex_stage_queued_media_seconds": _gauge("Media in the jobs that wait for a stage", "stage"),
    "duplex_stage_running_jobs": _gauge("Jobs that a stage computes", "stage"),
    "duplex_stage_busy_seconds_total": _counter("Time in which a stage computed anything", "stage"),
    "duplex_stage_job_seconds_total": _counter(
        "The same, summed over the jobs in it; by the busy time it gives the mean batch", "stage"
    ),
    "duplex_stage_up": _gauge("1 while a stage serves, 0 from when it went down until it is loaded again", "stage"),
    "duplex_stage_restarts_total": _counter("Starts of a stage that had gone down, by why it had", "stage", "reason"),
    "duplex_transfer_seconds": _histogram("Hand-over between stages", buckets=_FAST),
    "duplex_server_overhead_seconds": _histogram(
        "Deciding packet received to first submit, plus first vocoder sample to packet sent", buckets=_FAST
    ),
    "duplex_replies_total": _counter("Replies that have ended, by how", "status"),
    "duplex_function_calls_total": _counter(
        "Function calls: made, and given to the client; cut before that", "outcome"
    ),
    "duplex_underruns_total": _counter("Gaps inside a reply", "observed", preset=_WHERE),
    "duplex_underrun_seconds_total": _counter("Length of the gaps inside replies", "observed", preset=_WHERE),
    "duplex_barge_in_seconds": _histogram("Parts of an interruption: detect, hold, confirm, egress", "part"),
    "duplex_barge_in_total": _counter("Onsets of the user's voice over a reply", "outcome"),
    "duplex_stale_packets_total": _counter("Packets of an older epoch that left after a cut; stays 0"),
    "duplex_invariant_violations_total": _counter(
        "Broken invariants of DESIGN.md §1, by name; stays 0",
        "invariant",
        preset=("fronts", "causality", "bounds", "terminal", "addressing"),
    ),
    "duplex_unheard_audio_seconds_total": _counter("Audio generated and never heard"),
    "duplex_unheard_tokens_total": _counter("Tokens generated and never heard"),
    "duplex_turn_holds_total": _counter(
        "Pauses in which the turn was held because its words were not done: resumed (speech went on), ended (it did not), dropped",
        "outcome",
        preset=("resumed", "ended", "dropped"),
    ),
    "duplex_speculation_total": _counter("Replies begun before the turn had ended", "outcome"),
    "duplex_limits_total": _counter(
        "Bounds of a conversation that were reached: turn (committed at its greatest length), context (oldest turns are given "
        "to the thinker no more), session (ended at its greatest length)",
        "limit",
        preset=("turn", "context", "session"),
    ),
    "duplex_prefill_total": _counter("Prompts that the thinker was to read ahead while the user spoke", "outcome"),
    "duplex_camera_readings_total": _counter(
        "Camera frames given to the reader: read, nothing (legible), failed, late",
        "outcome",
        preset=("read", "nothing", "failed", "late"),
    ),
    "duplex_image_readings_total": _counter(
        "Images in items given to the reader: read, nothing (legible), failed, dropped (the item was deleted or the session ended)",
        "outcome",
        preset=("read", "nothing", "failed", "dropped"),
    ),
    "duplex_recordings_total": _counter(
        "Sessions' records that have ended, by how",
        "outcome",
        preset=("ended", "bytes", "minutes", "overflow", "refused", "failed"),
    ),
    "duplex_lead_seconds": _histogram("How far ahead of the listener a reply is", buckets=_LEAD),
    "duplex_playback_error_seconds": _histogram("Error bound of the playback front", buckets=_FAST),
    "duplex_sessions": _gauge("Live sessions"),
    "duplex_sessions_detached": _gauge("Those of them that wait for a client whose connection was lost"),
    "duplex_resumes_total": _counter(
        "Clients that came back: resumed, taken_over (the former connection was half open), refused; or expired",
        "outcome",
        preset=("resumed", "taken_over", "refused", "expired"),
    ),
    "duplex_replayed_events_total": _counter("Events that clients had missed and were sent again"),
    "duplex_repeated_events_total": _counter("Client events that came a second time and were not applied again"),
    "duplex_unsent_events_total": _counter("Events larger than the client's data channel takes: it is told of them"),
    "duplex_unknown_fields_total": _counter("Fields of client events that nobody knows: ignored", "event"),
    "duplex_sessions_max": _gauge("Sessions admitted at once"),
    "duplex_admission_total": _counter("Sessions asked for", "decision", "reason"),
    "duplex_event_loop_lag_seconds": _histogram("How late the event loop wakes", buckets=_FAST),
    "duplex_event_loop_tasks": _gauge("Tasks of the event loop; with no session always the same"),
    "duplex_threads": _gauge("Threads of Python; bounded by the stages, not by the sessions"),
    "duplex_send_lateness_seconds": _histogram("How late a packet leaves after its time", buckets=_FAST),
}
"""Every measure by its full name."""


class Observer:
    """One process's measures, on a registry of its own."""

    content_type: Final = CONTENT_TYPE_LATEST
    """Of what `render` returns."""

    def __init__(self) -> None:
        # The client library adds a `_created` series to each metric unless it is told not to, and only globally.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._metrics = {name: self._register(name, measure) for name, measure in MEASURES.items()}
        ProcessCollector(registry=self._registry)
        self._also: Callable[[str, float, Mapping[str, str]], None] | None = None
        self._bring_up_to_date: Callable[[], None] | None = None

    def also(self, take: Callable[[str, float, Mapping[str, str]], None]) -> None:
        """Let `take` have every measure too, from now on; there is one such taker."""
        self._also = take

    def before_showing(self, bring_up_to_date: Callable[[], None]) -> None:
        """Call `bring_up_to_date` each time before the measures are shown: for those that are looked up, not told."""
        self._bring_up_to_date = bring_up_to_date

    def _register(self, name: str, measure: Measure) -> Histogram | Counter | Gauge:
        match measure.kind:
            case "histogram":
                return Histogram(name, measure.help, measure.labels, buckets=measure.buckets, registry=self._registry)
            case "gauge":
                return Gauge(name, measure.help, measure.labels, registry=self._registry)
            case "counter":
                counter = Counter(name.removesuffix("_total"), measure.help, measure.labels, registry=self._registry)
                for value in measure.preset:
                    counter.labels(value)
                return counter

    def record(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Take one measure: a histogram observes `value`, a counter grows by it, a gauge is set to it.

        Args:
            name: a key of `MEASURES`.
            value: in base units (seconds, counts).
            labels: exactly the measure's labels.
        Raises:
            KeyError: there is no such measure.
            ValueError: other labels than the measure's, or a counter that would fall.
        """
        metric = self._metrics[name]
        if labels or MEASURES[name].labels:
            metric = metric.labels(**labels)
        if isinstance(metric, Histogram):
            metric.observe(value)
        elif isinstance(metric, Counter):
            metric.inc(value)
        else:
            metric.set(value)
        if self._also is not None:
            self._also(name, value, labels)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """`record`, with labels as keywords."""
        self.record(name, value, labels)

    def count(self, name: str, **labels: str) -> None:
        """Let a counter grow by one."""
        self.record(name, 1, labels)

    def value(self, name: str, **labels: str) -> float:
        """Return a counter's or a gauge's value, or the number of a histogram's observations."""
        sample = name if MEASURES[name].kind != "histogram" else f"{name}_count"
        return self._registry.get_sample_value(sample, labels) or 0.0

    def render(self) -> bytes:
        """Return all measures in Prometheus's text format."""
        if self._bring_up_to_date is not None:
            self._bring_up_to_date()
        return generate_latest(self._registry)
