"""At twice what the server can carry: do the admitted keep the SLO, and how long does a refusal take?

A server process with the test double, whose vocoder takes 0.2 s for a step of up to eight chunks; a talker speaks one second,
hears 4.8 (twelve chunks), waits half a second, and speaks again, so that 23 talkers fill it. Calls of two turns come at random
(seeded), twice as many as that, over WebSocket at real time. The same calls are offered to a server that refuses nobody.

Measured at the client: time to first audio from the end of its speech, gaps in what it plays (a player without a buffer of
its own), and the time from asking for a session to its refusal. The SLO: first audio within 1 s and no gap over 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import uvloop
from aiohttp import ClientSession, ClientWebSocketResponse, WSServerHandshakeError
from duplex_models.sim import SimOptions, make

from benchmarks.report import quantiles, write
from duplex.actor.door import Door
from duplex.actor.host import SessionHost
from duplex.config import AdmissionSettings, PacingSettings, ServerSettings, Settings
from duplex.server.serve import serve
from duplex.telemetry import Observer, configure_logging

WORDS = 16
MODEL = SimOptions(
    vad="level", script=(" ".join(["these are four words,"] * (WORDS // 4)),), first_token_s=0.02, token_s=0.01,
    talk_s=0.005, vocode_s=0.2,
)  # fmt: skip
SPEECH_S = 1.0
WAIT_S = 0.5
TURNS = 2
FULL = 23
"""Talkers that fill the vocoder: 8 chunks a step ÷ 0.2 s, × 7 s of a turn ÷ 12 chunks."""
SLO_TTFAS_S = 1.0
SLO_GAP_S = 0.1
_RATE = 24_000
_CHUNK_S = 0.04


@dataclass
class Turn:
    """How one turn went."""

    ttfas_s: float
    gap_s: float
    """Longest silence inside the reply."""

    @property
    def kept(self) -> bool:
        """It met the SLO."""
        return self.ttfas_s <= SLO_TTFAS_S and self.gap_s <= SLO_GAP_S


@dataclass
class Outcome:
    """What all calls of a run came to."""

    turns: list[Turn] = field(default_factory=list)
    refusals_s: list[float] = field(default_factory=list)
    """Time from asking to the refusal."""
    retry_after_s: list[int] = field(default_factory=list)
    admitted: int = 0
    live: int = 0
    live_max: int = 0


async def call(http: ClientSession, outcome: Outcome, turns: int = TURNS) -> None:
    """Make one call; a refused one is lost."""
    loop = asyncio.get_running_loop()
    asked = loop.time()
    try:
        async with http.ws_connect("/v1/realtime") as ws:
            outcome.admitted += 1
            outcome.live += 1
            outcome.live_max = max(outcome.live_max, outcome.live)
            try:
                for _ in range(turns):
                    outcome.turns.append(await _turn(ws))
            finally:
                outcome.live -= 1
    except WSServerHandshakeError as refused:
        if refused.status != 503 or refused.headers is None:
            raise
        outcome.refusals_s.append(loop.time() - asked)
        outcome.retry_after_s.append(int(refused.headers["Retry-After"]))


async def _turn(ws: ClientWebSocketResponse) -> Turn:
    """Speak, hear the reply to its end, wait; silence is sent all the while, as a microphone does."""
    spoken = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as tasks:
        microphone = tasks.create_task(_speak(ws, spoken))
        end_of_speech = await spoken
        turn = await _listen(ws, end_of_speech)
        microphone.cancel()
    return turn


async def _speak(ws: ClientWebSocketResponse, spoken: asyncio.Future[float]) -> None:
    loop = asyncio.get_running_loop()
    samples = int(_RATE * _CHUNK_S)
    noise = np.random.default_rng(0).integers(-6000, 6000, samples).astype("<i2")
    began, sent = loop.time(), 0
    while True:
        voiced = sent < round(SPEECH_S / _CHUNK_S)
        chunk = noise if voiced else np.zeros(samples, "<i2")
        audio = base64.b64encode(chunk.tobytes()).decode()
        await ws.send_str(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
        sent += 1
        if not voiced and not spoken.done():
            spoken.set_result(began + SPEECH_S)  # the intended time: a stalled server cannot hide
        await asyncio.sleep(max(0.0, began + sent * _CHUNK_S - loop.time()))


async def _listen(ws: ClientWebSocketResponse, end_of_speech: float) -> Turn:
    loop = asyncio.get_running_loop()
    first: float | None = None
    dry_at = gap_s = 0.0
    while True:
        event = await ws.receive_json()
        now = loop.time()
        if event["type"] == "response.output_audio.delta":
            if first is None:
                first = dry_at = now
            gap_s = max(gap_s, now - dry_at)
            dry_at = max(now, dry_at) + len(base64.b64decode(event["delta"])) / 2 / _RATE
        elif event["type"] == "response.done":
            await asyncio.sleep(max(0.0, dry_at - now) + WAIT_S)
            return Turn(ttfas_s=(first or now) - end_of_speech, gap_s=gap_s)


async def offer(url: str, calls_per_s: float, seconds: float, seed: int) -> Outcome:
    """Offer calls for some seconds, and let those that were taken end."""
    loop, dice, outcome = asyncio.get_running_loop(), random.Random(seed), Outcome()
    async with ClientSession(url) as http, asyncio.TaskGroup() as calls:
        began, due = loop.time(), 0.0
        while due < seconds:
            await asyncio.sleep(max(0.0, began + due - loop.time()))
            calls.create_task(call(http, outcome))
            due += dice.expovariate(calls_per_s)
    return outcome


# The server. ----------------------------------------------------------------------------------------------------------


def settings(prior: int = FULL // 2) -> Settings:
    """Windows are short, so that a short run shows what an hour would."""
    return Settings(
        server=ServerSettings(port=0, drain_timeout_s=0), log_level="error",
        pacing=PacingSettings(chunk_ms_first=400, chunk_ms_max=400),
        admission=AdmissionSettings(sessions_prior=prior, window_s=10, settle_s=3, sample_s=0.5),
    )  # fmt: skip


def run_server(admits_all: bool) -> None:
    """Serve until told to stop; print the address."""
    if admits_all:
        Door.admit = Door.check = lambda self, not_ready: None  # type: ignore[method-assign]
    configured = settings()
    configure_logging(configured.log_level)
    observer = Observer()
    uvloop.run(
        serve(
            lambda: SessionHost(configured, make(MODEL), observer.record), configured.server, observer,
            progress=lambda line: None, ready=lambda url: print(url, flush=True),
        )
    )  # fmt: skip


@asynccontextmanager
async def server(kind: str) -> AsyncIterator[str]:
    """Run a server in a process of its own; yields its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.admission", "--serve", kind, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.wait()


async def measure(kind: str, seconds: float, seed: int) -> dict[str, Any]:
    """Offer twice what fills the server to one kind of it."""
    turn_s = WORDS * MODEL.word_ms / 1000 + SPEECH_S + WAIT_S + 0.7
    async with server(kind) as url:
        outcome = await offer(url, 2 * FULL / (TURNS * turn_s), seconds, seed)
        async with ClientSession(url) as http, http.get("/metrics") as response:
            shown = await response.text()
    reasons: Counter[str] = Counter()
    for line in shown.splitlines():
        if line.startswith('duplex_admission_total{decision="refused"'):
            labels, value = line.rsplit(" ", 1)
            reasons[labels.split('reason="')[1].split('"')[0]] = int(float(value))
    kept = sum(turn.kept for turn in outcome.turns)
    return {
        "calls": {"admitted": outcome.admitted, "refused": len(outcome.refusals_s), "live_max": outcome.live_max},
        "turns": len(outcome.turns),
        "turns_within_slo": round(kept / len(outcome.turns), 3),
        "ttfas_s": quantiles([turn.ttfas_s for turn in outcome.turns]),
        "longest_gap_s": quantiles([turn.gap_s for turn in outcome.turns]),
        "refusal_ms": quantiles(outcome.refusals_s, 1000),
        "retry_after_s": quantiles(outcome.retry_after_s),
        "reasons": dict(reasons),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=24.0, help="time in which calls come, for each server")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--serve", choices=["guarded", "open"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        run_server(options.serve == "open")
        return
    runs = {kind: uvloop.run(measure(kind, options.seconds, options.seed)) for kind in ("guarded", "open")}
    write("admission", {"talkers_that_fill_it": FULL, "offered": "2 x", **runs})


if __name__ == "__main__":
    main()
