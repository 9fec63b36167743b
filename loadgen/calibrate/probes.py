"""What is measured: one probe per kind of step, run in rounds so that a busy moment of the machine hits all alike."""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from duplex.payloads import LatentChunk, Latents, Role, Utterance
from duplex.units import seconds_from_samples
from loadgen.calibrate.fit import Sample
from loadgen.calibrate.material import Spoken, clause, question, utterance_of, words_of
from loadgen.calibrate.stages import Answer, Stages, Timing, conversation
from loadgen.jobs import job

PREFILL, DECODE = "prefill", "decode"
TURN_TOKENS = 10
"""About what a chat template adds to a turn."""
_FIRST_TOKENS = 10
"""Of an answer that is asked for to be timed."""
_ANSWER_TOKENS = 60
"""Of one that is asked for to be spoken."""
_CHUNKS_MS = ((0, 100), (100, 300), (700, 1100), (700, 800))
"""Of a clause: its first two chunks, and a long and a short one in its middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One kind of step. `run` does it once and gives, by part of the profile, how big it was and how long it took."""

    label: str
    run: Callable[[], dict[str, Sample]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured."""

    rounds: int
    turns: int
    """Turns that VAD and end of turn hear."""
    parallel_s: float
    """Of each measurement of stages that compute at once."""
    answers: int
    """Answers whose text and sound are looked at."""
    speech_s: tuple[float, ...]
    context: int
    """Words of a long context."""
    prompts: tuple[int, ...]
    """Words of prompts whose prefix is cached up to them."""
    clauses: tuple[int, ...]
    """Words."""


FULL = Sizes(
    rounds=5, turns=24, parallel_s=0.8, context=200, answers=10, speech_s=(1.0, 2.0, 3.0, 5.0, 8.0), prompts=(4, 8, 16, 32, 64), clauses=(3, 4, 8, 12, 15)
)  # fmt: skip
QUICK = Sizes(
    rounds=2, turns=2, parallel_s=0.15, context=80, answers=2, speech_s=(1.0, 3.0), prompts=(4, 24), clauses=(3, 10)
)


@dataclass(slots=True, kw_only=True)
class Measured:
    """Samples by part of the profile."""

    samples: dict[str, list[Sample]] = field(default_factory=lambda: defaultdict(list))


def measure(probes: Sequence[Probe], rounds: int, rng: random.Random, progress: Callable[[str], None]) -> Measured:
    """Run every probe once per round, in a new order each time, and take the medians."""
    found: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for number in range(rounds):
        progress(f"measuring, round {number + 1} of {rounds}")
        for probe in rng.sample(probes, len(probes)):
            for part, sample in probe.run().items():
                found[part, probe.label].append(sample)
    measured = Measured()
    for (part, label), samples in sorted(found.items()):
        measured.samples[part].append(median_of(label, samples))
    return measured


def median_of(label: str, samples: Sequence[Sample]) -> Sample:
    """Return the median of repetitions: of their times, and of each job's units where those are drawn (a talker's)."""
    units = tuple(statistics.median(column) for column in zip(*(sample.units for sample in samples), strict=True))
    return Sample(
        label=label,
        units=units,
        ms=statistics.median(sample.ms for sample in samples),
        cores=statistics.median(sample.cores for sample in samples),
    )


def _sample(units: tuple[float, ...], took: Timing) -> Sample:
    return Sample(label="", units=units, ms=took.ms, cores=took.cores)


def ear_probes(stages: Stages, sizes: Sizes, turns: Callable[[float], Spoken]) -> Iterator[Probe]:
    """Give the probes of end of turn and transcription: speech of several lengths, in batches the stages allow."""
    for role in (Role.END_OF_TURN, Role.TRANSCRIBE):
        for seconds in sizes.speech_s:
            for batch in _batches(stages.batch[role].spec.batch_max):
                utterance = utterance_of(turns(seconds).pcm)
                yield _utterance_probe(stages, role, utterance, batch)


def _utterance_probe(stages: Stages, role: Role, utterance: Utterance, batch: int) -> Probe:
    seconds = seconds_from_samples(utterance.span.end)
    unit = seconds if role is Role.TRANSCRIBE else 1.0

    def run() -> dict[str, Sample]:
        jobs = [job(utterance, f"{role.value}{n}", role) for n in range(batch)]
        _, took = stages.step(role, jobs)
        return {role.value: _sample((unit,) * batch, took)}

    return Probe(label=_label(f"{seconds:.1f} s of speech", batch), run=run)


def think_probes(stages: Stages, sizes: Sizes, tokens_per_word: float, rng: random.Random) -> Iterator[Probe]:
    """Give the thinker's probes: prompts of several lengths with and without a cached prefix, and several at once."""
    for words in sizes.prompts:
        yield _prompt_probe(stages, words, 1, tokens_per_word, rng, cached=False)
        yield _prompt_probe(stages, words, 1, tokens_per_word, rng, cached=True)
    for batch in _batches(stages.think.spec.batch_max)[1:]:
        yield _prompt_probe(stages, sizes.prompts[1], batch, tokens_per_word, rng, cached=False)


def _prompt_probe(
    stages: Stages, words: int, batch: int, tokens_per_word: float, rng: random.Random, cached: bool
) -> Probe:  # fmt: skip
    """The time to first text belongs to the prompt, the time between pieces to decoding; both come of one request."""

    def run() -> dict[str, Sample]:
        names = [f"think{n}" for n in range(batch)]
        before: list[tuple[str, ...]] = [() for _ in names]
        if cached:
            opened = [question(8, rng) for _ in names]
            said = stages.ask(
                [(n, conversation(q, tokens_max=_FIRST_TOKENS)) for n, q in zip(names, opened, strict=True)]
            )
            before = [(q, answer.text) for q, answer in zip(opened, said, strict=True)]
        asked = [
            (name, conversation(*history, question(words, rng), tokens_max=_FIRST_TOKENS))
            for name, history in zip(names, before, strict=True)
        ]
        answers = stages.ask(asked)
        for name in names:
            stages.think.release(name)
        units = (words * tokens_per_word + TURN_TOKENS,) * batch
        slowest = max((answer.first for answer in answers), key=lambda took: took.ms)
        found = {PREFILL: _sample(units, slowest)}
        between = [took for answer in answers if (took := answer.between) is not None]
        if between:
            found[DECODE] = _sample((1.0,) * batch, sorted(between, key=lambda took: took.ms)[len(between) // 2])
        return found

    prefix = "behind a cached turn" if cached else "new"
    return Probe(label=_label(f"{words} words, {prefix}", batch), run=run)


def voice_probes(stages: Stages, sizes: Sizes, said: Sequence[str], rng: random.Random) -> Iterator[Probe]:
    """Give the probes of talker and vocoder: clauses of several lengths, chunks of several sizes."""
    for role in (Role.TALK, Role.VOCODE):
        for batch in _batches(stages.batch[role].spec.batch_max):
            if role is Role.TALK:
                for words in sizes.clauses:
                    yield _talk_probe(stages, words, batch, said, rng)
            else:
                for first, last in _CHUNKS_MS:
                    yield _chunk_probe(stages, first, last, batch, said, rng)


def _talk_probe(stages: Stages, words: int, batch: int, said: Sequence[str], rng: random.Random) -> Probe:
    voice = stages.pack.voices[0]

    def run() -> dict[str, Sample]:
        jobs = [job(clause(words_of(said, words, rng), voice)) for _ in range(batch)]
        results, took = stages.step(Role.TALK, jobs)
        return {Role.TALK.value: _sample(tuple(float(frames_of(each)) for each in results), took)}

    return Probe(label=_label(f"{words} words", batch), run=run)


def _chunk_probe(stages: Stages, first: int, last: int, batch: int, said: Sequence[str], rng: random.Random) -> Probe:
    voice = stages.pack.voices[0]

    def run() -> dict[str, Sample]:
        (latents,), _ = stages.step(Role.TALK, [job(clause(words_of(said, 15, rng), voice))])
        assert isinstance(latents, Latents)
        per_ms = latents.rate / latents.hop / 1000
        start = min(round(first * per_ms), latents.frames - 1)
        end = max(start + 1, min(round(last * per_ms), latents.frames))
        jobs = [job(LatentChunk(latents=latents, first=start, last=end)) for _ in range(batch)]
        _, took = stages.step(Role.VOCODE, jobs)
        return {Role.VOCODE.value: _sample((float(end - start),) * batch, took)}

    return Probe(label=_label(f"{first} to {last} ms of a clause", batch), run=run)


def frames_of(latents: object) -> int:
    """Return the codec frames of a talker's result."""
    assert isinstance(latents, Latents)
    return latents.frames


def answers(stages: Stages, count: int, rng: random.Random) -> list[Answer]:
    """Let the thinker answer questions, one after the other."""
    found = []
    for number in range(count):
        session = f"answer{number}"
        found += stages.ask([(session, conversation(question(10, rng), tokens_max=_ANSWER_TOKENS))])
        stages.think.release(session)
    return found


def _batches(most: int) -> list[int]:
    return [n for n in (1, 2, 4) if n <= most]


def _label(what: str, batch: int) -> str:
    return what if batch == 1 else f"{what}, {batch} at once"
