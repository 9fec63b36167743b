"""How results are written: figures beside the command, the commit and the machine that gave them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"


def quantiles(values: Sequence[float], scale: float = 1.0) -> dict[str, float]:
    """Return n, median, p95, p99 and max of some values, scaled and rounded."""
    array = np.asarray(values, dtype=float) * scale
    if not len(array):
        return {"n": 0}
    named = {"p50": 50, "p95": 95, "p99": 99}
    return (
        {"n": len(array)}
        | {k: round(float(np.percentile(array, q)), 3) for k, q in named.items()}
        | {"max": round(float(array.max()), 3)}
    )


def write(name: str, figures: dict[str, Any]) -> None:
    """Print the figures and keep them as `results/<name>.json`."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    result = {
        "command": "python -m benchmarks." + name + " " + " ".join(sys.argv[1:]),
        "commit": commit.stdout.strip(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "python": platform.python_version()},
        "figures": figures,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"{name}:\n" + json.dumps(figures, indent=2))


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()
