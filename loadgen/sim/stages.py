"""The batch stages of the simulated model: results at once, costs by the profile."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from duplex.payloads import (
    Audio,
    Clause,
    Int16Array,
    Job,
    LatentChunk,
    Latents,
    Payload,
    StageError,
    Transcript,
    TurnEnd,
    Utterance,
    VoiceProbability,
    VoiceWindow,
    WordMark,
)
from duplex.stages.contract import NodeSpec, Progress, Role
from duplex.units import MonoNs, seconds_from_samples
from loadgen.sim.clock import Clock, Device
from loadgen.sim.profile import Cost, Profile, Stage

RATE = 24_000
NO_SOUND: Int16Array = np.zeros(0, np.int16)


@functools.lru_cache(maxsize=256)
def silent(samples: int) -> Int16Array:
    """Return audio of a length without its memory: nobody listens to the samples here."""
    return np.broadcast_to(np.int16(0), samples)


class ModelledStage:
    """A batch stage whose step takes what the profile says, on a device.

    Faults: `stalled_until` lets a step that begins before take until then; `broken_until` fails it.
    """

    def __init__(self, spec: NodeSpec, cost: Cost, clock: Clock, device: Device) -> None:
        self.spec = spec
        self.stalled_until = MonoNs(0)
        self.broken_until = MonoNs(0)
        self._cost = cost
        self._clock = clock
        self._device = device
        self._seconds = 0.0
        clock.steps[spec.name] = self._spend

    def load(self, progress: Progress) -> None:
        """Nothing to load."""

    def step(self, jobs: Sequence[Job]) -> Sequence[Payload | StageError]:
        """Compute the results, and note how long that takes."""
        self._seconds = self._cost.seconds([self.units(job) for job in jobs])
        if self._clock.now() < self.broken_until:
            return [StageError(reason=f"{self.spec.name} is broken") for _ in jobs]
        return [self.compute(job) for job in jobs]

    def units(self, job: Job) -> float:
        """Return a job's size."""
        return 1.0

    def compute(self, job: Job) -> Payload:
        """Return a job's result."""
        raise NotImplementedError

    def release(self, session: str) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing to give back."""

    def _spend(self, done: Callable[[], None]) -> None:
        seconds, self._seconds = self._seconds, 0.0  # a step that only releases sessions computes nothing
        if self._clock.now() < self.stalled_until:
            self._clock.call_at(self.stalled_until, lambda: self._device.run(seconds, done, self._cost))
        else:
            self._device.run(seconds, done, self._cost)


def _spec(name: str, role: Role, takes: type, gives: type, unit: str, stage: Stage, seconds: float) -> NodeSpec:
    return NodeSpec(
        name=name, role=role, takes=takes, gives=gives, unit=unit, batch_max=stage.batch_max, device=stage.device,
        step_s=seconds,
    )  # fmt: skip


class NoVad(ModelledStage):
    """Never asked: the simulated ear tells the core its verdicts with the profile's delay."""

    def __init__(self, clock: Clock, device: Device) -> None:
        spec = NodeSpec(name="vad", role=Role.VAD, takes=VoiceWindow, gives=VoiceProbability, unit="window")
        super().__init__(spec, Cost(), clock, device)

    def compute(self, job: Job) -> Payload:
        """Not reached."""
        raise AssertionError("the simulated ear has its own voice activity")


class EndOfTurn(ModelledStage):
    """Knows whether the speaker has finished."""

    def __init__(self, profile: Profile, clock: Clock, device: Device, finished: Callable[[Job], bool]) -> None:
        stage = profile.end_of_turn
        spec = _spec("end_of_turn", Role.END_OF_TURN, Utterance, TurnEnd, "utterance", stage, stage.cost.seconds([1]))
        super().__init__(spec, stage.cost, clock, device)
        self._finished = finished

    def compute(self, job: Job) -> Payload:
        """Return a sure verdict."""
        assert isinstance(job.payload, Utterance)
        return TurnEnd(span=job.payload.span, probability=0.95 if self._finished(job) else 0.05)


class Transcribe(ModelledStage):
    """Its words are of no matter."""

    def __init__(self, profile: Profile, clock: Clock, device: Device) -> None:
        stage = profile.transcribe
        spec = _spec("transcribe", Role.TRANSCRIBE, Utterance, Transcript, "utterance", stage, stage.cost.seconds([3]))
        super().__init__(spec, stage.cost, clock, device)

    def units(self, job: Job) -> float:
        """Return seconds of audio."""
        assert isinstance(job.payload, Utterance)
        return seconds_from_samples(len(job.payload.span))

    def compute(self, job: Job) -> Payload:
        """Return some words."""
        assert isinstance(job.payload, Utterance)
        return Transcript(span=job.payload.span, text="words")


def frames_of(profile: Profile, clause: Clause) -> int:
    """Return a clause's length in codec frames."""
    return profile.frames(len(clause.text.split()))


def hop_of(profile: Profile) -> int:
    """Return the audio samples of a codec frame."""
    return round(profile.voice.frame_ms * RATE / 1000)


def word_marks(text: str, first: int, last: int, frames: int) -> tuple[WordMark, ...]:
    """Return the words of a clause that end in frames first < f <= last, all words of one length."""
    words = [match.end() for match in re.finditer(r"\S+", text)]
    ends = [(end, round(frames * (n + 1) / len(words))) for n, end in enumerate(words)]
    return tuple(WordMark(text_end=end, end=frame - first) for end, frame in ends if first < frame <= last)


class BatchTalk(ModelledStage):
    """A talker that gives whole clauses."""

    def __init__(self, profile: Profile, clock: Clock, device: Device) -> None:
        talk = profile.talk
        spec = NodeSpec(
            name="talk", role=Role.TALK, takes=Clause, gives=Latents, unit="clause", batch_max=talk.slots,
            device=talk.device, step_s=talk.cost.seconds([20]),
        )  # fmt: skip
        super().__init__(spec, talk.cost, clock, device)
        self._profile = profile

    def units(self, job: Job) -> float:
        """Return codec frames."""
        assert isinstance(job.payload, Clause)
        return frames_of(self._profile, job.payload)

    def compute(self, job: Job) -> Payload:
        """Return the clause's frames."""
        clause = job.payload
        assert isinstance(clause, Clause)
        frames = frames_of(self._profile, clause)
        return Latents(
            clause=clause.index, frames=frames, hop=hop_of(self._profile), rate=RATE,
            words=word_marks(clause.text, 0, frames, frames), data=None,
        )  # fmt: skip


class Vocode(ModelledStage):
    """Frames become silence of the right length."""

    def __init__(self, profile: Profile, clock: Clock, device: Device) -> None:
        stage = profile.vocode
        spec = _spec("vocode", Role.VOCODE, LatentChunk, Audio, "chunk", stage, stage.cost.seconds([3]))
        super().__init__(spec, stage.cost, clock, device)

    def units(self, job: Job) -> float:
        """Return codec frames."""
        assert isinstance(job.payload, LatentChunk)
        return job.payload.last - job.payload.first

    def compute(self, job: Job) -> Payload:
        """Return the chunk's sound."""
        chunk: Any = job.payload
        latents = chunk.latents
        pcm = silent((chunk.last - chunk.first) * latents.hop)
        return Audio(clause=latents.clause, pcm=pcm, rate=latents.rate, last=chunk.last == latents.frames)
