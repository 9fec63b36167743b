"""Run every benchmark, one after the other; results land in `benchmarks/results/`."""

from __future__ import annotations

import subprocess
import sys

ALL = (
    ("core",), ("protocol",), ("recording",), ("plan_cost",), ("barge_in_sim",), ("turn_taking",), ("echo",), ("overhead",), ("barge_in",), ("ttfas",),
    ("playback_front",), ("tools",), ("admission",),
    ("live",), ("sim_vs_live",), ("simulator",), ("sim_parameters",), ("startup", "--fresh"),
    ("soak_sim",), ("soak_live",),
)  # fmt: skip


def main() -> int:
    """Return 0 if every benchmark ran."""
    chosen = sys.argv[1:]
    failed = [
        name
        for name, *arguments in ALL
        if (not chosen or name in chosen)
        and subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], check=False).returncode != 0
    ]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
