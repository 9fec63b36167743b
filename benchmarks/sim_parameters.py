"""What the papers do not publish, swept: how the policies' goodput depends on it (large profile, trace `interrupted`).

python -m benchmarks.sim_parameters [--seeds 2] [--sessions 24]
"""

from __future__ import annotations

import argparse
import gc
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import write
from benchmarks.simulator import plan_of
from loadgen import trace
from loadgen.sim.sweep import Plan, measures

POLICIES = ("fcfs", "fcfs_capped", "listener")
VARIANTS: dict[str, tuple[str, ...]] = {
    "as in the profile": (),
    "16 slots": ("--set-profile", "talk.slots=16", "--set-profile", "think.slots=16"),
    "64 slots": ("--set-profile", "talk.slots=64", "--set-profile", "think.slots=64"),
    "one card for all stages": (
        "--set-profile", "think.device='gpu1'",
    ),
    "prompts read in half the time": ("--set-profile", "think.prefill.per_job=55"),
    "2000 tokens of context fit, lru": ("--kv", "lru", "--kv-tokens", "2000", "--set-profile", "think.kv_load_ms_per_token=0.1"),
    "2000 tokens of context fit, next_use": (
        "--kv", "next_use", "--kv-tokens", "2000", "--set-profile", "think.kv_load_ms_per_token=0.1",
    ),
    "lead of 600 ms at least": ("--set", "pacing.lead_ms_min=600"),
    "nothing made ahead": ("--set", "scheduling.spare_lead_ms=0"),
    "made ahead unless half are interrupted": ("--set", "scheduling.spare_cut_share=0.6"),
    "TTFAS ≤ 0.85 s": ("--slo-ttfas", "0.85"),
    "TTFAS ≤ 1.5 s": ("--slo-ttfas", "1.5"),
}  # fmt: skip


def one(plan: Plan, policy: str, seed: int, guess: float) -> dict[str, float]:
    """Return a policy's goodput, and its figures at 0.95 of the guess."""
    gc.disable()
    found = plan.goodput(policy, seed, guess)
    return {"goodput_rps": found} | measures(plan.run(policy, 0.95 * guess, seed), plan.options)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--sessions", type=int, default=24)
    options = parser.parse_args()
    assert trace.read(Path("interrupted")).header.name == "interrupted"
    figures: dict[str, Any] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name, arguments in VARIANTS.items():
            plan = plan_of("interrupted", options.seeds, options.sessions, *arguments)
            guesses = list(pool.map(plan.goodput, ["fcfs"] * plan.seeds, range(1, plan.seeds + 1), [0.12] * plan.seeds))
            calls = [(policy, seed) for policy in POLICIES for seed in range(1, plan.seeds + 1)]
            runs = list(
                pool.map(
                    one, [plan] * len(calls), *zip(*calls, strict=True), [guesses[s - 1] or 0.05 for _, s in calls]
                )
            )
            figures[name] = {
                policy: {
                    key: round(
                        float(np.mean([r[key] for (p, _), r in zip(calls, runs, strict=True) if p == policy])), 4
                    )
                    for key in ("goodput_rps", "ttfas_p90_s", "unheard_s")
                }
                for policy in POLICIES
            }
            print(name, figures[name], flush=True)
    write("sim_parameters", figures)


if __name__ == "__main__":
    main()
