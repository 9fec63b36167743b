"""Does the simulator say what really happens? One trace, once against `duplex serve` with `local`, once simulated.

    python -m benchmarks.sim_vs_live          about 6 minutes

    loadgen calibrate ─► profile ──────────────────────┐
    loadgen live duo, two talkers, WebRTC ─► TTFAS      ├─► simulation ─► TTFAS
                                          └► answers ──┘

The profile is measured first, stage by stage, without a call. Server and talkers then share the machine, as they would. The
length of each answer is the model's business, not the trace's: it goes from the real run into the simulated trace (audible
seconds at the talker's ear, as words at the profile's rate). Nothing else of the real run does. Both TTFAS run from the labelled
end of speech to the first audible sample at the ear. The network is the loopback: no delay, the ear's shallowest jitter buffer,
and what packets of 20 ms cost windows of 32 ms on the way in.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.browser_call import server_process
from benchmarks.live import favoured
from benchmarks.report import write
from duplex.config import TurnSettings
from loadgen import trace as traces
from loadgen.sim.network import Network
from loadgen.sim.person import TurnRow
from loadgen.sim.profile import Profile, load
from loadgen.sim.world import Options, World
from loadgen.trace import SessionTrace

_TRACE = "duo"
_TALKERS = 2
_SEEDS = 20
_PATIENCE_S = 10.0
"""As long as a talker of `loadgen live` waits."""
_WINDOW_WAIT_MS = 8
"""Windows end at multiples of 32 ms, packets at multiples of 20 ms: 8, 16, 4, 12 or 0 ms later."""
_EAR_MS = 20
"""Shallowest depth of the jitter buffer of `loadgen.live.ear`."""
_PARTS = ("endpointing", "transcribe", "think", "talk", "vocode", "send")
_GOAL = 0.15


def calibrate(folder: Path) -> str:
    """Measure the pack; return the path of its profile."""
    out = folder / "local.toml"
    subprocess.run([sys.executable, "-m", "loadgen", "calibrate", "--pack", "local", "--out", str(out)], check=True)
    return str(out)


async def real_run(folder: Path) -> dict[str, Any]:
    """Let the talkers call a real server; return the result of `loadgen live`."""
    out = folder / "live.json"
    async with server_process(
        "--model", "local", "--set", "log_level=error", "--set", f"server.sessions_max={_TALKERS + 1}"
    ) as url:  # a number of its own: admission is not what is compared
        talkers = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "loadgen", "live", _TRACE, "--url", url, "--concurrency", str(_TALKERS), "--sessions",
            str(len(traces.read(Path(_TRACE)).sessions)), "--timeout", str(_PATIENCE_S), "--json", str(out),
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        if await talkers.wait() != 0:
            raise RuntimeError("loadgen failed")
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def with_answers(turns: Sequence[dict[str, Any]], profile: Profile) -> list[SessionTrace]:
    """Return the trace's sessions with answers as long as those that were heard; where none was, the trace's own."""
    heard = {(row["session"], row["turn"]): row["answer_s"] for row in turns if row["status"] == "answered"}
    per_s = profile.voice.words_per_minute / 60
    sessions = []
    for session in traces.read(Path(_TRACE)).sessions:
        answers = [
            max(1, round(heard[key] * per_s)) if (key := (session.session, n)) in heard else turn.answer_words
            for n, turn in enumerate(session.turns)
        ]
        spoken = [
            turn.model_copy(update={"answer_words": words})
            for turn, words in zip(session.turns, answers, strict=True)
        ]  # fmt: skip
        sessions.append(session.model_copy(update={"turns": tuple(spoken)}))
    return sessions


def simulated(profile: Profile, sessions: Sequence[SessionTrace]) -> list[list[TurnRow]]:
    """Return the turns of each seed."""
    network = Network(
        delay_ms=0, jitter_ms=0, loss=0, server_buffer_ms=_WINDOW_WAIT_MS, client_buffer_ms=_EAR_MS
    )  # fmt: skip
    looks = TurnSettings().model_dump(include={"first_look_ms", "look_every_ms"})  # those of the server beside it
    options = Options(network=network, patience_s=_PATIENCE_S, admission=False, settings={"turn": looks})
    return [
        World(profile, "listener", options, seed).run(sessions, concurrency=_TALKERS).rows for seed in range(_SEEDS)
    ]


def quantiles_s(values: Sequence[float]) -> dict[str, float]:
    """Return n, p50 and p90 of some seconds."""
    if not values:
        return {"n": 0}
    return {
        "n": len(values),
        "p50": round(float(np.percentile(values, 50)), 3),
        "p90": round(float(np.percentile(values, 90)), 3),
    }


def of_turns(turns: Sequence[tuple[float | None, dict[str, float]]]) -> dict[str, Any]:
    """Return TTFAS and its parts over turns given as (TTFAS, split)."""
    answered = [(ttfas, split) for ttfas, split in turns if ttfas is not None]
    parts = {part: quantiles_s([split[part] for _, split in answered if part in split]) for part in _PARTS}
    around = [ttfas - split["ttfas"] for ttfas, split in answered if "ttfas" in split]
    return {
        "turns": len(turns),
        "ttfas_s": quantiles_s([ttfas for ttfas, _ in answered]),
        "split_s": parts | {"hearing": quantiles_s(around)},
    }


def compare(profile: Profile, real: dict[str, Any]) -> dict[str, Any]:
    """Return both sides and how far they are apart."""
    rows = real["turns"]
    runs = simulated(profile, with_answers(rows, profile))
    live = of_turns([(row["ttfas_s"], row["split"]) for row in rows])
    model = of_turns([(row.ttfas_s, row.split) for run in runs for row in run])
    of_seed = {
        name: [float(np.percentile([r.ttfas_s for r in run if r.ttfas_s is not None], q)) for run in runs]
        for name, q in (("p50", 50), ("p90", 90))
    }
    off = {name: round(model["ttfas_s"][name] / live["ttfas_s"][name] - 1, 3) for name in ("p50", "p90")}
    return {
        "profile": profile.source,
        "trace": _TRACE,
        "talkers": _TALKERS,
        "live": live | {"answer_s_p50": round(float(np.median([r["answer_s"] for r in rows])), 2)},
        "simulated": model | {
            "seeds": _SEEDS,
            "ttfas_s_of_a_seed": {n: [round(min(v), 3), round(max(v), 3)] for n, v in of_seed.items()},
        },
        "simulated_over_live": off,
        "within_goal": all(abs(value) <= _GOAL for value in off.values()),
        "load_average": real["machine"]["load_average"],
        "talkers_late_ms_p99": real["generator"]["late_ms_p99"],
    }  # fmt: skip


def main() -> None:
    """Calibrate, run both, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", help="use this one instead of calibrating first")
    parser.add_argument("--live", type=Path, help="use this result of `loadgen live duo` instead of a real run")
    parser.add_argument("--keep", type=Path, help="folder in which the profile and the live result are kept")
    options = parser.parse_args()
    first, before = favoured(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        profile = load(options.profile or calibrate(folder))
        real = json.loads(options.live.read_text()) if options.live else asyncio.run(real_run(folder))
    write("sim_vs_live", {"favoured": first, "load_average_before": before, **compare(profile, real)})


if __name__ == "__main__":
    main()
