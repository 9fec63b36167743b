"""How fast does an interruption silence the reply? `sim` over WebRTC to Chromium, at random points of a long reply.

The user's onset is labelled in the wav (first sample of energy). The server runs in this process, so that each of its measures is
kept with its wall time; the browser records what it says and hears on one clock. Parts, in order:

    onset in the wav → [detect] → VAD onset → [confirm] → cut → [egress] → fade's packet → [client] → last audible sample
"""

from __future__ import annotations

import argparse
import random
import time
from typing import Any

import numpy as np
import uvloop
from duplex_models.sim import create

from benchmarks.browser_call import BLOCK, LOUD, RATE, SPEECH, Heard, Pcm, call, edges, speech
from benchmarks.report import quantiles, write
from duplex.actor.host import SessionHost
from duplex.config import ModelSettings, ServerSettings, Settings
from duplex.server.serve import listening
from duplex.telemetry import Observer, configure_logging

TEXT = "word " * 400
BURST_MS = 900


def microphone(count: int, rng: random.Random) -> tuple[Pcm, list[int]]:
    """Return a wav with `count` short interruptions, and the sample at which each one's energy begins."""
    source = speech(SPEECH / "s11.flac")
    first, _ = edges(source)
    burst = source[first : first + BURST_MS * RATE // 1000].copy()
    burst[-960:] = (burst[-960:] * np.linspace(1, 0, 960)).astype(np.int16)
    pieces, onsets, at = [np.zeros(4 * RATE, np.int16)], [], 4 * RATE
    for _ in range(count):
        onsets.append(at + edges(burst)[0])
        gap = np.zeros(int(rng.uniform(1.4, 2.6) * RATE), np.int16)
        pieces += [burst, gap]
        at += len(burst) + len(gap)
    return np.concatenate([*pieces, np.zeros(RATE, np.int16)]), onsets


def server_settings() -> Settings:
    options = {"script": [TEXT], "word_ms": 300}
    return Settings(
        server=ServerSettings(port=0, cors_origins=("*",)),
        model=ModelSettings(pack="sim", options=options),
        log_level="error",
    )


async def run(count: int, seed: int) -> dict[str, Any]:
    settings = server_settings()
    configure_logging(settings.log_level)
    observer = Observer()
    seen: list[tuple[float, str, float, dict[str, str]]] = []

    def observe(measure: str, value: float, labels: dict[str, str]) -> None:
        observer.record(measure, value, labels)
        if measure.startswith(("duplex_barge_in", "duplex_stale", "duplex_underruns")):
            seen.append((time.time(), measure, value, labels))

    mic, onsets = microphone(count, random.Random(seed))
    host = SessionHost(settings, create(dict(settings.model.options), 1), observe)
    async with listening(host, settings.server, observer) as url:
        await host.start(lambda line: None)
        detection = {"type": "server_vad", "silence_duration_ms": 200}
        session = {"type": "realtime", "audio": {"input": {"turn_detection": detection}}}
        heard = await call(url, mic, session, greet="begin")
    return evaluate(heard, mic, onsets, seen)


def evaluate(
    heard: Heard, mic: Pcm, onsets: list[int], seen: list[tuple[float, str, float, dict[str, str]]]
) -> dict[str, Any]:
    """Put the labels, the server's moments and the browser's waveform beside each other."""
    first = heard.first_loud(heard.user, 0)
    assert first is not None, "the microphone was silent"
    shift = first - edges(mic)[0] / BLOCK
    moments = {
        part: [
            wall for wall, name, _, labels in seen if name == "duplex_barge_in_seconds" and labels.get("part") == part
        ]
        for part in ("detect", "confirm", "egress")
    }
    egress_s = [
        value for _, name, value, labels in seen if name == "duplex_barge_in_seconds" and labels["part"] == "egress"
    ]
    parts: dict[str, list[float]] = {
        name: [] for name in ("detect", "confirm", "egress", "client", "to_fade", "to_silence")
    }
    missed = 0
    for onset in onsets:
        block = onset / BLOCK + shift
        label = heard.wall_s(block)
        around = heard.reply[max(0, int(block) - 38) : int(block) + 38]
        if not (around > LOUD).any():
            continue  # nothing was playing: not an interruption
        at = [
            next((m for m in moments[part] if label < m < label + 1.5), None)
            for part in ("detect", "confirm", "egress")
        ]
        silent = _falls_silent(heard, int(block))
        if at[0] is None or at[1] is None or at[2] is None or silent is None:
            missed += 1
            continue
        end = heard.wall_s(silent)
        for name, value in zip(
            parts, (at[0] - label, at[1] - at[0], at[2] - at[1], end - at[2], at[2] - label, end - label), strict=True
        ):
            parts[name].append(value)
    return {
        "interruptions": len(parts["detect"]),
        "missed": missed,
        "ms": {name: quantiles(values, 1000) for name, values in parts.items()},
        "decision_to_packet_ms_by_the_servers_clock": quantiles(egress_s, 1000),
        "stale_packets": sum(1 for _, name, _, _ in seen if name == "duplex_stale_packets_total"),
        "underruns": sum(value for _, name, value, _ in seen if name == "duplex_underruns_total"),
    }


def _falls_silent(heard: Heard, block: int) -> int | None:
    """Return the block after which the reply is silent for 150 ms."""
    quiet = int(0.15 * RATE / BLOCK)
    loud = np.flatnonzero(heard.reply[block : block + int(1.3 * RATE / BLOCK)] > LOUD) + block
    for here, following in zip(loud, [*loud[1:], heard.reply.size + quiet], strict=True):
        if following - here > quiet:
            return int(here) + 1
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    write("barge_in", uvloop.run(run(options.count, options.seed)))


if __name__ == "__main__":
    main()
