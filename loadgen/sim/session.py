"""The shell of one simulated session: the production core, with a modelled way in and out.

It does what `duplex.actor.actor` does, without samples and without a wire.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duplex.payloads import CONVERSATION_LANE, Job, JobId, Payload, StageError, Utterance
from duplex.session.config import SessionConfig
from duplex.session.core import SessionCore
from duplex.session.effects import (
    CutLane,
    Drop,
    Duck,
    Effect,
    Enqueue,
    Hold,
    Observe,
    ReleaseOutput,
    Repace,
    Send,
    Submit,
    SubmitUtterance,
)
from duplex.session.events import PlayoutCleared, ReplyCreated, ReplyDone, TurnMetrics
from duplex.session.messages import Connected, Disconnected, Heard, Inbound, Network, Sent, StageOutput
from duplex.session.traits import Traits
from duplex.stages.contract import Role
from duplex.timeline.ledger import SentRange
from duplex.units import POSITION_RATE, MonoNs, Samples, convert, ns_from_ms
from loadgen.sim.egress import PACKET_NS, Egress, Packets
from loadgen.sim.listener import Listener
from loadgen.sim.microphone import Microphone
from loadgen.sim.network import Path
from loadgen.sim.stages import NO_SOUND

if TYPE_CHECKING:
    from loadgen.sim.world import World

_SILENCE = 0.02


@dataclass(slots=True, kw_only=True)
class Ears:
    """What the person on the other side is told."""

    first_sound: Callable[[str, MonoNs], None]
    last_sound: Callable[[str, MonoNs], None]
    split: Callable[[str, dict[str, float]], None]
    """The server's own parts of a turn's time to first audio."""
    broken_off: Callable[[str], None]
    """A reply ends before its end: cut, failed or incomplete."""


class SimSession:
    """One session.

    Args:
        number: of the session in its world.
        path: the client's network, both ways.
        ears: of the person.
    """

    def __init__(self, world: World, number: int, tenant: str, path: Path, ears: Ears) -> None:
        self.id = f"sess_{number}"
        self._world = world
        self._clock = world.clock
        self._runners = world.runners
        self._ears = ears
        pack = world.runners.graph.pack
        think = world.runners.graph.nodes[Role.THINK].spec
        traits = Traits(
            transport="webrtc", semantic=True, pausable=think.pausable, transcribes=True, tick_mode=False,
            bounded=world.runners.policy.bounded, tenant=tenant, speculates=pack.speculates,
            speaking_rate_wpm=pack.speaking_rate_wpm,
        )  # fmt: skip
        ids = iter(range(1 << 60))
        self.core = SessionCore(
            self.id,
            SessionConfig(transcribe=False),  # nobody reads along: no partial transcripts
            world.settings,
            traits,
            lambda prefix: f"{prefix}_{number}_{next(ids)}",
            world.next_job,
        )
        network = path.network
        delay = ns_from_ms(network.delay_ms + network.server_buffer_ms + world.profile.vad_ms)
        self.microphone = Microphone(self._clock, delay, self._heard, lambda: self.core.ignores(_SILENCE))
        self.listener = Listener(path, ears.first_sound, ears.last_sound, world.profile.voice.lead_in_ms)
        self._egress = Egress(self._clock, (number * 7_000_000) % PACKET_NS, self._left)
        self._mailbox: deque[Inbound] = deque()
        self._busy = False
        self._closed = False
        self._armed: MonoNs | None = None
        self._cancel_timer: Callable[[], None] | None = None
        self.replies: list[str] = []
        """Ids, in order."""
        self._runners.open(self.id, self._stage_output)
        self.post(Connected())
        self.post(Network(rtt_ms=2 * network.delay_ms, jitter_ms=network.jitter_ms, lost=0))

    def close(self) -> None:
        """The client is gone."""
        if not self._closed:
            self.microphone.close()
            self.post(Disconnected(reason="client"))
            self._closed = True
            self._arm(None)
            self._runners.release(self.id)

    def post(self, message: Inbound) -> None:
        """Hand the core a message; runs to completion unless called from inside."""
        if self._closed:
            return
        self._mailbox.append(message)
        if not self._busy:
            self._run()

    def _run(self, timeout: MonoNs | None = None) -> None:
        self._busy = True
        core, now = self.core, self._clock.now()
        if timeout is not None:
            core.handle_timeout(max(timeout, now))
            self._drain()
        while self._mailbox:
            core.handle(self._mailbox.popleft(), now)
            self._drain()
        self._busy = False
        deadline = core.next_deadline()
        self._arm(deadline[0] if deadline is not None and not self._closed else None)

    def _drain(self) -> None:
        poll = self.core.poll
        while (effect := poll()) is not None:
            self._execute(effect)

    def _arm(self, when: MonoNs | None) -> None:
        if when == self._armed:
            return
        if self._cancel_timer is not None:
            self._cancel_timer()
            self._cancel_timer = None
        self._armed = when
        if when is not None:
            self._cancel_timer = self._clock.call_at(when, self._due)

    def _due(self) -> None:
        when, self._armed, self._cancel_timer = self._armed, None, None
        if not self._closed:
            self._run(when)

    def _execute(self, effect: Effect) -> None:
        match effect:
            case Observe():
                self._world.observe(effect.measure, effect.value, effect.labels)
            case Send():
                self._told(effect)
            case Submit(job=job):
                self._runners.submit(job)
            case Enqueue():
                length = 0 if effect.audio is None else convert(len(effect.audio.pcm), effect.audio.rate, POSITION_RATE)
                self._egress.enqueue(effect.address, Samples(length), effect.last)
            case Repace(role=role, job=job_id, pace=pace):
                self._runners.repace(role, job_id, pace)
            case Drop(role=role, job=dropped):
                self._runners.drop(role, dropped)
            case SubmitUtterance():
                payload = Utterance(span=effect.span, pcm=NO_SOUND)
                self._runners.submit(
                    Job(id=effect.id, stage=effect.role, address=effect.address, payload=payload, pace=effect.pace)
                )
            case CutLane():
                self._runners.cut(self.id, effect.lane, effect.epoch)
                ranges = self._egress.cut()
                self._mailbox.appendleft(Sent(lane=CONVERSATION_LANE, ranges=ranges, cut=effect.epoch))
            case Duck() | Hold() | ReleaseOutput():
                pass  # level only; `hold` is refused by the world's settings

    def _told(self, effect: Send) -> None:
        match effect.event:
            case ReplyCreated(reply=reply):
                self.replies.append(reply.id)
            case ReplyDone(reply=reply) if reply.status != "completed":
                self._ears.broken_off(reply.id)
            case TurnMetrics(reply_id=reply_id, split=split):
                self._ears.split(reply_id, split)
            case PlayoutCleared(reply_id=cleared):
                self._ears.broken_off(cleared)

    def _heard(self, heard: Heard) -> None:
        self.post(heard)

    def _left(self, ranges: tuple[SentRange, ...], packets: Packets | None, gap: Samples) -> None:
        if packets is not None:
            self.listener.take(packets)
        if ranges:
            self.post(Sent(lane=CONVERSATION_LANE, ranges=ranges, underruns=int(gap > 0), underrun=gap))
            self._world.kv.reply_until(self.id, self.core.lane.dry_at(self._clock.now()))

    def _stage_output(self, job: Job, payload: Payload | StageError) -> None:
        self.post(StageOutput(job=JobId(job.id), payload=payload))
