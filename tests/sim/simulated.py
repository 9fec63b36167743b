"""The simulator under watch: small models in round numbers, callers made in code, and an account of what passes where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from duplex.pacing.policy import Policy, Work
from duplex.payloads import Audio, Job, JobId, Payload, StageError
from duplex.session.effects import Effect, Enqueue, Observe, Send, Submit, SubmitUtterance
from duplex.session.events import ServerEvent
from duplex.session.messages import Inbound
from duplex.session.speculation import Outcome
from duplex.stages import batch_runner, engine_runner
from duplex.stages.contract import Role
from duplex.stages.plan import BatchPlan, EnginePlan, rounds
from duplex.stages.runner import StageSpan
from duplex.units import MonoNs, convert, ns_from_seconds, seconds_from_ns
from loadgen.sim.egress import PACKET, Packets
from loadgen.sim.network import Network
from loadgen.sim.person import Person, TurnRow
from loadgen.sim.profile import Cost, Profile, Stage, Talker, Thinker
from loadgen.sim.world import Options, Result, World
from loadgen.trace import SessionTrace, Turn

POLICIES = ("fcfs", "fcfs_capped", "round_robin", "chunk_deadline", "listener", "oracle")
BOUNDED = ("fcfs_capped", "listener", "oracle")
CLEAN = Network(delay_ms=20, jitter_ms=0, loss=0, server_buffer_ms=20, client_buffer_ms=60)
"""No chance in it."""
FRAME_S = 0.08


def vocoder(ms: float = 5, batch_max: int = 8) -> Stage:
    """A vocoder whose step takes so long, however large its batch."""
    return Stage(device="vocode", cost=Cost(base=ms), batch_max=batch_max)


def thinker(**changes: Any) -> Thinker:
    """10 ms a token, 20 ms a prompt."""
    fields = {"device": "think", "decode": Cost(base=10), "prefill": Cost(base=20), "slots": 8}
    return Thinker(**(fields | changes))


def talker(ms: float = 10, **changes: Any) -> Talker:
    """An engine that makes a codec frame of each running clause in so many milliseconds."""
    fields = {
        "device": "talk",
        "kind": "engine",
        "cost": Cost(base=ms),
        "first": Cost(base=10),
        "slots": 8,
        "pieces": (1, 2),
    }
    return Talker(**(fields | changes))


def profile(**changes: Any) -> Profile:
    """A small model, each stage on a device of its own; first audio of a lone caller comes after some 450 ms."""
    fields: dict[str, Any] = {
        "name": "small", "source": "round numbers", "vad_ms": 10, "sessions_max": 1000,
        "devices": {"cpu": 4, "think": 1, "talk": 1, "vocode": 1},
        "end_of_turn": Stage(device="cpu", cost=Cost(base=10)),
        "transcribe": Stage(device="cpu", cost=Cost(base=20)),
        "think": thinker(), "talk": talker(), "vocode": vocoder(),
    }  # fmt: skip
    return Profile(**(fields | changes))


def narrow(vocode_ms: float, **talk: Any) -> Profile:
    """A model whose only narrow place is a vocoder that makes one chunk at a time."""
    return profile(vocode=vocoder(vocode_ms, batch_max=1), think=thinker(slots=64), talk=talker(2, slots=64, **talk))


def turn(**changes: Any) -> Turn:
    """Speak for 1.5 s half a second into the gap, and get 30 words (10.6 s)."""
    return Turn(**({"gap_s": 0.5, "speech_s": 1.5, "words": 4, "answer_words": 30} | changes))


def caller(name: str, at_s: float = 0.0, turns: int = 1, tenant: str = "default", **changes: Any) -> SessionTrace:
    """Somebody whose turns are all alike."""
    return SessionTrace(session=name, at_s=at_s, tenant=tenant, turns=(turn(**changes),) * turns)


def crowd(count: int, every_s: float = 0.1, first_s: float = 0.0, **changes: Any) -> list[SessionTrace]:
    """So many callers, one after the other."""
    return [caller(f"c{n:03d}", first_s + n * every_s, **changes) for n in range(count)]


def interrupter(name: str, at_s: float = 0.0, after_s: float = 3.0, **changes: Any) -> SessionTrace:
    """Somebody who speaks over the first answer and listens to the second."""
    return SessionTrace(
        session=name, at_s=at_s, turns=(turn(interrupt_after_s=after_s, **changes), turn(**changes))
    )  # fmt: skip


@dataclass
class Account:
    """What became of one session's audio, in samples."""

    made: int = 0
    """Handed to the egress."""
    left: int = 0
    """Sent to the listener, as counted on the listener's side."""
    cut: int = 0
    """Dropped by cuts, as the core counts it."""
    vocoded: int = 0
    """Delivered by the vocoder."""
    thrown: int = 0
    """Of drafts that were not adopted: no egress had it."""


class Watched(World):
    """A world that keeps what passes the edges of its parts."""

    def __init__(self, model: Profile, policy: str = "listener", options: Options | None = None, seed: int = 1) -> None:
        self.spans: list[StageSpan] = []
        self.everyone: dict[str, Person] = {}
        """By name in the trace, those who were admitted."""
        self._names: dict[str, str] = {}
        self.arrivals: list[tuple[str, float]] = []
        self.submitted: Counter[JobId] = Counter()
        self.messages: list[tuple[float, str, Inbound]] = []
        """(time, session, message) of every message to a core."""
        self.events: list[tuple[float, str, ServerEvent]] = []
        self.accounts: dict[str, Account] = {}
        super().__init__(model, policy, options or chosen(), seed)
        vocode = self.runners.runners[Role.VOCODE]
        deliver = vocode._deliver

        def delivered(job: Job, out: Payload | StageError) -> None:
            if isinstance(out, Audio):
                name = self.name_of(job.address.session)
                self.accounts[name].vocoded += convert(len(out.pcm), out.rate, 48_000)
            deliver(job, out)

        vocode._deliver = delivered

    @property
    def now_s(self) -> float:
        return seconds_from_ns(self.clock.now())

    def every(self, seconds: float, look: Callable[[], None]) -> None:
        """Call `look` again and again."""

        def again() -> None:
            look()
            self.clock.after(seconds, again)

        self.clock.after(seconds, again)

    def at(self, at_s: float, call: Callable[[], None]) -> None:
        """Call something at a time."""
        self.clock.call_at(MonoNs(ns_from_seconds(at_s)), call)

    def settle(self, seconds: float = 5.0) -> None:
        """Let time pass after everyone has left."""
        self.clock.advance(MonoNs(self.clock.now() + ns_from_seconds(seconds)))

    def stage(self, role: Role) -> Any:
        return self.runners.graph.nodes[role]

    def spans_of(self, stage: str, outcome: str | None = None) -> list[StageSpan]:
        return [span for span in self.spans if span.stage == stage and outcome in (None, span.outcome)]

    def name_of(self, session_id: str) -> str:
        """Return what the trace calls a session."""
        return self._names[session_id]

    def waits_ms(self, name: str, stage: str = "vocode") -> list[float]:
        """Return how long each job of a caller waited for a stage."""
        session = self.everyone[name].session.id
        return [
            (span.began_at - span.queued_at) / 1e6
            for span in self.spans_of(stage)
            if span.address.session == session and span.began_at is not None
        ]

    def row(self, name: str, number: int = 0) -> TurnRow:
        """Return one turn of one caller."""
        return self.everyone[name].rows[number]

    def buffered(self, name: str) -> int:
        """Return the samples that wait in a session's egress."""
        return sum(speech.made - speech.sent for speech in self.everyone[name].session._egress._speeches)

    def _spanned(self, span: StageSpan) -> None:
        self.spans.append(span)
        super()._spanned(span)

    def _arrive(self, trace: SessionTrace) -> None:
        self.arrivals.append((trace.session, self.now_s))
        before = set(self.people)
        super()._arrive(trace)
        for new in set(self.people) - before:
            self.everyone[trace.session] = self.people[new]
            self._names[new] = trace.session
            self._watch_session(trace.session, self.people[new])

    def _watch_session(self, name: str, person: Person) -> None:
        account = self.accounts[name] = Account()
        session = person.session
        execute, post, take = session._execute, session.post, session.listener.take
        speculation = session.core._replies._speculation
        discard = speculation.discard

        def discarded(outcome: Outcome) -> None:
            if speculation._draft is not None:
                account.thrown += speculation._draft.reply.generated
            discard(outcome)

        def executed(effect: Effect) -> None:
            match effect:
                case Submit(job=Job(id=job)) | SubmitUtterance(id=job):
                    self.submitted[job] += 1
                case Enqueue(audio=audio) if audio is not None:
                    account.made += convert(len(audio.pcm), audio.rate, 48_000)
                case Observe(measure="duplex_unheard_audio_seconds_total", value=seconds):
                    account.cut += round(seconds * 48_000)
                case Send(event=event):
                    self.events.append((self.now_s, name, event))
            execute(effect)

        def posted(message: Inbound) -> None:
            self.messages.append((self.now_s, name, message))
            post(message)

        def taken(packets: Packets) -> None:
            account.left += packets.count * PACKET
            take(packets)

        speculation.discard = discarded  # type: ignore[method-assign]
        session._execute = executed  # type: ignore[method-assign]
        session.post = posted  # type: ignore[method-assign]
        session.listener.take = taken  # type: ignore[method-assign]


def simulate(
    sessions: Sequence[SessionTrace], model: Profile | None = None, policy: str = "listener", seed: int = 1, **options: Any
) -> tuple[Watched, Result]:  # fmt: skip
    """Run a trace on a clean network without admission, unless said otherwise, and return the world and its result."""
    world = Watched(model or profile(), policy, chosen(**options), seed)
    return world, world.run(sessions)


def chosen(**options: Any) -> Options:
    """Return options: a clean network, no admission, nothing made in spare time or speculatively, unless said otherwise."""
    settings = {"turn": {"speculate": False}} | dict(options.pop("settings", {}))
    settings["scheduling"] = {"spare_lead_ms": 0} | dict(settings.get("scheduling", {}))
    return Options(**({"network": CLEAN, "admission": False, "settings": settings} | options))


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One plan of a stage, and what it was made of."""

    role: Role
    now: MonoNs
    unit_ns: int
    policy: Policy
    works: tuple[Work, ...]
    ranks: dict[JobId, tuple[int, int]]
    plan: BatchPlan | EnginePlan

    @property
    def chosen(self) -> tuple[Work, ...]:
        return self.plan.batch if isinstance(self.plan, BatchPlan) else self.plan.order


def watch_plans(monkeypatch: pytest.MonkeyPatch) -> list[Decision]:
    """Keep every decision of the runners, with the ranks as of its moment."""
    decisions: list[Decision] = []

    def watched(module: Any, name: str) -> None:
        plan = getattr(module, name)

        def planned(works: Iterable[Work], now: MonoNs, unit_ns: int, policy: Policy, *rest: Any) -> Any:
            seen = tuple(works)
            made = plan(seen, now, unit_ns, policy, *rest)
            unit_ns *= rounds(seen, now, rest[0])
            ranks = {work.job.id: policy.rank(work, now, unit_ns) for work in seen}
            if seen:
                role = seen[0].job.stage
                decisions.append(
                    Decision(role=role, now=now, unit_ns=unit_ns, policy=policy, works=seen, ranks=ranks, plan=made)
                )
            return made

        monkeypatch.setattr(module, name, planned)

    watched(batch_runner, "plan_batch")
    watched(engine_runner, "plan_engine")
    return decisions
