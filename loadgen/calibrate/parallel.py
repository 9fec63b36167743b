"""How much more gets done when all cores compute: less than their number where they share caches, memory or one physical core."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from duplex.payloads import Job, LatentChunk, Latents, Prompt, Role
from loadgen.calibrate.material import Spoken, clause, utterance_of
from loadgen.calibrate.stages import Stages
from loadgen.jobs import job

_SESSION = "beside"
_TIMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """What a processor does when more than one stage computes."""

    cores: float
    """That get something done when as many stages compute at once as there are threads; a stage alone counts 1."""
    held_up: float
    """How much slower prompts are read beside a busy vocoder than sharing those cores explains; at least 1."""


def measure_parallel(
    stages: Stages, threads: int, text: str, turn: Spoken, prompts: Sequence[Prompt], reads_on: float, seconds: float
) -> Parallel:
    """Let stages compute alone and together.

    Args:
        text: what the vocoder speaks.
        turn: what end of turn and transcription hear.
        prompts: an even number, all different (one that was read is in the cache), all of one length; every other one is asked
            beside the vocoder.
        reads_on: cores that reading a prompt keeps busy.
        seconds: of one measurement of rates.
    """
    speech = _speech(stages, text)
    heard = utterance_of(turn.pcm)
    jobs = {
        Role.VOCODE: speech,
        Role.TRANSCRIBE: job(heard),
        Role.END_OF_TURN: job(heard, role=Role.END_OF_TURN),
    }
    chosen = dict(list(jobs.items())[: max(1, threads)])
    found = statistics.median(_cores(stages, chosen, seconds) for _ in range(_TIMES))
    cores = max(1.0, found * threads / len(chosen))
    slower = statistics.median(_slower(stages, *pair, speech) for pair in zip(prompts[::2], prompts[1::2], strict=True))
    share = min(1.0, cores / (min(reads_on, cores) + 1))
    return Parallel(cores=cores, held_up=max(1.0, slower * share))


def _cores(stages: Stages, jobs: dict[Role, Job], seconds: float) -> float:
    """Return each stage's rate among the others over its rate alone, summed."""
    alone = {role: _rates(stages, {role: each}, seconds)[role] for role, each in jobs.items()}
    together = _rates(stages, jobs, seconds)
    return sum(together[role] / alone[role] for role in jobs)


@contextmanager
def _busy(stages: Stages, speech: Job) -> Iterator[None]:
    """Let the vocoder compute without a pause."""
    stop = threading.Event()

    def vocode() -> None:
        while not stop.is_set():
            stages.step(Role.VOCODE, [speech])

    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(vocode)
        try:
            yield
        finally:
            stop.set()
        busy.result()


def _slower(stages: Stages, alone: Prompt, beside: Prompt, speech: Job) -> float:
    """Return how much longer the first text takes beside a busy vocoder than alone."""
    alone_ms = _first_ms(stages, alone)
    with _busy(stages, speech):
        return _first_ms(stages, beside) / alone_ms


def _first_ms(stages: Stages, prompt: Prompt) -> float:
    (answer,) = stages.ask([(_SESSION, prompt)])
    stages.think.release(_SESSION)
    return answer.first.ms


def _speech(stages: Stages, text: str) -> Job:
    (latents,), _ = stages.step(Role.TALK, [job(clause(text, stages.pack.voices[0]))])
    assert isinstance(latents, Latents)
    return job(LatentChunk(latents=latents, first=0, last=latents.frames))


def _rates(stages: Stages, jobs: dict[Role, Job], seconds: float) -> dict[Role, float]:
    """Return the steps per second of each stage when all of them repeat their job at once for a while."""
    until = time.perf_counter() + seconds

    def repeat(role: Role) -> float:
        steps, began = 0, time.perf_counter()
        while steps == 0 or time.perf_counter() < until:
            stages.step(role, [jobs[role]])
            steps += 1
        return steps / (time.perf_counter() - began)

    with ThreadPoolExecutor(len(jobs)) as pool:
        return dict(zip(jobs, pool.map(repeat, jobs), strict=True))
