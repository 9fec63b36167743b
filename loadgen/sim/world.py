"""One simulation: sessions of a trace against one policy on one profile, from a seed."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from duplex.config import SchedulingSettings, Settings
from duplex.pacing.admission import Admission, Capacity
from duplex.pacing.policies import make_policy
from duplex.payloads import Address, Job, JobId, Utterance
from duplex.stages.contract import ModelPack, Role
from duplex.stages.graph import build_graph
from duplex.stages.run import StageRunners
from duplex.stages.runner import StageSpan
from duplex.units import MonoNs, ns_from_seconds, seconds_from_ns
from loadgen.sim.clock import Clock, Device, SharedDevice
from loadgen.sim.engine import StreamTalk, Think
from loadgen.sim.faults import Fault, apply_faults
from loadgen.sim.kv import Kind, KvCache
from loadgen.sim.network import Network
from loadgen.sim.person import Person, TurnRow
from loadgen.sim.profile import Profile
from loadgen.sim.stages import BatchTalk, EndOfTurn, NoVad, Transcribe, Vocode
from loadgen.trace import SessionTrace

_OBSERVE_EVERY_S = 1.0
_ROLES = {role: number for number, role in enumerate(Role)}
_OUTCOMES = {"done": 0, "failed": 1, "stale": 2, "dropped": 3}
_LONGEST_S = 24 * 3600
_ASKS_AGAIN_S = 1.0
"""Closed loop: a refused caller asks again after this time."""
_SPREAD_S = 20.0
"""Closed loop: the first ones come within this time, not all in one instant."""


class Slo(BaseModel):
    """What a good turn is, and how many have to be."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ttfas_s: float = Field(1.0, gt=0)
    """End of speech to first sound, as heard."""
    gap_s: float = Field(0.1, gt=0)
    """Longest gap inside an answer."""
    share: float = Field(0.9, gt=0, le=1)
    """Of all turns, refused ones included."""

    def met(self, row: TurnRow) -> bool:
        """Return whether a turn was good; one whose caller hung up before it is not asked about."""
        return row.ttfas_s is not None and row.ttfas_s <= self.ttfas_s and row.gap_max_s <= self.gap_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a simulation is run, besides trace, profile, policy and seed."""

    network: Network = field(default_factory=Network)
    slo: Slo = field(default_factory=Slo)
    kv: Kind = "keep"
    kv_tokens: int | None = None
    """Tokens of context that fit; None takes the profile's."""
    admission: bool = True
    faults: tuple[Fault, ...] = ()
    patience_s: float = 8.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the server, by section, over its defaults."""


@dataclass(slots=True, kw_only=True)
class Result:
    """What came of a simulation."""

    rows: list[TurnRow]
    sessions: int
    refused: int
    unheard_s: float
    """Audio made and never heard."""
    duration_s: float
    """Virtual time until everyone had left."""
    busy: dict[str, float]
    """Share of the time in which each device computed."""
    totals: dict[str, float]
    """Sums of the server's own measures, by name and labels."""
    decisions: str
    """Hash over every job's way through its stage: two runs of one seed have the same."""
    aborted: bool = False
    """Given up early: the SLO could not be met any more."""


class World:
    """The server of one simulation, and its clients."""

    def __init__(self, profile: Profile, policy: str, options: Options, seed: int) -> None:
        self.profile = profile
        self.clock = Clock()
        self.network = options.network
        self.settings = _settings(policy, options.settings)
        self._options = options
        self._rng = random.Random(seed)
        self._jobs = itertools.count(1)
        self.people: dict[str, Person] = {}
        """By session id, those who are there."""
        self.rows: list[TurnRow] = []
        self._sums: defaultdict[tuple[str, ...], float] = defaultdict(float)
        self._decisions = 0
        self.devices = {
            name: (SharedDevice if name in profile.shared else Device)(self.clock, parallel)
            for name, parallel in profile.devices.items()
        }
        think = profile.think
        tokens = think.kv_tokens if options.kv_tokens is None else options.kv_tokens
        self.kv = KvCache(options.kv, tokens, think.kv_load_ms_per_token / 1000, think.instructions_tokens)
        self.runners = StageRunners(
            build_graph(self._pack()), self.clock,
            make_policy(self.settings.scheduling, self.settings.pacing, self._foresight),
            self.observe, self.settings.stages, self.settings.scheduling.tenant_weights, self._spanned,
        )  # fmt: skip
        self.admission = Admission(self.settings.admission, self._capacity())
        self.came = 0
        self.refused = 0
        self._misses = 0
        self._closed_loop = False
        self._line: list[SessionTrace] = []
        """Closed loop: those who come when somebody leaves, last first."""

    # What sessions ask for. -----------------------------------------------------------------------------------------

    def next_job(self) -> JobId:
        """Return a number that no other job has."""
        return JobId(next(self._jobs))

    def observe(self, measure: str, value: float, labels: Mapping[str, str]) -> None:
        """Take one of the server's own measures."""
        self._sums[(measure, *[f"{k}={v}" for k, v in labels.items()]) if labels else (measure,)] += value

    @property
    def totals(self) -> dict[str, float]:
        """Sums of the server's own measures so far, by name and labels."""
        return {name + ("{" + ",".join(labels) + "}" if labels else ""): v for (name, *labels), v in self._sums.items()}

    def left(self, person: Person) -> None:
        """Somebody hung up."""
        self.people.pop(person.session.id, None)
        self.kv.release(person.session.id)
        unspoken = [
            TurnRow(
                session=person.trace.session, turn=n, tenant=person.trace.tenant, ended_s=seconds_from_ns(self.clock.now()),
                cut_short=True,
            )
            for n in range(len(person.rows), len(person.trace.turns))
        ]  # fmt: skip
        self.rows += [*person.rows, *unspoken]
        if self._line:
            self._arrive(self._line.pop())

    def turn_over(self, row: TurnRow) -> None:
        """A turn and its answer are over."""
        self._misses += not (row.cut_short or self._options.slo.met(row))
        if not row.cut_short:
            waited_s = self._options.patience_s if row.ttfas_s is None else row.ttfas_s
            self.admission.turn(waited_s, row.gap_max_s, self.clock.now())

    # The run. -------------------------------------------------------------------------------------------------------

    def run(self, sessions: Sequence[SessionTrace], misses_max: float = float("inf"), concurrency: int = 0) -> Result:
        """Let all sessions come, talk and leave.

        Args:
            sessions: in order of arrival.
            misses_max: give up when more turns than that have missed the SLO.
            concurrency: closed loop: so many at once, the next one when one leaves; 0: at their times.
        """
        self._closed_loop = concurrency > 0
        if concurrency:
            self._line = list(reversed(sessions))
            for _ in range(min(concurrency, len(sessions))):
                first, at = self._line.pop(), self._rng.uniform(0, _SPREAD_S)
                self.clock.after(at, lambda first=first: self._arrive(first))  # type: ignore[misc]
        else:
            for trace in sessions:
                self.clock.call_at(MonoNs(ns_from_seconds(trace.at_s)), lambda trace=trace: self._arrive(trace))  # type: ignore[misc]
        apply_faults(self, self._options.faults, self._rng)
        self._watch()
        total = len(sessions)

        def over() -> bool:
            return (self.came >= total and not self.people) or self._misses > misses_max

        self.clock.advance(MonoNs(ns_from_seconds(_LONGEST_S)), over)
        aborted = self.came < total or bool(self.people)
        expected = sum(len(trace.turns) for trace in sessions)
        rows = [*self.rows, *(row for person in self.people.values() for row in person.rows)]
        assert aborted or len(rows) == expected, "every turn of the trace has its row"
        duration = max(1e-9, seconds_from_ns(self.clock.now()))
        return Result(
            rows=rows, sessions=self.came - (0 if self._closed_loop else self.refused), refused=self.refused,
            unheard_s=self._sums["duplex_unheard_audio_seconds_total",], duration_s=duration,
            busy={name: device.busy_s / duration for name, device in self.devices.items()},
            totals=self.totals, decisions=f"{self._decisions & (1 << 64) - 1:016x}", aborted=aborted,
        )  # fmt: skip

    def _arrive(self, trace: SessionTrace) -> None:
        number = self.came
        self.came += 1
        now = self.clock.now()
        if self._options.admission and not self.admission.decide(len(self.people), now).admitted:
            self._refuse(trace, now)
            return
        rng = random.Random(self._rng.getrandbits(64))
        person = Person(self, trace, number, rng, self._options.patience_s)
        self.people[person.session.id] = person

    def _refuse(self, trace: SessionTrace, now: MonoNs) -> None:
        """An open arrival is lost with all its turns; in a closed loop the caller asks again."""
        self.refused += 1
        if self._closed_loop:
            self._misses += 1
            self.came -= 1
            self.clock.after(_ASKS_AGAIN_S, lambda: self._arrive(trace))
            return
        self._misses += len(trace.turns)
        self.rows += [
            TurnRow(session=trace.session, turn=n, tenant=trace.tenant, ended_s=seconds_from_ns(now), refused=True)
            for n in range(len(trace.turns))
        ]

    def _watch(self) -> None:
        self.admission.observe(self.runners.loads(), len(self.people), self.clock.now())
        self.clock.after(_OBSERVE_EVERY_S, self._watch)

    # The model. -----------------------------------------------------------------------------------------------------

    def _pack(self) -> ModelPack:
        profile, clock, devices = self.profile, self.clock, self.devices
        cpu = next(iter(devices.values()))
        think, talk = profile.think, profile.talk
        talker = (StreamTalk if talk.kind == "engine" else BatchTalk)(profile, clock, devices[talk.device])
        return ModelPack(
            name=f"simulated {profile.name}",
            stages=(
                NoVad(clock, cpu),
                EndOfTurn(profile, clock, devices[profile.end_of_turn.device], self._finished),
                Transcribe(profile, clock, devices[profile.transcribe.device]),
                Think(profile, clock, devices[think.device], self.kv, self._words, self._turn_tokens),
                talker,
                Vocode(profile, clock, devices[profile.vocode.device]),
            ),
            edges=((Role.TRANSCRIBE, Role.THINK), (Role.THINK, Role.TALK), (Role.TALK, Role.VOCODE)),
            sessions_max=profile.sessions_max,
            speaking_rate_wpm=round(profile.voice.words_per_minute),
            test_double=True,
            notice="A simulation: nothing is computed.",
        )

    def _capacity(self) -> Capacity:
        engines = {"think"} | ({"talk"} if self.profile.talk.kind == "engine" else set())
        parallelism = {name: float(parallel) for name, parallel in self.profile.devices.items() if name == "cpu"}
        return Capacity(sessions_prior=self.profile.sessions_max, engines=frozenset(engines), parallelism=parallelism)

    def _finished(self, job: Job) -> bool:
        person = self.people.get(job.address.session)
        assert isinstance(job.payload, Utterance)
        return person is None or person.judged_finished(job.payload.span.end)

    def _words(self, job: Job) -> int:
        person = self.people.get(job.address.session)
        return person.turn.answer_words if person is not None else 1

    def _turn_tokens(self, job: Job) -> int:
        person = self.people.get(job.address.session)
        if person is None:
            return 0
        think, turn = self.profile.think, person.turn
        spoken = turn.speech_s * think.audio_tokens_per_s or turn.words * think.tokens_per_word
        return round(spoken) + think.turn_tokens

    def _foresight(self, address: Address) -> MonoNs | None:
        person = self.people.get(address.session)
        return person.interrupts_at(address.reply) if person is not None and address.reply is not None else None

    def _spanned(self, span: StageSpan) -> None:
        began = -1 if span.began_at is None else span.began_at
        numbers = (
            _ROLES[span.role],
            span.job,
            span.queued_at,
            began,
            span.ended_at,
            _OUTCOMES[span.outcome],
            span.batch,
        )
        self._decisions = hash((self._decisions, *numbers))


_TURN = {"first_look_ms": 200, "look_every_ms": 400}
"""Looks for the end of a turn, unless a plan says otherwise: those that the policies were compared with, earlier than a server's
default, so that an answer's time is the engine's."""


def _settings(policy: str, changed: Mapping[str, Any]) -> Settings:
    scheduling = SchedulingSettings.model_validate({"policy": policy} | dict(changed.get("scheduling", {})))
    others = {section: value for section, value in changed.items() if section != "scheduling"}
    turn = _TURN | dict(others.pop("turn", {}))
    return Settings(**others, turn=turn, scheduling=scheduling)
