"""How much load a policy carries, and how it does at loads that all policies are given alike.

The load is the rate at which sessions arrive. For each seed the trace's sessions come in another order and at other times,
drawn from the trace's own kind of arrivals; all policies get the same draws, scaled by the rate. The goodput of a policy is
the highest rate at which the SLO holds, found by bisection for each seed by itself; means and confidence intervals are over
the seeds (95 %, bootstrap).
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np

from loadgen.generate import arrivals
from loadgen.sim.profile import Profile
from loadgen.sim.world import Options, Result, World
from loadgen.trace import SessionTrace, Trace

FRACTIONS = (0.5, 0.8, 0.95)
"""Of the first policy's own goodput: the loads at which all policies are compared."""
BEYOND = (1.1, 1.3)
"""The same, past where the first policy keeps the SLO; shown, with fewer seeds."""
_BEYOND_SEEDS = 2
_FACTOR = 1.5
_BISECTIONS = 3
"""The rate is found to within a factor of 1.5^(1/8), 5 %; the mean over the seeds is finer."""
_RATE_MIN, _RATE_MAX = 1e-4, 1e3
_RESAMPLES = 2000
MEASURES = (
    "good", "ttfas_p50_s", "ttfas_p90_s", "ttfas_p95_s", "underruns", "underrun_s", "unheard_s", "sessions", "refused",
)  # fmt: skip
"""Of one run; `good` is the share of turns that met the SLO."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is simulated."""

    trace: Trace
    profile: Profile
    policies: tuple[str, ...]
    seeds: int
    sessions: int
    """Of the trace, in each run."""
    options: Options

    def draw(self, rate: float, seed: int) -> list[SessionTrace]:
        """Return the sessions of one run."""
        rng = random.Random(seed)
        chosen = list(self.trace.sessions)
        rng.shuffle(chosen)
        times = islice(arrivals(1.0, self.trace.header.arrivals_cv, rng), self.sessions)
        return [s.model_copy(update={"at_s": at / rate}) for s, at in zip(chosen, times, strict=False)]

    def length_s(self, session: SessionTrace) -> float:
        """Return about how long a session lasts if nothing waits and nobody interrupts."""
        return sum(t.gap_s + t.speech_s + self.profile.words_s(t.answer_words) + 1 for t in session.turns)

    def run(self, policy: str, rate: float, seed: int, gives_up: bool = False) -> Result:
        """Simulate one run; `gives_up` stops it as soon as the SLO cannot be met any more."""
        sessions = self.draw(rate, seed)
        turns = sum(len(session.turns) for session in sessions)
        misses = (1 - self.options.slo.share) * turns if gives_up else float("inf")
        return World(self.profile, policy, self.options, seed).run(sessions, misses_max=misses)

    def holds(self, policy: str, rate: float, seed: int) -> bool:
        """Return whether the SLO holds at a rate."""
        return not self.run(policy, rate, seed, gives_up=True).aborted

    def goodput(self, policy: str, seed: int, guess: float) -> float:
        """Return the highest rate at which the SLO holds, to within a few percent; 0 if it never does."""
        low = high = guess
        if self.holds(policy, guess, seed):
            while high < _RATE_MAX and self.holds(policy, high := low * _FACTOR, seed):
                low = high
        else:
            while not self.holds(policy, low := high / _FACTOR, seed):
                high = low
                if low < _RATE_MIN:
                    return 0.0
        for _ in range(_BISECTIONS):
            middle = (low * high) ** 0.5
            if self.holds(policy, middle, seed):
                low = middle
            else:
                high = middle
        return low


def measures(result: Result, options: Options) -> dict[str, float]:
    """Return the figures of one run; turns without an answer count as waited for until patience ended."""
    waits = [
        options.patience_s if row.ttfas_s is None else row.ttfas_s
        for row in result.rows
        if not row.refused and not row.cut_short
    ]
    p50, p90, p95 = np.percentile(waits, (50, 90, 95)) if waits else (float("nan"),) * 3
    asked = [row for row in result.rows if not row.cut_short]
    return {
        "good": sum(options.slo.met(row) for row in asked) / max(1, len(asked)),
        "ttfas_p50_s": float(p50),
        "ttfas_p90_s": float(p90),
        "ttfas_p95_s": float(p95),
        "underruns": sum(row.gaps for row in result.rows),
        "underrun_s": sum(row.gap_s for row in result.rows),
        "unheard_s": result.unheard_s,
        "sessions": result.sessions,
        "refused": result.refused,
    }


def with_interval(name: str, values: Sequence[float], digits: int = 4) -> dict[str, Any]:
    """Return the mean under `name` and its 95 % interval under `NAME_ci`."""
    array = np.asarray(values, dtype=float)
    if not len(array) or not np.isfinite(array).all():
        return {name: None, f"{name}_ci": None}
    draws = np.random.default_rng(1).choice(array, (_RESAMPLES, len(array))).mean(axis=1)
    low, high = np.percentile(draws, (2.5, 97.5))
    return {
        name: round(float(array.mean()), digits),
        f"{name}_ci": [round(float(low), digits), round(float(high), digits)],
    }


def guess_rate(plan: Plan) -> float:
    """Return a rate to begin the search at: half of the profile's sessions, each as long as its turns last."""
    return plan.profile.sessions_max / 2 / float(np.mean([plan.length_s(session) for session in plan.trace.sessions]))


def sweep(plan: Plan, workers: int, progress: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Run the whole sweep; return what stands under `policies` in the result.

    Args:
        workers: processes.
        progress: told what is being done, how much of it is done, and how much there is.
    """
    reference, seeds = plan.policies[0], range(1, plan.seeds + 1)
    with ProcessPoolExecutor(workers, initializer=gc.disable) as pool:  # runs are short, and make no cycles to speak of

        def gather(what: str, calls: Sequence[tuple[Any, ...]], function: Callable[..., Any]) -> list[Any]:
            futures = [pool.submit(function, plan, *call) for call in calls]
            done: list[Any] = []
            for number, future in enumerate(futures):
                progress(what, number, len(futures))
                done.append(future.result())
            progress(what, len(futures), len(futures))
            return done

        guess = guess_rate(plan)
        own = {reference: gather(f"goodput of {reference}", [(reference, s, guess) for s in seeds], _goodput)}
        others = [(p, s, own[reference][s - 1] or guess) for p in plan.policies[1:] for s in seeds]
        found = gather("goodput of the others", others, _goodput)
        for number, policy in enumerate(plan.policies[1:]):
            own[policy] = found[number * plan.seeds : (number + 1) * plan.seeds]
        base = float(np.mean(own[reference]))
        loads = [(f, seed) for f in FRACTIONS for seed in seeds]
        loads += [(f, seed) for f in BEYOND for seed in seeds[:_BEYOND_SEEDS]]
        same = gather("the same loads for all", [(p, f * base, s) for p in plan.policies for f, s in loads], _measures)
        steady = [policy for policy in plan.policies if policy == "listener"]
        ninety = gather("0.9 of its own", [(p, 0.9 * own[p][seed - 1], seed) for p in steady for seed in seeds], _gaps)
    report: dict[str, Any] = {}
    for number, policy in enumerate(plan.policies):
        runs = same[number * len(loads) : (number + 1) * len(loads)]
        at = {str(f): [run for (g, _), run in zip(loads, runs, strict=True) if g == f] for f in (*FRACTIONS, *BEYOND)}
        summed = {f: _summary(of) for f, of in at.items()}
        report[policy] = {
            **with_interval("goodput_rps", own[policy]),
            "goodput_rps_by_seed": [round(rate, 4) for rate in own[policy]],
            "at": {f: summed[f] for f in map(str, FRACTIONS)},
            "beyond": {f: summed[f] for f in map(str, BEYOND)},
            "curve": [
                {"rps": round(float(f) * base, 4), "share": of["good"], "ttfas_p90_s": of["ttfas_p90_s"]}
                for f, of in summed.items()
            ],
            **({"long_gaps_at_0.9_of_own": int(sum(ninety))} if policy in steady else {}),
        }
    return report


def describe(plan: Plan) -> dict[str, Any]:
    """Return what a result says of how it was made."""
    return {
        "trace": plan.trace.header.name,
        "profile": {"name": plan.profile.name, "source": " ".join(plan.profile.source.split())},
        "slo": plan.options.slo.model_dump(),
        "network": plan.options.network.model_dump(),
        "kv": plan.options.kv,
        "admission": plan.options.admission,
        "faults": [asdict(fault) for fault in plan.options.faults],
        "settings": dict(plan.options.settings),
        "seeds": plan.seeds,
        "sessions_per_run": plan.sessions,
        "note": "Simulated: production scheduler and session core on virtual time, stages by the profile's cost model.",
    }


def _summary(runs: Sequence[dict[str, float]]) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    for name in MEASURES:
        summary |= with_interval(name, [run[name] for run in runs])
    return summary


def _goodput(plan: Plan, policy: str, seed: int, guess: float) -> float:
    return plan.goodput(policy, seed, guess)


def _measures(plan: Plan, policy: str, rate: float, seed: int) -> dict[str, float]:
    return measures(plan.run(policy, rate, seed), plan.options)


def _gaps(plan: Plan, policy: str, rate: float, seed: int) -> int:
    """Return how many turns had a gap over the SLO's bound."""
    if rate <= 0:
        return 0
    return sum(row.gap_max_s > plan.options.slo.gap_s for row in plan.run(policy, rate, seed).rows)
