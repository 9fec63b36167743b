"""A whole session on simulated time: the production actor, core, runners and egress, a microphone, an ear and a bad network.

Nothing sleeps: a heap of calls is the clock. Order within one instant is the order of scheduling.
"""

from __future__ import annotations

import heapq
import itertools
import json
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from duplex_models.sim import SimOptions, make

from duplex.actor.actor import SessionActor
from duplex.actor.context import ActorContext
from duplex.config import Settings
from duplex.pacing.policies import make_policy
from duplex.pacing.policy import Policy
from duplex.payloads import Job, Payload, StageError
from duplex.protocol import TransportName, WireProfile, initial
from duplex.protocol.images import bounds_of
from duplex.session.effects import CutLane, Effect
from duplex.stages.contract import ModelPack
from duplex.stages.graph import build_graph
from duplex.stages.run import StageRunners
from duplex.stages.runner import Deliver, StageSpan
from duplex.units import MonoNs, ns_from_ms, ns_from_seconds

TICK_NS = ns_from_ms(20)
MIC_RATE = 16_000


class World:
    """The clock, and where stages compute; the `Executor` of the runners and actors under test."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self._now = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._cancelled: set[int] = set()
        self.costs: dict[str, Callable[[], float]] = {}
        """Seconds of one step, by stage."""

    def now(self) -> MonoNs:
        return MonoNs(self._now)

    def run(self, stage: str, step: Callable[[], Any], done: Callable[[Any], None]) -> None:
        try:
            result: Any = step()
        except Exception as error:  # the executor's contract: an exception is a result
            result = error
        cost = self.costs.get(stage, lambda: 0.0)()
        self.call_at(MonoNs(self._now + ns_from_seconds(cost)), lambda: done(result))

    def abandon(self, stage: str) -> None:
        """There are no threads here."""

    def post(self, call: Callable[[], None]) -> None:
        self.call_at(MonoNs(self._now), call)

    def call_at(self, when: MonoNs, call: Callable[[], None]) -> Callable[[], None]:
        number = next(self._order)
        heapq.heappush(self._heap, (max(when, self._now), number, call))
        return lambda: self._cancelled.add(number)

    def after(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        return self.call_at(MonoNs(self._now + ns_from_seconds(seconds)), call)

    def advance(self, ms: float) -> None:
        """Let time pass."""
        end = self._now + ns_from_ms(ms)
        while self._heap and self._heap[0][0] <= end:
            when, number, call = heapq.heappop(self._heap)
            if number in self._cancelled:
                self._cancelled.discard(number)
                continue
            self._now = when
            call()
        self._now = end


@dataclass
class Client:
    """A client's end of one session: what it got, and when."""

    events: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    closed: str | None = None

    def send(self, event: str) -> None:
        self.events.append((self.world.now(), json.loads(event)))

    async def close(self, reason: str) -> None:
        self.closed = reason

    world: World = field(default_factory=World)

    def of(self, *types: str) -> list[dict[str, Any]]:
        """Return the events of some types, in order."""
        return [event for _, event in self.events if event["type"] in types]

    def types(self) -> list[str]:
        return [event["type"] for _, event in self.events]

    def at(self, kind: str) -> int:
        """Return when the first event of a type came."""
        return next(when for when, event in self.events if event["type"] == kind)


class Session:
    """One simulated session: talk, type, listen."""

    def __init__(
        self, server: Server, transport: TransportName = "webrtc", wire: dict[str, Any] | None = None, phase: int = 0,
        opens: bool = True,
    ) -> None:  # fmt: skip
        self.server = server
        world = server.world
        self.client = Client(world=world)
        name = f"sess_{next(server.names)}"
        config = initial(server.profile, session_id=name, session=wire)
        ids = itertools.count()
        self.ended: list[str] = []
        self.actor = SessionActor(
            name, config, transport, server.context, lambda prefix: f"{prefix}_{name}_{next(ids)}", server.next_job,
            self.ended.append,
        )  # fmt: skip
        self.effects: list[tuple[int, Effect]] = []
        self._watch_effects()
        self.packets: list[tuple[int, np.ndarray[Any, Any] | None, int]] = []
        """(ns, 20 ms or None, epoch) as they left."""
        self._voice_until = 0
        self._mic_on = True
        self._phase = phase
        server.sessions.append(self)
        self.actor.attach(self.client)
        if opens:
            self.actor.channel_open()
        self._transport = transport
        world.call_at(MonoNs(world.now() + TICK_NS + phase), self._tick)

    # The user. ------------------------------------------------------------------------------------------------------

    def say(self, ms: float) -> None:
        """Speak for a while from now on; does not wait."""
        self._voice_until = self.server.world.now() + ns_from_ms(ms)

    def mute(self) -> None:
        self._mic_on = False

    def event(self, **event: Any) -> None:
        """Send a client event."""
        self.actor.receive(json.dumps(event))

    def type_text(self, text: str) -> None:
        """Type a turn and ask for a reply."""
        content = [{"type": "input_text", "text": text}]
        self.event(type="conversation.item.create", item={"type": "message", "role": "user", "content": content})
        self.event(type="response.create")

    def leave(self) -> None:
        self.actor.closed("client")

    # The listener. --------------------------------------------------------------------------------------------------

    def heard(self) -> np.ndarray[Any, Any]:
        """Return all that was sent as one waveform, silence where nothing was (48 kHz)."""
        quiet = np.zeros(960, np.int16)
        return np.concatenate([quiet if pcm is None else pcm for _, pcm, _ in self.packets])

    def sounding(self) -> list[int]:
        """Return when packets with sound left."""
        return [when for when, pcm, _ in self.packets if pcm is not None and np.abs(pcm).max() > 50]

    def _tick(self) -> None:
        if self.ended:
            return
        world = self.server.world
        now = world.now()
        if self._mic_on:
            loud = now < self._voice_until
            pcm = np.full(320, 8000, np.int16) if loud else np.zeros(320, np.int16)
            pcm[::2] *= -1
            self.actor.hear(pcm)
        if self._transport == "webrtc":
            packet = self.actor.next_packet(now)
            self.packets.append((now, packet.pcm if packet else None, packet.epoch if packet else 0))
        else:
            self.actor.pump()
        world.call_at(MonoNs(now + TICK_NS), self._tick)

    def _watch_effects(self) -> None:
        execute = self.actor._execute

        def watched(effect: Effect) -> None:
            self.effects.append((self.server.world.now(), effect))
            if isinstance(effect, CutLane):
                self.server.cuts[self.actor.session_id, effect.lane] = effect.epoch
            execute(effect)

        self.actor._execute = watched  # type: ignore[method-assign]


class Server:
    """The production runners over the sim pack, on simulated time."""

    def __init__(
        self, options: SimOptions | None = None, settings: Settings | None = None, seed: int = 0,
        policy: Policy | None = None,
    ) -> None:  # fmt: skip
        self.world = World(seed)
        self.settings = settings or Settings()
        self.options = options or SimOptions(vad="level")
        self.pack: ModelPack = make(self.options, after=self.world.after, sleeps=False)
        self.measures: list[tuple[str, float, dict[str, str]]] = []
        self.cuts: dict[tuple[str, int], int] = {}
        """Epoch of each session's lanes after their last cut."""
        self.stale: list[str] = []
        """Stale outputs that passed an edge; must stay empty."""
        self.spans: list[StageSpan] = []
        """Every job's way through its stage, as it ended."""
        self.runners = StageRunners(
            build_graph(self.pack), self.world, policy or make_policy(self.settings.scheduling, self.settings.pacing),
            self._observe, self.settings.stages, self.settings.scheduling.tenant_weights, self._spanned,
        )  # fmt: skip
        for stage in self.pack.stages:
            if (cost := getattr(stage, "cost_s", 0.0)) > 0:
                self.world.costs[stage.spec.name] = lambda cost=cost: cost  # type: ignore[misc]
        images = bounds_of(self.settings.conversation, reads=self.pack.reads_images)
        self.profile = WireProfile(model="sim", voices=self.pack.voices, images=images)
        self.context = ActorContext(
            settings=self.settings, profile=self.profile, runners=self.runners, executor=self.world,
            observe=self._observe, close=lambda transport, reason: setattr(transport, "closed", reason),
            tick_ms=self.pack.tick_ms,
        )  # fmt: skip
        self.sessions: list[Session] = []
        self.names = itertools.count()
        jobs = itertools.count(1)
        self.next_job: Callable[[], Any] = lambda: next(jobs)
        self._watch_edges()

    def connect(
        self, transport: TransportName = "webrtc", wire: dict[str, Any] | None = None, opens: bool = True
    ) -> Session:
        return Session(self, transport, wire, phase=len(self.sessions) * 1_000_000 % TICK_NS, opens=opens)

    def advance(self, ms: float) -> None:
        self.world.advance(ms)

    def observe_nothing(self) -> None:
        """Keep no measures: for long runs."""
        self.measures = deque(maxlen=0)  # type: ignore[assignment]
        self.spans = deque(maxlen=0)  # type: ignore[assignment]

    def stage(self, name: str) -> Any:
        return next(runner._watchdog.stage for runner in self.runners.runners.values() if runner.spec.name == name)

    def total(self, measure: str, **labels: str) -> float:
        return sum(v for name, v, got in self.measures if name == measure and labels.items() <= got.items())

    def values(self, measure: str, **labels: str) -> list[float]:
        return [v for name, v, got in self.measures if name == measure and labels.items() <= got.items()]

    def check(self) -> None:
        """Check the invariants that hold at every moment."""
        assert not self.stale, self.stale
        assert self.total("duplex_stale_packets_total") == 0
        assert self.total("duplex_invariant_violations_total") == 0
        for session in self.sessions:
            check_lifecycle(session.client.types(), session.client)

    def _spanned(self, span: StageSpan) -> None:
        self.spans.append(span)

    def _observe(self, measure: str, value: float, labels: dict[str, str]) -> None:
        self.measures.append((measure, value, labels))

    def _watch_edges(self) -> None:
        """Note, independently of the gates, whatever stale work passes an edge of the graph."""
        for role, runner in self.runners.runners.items():
            deliver: Deliver = runner._deliver

            def delivered(job: Job, out: Payload | StageError, deliver: Deliver = deliver, role: Any = role) -> None:
                address = job.address
                if address.lane >= 0 and address.epoch < self.cuts.get((address.session, address.lane), 0):
                    self.stale.append(f"{role} delivered a result of epoch {address.epoch}, lane {address.lane}")
                deliver(job, out)

            runner._deliver = delivered


def check_lifecycle(types: Iterable[str], client: Client) -> None:
    """Every reply has one created and at most one terminal event; speech pairs match; sequence numbers grow."""
    created = [event["response"]["id"] for event in client.of("response.created")]
    done = [event["response"]["id"] for event in client.of("response.done")]
    assert len(created) == len(set(created))
    assert len(done) == len(set(done))
    assert set(done) <= set(created)
    started = [event["item_id"] for event in client.of("input_audio_buffer.speech_started")]
    stopped = [event["item_id"] for event in client.of("input_audio_buffer.speech_stopped")]
    assert stopped == started[: len(stopped)] and len(started) - len(stopped) <= 1
    numbers = [event["event_id"] for _, event in client.events]
    assert numbers == sorted(numbers)
