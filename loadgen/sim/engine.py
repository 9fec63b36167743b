"""The engine stages of the simulated model: iterations over all that runs, as an engine with continuous batching does.

One iteration either reads the prompts of what has just begun (prefill), or makes one unit (a token, a codec frame) of every
running job; its time comes from the profile and is spent on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from duplex.payloads import Clause, Job, JobId, Latents, Prompt, StageError, TextDelta
from duplex.stages.contract import Emit, NodeSpec, Progress, Role
from duplex.units import MonoNs
from loadgen.sim.clock import Clock, Device
from loadgen.sim.kv import KvCache
from loadgen.sim.profile import Cost, Profile
from loadgen.sim.stages import RATE, frames_of, hop_of, word_marks


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """One job in an engine."""

    job: Job
    emit: Emit
    ready: bool = False
    """Its prompt is read."""
    paused: bool = False
    made: int = 0
    """Units so far."""
    total: int
    told: int = 0
    """Units whose output was emitted."""
    pieces: int = 0
    """Outputs so far."""


class Engine:
    """What both engines share: the loop of iterations."""

    spec: NodeSpec

    def __init__(self, clock: Clock, device: Device, read_batch: int, read_cost: Cost, step_cost: Cost) -> None:
        self.read_batch = read_batch
        self.read_cost = read_cost
        self.step_cost = step_cost
        self.stalled_until = MonoNs(0)
        self.broken_until = MonoNs(0)
        self._clock = clock
        self._device = device
        self._runs: dict[JobId, Run] = {}
        self._order: Sequence[JobId] = ()
        self._iterating = False

    def load(self, progress: Progress) -> None:
        """Nothing to load."""

    def submit(self, job: Job, emit: Emit) -> None:
        """Begin a job; it takes part from the next iteration on."""
        if self._clock.now() < self.broken_until:
            emit(StageError(reason=f"{self.spec.name} is broken"))
            return
        self._runs[job.id] = self.begin(job, emit)
        self._iterate()

    def begin(self, job: Job, emit: Emit) -> Run:
        """Return the run of a job."""
        raise NotImplementedError

    def abort(self, job: JobId) -> None:
        """Take a job out; an iteration that is under way still costs its time."""
        self._runs.pop(job, None)

    def pause(self, job: JobId) -> None:
        """Leave a job out of the iterations."""
        if job in self._runs:
            self._runs[job].paused = True

    def resume(self, job: JobId) -> None:
        """Take a job in again."""
        if job in self._runs:
            self._runs[job].paused = False
            self._iterate()

    def reorder(self, jobs: Sequence[JobId]) -> None:
        """Read prompts in this order."""
        self._order = jobs

    def release(self, session: str) -> None:
        """Forget a session's jobs."""
        for job in [job for job, run in self._runs.items() if run.job.address.session == session]:
            del self._runs[job]

    def close(self) -> None:
        """Stop."""
        self._runs.clear()

    def _iterate(self) -> None:
        if self._iterating:
            return
        now = self._clock.now()
        active = [run for run in self._runs.values() if not run.paused]
        if not active:
            return
        self._iterating = True
        if now < self.broken_until:
            for run in active:
                del self._runs[run.job.id]
                run.emit(StageError(reason=f"{self.spec.name} is broken"))
            self._iterating = False
            return
        if now < self.stalled_until:
            self._clock.call_at(self.stalled_until, self._again)
            return
        fresh = self._fresh([run for run in active if not run.ready])
        if fresh:
            self._device.run(self.read_s(fresh), lambda: self._read(fresh), self.read_cost)
        else:
            decoded = [run for run in active if run.ready]
            self._device.run(self.step_s(decoded), lambda: self._stepped(decoded), self.step_cost)

    def _fresh(self, runs: list[Run]) -> list[Run]:
        """Choose whose prompts are read in the next iteration: the scheduler's most urgent ones."""
        if len(runs) <= self.read_batch:
            return runs
        rank = {job: n for n, job in enumerate(self._order)}
        return sorted(runs, key=lambda run: (rank.get(run.job.id, len(rank)), run.job.id))[: self.read_batch]

    def read_s(self, runs: Sequence[Run]) -> float:
        """Return the time of reading prompts."""
        raise NotImplementedError

    def step_s(self, runs: Sequence[Run]) -> float:
        """Return the time of one unit of each of these runs."""
        raise NotImplementedError

    def made(self, run: Run) -> None:
        """One more unit of a run is there: emit what is due."""
        raise NotImplementedError

    def _again(self) -> None:
        self._iterating = False
        self._iterate()

    def _read(self, runs: Sequence[Run]) -> None:
        for run in runs:
            run.ready = True
        self._again()

    def _stepped(self, runs: Sequence[Run]) -> None:
        for run in runs:
            if self._runs.get(run.job.id) is not run:
                continue
            run.made += 1
            if run.made >= run.total:
                del self._runs[run.job.id]
            self.made(run)
        self._again()


@dataclass(slots=True, kw_only=True, eq=False)
class _Thought(Run):
    words: int
    reading: int
    """Tokens of its prompt that have to be read."""
    loading_s: float
    """Bringing its context back to the device."""
    context: int
    """Tokens before those that have to be read."""
    text: list[str] = field(default_factory=list)


class Think(Engine):
    """The thinker: says as many words as the trace wants."""

    def __init__(
        self, profile: Profile, clock: Clock, device: Device, kv: KvCache, words: Callable[[Job], int],
        turn_tokens: Callable[[Job], int],
    ) -> None:  # fmt: skip
        think = profile.think
        super().__init__(clock, device, think.read_batch, think.prefill, think.decode)
        self.spec = NodeSpec(
            name="think", role=Role.THINK, takes=Prompt, gives=TextDelta, unit="token", batch_max=think.slots,
            device=think.device, pausable=think.pausable, step_s=think.decode.seconds([1] * 4),
            steps_to_next=round(4 * think.tokens_per_word),
        )  # fmt: skip
        self._profile = profile
        self._kv = kv
        self._words = words
        self._turn_tokens = turn_tokens

    def begin(self, job: Job, emit: Emit) -> Run:
        """Return the run of a prompt."""
        words = self._words(job)
        reading, loading_s = self._kv.begin(job.address.session, self._turn_tokens(job), self._clock.now())
        total = max(1, round(words * self._profile.think.tokens_per_word))
        context = self._kv.tokens(job.address.session) - reading
        return _Thought(
            job=job, emit=emit, total=total, words=words, reading=reading, loading_s=loading_s, context=context
        )

    def read_s(self, runs: Sequence[Run]) -> float:
        """Return the time of reading prompts."""
        thoughts = [run for run in runs if isinstance(run, _Thought)]
        loading = sum(run.loading_s for run in thoughts)
        think = self._profile.think
        pairs = sum(run.reading * run.context for run in thoughts)
        return think.prefill.seconds([run.reading for run in thoughts]) + pairs * think.read_context_us / 1e6 + loading

    def step_s(self, runs: Sequence[Run]) -> float:
        """Return the time of one token of each."""
        think = self._profile.think
        seconds = think.decode.seconds([1] * len(runs))
        if think.step_context_us:
            context = sum(run.context + run.reading + run.made for run in runs if isinstance(run, _Thought))
            seconds += context * think.step_context_us / 1e6
        return seconds

    def abort(self, job: JobId) -> None:
        """Take a reply out."""
        run = self._runs.get(job)
        if run is not None:
            self._kv.end(run.job.address.session)
        super().abort(job)

    def made(self, run: Run) -> None:
        """Emit the words that are whole."""
        assert isinstance(run, _Thought)
        if run.made >= run.total:
            self._kv.end(run.job.address.session)
        self._kv.grow(run.job.address.session, 1)
        due = run.words if run.made >= run.total else int(run.made / self._profile.think.tokens_per_word)
        if due <= run.told:
            return
        every = self._profile.voice.clause_words
        text = "".join(
            "word, " if (n + 1) % every == 0 and n + 1 < run.words else "word. " if n + 1 == run.words else "words "
            for n in range(run.told, due)
        )
        tokens, run.told = due - run.told, due
        run.emit(TextDelta(text=text, tokens=tokens, finish="stop" if due == run.words else None))


class StreamTalk(Engine):
    """A talker that gives a clause's frames in pieces."""

    def __init__(self, profile: Profile, clock: Clock, device: Device) -> None:
        talk = profile.talk
        super().__init__(clock, device, talk.read_batch, talk.first, talk.cost)
        self.spec = NodeSpec(
            name="talk", role=Role.TALK, takes=Clause, gives=Latents, unit="codec frame", batch_max=talk.slots,
            device=talk.device, pausable=True, step_s=talk.cost.seconds([1] * 4), steps_to_next=talk.pieces[0],
        )  # fmt: skip
        self._profile = profile

    def begin(self, job: Job, emit: Emit) -> Run:
        """Return the run of a clause; a reply's first one is read before."""
        assert isinstance(job.payload, Clause)
        first = job.payload.index == 0  # the clauses of a reply are one stream to the talker
        return Run(job=job, emit=emit, ready=not first, total=frames_of(self._profile, job.payload))

    def read_s(self, runs: Sequence[Run]) -> float:
        """Return the time before a clause's first frame."""
        return self._profile.talk.first.seconds([1] * len(runs))

    def step_s(self, runs: Sequence[Run]) -> float:
        """Return the time of one frame of each."""
        return self._profile.talk.cost.seconds([1] * len(runs))

    def made(self, run: Run) -> None:
        """Emit a piece when it is whole."""
        clause = run.job.payload
        assert isinstance(clause, Clause)
        pieces = self._profile.talk.pieces
        size = pieces[min(run.pieces, len(pieces) - 1)] if clause.index == 0 else pieces[-1]
        if run.made - run.told < size and run.made < run.total:
            return
        run.pieces += 1
        first, run.told = run.told, run.made
        run.emit(
            Latents(
                clause=clause.index, frames=run.made - first, hop=hop_of(self._profile), rate=RATE,
                words=word_marks(clause.text, first, run.made, run.total), data=None, last=run.made >= run.total,
            )
        )  # fmt: skip
