"""The newest values of the measures that the dashboard shows, and what they amount to over a sliding window.

Taking a measure is a dictionary look-up and two stores into a ring. Quantiles and counts are computed when somebody asks,
and only then; a bucket of the history once its time is over. Every ring is bounded in values; overflow rule: `drop_oldest`, so that a measure that comes
faster than its ring is long is described by its newest values.

    ring      ··········|v  v v    v  vv v   v v|   ← the window ends now
    history   |  5 s  |  5 s  |  5 s  |  5 s  |··   closed buckets are computed once and kept
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from duplex.session.events import TurnMetrics
from duplex.telemetry.snapshot import Bucket, Quantiles
from duplex.units import MonoNs, ns_from_seconds, seconds_from_ns

Key = tuple[str, str]
"""A measure's name, and the value of the label that tells its series apart (empty where there is none)."""
PARTS: Final = ("endpointing", "transcribe", "think", "talk", "vocode", "send")
"""The parts of the time to first audio, in their order."""
PART: Final = "duplex_ttfas_part_seconds"
TTFAS: Final = ("duplex_ttfas_seconds", "sent")
UNDERRUNS: Final = ("duplex_underruns_total", "sent")
UNDERRUN_S: Final = ("duplex_underrun_seconds_total", "sent")
BARGE_INS: Final = ("duplex_barge_in_total", "confirmed")
SESSIONS: Final = ("duplex_sessions", "")
_SERIES: Final[Mapping[str, str | None]] = {
    "duplex_ttfas_seconds": "observed",
    PART: "part",
    "duplex_stage_queue_seconds": "stage",
    "duplex_server_overhead_seconds": None,
    "duplex_underruns_total": "observed",
    "duplex_underrun_seconds_total": "observed",
    "duplex_barge_in_seconds": "part",
    "duplex_barge_in_total": "outcome",
    "duplex_sessions": None,
    "duplex_event_loop_lag_seconds": None,
    "duplex_send_lateness_seconds": None,
}
"""Measures that are kept value by value, and the label that tells their series apart."""
_TOTALS: Final[Mapping[str, tuple[str, ...]]] = {
    "duplex_underruns_total": ("observed",),
    "duplex_underrun_seconds_total": ("observed",),
    "duplex_admission_total": ("decision", "reason"),
    "duplex_invariant_violations_total": (),
    "duplex_stale_packets_total": (),
}
"""Counters that are added up from the server's start, and the labels by which."""
KEPT: Final = frozenset({*_SERIES, *_TOTALS})
"""Names of the measures that a window takes."""


class Series:
    """The newest values of one measure with their times, which never go back.

    Args:
        values_max: bound on them.
    """

    def __init__(self, values_max: int) -> None:
        self._max = values_max
        self._times = array("q")
        self._values = array("d")
        self._next = 0
        """Where the next value goes once the ring is full: what is from there on is older than what is before it."""

    def add(self, value: float, now: MonoNs) -> None:
        """Take a value; past the bound the oldest goes."""
        if len(self._values) < self._max:
            self._times.append(now)
            self._values.append(value)
            return
        self._times[self._next] = now
        self._values[self._next] = value
        self._next = (self._next + 1) % self._max

    def between(self, start: int, end: int) -> NDArray[np.float64]:
        """Return the values of `start <= time < end`, oldest first, as an array of their own."""
        older = self._slice(start, end, self._next, len(self._times))
        if not self._next:
            return older
        return np.concatenate((older, self._slice(start, end, 0, self._next)))

    def last_before(self, end: int) -> float | None:
        """Return the newest value before `end`; None if there is none."""
        for low, high in ((0, self._next), (self._next, len(self._times))):
            found = bisect_left(self._times, end, low, high)
            if found > low:
                return self._values[found - 1]
        return None

    def _slice(self, start: int, end: int, low: int, high: int) -> NDArray[np.float64]:
        first = bisect_left(self._times, start, low, high)
        last = bisect_left(self._times, end, first, high)
        return np.array(self._values[first:last], np.float64)


@dataclass(frozen=True, slots=True)
class _Closed:
    """A bucket of the history whose time is over."""

    start: int
    ttfas: tuple[float | None, float | None]
    underruns: int
    barge_ins: int
    sessions: int


class Window:
    """The measures of a process, as far back as the dashboard looks.

    Args:
        window_s: length of the sliding window.
        bucket_s: length of one step of the history.
        history_s: how far the history goes back.
        values_max: bound on the values kept of one measure.
        now: when it begins.
    """

    def __init__(self, *, window_s: float, bucket_s: float, history_s: float, values_max: int, now: MonoNs) -> None:
        self.window_s = window_s
        self.bucket_s = bucket_s
        self._window_ns = ns_from_seconds(window_s)
        self._bucket_ns = ns_from_seconds(bucket_s)
        self._values_max = values_max
        self._series: dict[Key, Series] = {}
        self._amounts: dict[tuple[str, ...], float] = {}
        self._closed: deque[_Closed] = deque(maxlen=max(1, round(history_s / bucket_s) - 1))
        self._open_start: int = now
        """Start of the first bucket that is not closed."""

    # Taking. --------------------------------------------------------------------------------------------------------

    def record(self, name: str, value: float, labels: Mapping[str, str], now: MonoNs) -> None:
        """Take one measure of `KEPT`."""
        if name in _TOTALS:
            total = (name, *[labels[label] for label in _TOTALS[name]])
            self._amounts[total] = self._amounts.get(total, 0.0) + value
            if not value:
                return
        if name not in _SERIES:
            return
        label = _SERIES[name]
        key = (name, "" if label is None else labels[label])
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = Series(self._values_max)
        series.add(value, now)

    # Asking. --------------------------------------------------------------------------------------------------------

    def quantiles(self, name: str, label: str = "", *, now: MonoNs) -> Quantiles:
        """Return a measure over the window."""
        return quantiles(self._values((name, label), now - self._window_ns, now + 1))

    def amount(self, key: Key, *, now: MonoNs) -> float:
        """Return the sum of a counter's steps over the window."""
        return float(self._values(key, now - self._window_ns, now + 1).sum())

    def amounts(self, name: str, *, now: MonoNs) -> dict[str, int]:
        """Return the sums over the window of all series of a counter, by their label; those of nothing are left out."""
        sums = {key[1]: round(self.amount(key, now=now)) for key in self._series if key[0] == name}
        return {label: n for label, n in sums.items() if n}

    def total(self, name: str, *labels: str) -> float:
        """Return a counter since the server's start, over all labels that are not given."""
        wanted = (name, *labels)
        return sum(value for key, value in self._amounts.items() if key[: len(wanted)] == wanted)

    def totals(self, name: str, *labels: str) -> dict[str, int]:
        """Return a counter since the server's start by the label that follows the given ones."""
        wanted = (name, *labels)
        return {
            key[len(wanted)]: round(value)
            for key, value in self._amounts.items()
            if key[: len(wanted)] == wanted and len(key) > len(wanted)
        }

    def history(self, now: MonoNs, unix_s: float) -> list[Bucket]:
        """Return the buckets, oldest first; the last one is still filling.

        Args:
            now: the present.
            unix_s: the same moment as Unix time.
        """
        self.close_buckets(now)
        oldest = self._oldest(now)
        buckets = [*self._closed, self._bucket(self._open_start, now + 1)]
        return [
            Bucket(
                at_s=round(unix_s - seconds_from_ns(MonoNs(now - bucket.start)), 3),
                ttfas_p50_s=bucket.ttfas[0],
                ttfas_p90_s=bucket.ttfas[1],
                underruns=bucket.underruns,
                barge_ins=bucket.barge_ins,
                sessions=bucket.sessions,
            )
            for bucket in buckets
            if bucket.start > oldest - self._bucket_ns
        ]

    def close_buckets(self, now: MonoNs) -> None:
        """Compute the buckets whose time is over; called now and then, so that a first look does not have to do them all."""
        oldest = self._oldest(now)
        if self._open_start < oldest:  # nobody looked for longer than the history is
            self._open_start += -(-(oldest - self._open_start) // self._bucket_ns) * self._bucket_ns
        while self._open_start + self._bucket_ns <= now:
            self._closed.append(self._bucket(self._open_start, self._open_start + self._bucket_ns))
            self._open_start += self._bucket_ns

    def _oldest(self, now: MonoNs) -> int:
        """Return when the history begins."""
        return now - self._bucket_ns * ((self._closed.maxlen or 0) + 1)

    def _bucket(self, start: int, end: int) -> _Closed:
        ttfas = quantiles(self._values(TTFAS, start, end))
        sessions = self._values(SESSIONS, start, end)
        before = self._series[SESSIONS].last_before(start) if SESSIONS in self._series else None
        return _Closed(
            start=start,
            ttfas=(ttfas.p50, ttfas.p90),
            underruns=round(self._values(UNDERRUNS, start, end).sum()),
            barge_ins=round(self._values(BARGE_INS, start, end).sum()),
            sessions=round(max(before or 0.0, float(sessions.max(initial=0.0)))),
        )

    def _values(self, key: Key, start: int, end: int) -> NDArray[np.float64]:
        series = self._series.get(key)
        return np.empty(0) if series is None else series.between(start, end)


def quantiles(values: NDArray[np.float64]) -> Quantiles:
    """Return the quantiles of some values in seconds, between neighbours by their distance, to a tenth of a millisecond."""
    n = len(values)
    if not n:
        return Quantiles(n=0, p50=None, p90=None, p95=None)
    ranked = np.sort(values)
    p50, p90, p95 = (_between_ranks(ranked, q * (n - 1)) for q in (0.5, 0.9, 0.95))
    return Quantiles(n=n, p50=p50, p90=p90, p95=p95)


def _between_ranks(ranked: NDArray[np.float64], rank: float) -> float:
    low = int(rank)
    high = min(low + 1, len(ranked) - 1)
    return round(float(ranked[low] + (ranked[high] - ranked[low]) * (rank - low)), 4)


def parts_of(turn: TurnMetrics) -> dict[str, float]:
    """Return the parts of one turn's time to first audio, in seconds."""
    return {part: turn.split[part] for part in PARTS if part in turn.split}
