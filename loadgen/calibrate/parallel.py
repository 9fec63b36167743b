"""How much more gets done when all cores compute: less than their number where they share caches, memory or one physical core."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from duplex.payloads import Job, LatentChunk, Latents, Role
from loadgen.calibrate.material import Spoken, clause, job, utterance_of
from loadgen.calibrate.stages import Stages


def cores_of(stages: Stages, threads: int, text: str, turn: Spoken, seconds: float) -> float:
    """Return how many cores' work gets done when as many stages compute at once as there are threads.

    Each stage's rate among the others, over its rate alone, summed. Three stages at most are tried; what they reach is scaled
    to more threads than that.

    Args:
        text: a clause that the vocoder speaks.
        turn: what end of turn and transcription hear.
        seconds: of each measurement.
    """
    (latents,), _ = stages.step(Role.TALK, [job(clause(text, stages.pack.voices[0]))])
    assert isinstance(latents, Latents)
    heard = utterance_of(turn.pcm)
    jobs = {
        Role.VOCODE: job(LatentChunk(latents=latents, first=0, last=latents.frames)),
        Role.TRANSCRIBE: job(heard, Role.TRANSCRIBE),
        Role.END_OF_TURN: job(heard, Role.END_OF_TURN),
    }
    roles = list(jobs)[: max(1, threads)]
    alone = {role: _rates(stages, {role: jobs[role]}, seconds)[role] for role in roles}
    together = _rates(stages, {role: jobs[role] for role in roles}, seconds)
    done = sum(together[role] / alone[role] for role in roles)
    return max(1.0, done * threads / len(roles))


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
