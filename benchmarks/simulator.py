"""Six policies on the three traces, large-model profile, ten seeds: `loadgen sim TRACE --sweep`, once per trace.

    python -m benchmarks.simulator [--seeds 10] [--sessions 30] [--read DIR]

`--read` takes results that the same command has written before, as DIR/TRACE.json. About an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import write
from loadgen.sim.command import add_options, make_plan
from loadgen.sim.sweep import Plan, measures

TRACES = ("sparse", "busy", "interrupted")
_IDLE_RPS = 0.005
_IDLE_SEEDS = 2
POLICIES = "fcfs,fcfs_capped,round_robin,chunk_deadline,listener,oracle"


def sweep(trace: str, seeds: int, sessions: int, folder: Path) -> None:
    """Run one sweep; its result lands in the folder."""
    command = [
        sys.executable, "-m", "loadgen", "sim", trace, "--profile", "large", "--policies", POLICIES, "--sweep",
        "--seeds", str(seeds), "--sessions", str(sessions), "--no-admission", "--json", str(folder / f"{trace}.json"),
    ]  # fmt: skip
    subprocess.run(command, check=True)


def plan_of(trace: str, seeds: int, sessions: int, *arguments: str) -> Plan:
    """Return the plan of `loadgen sim` with these arguments; everybody is admitted."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    fixed = [trace, "--seeds", str(seeds), "--sessions", str(sessions), "--no-admission"]
    return make_plan(parser.parse_args([*fixed, *arguments]))


def idle_p90_s(trace: str, seeds: int, sessions: int) -> float:
    """Return TTFAS p90 with hardly any load: endpointing, network and the model alone, of which no policy takes anything."""
    plan = plan_of(trace, seeds, sessions)
    runs = [measures(plan.run("listener", _IDLE_RPS, seed), plan.options) for seed in range(1, seeds + 1)]
    return round(float(np.mean([run["ttfas_p90_s"] for run in runs])), 4)


def minutes_per_core_minute(trace: str, sessions: int, rate: float) -> float:
    """Return how many session-minutes one core simulates in a minute, with the policy `listener` at a rate."""
    plan = plan_of(trace, 1, sessions)
    simulated_s = sum(map(plan.length_s, plan.draw(rate, 1)))
    began = time.process_time()
    plan.run("listener", rate, 1)
    return round(simulated_s / (time.process_time() - began))


def main() -> None:
    """Simulate, or read what was simulated, and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sessions", type=int, default=30)
    parser.add_argument("--read", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.read or Path(temporary)
        figures: dict[str, Any] = {}
        for trace in TRACES:
            if options.read is None:
                sweep(trace, options.seeds, options.sessions, folder)
            path = folder / f"{trace}.json"
            if path.exists():
                figures[trace] = json.loads(path.read_text())
                figures[trace]["idle_ttfas_p90_s"] = idle_p90_s(trace, _IDLE_SEEDS, options.sessions)
                own = figures[trace]["policies"]["listener"]["goodput_rps"]
                figures[trace]["session_minutes_per_core_minute"] = minutes_per_core_minute(
                    trace, options.sessions, own
                )
        write("simulator", figures)


if __name__ == "__main__":
    main()
