"""What one plan of the scheduler costs: batch and engine stages with 10, 100 and 1,000 sessions' work, one tenant and four.

python -m benchmarks.plan_cost
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.report import write
from duplex.pacing.fairness import Shares
from duplex.pacing.policies import Listener
from duplex.pacing.policy import Work, WorkState
from duplex.payloads import Address, Clause, Job, JobId, Pace, Role
from duplex.stages.plan import plan_batch, plan_engine
from duplex.units import MonoNs, ns_from_ms

SIZES = (10, 100, 1000)
_REPEATS = 300
_NOW = MonoNs(ns_from_ms(10_000))


def works(n: int, tenants: int, rng: random.Random, running: bool) -> list[Work]:
    """Return the work of n sessions as it is under load: a tenth waits for first audio, a third is held."""
    made = []
    for number in range(n):
        draw = rng.random()
        dry_at = None if draw < 0.1 else MonoNs(_NOW + ns_from_ms(rng.uniform(0, 3000)))
        hold = MonoNs(_NOW + ns_from_ms(500)) if draw > 0.66 else None
        pace = Pace(since=MonoNs(_NOW - ns_from_ms(rng.uniform(0, 900))), dry_at=dry_at, hold_until=hold)
        address = Address(session=f"s{number}", lane=0, epoch=0, reply="r", tenant=f"t{number % tenants}")
        payload = Clause(index=0, text="some words", voice="v")
        job = Job(id=JobId(number), stage=Role.TALK, address=address, payload=payload, pace=pace)
        state = WorkState.RUNNING if running and number < 32 else WorkState.WAITING
        made.append(Work(job=job, pace=pace, arrived=MonoNs(0), state=state))
    return made


def timed(plan: Callable[[], Any]) -> dict[str, float]:
    """Return quantiles of a plan's time in microseconds."""
    samples = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        plan()
        samples.append((time.perf_counter() - began) * 1e6)
    p50, p95 = np.percentile(samples, (50, 95))
    return {"p50_us": round(float(p50), 1), "p95_us": round(float(p95), 1)}


def main() -> None:
    """Measure and write."""
    listener, unit = Listener(1000, 2), ns_from_ms(30)
    figures: dict[str, Any] = {}
    for tenants in (1, 4):
        for n in SIZES:
            rng = random.Random(n)
            waiting, mixed, shares = works(n, tenants, rng, False), works(n, tenants, rng, True), Shares({})
            figures[f"batch, {n} sessions, {tenants} tenants"] = timed(
                lambda w=waiting, s=shares: plan_batch(w, _NOW, unit, listener, 16, lambda job: None, s)
            )
            figures[f"engine, {n} sessions, {tenants} tenants"] = timed(
                lambda w=mixed, s=shares: plan_engine(w, _NOW, unit, listener, 32, True, s)
            )
    write("plan_cost", figures)


if __name__ == "__main__":
    main()
