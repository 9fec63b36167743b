"""The event loop: how late it wakes (what every timer and packet of the process suffers at least), and what it carries."""

from __future__ import annotations

import asyncio
import threading
from typing import NoReturn

from duplex.telemetry.metrics import Observer


async def sample_loop_lag(observer: Observer, interval_s: float = 0.1) -> NoReturn:
    """Observe the loop's lag for ever.

    Args:
        observer: gets `duplex_event_loop_lag_seconds`.
        interval_s: time between samples; a loop that stalls for less may go unseen.
    Cancel: at any time; nothing is lost.
    """
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + interval_s
        await asyncio.sleep(interval_s)
        observer.observe("duplex_event_loop_lag_seconds", max(0.0, loop.time() - due))


def measure_load(observer: Observer) -> None:
    """Observe how many tasks the running loop has, and the process threads: with no session both are always the same."""
    observer.observe("duplex_event_loop_tasks", len(asyncio.all_tasks()))
    observer.observe("duplex_threads", threading.active_count())
