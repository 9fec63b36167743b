"""The shell of one session: mailbox, timer, effects. It owns the core: nobody else hands it anything.

Everything happens on the loop's thread and runs to completion: one message in, the effects drained, the timer armed, and
only then the next message. It knows time only through an `Executor`, so the very same actor runs on simulated time.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import structlog

from duplex.actor.client_events import ClientEvents
from duplex.actor.context import ActorContext
from duplex.actor.microphone import Microphone
from duplex.actor.newest_frame import NewestFrame
from duplex.actor.resume import Way
from duplex.actor.seen_events import SeenEvents
from duplex.actor.side_channel import CALL_ENDED, SideChannel, SideChannels
from duplex.actor.speaker import Speaker
from duplex.actor.speakers_beside import SpeakersBeside
from duplex.media.contract import OutputPacket, ReceiverReport, Transport, VideoFrame
from duplex.payloads import (
    CONVERSATION_LANE,
    Int16Array,
    Job,
    JobId,
    Payload,
    StageError,
    TickInput,
    Utterance,
    VoiceWindow,
)
from duplex.protocol import AppendAudio, ComeBack, Decoded, TransportName, WireEncoder, decode, samples_of
from duplex.protocol.errors import SESSION_NOT_RESUMABLE
from duplex.protocol.rtvi import ClientReady, DisconnectBot, RtviWire
from duplex.session.config import SessionConfig
from duplex.session.core import EXPIRED
from duplex.session.effects import (
    CutLane,
    Drop,
    Duck,
    Effect,
    EndSession,
    Enqueue,
    Hold,
    Observe,
    OfferResume,
    ReleaseOutput,
    Repace,
    Replay,
    Send,
    Submit,
    SubmitPicture,
    SubmitUtterance,
)
from duplex.session.events import ServerEvent, SessionToken
from duplex.session.messages import (
    ClearInput,
    CommitInput,
    Detached,
    Disconnected,
    HearingLags,
    Inbound,
    Network,
    Rejected,
    Sampled,
    StageOutput,
)
from duplex.session.view import LaneState
from duplex.stages.contract import Role
from duplex.units import MonoNs, RtpTicks

_OUR_REASONS = frozenset({"error", EXPIRED})
"""Ends that the transport does not know of yet."""
_log = structlog.get_logger("duplex.session")


class SessionActor:
    """One session, as a `MediaSink` to its transport.

    Args:
        session_id: unique in the process.
        config: the client's choices at its start.
        transport_name: how the client is connected.
        new_id: gives fresh ids.
        next_job: gives a number that no other job of the process has.
        on_closed: told once, when the session has given everything back.
        tenant: whose share of the stages it takes.
        rtvi: reads and words what passes between it and its client, where that speaks RTVI.
    """

    def __init__(
        self, session_id: str, config: SessionConfig, transport_name: TransportName, context: ActorContext,
        new_id: Callable[[str], str], next_job: Callable[[], JobId], on_closed: Callable[[str], None],
        tenant: str = "default", *, rtvi: RtviWire | None = None,
    ) -> None:  # fmt: skip
        self.session_id = session_id
        self._context = context
        self._executor = context.executor
        self._runners = context.runners
        self._transport_name = transport_name
        self._on_closed = on_closed
        traits = context.traits(transport_name, tenant)
        self._core = context.make_core(session_id, config, context.settings, traits, new_id, next_job)
        kept, conversation_id = context.settings.conversation, new_id("conv")
        encoder = WireEncoder(
            session_id=session_id,
            conversation_id=conversation_id,
            transport=transport_name,
            ring_events_max=kept.event_ring_max,
            ring_bytes_max=kept.event_ring_bytes_max,
            ring_audio_bytes_max=kept.event_ring_audio_bytes_max,
        )
        self._rtvi = rtvi
        self._encoder = encoder
        server = context.settings.server
        self._sides = SideChannels(server.side_channels_max)
        self._events = ClientEvents(session_id, encoder, self._sides, server.early_events_max, context.observe, rtvi)
        self._seen = SeenEvents(kept.event_ids_max)
        self._microphone = Microphone(session_id, context, traits, self._core, next_job)
        self._speaker = Speaker(session_id, context, traits, self._core.lane, self.post, self._events.send)
        self._beside = SpeakersBeside(
            lambda lane: Speaker(session_id, context, traits, self._core.lane, self.post, self._events.send, lane)
        )
        self.egress = self._speaker.egress
        self._frame = NewestFrame(context.settings.camera.frame_age_ms_max)
        self._mailbox: deque[Inbound] = deque()
        self._busy = False
        self._ending: str | None = None
        self._closed = False
        self._cancel_timer: Callable[[], None] | None = None
        self._armed: MonoNs | None = None
        self._unknown_fields: Counter[str] = Counter()
        """Fields of client events that nobody knows, by event, until they are observed."""
        self._watch = None
        if context.watch is not None:
            self._watch = context.watch.session(session_id, conversation_id, transport_name, self._executor.now())
        context.runners.open(session_id, self._stage_output)

    # MediaSink. -----------------------------------------------------------------------------------------------------

    def attach(self, transport: Transport) -> None:
        """Give the session its way to the client: before anything else, and again after `detach`."""
        self._events.transport = transport
        self._speaker.attach()

    def detach(self, quiet: MonoNs) -> None:
        """The way to the client is lost; the session stays as it is, and waits.

        Args:
            quiet: time since the client's last sign of life.
        """
        self.post(Detached(quiet=quiet))
        self._events.detach()

    def hear(self, pcm: Int16Array, arrived: MonoNs | None = None) -> None:
        """Take the next input audio: shape (n,), mono, 16 kHz."""
        if not self._closed:
            self._microphone.hear(pcm, arrived)

    def hear_silence(self, n: int) -> None:
        """Take n samples (16 kHz) that are declared silent."""
        self.hear(np.zeros(n, np.int16))

    def next_packet(self, now: MonoNs, rtp_ts: RtpTicks | None = None) -> OutputPacket | None:
        """Return the next 20 ms to send, or None when there is nothing to say; see `MediaSink`."""
        popped = None if self._closed else self._speaker.pop(now, rtp_ts)
        if popped is None:
            return None
        if popped.reply is not None:
            self._microphone.sounded(popped.pcm)
        return OutputPacket(pcm=popped.pcm, epoch=popped.epoch)

    def pump(self) -> None:
        """WebSocket: send waiting audio, as far ahead of the client's player as this session may run."""
        if not self._closed:
            self._speaker.pump()
            self._beside.pump()

    def report(self, report: ReceiverReport) -> None:
        """Take the client's view of our audio."""
        self.post(Network(rtt_ms=report.rtt_ms, jitter_ms=report.jitter_ms, lost=report.packets_lost))

    def see(self, frame: VideoFrame) -> None:
        """Take the newest camera frame."""
        self._frame.take(frame)
        self.post(Sampled(at=frame.at))

    def connected(self) -> None:
        """Media can flow."""
        _log.info("media_connected", session_id=self.session_id)

    def channel_open(self, last_event_id: str | None = None) -> None:
        """Events can be sent; see `MediaSink`."""
        if self._rtvi is None or self._rtvi.ready:
            self.post(self._events.channel_open(last_event_id))

    def channel_lost(self) -> None:
        """Events cannot be sent for a while; media flows on."""
        self._events.pause()

    def receive(self, text: str | bytes, side: SideChannel | None = None) -> None:
        """Take one client event as it came off the wire, perhaps of a side channel."""
        if self._closed:
            return
        if self._rtvi is not None and side is None:
            for said in self._rtvi.decode(text, self._core.config):
                self._take(said)
            return
        message = decode(
            text,
            self._core.config,
            transport=self._transport_name,
            profile=self._context.profile,
            arrived=self._microphone.arrived,
            unknown_fields=self._unknown_fields,
        )
        while self._unknown_fields:
            kind, count = self._unknown_fields.popitem()
            self._context.observe("duplex_unknown_fields_total", count, {"event": kind})
        if side is not None:
            self.post(side.signed(message))
        elif self.resumable and self._seen.repeated(message.event_id):
            self._context.observe("duplex_repeated_events_total", 1, {})
        else:
            self._take(message)

    def open_side_channel(self, transport: Transport) -> SideChannel:
        """Return a further control connection onto this session, whose events go to `transport`.

        Raises:
            TooManySideChannels: there are as many as there may be.
        """
        encoder = self._encoder.beside(f"{self.session_id}_side")
        return self._sides.open(transport, encoder, self.receive, self._core.config)

    def closed(self, reason: str) -> None:
        """The transport is gone: every stage gives back what it holds."""
        if self._closed:
            return
        self.post(Disconnected(reason=reason))

    def refuse_return(self, event_id: str | None) -> None:
        """Answer a `duplex.session.resume` that resumes nothing: the session stays as it is."""
        message = "The token resumes no session on this connection: it was used, its time is over, or it is not yours."
        self.post(Rejected(code=SESSION_NOT_RESUMABLE, message=message, param="token", event_id=event_id))

    # For the shell around it. ---------------------------------------------------------------------------------------

    @property
    def backlog_ms(self) -> int:
        """Input that has arrived and is not analysed yet; a WebSocket over its bound is not read."""
        return self._microphone.backlog_ms

    @property
    def transport_name(self) -> TransportName:
        """How the client is connected."""
        return self._transport_name

    @property
    def resumable(self) -> bool:
        """The client asked to be waited for, or does so whenever it can."""
        return self._core.config.resume or self.rtvi

    @property
    def rtvi(self) -> bool:
        """The client speaks RTVI."""
        return self._rtvi is not None

    @property
    def way(self) -> Way:
        """How the client is connected, as far as it matters to what the end of its connection means."""
        return "rtvi" if self.rtvi else self._transport_name

    @property
    def ended(self) -> bool:
        """The session has given everything back."""
        return self._closed

    @property
    def opened(self) -> bool:
        """The client can be told of events."""
        return self._events.opened

    def lane_state(self) -> LaneState:
        """Return what the session is doing; changes nothing."""
        return self._core.lane_state(self._executor.now())

    async def close(self, reason: str) -> None:
        """End the session from the server's side. Cancel: the session ends, its socket may linger."""
        if self._events.transport is not None:
            self._part()
            await self._events.transport.close(reason)
        self.closed(reason)

    def post(self, message: Inbound) -> None:
        """Take one message; runs to completion unless called from inside."""
        if self._closed:
            return
        silence = self._microphone.take_silence()
        if silence is not None:
            self._mailbox.append(silence)
        self._mailbox.append(message)
        if isinstance(message, Disconnected):
            self._ending = message.reason
        if not self._busy:
            self._run(None)

    # Inside. --------------------------------------------------------------------------------------------------------

    def _take(self, message: Decoded | ClientReady | DisconnectBot) -> None:
        match message:
            case AppendAudio(pcm=raw, format=name):
                self._microphone.append(*samples_of(raw, name))
            case CommitInput() | ClearInput():
                self._microphone.end_appended()
                self.post(replace(message, arrived=self._microphone.arrived))
            case ComeBack():
                self._context.come_back(self.session_id, message)
            case ClientReady():
                if not self._events.opened:
                    self.post(self._events.channel_open(None))
            case DisconnectBot():
                self._part()
                if self._events.transport is not None:
                    self._context.close(self._events.transport, "client")
            case _:
                self.post(message)

    def _part(self) -> None:
        """Tell the client that the server ends the session, where its dialect has a word for it."""
        if self._rtvi is not None and self._events.transport is not None:
            self._events.transport.send(self._rtvi.farewell())

    def _run(self, timeout: MonoNs | None) -> None:
        """Hand the core its deadline or the mailbox's messages, one at a time, draining it after each."""
        self._busy = True
        try:
            if timeout is not None:
                now = max(timeout, self._executor.now())
                if self._microphone.lags:  # the core is about to ask whether media is missing, and cannot know
                    self._core.handle(HearingLags(), now)
                    self._drain(now)
                self._core.handle_timeout(now)
                self._drain(now)
            while self._mailbox:
                message, now = self._mailbox.popleft(), self._executor.now()
                self._core.handle(message, now)
                if self._watch is not None:
                    self._watch.took(message, self._core.lane, now)
                self._drain(now)
        except Exception:
            _log.exception("session_failed", session_id=self.session_id)
            self._ending = "error"
        finally:
            self._busy = False
        if self._ending is not None and not self._closed:
            self._give_back(self._ending)
        self._arm()

    def _drain(self, now: MonoNs) -> None:
        watch = self._watch
        while (effect := self._core.poll()) is not None:
            if watch is not None:
                watch.gave(effect, now)
            self._execute(effect)

    def _execute(self, effect: Effect) -> None:
        match effect:
            case Send(event=event):
                self._tell(event)
            case Observe():
                self._context.observe(effect.measure, effect.value, effect.labels)
            case Submit(job=job):
                self._runners.submit(self._frame.shown_to(job, self._executor.now()))
            case SubmitUtterance():
                self._submit_utterance(effect)
            case SubmitPicture():
                self._submit_picture(effect)
            case Drop(role=role, job=job_id):
                self._runners.drop(role, job_id)
            case Repace(role=role, job=job_id, pace=pace):
                self._runners.repace(role, job_id, pace)
            case EndSession(reason=reason):
                self._ending = reason
            case Replay() | OfferResume():
                self._execute_return(effect)
            case _:
                self._execute_output(effect)

    def _tell(self, event: ServerEvent) -> None:
        self._events.send(event)
        owed = None if self._rtvi is None else self._rtvi.owed()
        if owed is not None:
            self._mailbox.append(owed)

    def _execute_output(self, effect: Enqueue | CutLane | Duck | Hold | ReleaseOutput) -> None:
        match effect:
            case Enqueue(address=address):
                beside = address.lane != CONVERSATION_LANE
                if not (self._beside if beside else self._speaker).enqueue(effect):
                    self._violated("bounds")
            case CutLane():
                now = self._executor.now()
                self._runners.cut(self.session_id, effect.lane, effect.epoch)
                beside = effect.lane != CONVERSATION_LANE
                self._mailbox.appendleft((self._beside if beside else self._speaker).cut(effect, now))
            case Duck(gain_db=gain_db):
                self.egress.duck(gain_db)
            case Hold():
                self.egress.hold()
            case ReleaseOutput(reply=reply, content=content):
                self.egress.release(reply, content)

    def _execute_return(self, effect: Replay | OfferResume) -> None:
        if isinstance(effect, Replay):
            self._events.replay(effect.seen, effect.without)
            return
        token = self._context.offer(self.session_id)
        if token is not None:
            self._events.send(SessionToken(token=token, window_s=self._context.settings.server.resume_window_s))

    def _submit_picture(self, effect: SubmitPicture) -> None:
        picture = self._frame.picture()
        self._runners.submit(
            Job(id=effect.id, stage=Role.READ, address=effect.address, payload=picture, pace=effect.pace)
        )

    def _violated(self, invariant: str) -> None:
        _log.error("invariant_violated", session_id=self.session_id, invariant=invariant)
        self._context.observe("duplex_invariant_violations_total", 1, {"invariant": invariant})

    def _submit_utterance(self, effect: SubmitUtterance) -> None:
        if effect.span.end > self._microphone.position:
            self._violated("causality")
        payload = Utterance(span=effect.span, pcm=self._microphone.read(effect.span))
        self._runners.submit(
            Job(id=effect.id, stage=effect.role, address=effect.address, payload=payload, pace=effect.pace)
        )

    def _stage_output(self, job: Job, payload: Payload | StageError) -> None:
        if job.address.session != self.session_id:
            self._violated("addressing")
            return
        if isinstance(job.payload, VoiceWindow):
            for heard in self._microphone.analysed(job, job.payload, payload):
                self.post(heard)
            self._microphone.go_on()
        elif isinstance(job.payload, TickInput):
            self._microphone.ticked()
            self.post(StageOutput(job=job.id, payload=payload))
            self._microphone.go_on()
        else:
            self.post(StageOutput(job=job.id, payload=payload))

    def _arm(self) -> None:
        """Keep one timer, never later than the core's deadline; one that fires early only looks again."""
        deadline = None if self._closed else self._core.next_deadline()
        if deadline is None or (self._armed is not None and self._armed <= deadline[0]):
            return
        if self._cancel_timer is not None:
            self._cancel_timer()
        self._armed = deadline[0]
        self._cancel_timer = self._executor.call_at(deadline[0], self._timeout)

    def _timeout(self) -> None:
        armed, self._armed, self._cancel_timer = self._armed, None, None
        deadline = None if self._closed else self._core.next_deadline()
        if deadline is None or armed is None:
            return
        if deadline[0] <= armed:
            self._run(armed)
        else:
            self._arm()

    def _give_back(self, reason: str) -> None:
        self._closed = True
        self._mailbox.clear()
        self._microphone.close()
        if reason in _OUR_REASONS and self._events.transport is not None:
            self._part()
            self._context.close(self._events.transport, reason)
        if self._cancel_timer is not None:
            self._cancel_timer()
            self._cancel_timer = None
        for side in self._sides.take_all():
            self._context.close(side.transport, CALL_ENDED)
        self._runners.release(self.session_id)
        if self._watch is not None:
            self._watch.ended(self._executor.now())
        _log.info("session_ended", session_id=self.session_id, reason=reason)
        self._on_closed(self.session_id)
