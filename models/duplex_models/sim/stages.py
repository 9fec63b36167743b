"""Stages of the test double in turn form: deterministic outputs, costs by configuration."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from duplex.payloads import (
    Audio,
    CallDelta,
    Clause,
    Job,
    JobId,
    LatentChunk,
    Latents,
    Payload,
    Prompt,
    StageError,
    TextDelta,
    Transcript,
    TurnEnd,
    Utterance,
    VoiceProbability,
    VoiceWindow,
    WordMark,
)
from duplex.stages.contract import ContextBound, Emit, NodeSpec, Progress, Role
from duplex.units import seconds_from_samples
from duplex_models.sim.calls import steps_of

RATE = 24_000
HOP = 480
"""Samples of one latent frame: 20 ms."""
TONE_HZ_MIN = 400
TONE_HZ_STEP = 60
TONES = 20
_LEVEL = 12_000
_VOICE_LEVEL = 500
_SHOWN_MAX = 64

Cancel = Callable[[], Any]
After = Callable[[float, Callable[[], None]], Cancel]
"""Runs a call after seconds; returns what cancels it."""


def loop_after(seconds: float, call: Callable[[], None]) -> Cancel:
    """Run a call on the running loop; without one, as in a stage's own process, on a thread of its own."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        timer = threading.Timer(seconds, call)
        timer.daemon = True
        timer.start()
        return timer.cancel
    return loop.call_later(seconds, call).cancel


def tone_hz(number: int) -> int:
    """Return the frequency of the n-th reply's tone (replies are counted over the pack's life, from 0)."""
    return TONE_HZ_MIN + TONE_HZ_STEP * (number % TONES)


class SimBatch:
    """What the batch stages share: nothing to load, a cost per step."""

    spec: NodeSpec

    def __init__(self, cost_s: float, sleeps: bool) -> None:
        self.cost_s = cost_s
        self._sleep_s = cost_s if sleeps else 0.0

    def load(self, progress: Progress) -> None:
        """Nothing to load."""
        progress(f"{self.spec.name}: test double")

    def step(self, jobs: Sequence[Job]) -> list[Payload | StageError]:
        """Take the cost once, and give one deterministic result per job."""
        if self._sleep_s:
            time.sleep(self._sleep_s)
        return [self.compute(job) for job in jobs]

    def compute(self, job: Job) -> Payload | StageError:
        """Return the result of one job."""
        raise NotImplementedError

    def release(self, session: str) -> None:
        """Forget a session."""

    def close(self) -> None:
        """Nothing to give back."""


class LevelVad(SimBatch):
    """Voice is whatever is loud; for simulated time."""

    spec = NodeSpec(
        name="vad",
        role=Role.VAD,
        takes=VoiceWindow,
        gives=VoiceProbability,
        unit="window",
        batch_max=256,
        step_s=0.0001,
    )

    def __init__(self) -> None:
        super().__init__(0.0, sleeps=False)

    def compute(self, job: Job) -> Payload:
        window = job.payload
        assert isinstance(window, VoiceWindow)
        loud = int(np.abs(window.pcm).max(initial=0)) > _VOICE_LEVEL
        return VoiceProbability(span=window.span, probability=0.95 if loud else 0.02)


class SimEndOfTurn(SimBatch):
    """Says the same probability always."""

    spec = NodeSpec(
        name="end_of_turn", role=Role.END_OF_TURN, takes=Utterance, gives=TurnEnd, unit="utterance", batch_max=16
    )

    def __init__(self, probability: float, cost_s: float, sleeps: bool) -> None:
        super().__init__(cost_s, sleeps)
        self.probability = probability

    def compute(self, job: Job) -> Payload:
        assert isinstance(job.payload, Utterance)
        return TurnEnd(span=job.payload.span, probability=self.probability)


class SimTranscribe(SimBatch):
    """Claims to have heard its script, or says how long it listened; of a turn that goes on, its script of partials or nothing."""

    spec = NodeSpec(
        name="transcribe", role=Role.TRANSCRIBE, takes=Utterance, gives=Transcript, unit="utterance", batch_max=16
    )

    def __init__(self, transcripts: Sequence[str], partials: Sequence[str], cost_s: float, sleeps: bool) -> None:
        super().__init__(cost_s, sleeps)
        self._transcripts = deque(transcripts)
        self._partials = deque(partials)

    def compute(self, job: Job) -> Payload:
        utterance = job.payload
        assert isinstance(utterance, Utterance)
        partial = job.pace.idle_only
        script = self._partials if partial else self._transcripts
        if script:
            text = script[0]
            script.rotate(-1)
        elif partial:
            text = ""
        else:
            text = f"{seconds_from_samples(len(utterance.span)):.1f} seconds of speech"
        return Transcript(span=utterance.span, text=text)


@dataclass(slots=True)
class _Thought:
    job: Job
    emit: Emit
    steps: deque[TextDelta | CallDelta]
    cancel: Cancel | None = None
    paused: bool = False


class SimThink:
    """Engine stage: says its script word by word, or calls what it is told to (`duplex_models.sim.calls`)."""

    def __init__(
        self, script: Sequence[str], first_token_s: float, token_s: float, pausable: bool, parallel: int, after: After,
        history_tokens: int | None = None,
    ) -> None:  # fmt: skip
        self.spec = NodeSpec(
            name="think",
            role=Role.THINK,
            takes=Prompt,
            gives=TextDelta,
            unit="word",
            batch_max=parallel,
            pausable=pausable,
            prefills=True,
            calls=True,
            step_s=token_s,
            steps_to_next=4,
            context=None
            if history_tokens is None
            else ContextBound(prompt_max=2 * history_tokens, history_max=history_tokens),
        )
        self.prompts: deque[Prompt] = deque(maxlen=_SHOWN_MAX)
        """What it was asked, newest last."""
        self.read: deque[Prompt] = deque(maxlen=_SHOWN_MAX)
        """What it has read ahead, newest last."""
        self.shown: deque[np.ndarray[Any, Any]] = deque(maxlen=_SHOWN_MAX)
        """Camera frames it was shown, newest last."""
        self._script = deque(script)
        self._drafted: dict[str, tuple[int, str]] = {}
        """A session's newest speculative text, behind so many answers: what is said there in the end is the same."""
        self._first_token_s = first_token_s
        self._token_s = token_s
        self._after = after
        self._running: dict[JobId, _Thought] = {}
        self._lock = threading.RLock()
        """Over what is in work: without a loop words come on threads of their own."""

    def load(self, progress: Progress) -> None:
        """Nothing to load."""
        progress("think: test double")

    @property
    def running(self) -> int:
        """Replies in work."""
        return len(self._running)

    def submit(self, job: Job, emit: Emit) -> None:
        """Begin to say the next text of the script, or take the time of a first token to read ahead."""
        prompt = job.payload
        assert isinstance(prompt, Prompt)
        with self._lock:
            if prompt.prefill:
                reading = self._running[job.id] = _Thought(job, emit, deque())
                reading.cancel = self._after(self._first_token_s, lambda: self._have_read(reading, prompt))
                return
            self.prompts.append(prompt)
            self.shown.extend(prompt.frames)
            thought = self._running[job.id] = _Thought(job, emit, deque(steps_of(prompt, self._line(job, prompt))))
            thought.cancel = self._after(self._first_token_s, lambda: self._next(thought))

    def abort(self, job: JobId) -> None:
        """Stop at once."""
        with self._lock:
            thought = self._running.pop(job, None)
        if thought is not None and thought.cancel is not None:
            thought.cancel()

    def pause(self, job: JobId) -> None:
        """Say nothing more for the time being."""
        with self._lock:
            if job in self._running:
                self._running[job].paused = True

    def resume(self, job: JobId) -> None:
        """Go on."""
        with self._lock:
            thought = self._running.get(job)
            if thought is not None and thought.paused:
                thought.paused = False
                if thought.cancel is None:
                    thought.cancel = self._after(self._token_s, lambda: self._next(thought))

    def reorder(self, jobs: Sequence[JobId]) -> None:
        """It has no choice: every reply is thought at its own pace."""

    def release(self, session: str) -> None:
        """Forget a session."""
        with self._lock:
            for job in [job for job, thought in self._running.items() if thought.job.address.session == session]:
                self.abort(job)
            self._drafted.pop(session, None)

    def close(self) -> None:
        """Stop everything."""
        with self._lock:
            for job in list(self._running):
                self.abort(job)

    def _line(self, job: Job, prompt: Prompt) -> str:
        answers = sum(message.role == "assistant" for message in prompt.messages)
        behind, text = self._drafted.pop(job.address.session, (-1, ""))
        if behind != answers:
            text = self._script[0]
            self._script.rotate(-1)
        if job.pace.speculative:
            self._drafted[job.address.session] = answers, text
        return text

    def _have_read(self, thought: _Thought, prompt: Prompt) -> None:
        with self._lock:
            self._running.pop(thought.job.id, None)
            self.read.append(prompt)
        thought.emit(TextDelta(text="", tokens=0, finish="read"))

    def _next(self, thought: _Thought) -> None:
        with self._lock:  # until it is given: the next word may come on another thread
            thought.cancel = None
            if thought.paused:
                return
            step = thought.steps.popleft()
            if thought.steps:
                thought.cancel = self._after(self._token_s, lambda: self._next(thought))
            else:
                self._running.pop(thought.job.id, None)
            thought.emit(step)


class SimTalk(SimBatch):
    """Gives every word the same length."""

    spec = NodeSpec(name="talk", role=Role.TALK, takes=Clause, gives=Latents, unit="clause", batch_max=8)

    def __init__(self, word_ms: int, cost_s: float, sleeps: bool) -> None:
        super().__init__(cost_s, sleeps)
        self._frames = max(1, word_ms // 20)

    def compute(self, job: Job) -> Payload:
        clause = job.payload
        assert isinstance(clause, Clause)
        frames = max(1, round(self._frames / clause.speed))
        words = tuple(
            WordMark(text_end=match.end(), end=frames * (i + 1))
            for i, match in enumerate(re.finditer(r"\S+", clause.text))
        )
        return Latents(
            clause=clause.index, frames=frames * len(words), hop=HOP, rate=RATE, words=words, data=job.address.reply
        )


@dataclass(slots=True)
class _Tone:
    hz: int
    position: int = 0


class SimVocode(SimBatch):
    """One tone per reply, its phase unbroken over chunks and clauses."""

    spec = NodeSpec(name="vocode", role=Role.VOCODE, takes=LatentChunk, gives=Audio, unit="chunk", batch_max=8)

    def __init__(self, cost_s: float, sleeps: bool) -> None:
        super().__init__(cost_s, sleeps)
        self.tones: dict[str, int] = {}
        """Hz by reply id, in the order in which replies first sounded; bounded to the newest."""
        self._state: dict[str, dict[str, _Tone]] = {}
        self.replies = 0
        """Replies that have sounded."""

    def compute(self, job: Job) -> Payload:
        chunk, reply = job.payload, job.address.reply
        assert isinstance(chunk, LatentChunk) and reply is not None
        tones = self._state.setdefault(job.address.session, {})
        tone = tones.get(reply)
        if tone is None:
            tones.clear()
            tone = tones[reply] = _Tone(tone_hz(self.replies))
            self.tones[reply] = tone.hz
            self.replies += 1
            if len(self.tones) > _SHOWN_MAX:
                del self.tones[next(iter(self.tones))]
        n = (chunk.last - chunk.first) * chunk.latents.hop
        t = (tone.position + np.arange(n)) * (2 * np.pi * tone.hz / RATE)
        tone.position += n
        pcm = np.rint(_LEVEL * np.sin(t)).astype(np.int16)
        return Audio(clause=chunk.latents.clause, pcm=pcm, rate=RATE, last=chunk.last == chunk.latents.frames)

    def release(self, session: str) -> None:
        self._state.pop(session, None)
