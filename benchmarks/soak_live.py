"""Half an hour of conversations, one after the other and side by side: does the server give back all that they took?

    python -m benchmarks.soak_live [--minutes 30] [--model sim]

Rounds of `loadgen live` over WebRTC and WebSocket, with interruptions, packet loss and a link that goes down: crowds of ten,
then one caller at a time. After each round, when no session is left, the server's memory, open files, threads and tasks are
read. The first rounds warm it up; growth is the median of the last three against the median of the three after the first.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.browser_call import server_process
from benchmarks.report import write

WATCHED = {
    "process_resident_memory_bytes": "rss_mb",
    "process_open_fds": "open_files",
    "duplex_threads": "threads",
    "duplex_event_loop_tasks": "tasks",
}
BROKEN = ("duplex_stale_packets_total", "duplex_invariant_violations_total")
ROUNDS: tuple[tuple[str, ...], ...] = (
    ("interrupted", "--concurrency", "10", "--duration", "100", "--loss", "0.02", "--jitter-ms", "15"),
    ("busy", "--concurrency", "1", "--duration", "60"),
    ("interrupted", "--concurrency", "10", "--duration", "60", "--drop-link-s", "3"),
)
_GONE_S = 60.0
_WARM = 1
_FEW = 3


async def measures(http: ClientSession, url: str) -> dict[str, float]:
    """Return every sample of the server's /metrics, summed over its labels."""
    async with http.get(f"{url}/metrics") as answer:
        text = await answer.text()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


async def alone(http: ClientSession, url: str) -> dict[str, float]:
    """Wait until no session is left, and return the measures.

    Raises:
        TimeoutError: sessions are still there after a minute.
    """
    async with asyncio.timeout(_GONE_S):
        while (await measures(http, url))["duplex_sessions"]:  # noqa: ASYNC110 - it is another process's
            await asyncio.sleep(1)
    await asyncio.sleep(5)  # longer than `server.tidy_every_s`
    return await measures(http, url)


async def talk(url: str, seed: int, *options: str) -> dict[str, Any]:
    """Run one round of talkers; return its figures."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "live.json")
        fixed = ("--url", url, "--json", str(out), "--transport", "mixed", "--seed", str(seed))
        talkers = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "loadgen", "live", *options, *fixed, stdout=asyncio.subprocess.DEVNULL
        )
        if await talkers.wait() != 0:
            raise RuntimeError("loadgen failed")
        return _aggregates(out)


def _aggregates(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())["aggregates"]
    return found


async def soak(model: str, minutes: float) -> dict[str, Any]:
    """Talk for so long; return what was read after each round, and the growth."""
    rounds: list[dict[str, Any]] = []
    arguments = ("--model", model, "--set", "server.sessions_max=50", "--set", "log_level=error")
    async with server_process(*arguments) as url, ClientSession() as http:
        began = time.monotonic()
        for seed, options in enumerate(itertools.cycle(ROUNDS), start=1):
            if time.monotonic() - began > 60 * minutes:
                break
            talked = await talk(url, seed, *options)
            found = await alone(http, url)
            read = {short: round(found[name] / (1e6 if short == "rss_mb" else 1), 1) for name, short in WATCHED.items()}
            rounds.append({"minute": round((time.monotonic() - began) / 60, 1), "turns": talked["turns"], **read})
            print(rounds[-1], flush=True)
    if len(rounds) < _WARM + 2 * _FEW:
        raise SystemExit("too few rounds to tell growth: soak for longer")
    first, last = rounds[_WARM : _WARM + _FEW], rounds[-_FEW:]
    growth = {
        short: round(median(r[short] for r in last) - median(r[short] for r in first), 1) for short in WATCHED.values()
    }
    broken = {name: found.get(name, 0.0) for name in BROKEN}
    return {"model": model, "rounds": rounds, "growth": growth, **broken, "load_average": os.getloadavg()}


def main() -> None:
    """Soak and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--model", default="sim")
    options = parser.parse_args()
    write("soak_live", asyncio.run(soak(options.model, options.minutes)))


if __name__ == "__main__":
    main()
