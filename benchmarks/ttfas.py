"""How long until the answer is heard? Chromium speaks to `local`; from the labelled end of energy in the wav.

Each turn's split: endpointing, transcription, thinker (first clause), talker, vocoder and send as the server measures them from
its own estimate of the speech's end; `hearing` is what lies around that: the way in, silero's delay in seeing the end, and the
way out through the browser's jitter buffer.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import numpy as np

from benchmarks.browser_call import BLOCK, RATE, SPEECH, Heard, call, edges, server_process, speech
from benchmarks.report import quantiles, write

QUESTIONS = (4, 7, 1, 11, 15, 13, 0, 5, 9, 3)
"""Of the committed sentences: those that end in an answerable way."""
PAUSE_S = 7.0


def microphone(turns: int, pause_s: float = PAUSE_S) -> tuple[np.ndarray[Any, Any], list[int]]:
    """Return the wav and the sample at which the energy of each turn ends."""
    pieces = [np.zeros(2 * RATE, np.int16)]
    ends: list[int] = []
    at = len(pieces[0])
    for i in range(turns):
        said = speech(SPEECH / f"s{QUESTIONS[i % len(QUESTIONS)]:02d}.flac")
        ends.append(at + edges(said)[1])
        gap = np.zeros(int(pause_s * RATE), np.int16)
        pieces += [said, gap]
        at += len(said) + len(gap)
    return np.concatenate(pieces), ends


def first_sounds(heard: Heard, mic: np.ndarray[Any, Any], ends: list[int]) -> list[float]:
    """Return seconds from each turn's labelled end to the first audible block of its answer."""
    first = heard.first_loud(heard.user, 0)
    assert first is not None, "the microphone was silent"
    shift = first - edges(mic)[0] / BLOCK
    ttfas: list[float] = []
    for end in ends:
        block = int(end / BLOCK + shift)
        sound = heard.first_loud(heard.reply, block, block + int(6 * RATE / BLOCK))
        if sound is not None:
            ttfas.append(heard.seconds(sound - block))
    return ttfas


async def run(turns: int, calls: int, pack: str, settings: list[str]) -> dict[str, Any]:
    """Hold some calls one after the other and return their figures together."""
    mic, ends = microphone(turns)
    flags = [argument for setting in settings for argument in ("--set", setting)]
    ttfas: list[float] = []
    metrics: list[dict[str, float]] = []
    buffers: list[float] = []
    async with server_process("--model", pack, *flags) as url:
        for _ in range(calls):
            heard = await call(url, mic, {"type": "realtime"})
            ttfas += first_sounds(heard, mic, ends)
            metrics += [e["event"]["split"] for e in heard.events if e["event"]["type"] == "duplex.metrics"]
            stats = heard.stats
            buffers.append(1000 * stats["jitterBufferDelay"] / max(1, stats["jitterBufferEmittedCount"]))
    names = ("endpointing", "transcribe", "think", "talk", "vocode", "send")
    split = {name: quantiles([m[name] for m in metrics], 1000) for name in names}
    sent = [m["ttfas"] for m in metrics]
    hearing = [t - s for t, s in zip(ttfas, sent, strict=False)]
    return {
        "calls": calls,
        "turns_answered": len(ttfas),
        "turns": len(ends) * calls,
        "ttfas_heard_ms": quantiles(ttfas, 1000),
        "ttfas_sent_ms_by_the_servers_own_end_of_speech": quantiles(sent, 1000),
        "split_ms": split | {"hearing": quantiles(hearing, 1000)},
        "browser_jitter_buffer_ms_mean": round(float(np.mean(buffers)), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10, help="turns of a call")
    parser.add_argument("--calls", type=int, default=2)
    parser.add_argument("--model", default="local")
    parser.add_argument("--set", action="append", default=[], dest="settings", help="a setting of the server")
    parser.add_argument("--name", default="ttfas", help="name of the result")
    options = parser.parse_args()
    write(options.name, asyncio.run(run(options.turns, options.calls, options.model, options.settings)))


if __name__ == "__main__":
    main()
