"""How many people can talk at once: `loadgen live` climbs against `duplex serve` until the SLO fails twice in a row.

    python -m benchmarks.live            about 10 minutes

Server and talkers are separate processes on one machine, over WebRTC on loopback, with the busy trace (long answers, short
gaps), in a closed loop. With `sim` at no cost of its own the server itself is measured: it has one core, the talkers have
the other. With `local` the server has every core, as it is run. At the highest load that held, another run gives the
server's overhead (DESIGN.md, section 6) and what a session costs on both sides.

Both ask to run before what else runs on the machine (nice −10), so that the machine's other work is disturbed, not measured;
the load average stands beside the figures.

The SLO is loadgen's default: 90 % of turns with the answer's first audible sample within 1 s of the intended end of speech, at
the talker's ear, and no underrun over 100 ms; refused and unanswered turns are misses.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.browser_call import server_process
from benchmarks.report import write

_SESSIONS_MAX = 1000
_SETTLE_S = 6.0
_PACKS = {
    "sim": {"first": 20, "by": 10, "step_s": 15.0, "turns": 8, "pinned": True},
    "local": {"first": 2, "by": 1, "step_s": 45.0, "turns": 16, "pinned": False},
}
_AT_LOAD_S = 25.0
_NICE = -10


def favoured() -> bool:
    """Run (and have children run) before what else runs here; return whether that was permitted."""
    try:
        os.nice(_NICE)
    except PermissionError:
        return False
    return True


@contextmanager
def on(cores: set[int]) -> Iterator[None]:
    """Start processes on these cores."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


async def talk(url: str, cores: set[int], *options: str) -> dict[str, Any]:
    """Run `loadgen live`; returns its result."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "live.json")
        command = (sys.executable, "-m", "loadgen", "live", "busy", "--url", url, "--json", str(out), *options)
        with on(cores):
            talkers = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
        if await talkers.wait() != 0:
            raise RuntimeError("loadgen failed")
        return _read(out)


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


async def measure(pack: str) -> dict[str, Any]:
    """Return how far one pack climbs, and what it is like there."""
    plan = _PACKS[pack]
    cores = os.sched_getaffinity(0)
    server_cores, talker_cores = ({min(cores)}, {max(cores)}) if plan["pinned"] else (cores, cores)
    async with AsyncExitStack() as stack:
        with on(server_cores):
            server = server_process(
                "--model", pack, "--set", f"server.sessions_max={_SESSIONS_MAX}", "--set", "log_level=error"
            )
            url = await stack.enter_async_context(server)
        climb = await talk(
            url, talker_cores, "--ramp", "--concurrency", str(plan["first"]), "--ramp-by", str(plan["by"]),
            "--ramp-step-s", str(plan["step_s"]), "--ramp-settle-s", str(_SETTLE_S), "--ramp-max", "400", "--ramp-min-turns", str(plan["turns"]),
        )  # fmt: skip
        held = climb["ramp"]["held"]
        there = None
        if held is not None:
            await asyncio.sleep(2.0)  # the talkers of the climb have left
            there = await talk(url, talker_cores, "--concurrency", f"{held:.0f}", "--duration", str(_AT_LOAD_S))
    steps = [{"talkers": step["load"], **step["verdict"]} for step in climb["ramp"]["steps"]]
    return {
        "talkers_at_slo": held,
        "server_cores": len(server_cores),
        "steps": steps,
        "at_that_load": None if there is None else _there(there),
        "model": climb["server"]["model"]["name"],
        "test_double": climb["server"]["model"]["test_double"],
        "load_average": climb["machine"]["load_average"],
    }


def _there(found: dict[str, Any]) -> dict[str, Any]:
    session_s = sum(second["live"] or 0 for second in found["timeline"])
    server_us = 1e6 * found["server_measures"]["process_cpu_seconds"] / session_s
    talker_us = found["generator"]["cpu_us_per_session_s"]
    return {
        "turns": found["aggregates"]["turns"],
        "share_in_slo": found["aggregates"]["slo"]["share"],
        "ttfas_s": found["aggregates"]["ttfas_s"],
        "underruns": found["aggregates"]["underruns"],
        "stop_s": found["aggregates"]["stop_s"],
        "server_overhead_s": found["server_measures"].get("duplex_server_overhead_seconds"),
        "server_us_per_session_s": round(server_us),
        "talker_us_per_session_s": talker_us,
        "sessions_driven_per_session_served": round(server_us / talker_us, 2),
        "talkers_late_ms_p99": found["generator"]["late_ms_p99"],
        "load_average": found["machine"]["load_average"],
    }


def main() -> None:
    """Measure the packs and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packs", nargs="+", choices=sorted(_PACKS), default=["sim", "local"])
    packs = parser.parse_args().packs
    if len(os.sched_getaffinity(0)) < 2:
        parser.error("two cores are needed: one for the server, one for the talkers")
    figures = {"favoured": favoured(), **{pack: asyncio.run(measure(pack)) for pack in packs}}
    if set(packs) == set(_PACKS):
        write("live", figures)
    else:  # a part of the result is no result
        print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
