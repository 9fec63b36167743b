"""One conversation on simulated time: the production actor, core, runners and egress, with the real ears of the pack `local`.

Thinker, talker and vocoder are those of `sim`, but the voice is a recording. What the models hear is computed once for each
recording and kept, so that many settings can be tried on the same material.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import soxr
from duplex_models.local import LocalOptions
from duplex_models.local.end_of_turn import EndOfTurn
from duplex_models.local.transcribe import Transcribe
from duplex_models.local.vad import Vad
from duplex_models.sim import SimOptions, make
from duplex_models.sim.stages import SimVocode

from benchmarks.turn_taking.cases import RATE, Case, sound
from benchmarks.turn_taking.make_sounds import REPLIES, Float
from duplex.actor.actor import SessionActor
from duplex.actor.context import ActorContext
from duplex.config import Settings
from duplex.pacing.policies import make_policy
from duplex.payloads import Audio, Int16Array, Job, LatentChunk, Payload, StageError, Utterance, VoiceWindow
from duplex.protocol import WireProfile, initial
from duplex.session.effects import CutLane, Effect, Hold, ReleaseOutput
from duplex.stages.contract import BatchStage, NodeSpec, Progress, Role
from duplex.stages.graph import build_graph
from duplex.stages.run import StageRunners
from duplex.units import MonoNs, Samples, Span
from tests.sim.world import TICK_NS, Client, World

COSTS_S = {"vad": 0.0005, "end_of_turn": 0.095, "asr": 0.13}
"""Time of a step on two cores (docs/models.md), added in simulated time."""
TICK = RATE // 50


class Memo:
    """A stage of the pack `local` that computes nothing twice: equal audio gets equal answers.

    Args:
        inner: a stage whose answer depends on the utterance alone.
    """

    def __init__(self, inner: BatchStage) -> None:
        self.inner = inner
        self.spec: NodeSpec = inner.spec
        self._known: dict[bytes, Payload | StageError] = {}

    def load(self, progress: Progress) -> None:
        self.inner.load(progress)

    def step(self, jobs: Sequence[Job]) -> list[Payload | StageError]:
        return [self._one(job) for job in jobs]

    def _one(self, job: Job) -> Payload | StageError:
        assert isinstance(job.payload, Utterance)
        key = job.payload.pcm.tobytes()
        if key not in self._known:
            (self._known[key],) = self.inner.step([job])
        return self._known[key]

    def release(self, session: str) -> None:
        self.inner.release(session)

    def close(self) -> None:
        self.inner.close()


class MemoVad:
    """The VAD of `local`, which has a memory: a window's answer is known by all that was heard before it."""

    def __init__(self, inner: Vad) -> None:
        self.inner = inner
        self.spec: NodeSpec = inner.spec
        self._known: dict[int, Payload | StageError] = {}
        self._past: dict[str, tuple[int, list[Job]]] = {}
        """Hash of what a session heard, and the jobs that the model has not seen, because they were known."""

    def load(self, progress: Progress) -> None:
        self.inner.load(progress)

    def step(self, jobs: Sequence[Job]) -> list[Payload | StageError]:
        return [self._one(job) for job in jobs]

    def _one(self, job: Job) -> Payload | StageError:
        assert isinstance(job.payload, VoiceWindow)
        session = job.address.session
        before, skipped = self._past.get(session, (0, []))
        key = hash((before, job.payload.pcm.tobytes()))
        if key in self._known:
            skipped.append(job)
            self._past[session] = key, skipped
            return self._known[key]
        for missed in skipped:
            self.inner.step([missed])
        (self._known[key],) = self.inner.step([job])
        self._past[session] = key, []
        return self._known[key]

    def release(self, session: str) -> None:
        self._past.pop(session, None)
        self.inner.release(session)

    def close(self) -> None:
        self.inner.close()


class RecordedVoice(SimVocode):
    """Says a recording, whatever the text."""

    def __init__(self, pcm: Int16Array) -> None:
        super().__init__(0.045, sleeps=False)
        self._pcm = pcm
        self._at: dict[str, int] = {}

    def compute(self, job: Job) -> Payload:
        chunk, reply = job.payload, job.address.reply
        assert isinstance(chunk, LatentChunk) and reply is not None
        n = (chunk.last - chunk.first) * chunk.latents.hop
        at = self._at.get(reply, 0)
        self._at[reply] = at + n
        piece = self._pcm[at : at + n]
        pcm = np.pad(piece, (0, n - len(piece)))
        return Audio(clause=chunk.latents.clause, pcm=pcm, rate=24_000, last=chunk.last == chunk.latents.frames)


@dataclass(slots=True)
class Outcome:
    """What became of a case; times in seconds from its start."""

    case: Case
    events: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    cuts: list[float] = field(default_factory=list)
    holds: list[tuple[float, float | None]] = field(default_factory=list)
    """When output was withheld, and when it went on (None: a cut ended it)."""
    sounding: list[float] = field(default_factory=list)
    """When packets with sound left."""
    over: bool = False
    """The recording has ended: the hanging up that follows is no part of it."""

    def of(self, kind: str) -> list[float]:
        """Return when events of a type came."""
        return [at for at, event in self.events if event["type"] == kind]


class Ears:
    """The models that listen, loaded once."""

    def __init__(self) -> None:
        options = LocalOptions()
        self.stages: tuple[Any, ...] = (
            MemoVad(Vad()), Memo(EndOfTurn(threads=options.onnx_threads)), Memo(Transcribe(options)),
        )  # fmt: skip
        for stage in self.stages:
            stage.load(lambda line: None)


def run(case: Case, settings: Settings, ears: Ears, wire: dict[str, Any] | None = None) -> Outcome:
    """Play a case to a session and return what it did."""
    world = World(seed=1)
    world.costs.update({name: (lambda cost=cost: cost) for name, cost in COSTS_S.items()})  # type: ignore[misc]
    world.costs.update(talk=lambda: 0.025, vocode=lambda: 0.045)
    voice = sound(f"reply-{case.reply}")
    text = REPLIES[case.reply]
    words = len(text.split())
    options = SimOptions(
        vad="level",
        script=(text,),
        first_token_s=0.09,
        token_s=0.012,
        word_ms=round(len(voice) / RATE / words * 50) * 20,
    )
    sim = make(options, after=world.after, sleeps=False)
    spoken = np.rint(soxr.resample(voice, RATE, 24_000) * 32767).astype(np.int16)
    stages = (*ears.stages, *(s for s in sim.stages if s.spec.role in (Role.THINK, Role.TALK)), RecordedVoice(spoken))
    pack = type(sim)(name="room", stages=stages, edges=sim.edges, hears_short_words=True, hears_language="en")
    observed: list[Any] = []
    runners = StageRunners(
        build_graph(pack),
        world,
        make_policy(settings.scheduling, settings.pacing),
        lambda *a: observed.append(a),
        settings.stages,
    )
    context = ActorContext(
        settings=settings, profile=WireProfile(model="room"), runners=runners, executor=world,
        observe=lambda *a: observed.append(a), close=lambda transport, reason: None,
    )  # fmt: skip
    client = Client(world=world)
    ids, jobs = itertools.count(), itertools.count(1)
    config = initial(context.profile, session_id="room", session=wire)
    actor = SessionActor(
        "room",
        config,
        "webrtc",
        context,
        lambda prefix: f"{prefix}_{next(ids)}",
        lambda: next(jobs),
        lambda session: None,  # type: ignore[arg-type,return-value]
    )
    outcome = Outcome(case)
    _watch(actor, world, outcome)
    actor.attach(client)
    actor.channel_open()
    _play(case, actor, world, outcome)
    outcome.events = [(at / 1e9, event) for at, event in client.events]
    outcome.over = True
    actor.closed("client")
    for stage in ears.stages:
        stage.release("room")
    return outcome


def _play(case: Case, actor: SessionActor, world: World, outcome: Outcome) -> None:
    """Feed the microphone and take the packets, 20 ms at a time; echo is what was sent, later and quieter."""
    microphone = case.microphone().astype(np.float64)
    echo = case.echo
    back = np.zeros(len(microphone) + 2 * RATE)
    response = _room_response()
    for tick in range(len(microphone) // TICK):
        now = MonoNs((tick + 1) * TICK_NS)
        world.advance((now - world.now()) / 1e6)
        start = tick * TICK
        heard = microphone[start : start + TICK] + back[start : start + TICK]
        actor.hear(np.clip(np.rint(heard), -32768, 32767).astype(np.int16))
        packet = actor.next_packet(now)
        if packet is None:
            continue
        if np.abs(packet.pcm).max() > 50:
            outcome.sounding.append(now / 1e9)
        if echo is not None:
            at = start + TICK + echo.delay_ms * RATE // 1000
            driven = np.tanh(packet.pcm.reshape(-1, 3).mean(axis=1) / 32768 * 1.2) / 1.2 * 32768
            piece = np.convolve(driven, response) * 10 ** (echo.db / 20)
            back[at : at + len(piece)] += piece


@cache
def _room_response() -> Float:
    """Return how a room answers its loudspeaker: at once, and for 0.15 s after; the level of the whole is 0 dB."""
    n = int(0.15 * RATE)
    tail = np.random.default_rng(9).standard_normal(n) * np.exp(-np.arange(n) / (0.025 * RATE))
    response = 0.25 * tail / np.sqrt((tail**2).sum())
    response[0] += 1.0
    return response / np.sqrt((response**2).sum())


def _watch(actor: SessionActor, world: World, outcome: Outcome) -> None:
    execute = actor._execute

    def watched(effect: Effect) -> None:
        now = world.now() / 1e9
        if outcome.over:
            pass
        elif isinstance(effect, CutLane):
            outcome.cuts.append(now)
        elif isinstance(effect, Hold):
            outcome.holds.append((now, None))
        elif isinstance(effect, ReleaseOutput) and outcome.holds:
            outcome.holds[-1] = outcome.holds[-1][0], now
        execute(effect)

    actor._execute = watched  # type: ignore[method-assign]


__all__ = ["Ears", "Outcome", "Samples", "Span", "run"]
