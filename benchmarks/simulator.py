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
from pathlib import Path
from typing import Any

from benchmarks.report import write

TRACES = ("sparse", "busy", "interrupted")
POLICIES = "fcfs,fcfs_capped,round_robin,chunk_deadline,listener,oracle"


def sweep(trace: str, seeds: int, sessions: int, folder: Path) -> None:
    """Run one sweep; its result lands in the folder."""
    command = [
        sys.executable, "-m", "loadgen", "sim", trace, "--profile", "large", "--policies", POLICIES, "--sweep",
        "--seeds", str(seeds), "--sessions", str(sessions), "--no-admission", "--json", str(folder / f"{trace}.json"),
    ]  # fmt: skip
    subprocess.run(command, check=True)


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
        write("simulator", figures)


if __name__ == "__main__":
    main()
