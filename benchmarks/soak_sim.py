"""A thousand sessions come, do anything and go while stages break at random, on simulated time; every invariant is checked.

python -m benchmarks.soak_sim [--sessions 1000] [--seed 1]
"""

from __future__ import annotations

import argparse
import logging
import time

import structlog

from benchmarks.report import write
from tests.sim.soak import soak


def main() -> None:
    """Soak and write; a violated invariant ends it with what was violated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    began = time.perf_counter()
    counts = soak(options.seed, options.sessions)
    write("soak_sim", {**dict(sorted(counts.items())), "wall_s": round(time.perf_counter() - began, 1)})


if __name__ == "__main__":
    main()
