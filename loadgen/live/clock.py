"""The clock of a run: one for all its processes, finer than the loop's own (uvloop counts whole milliseconds)."""

from __future__ import annotations

import time

from duplex.units import MonoNs


def now_ns() -> MonoNs:
    """Return the machine's monotonic clock; processes of one machine read the same."""
    return MonoNs(time.perf_counter_ns())
