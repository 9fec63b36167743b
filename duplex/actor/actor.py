"""The shell of one session: mailbox, timer, effects. It owns the core; nobody else holds a reference to it.

Everything happens on the loop's thread and runs to completion: one message in, the effects drained, the timer armed, and
only then the next message. It knows time only through an `Executor`, so the very same actor runs on simulated time.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import structlog

from duplex.actor.ingress import WINDOW, Ingress
from duplex.actor.watch import MakeCore, Watch
from duplex.config import Settings
from duplex.media.contract import INPUT_RATE, OutputPacket, ReceiverReport, Transport, VideoFrame
from duplex.media.echo_gate import HISTORY, EchoGate, reference_ms
from duplex.media.egress import EgressQueue
from duplex.media.processing import AudioProcessor, Make, Processing
from duplex.media.reference import Reference
from duplex.media.resample import StreamResampler
from duplex.payloads import (
    CONVERSATION_LANE,
    INPUT_LANE,
    Address,
    Int16Array,
    Job,
    JobId,
    Pace,
    Payload,
    Picture,
    Prompt,
    StageError,
    TickInput,
    Utterance,
    VoiceProbability,
    VoiceWindow,
)
from duplex.protocol import AppendAudio, TransportName, WireEncoder, WireProfile, decode, to_json
from duplex.session.config import SessionConfig
from duplex.session.core import EXPIRED, SessionCore
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
    Send,
    Submit,
    SubmitPicture,
    SubmitUtterance,
)
from duplex.session.events import ReplyAudio, ServerEvent, SessionCreated, SessionToken
from duplex.session.messages import (
    Connected,
    Detached,
    Disconnected,
    Heard,
    Inbound,
    Network,
    Sampled,
    Sent,
    StageOutput,
)
from duplex.session.traits import Traits
from duplex.session.view import LaneState
from duplex.stages.contract import ModelPack, Role
from duplex.stages.executor import Executor
from duplex.stages.run import StageRunners
from duplex.timeline.playback import WallClockPlayer
from duplex.units import POSITION_RATE, PTIME, MonoNs, Samples, Span, ns_from_ms, samples_from_ms, seconds_from_ns

WEBSOCKET_RATE = 24_000
_REPORT_EVERY = samples_from_ms(200)
"""Output between two `Sent` messages, when nothing special happens."""
_DELTA_SAMPLES = WEBSOCKET_RATE // 5
"""Greatest length of one WebSocket audio delta: 200 ms."""
_SILENCE_TOLD_EVERY = samples_from_ms(256)
"""Silence that nobody waits for is told to the core in spans of this length."""
_EARLY_EVENTS = 256
_TICKS_IN_FLIGHT = 8
_WINDOWS_IN_FLIGHT = 32
"""VAD windows submitted at once; more audio waits in the backlog."""
_UNBOUNDED_MS_MAX = 600_000
"""Bound on unsent audio under a scheduling policy that does not keep to the lead target."""
_OUR_REASONS = frozenset({"error", EXPIRED})
"""Ends that the transport does not know of yet."""
_log = structlog.get_logger("duplex.session")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorContext:
    """What the sessions of a process share."""

    settings: Settings
    profile: WireProfile
    runners: StageRunners
    executor: Executor
    observe: Callable[[str, float, dict[str, str]], None]
    close: Callable[[Transport, str], None]
    """Closes a transport in the background."""
    tick_ms: int | None = None
    watch: Watch | None = None
    make_core: MakeCore = SessionCore
    """Makes a session's core; a recorder makes one that is under record."""
    offer: Callable[[str], str | None] = lambda session_id: None
    """Makes the next token that resumes a session; None: no session can be resumed."""
    processing: Make | None = None
    """Makes the module that cancels echo and noise; None: audio is taken as it comes."""


def _words_tell(settings: Settings, pack: ModelPack) -> bool:
    confirm = settings.barge_in.confirm
    return confirm == "semantic" or (confirm == "auto" and pack.hears_short_words)


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
    """

    def __init__(
        self, session_id: str, config: SessionConfig, transport_name: TransportName, context: ActorContext,
        new_id: Callable[[str], str], next_job: Callable[[], JobId], on_closed: Callable[[str], None],
        tenant: str = "default",
    ) -> None:  # fmt: skip
        self.session_id = session_id
        self._context = context
        self._executor = context.executor
        self._runners = context.runners
        self._transport_name = transport_name
        self._on_closed = on_closed
        settings = context.settings
        nodes = context.runners.graph.nodes
        traits = Traits(
            transport=transport_name,
            semantic=Role.END_OF_TURN in nodes,
            pausable=Role.THINK in nodes and nodes[Role.THINK].spec.pausable,
            transcribes=Role.TRANSCRIBE in nodes,
            tick_mode=context.tick_ms is not None,
            words_tell=Role.TRANSCRIBE in nodes and _words_tell(settings, context.runners.graph.pack),
            reads=Role.READ in nodes,
            bounded=context.runners.policy.bounded,
            tenant=tenant,
            speculates=context.runners.graph.pack.speculates,
            context=nodes[Role.THINK].spec.context if Role.THINK in nodes else None,
            prefills=Role.THINK in nodes and nodes[Role.THINK].spec.prefills,
            speaking_rate_wpm=context.runners.graph.pack.speaking_rate_wpm,
        )
        self._core = context.make_core(session_id, config, settings, traits, new_id, next_job)
        self._next_job = next_job
        conversation_id = new_id("conv")
        self._encoder = WireEncoder(
            session_id=session_id,
            conversation_id=conversation_id,
            transport=transport_name,
            ring_events_max=settings.conversation.event_ring_max,
        )
        rate = PTIME * 50 if transport_name == "webrtc" else WEBSOCKET_RATE
        pacing = settings.pacing
        start_delay_ms = 0 if context.tick_ms is None else pacing.tick_start_delay_ms
        generated_ms_max = pacing.generated_ms_max if traits.bounded else _UNBOUNDED_MS_MAX
        self.egress = EgressQueue(
            session_id, CONVERSATION_LANE, rate, context.runners.lanes, generated_ms_max, start_delay_ms,
            one_reply=transport_name == "websocket",
        )  # fmt: skip
        self._ear_address = Address(session=session_id, lane=INPUT_LANE, epoch=0, tenant=tenant)
        self._ingress = Ingress(settings.turn.input_buffer_ms_max)
        self._webrtc = transport_name == "webrtc"
        gated = settings.echo.gate and self._webrtc and not traits.tick_mode
        self._reference = Reference(reference_ms(settings.echo))
        self._echo = EchoGate(settings.echo, self._reference) if gated else None
        self._processing = Processing()
        self._processor: AudioProcessor | None = None
        self._append_resampler = StreamResampler(WEBSOCKET_RATE, INPUT_RATE)
        self._appended: deque[Int16Array] = deque()
        """Audio appended by the client (16 kHz, slices of at most 1 s) that is not taken in yet."""
        self._appended_samples = 0
        self._backlog: deque[VoiceWindow] = deque()
        self._in_flight = 0
        self._arrived: MonoNs | None = None
        """When the newest input's packet came in."""
        self._ticked = Samples(0)
        self._ticks_in_flight = 0
        self._opened = False
        self._detached = False
        """The client is away: events are numbered and kept in the ring, and go nowhere."""
        self._early: deque[ServerEvent] = deque(maxlen=_EARLY_EVENTS)
        """What happened before the client could be told; overflow rule: `drop_oldest`."""
        self._frame: VideoFrame | None = None
        self._items: dict[str, str] = {}
        self._mailbox: deque[Inbound] = deque()
        self._silence: Heard | None = None
        """Silence that the core has not been told of yet; told before anything else is."""
        self._busy = False
        self._ending: str | None = None
        self._closed = False
        self._transport: Transport | None = None
        self._cancel_timer: Callable[[], None] | None = None
        self._armed: MonoNs | None = None
        self._playing: str | None = None
        self._cut_at: MonoNs | None = None
        """When the lane was cut, until the next packet has left."""
        self._pumped = 0
        self._player = WallClockPlayer()
        self.unknown_fields: Counter[str] = Counter()
        self._watch = None
        if context.watch is not None:
            self._watch = context.watch.session(session_id, conversation_id, transport_name, self._executor.now())
        context.runners.open(session_id, self._stage_output)

    # MediaSink. -----------------------------------------------------------------------------------------------------

    def attach(self, transport: Transport) -> None:
        """Give the session its way to the client: before anything else, and again after `detach`."""
        self._transport = transport
        self._playing = self._cut_at = None

    def detach(self, quiet: MonoNs) -> None:
        """The way to the client is lost; the session stays as it is, and waits.

        Args:
            quiet: time since the client's last sign of life.
        """
        self.post(Detached(quiet=quiet))
        self._transport = None
        self._opened = False
        self._detached = True

    def hear(self, pcm: Int16Array, arrived: MonoNs | None = None) -> None:
        """Take the next input audio: shape (n,), mono, 16 kHz."""
        if self._closed:
            return
        self._arrived = arrived
        if self._context.processing is not None:
            pcm = self._processed(pcm)
        windows = self._ingress.push(pcm)
        if windows:
            self._backlog.extend(windows)
            self._submit_windows()
        if self._context.tick_ms is not None:
            self._submit_ticks(samples_from_ms(self._context.tick_ms))

    def _processed(self, pcm: Int16Array) -> Int16Array:
        """Have echo and noise taken out, as the session wants it at this moment."""
        config, make = self._core.config, self._context.processing
        assert make is not None
        wanted = Processing(echo=config.echo_cancellation and self._webrtc, noise=config.noise_reduction)
        if wanted != self._processing:
            self._processing = wanted
            off = wanted == Processing()
            self._processor = None if off else AudioProcessor(
                make(wanted), self._reference, self._core.listener_delay, self._ingress.samples
            )  # fmt: skip
        return pcm if self._processor is None else self._processor.push(pcm)

    def hear_silence(self, n: int) -> None:
        """Take n samples (16 kHz) that are declared silent."""
        self.hear(np.zeros(n, np.int16))

    def next_packet(self, now: MonoNs) -> OutputPacket | None:
        """Return the next 20 ms to send, or None when there is nothing to say."""
        if self._closed:
            return None
        if self._cut_at is not None:
            took = seconds_from_ns(MonoNs(now - self._cut_at))
            self._context.observe("duplex_barge_in_seconds", took, {"part": "egress"})
            self._cut_at = None
        egress = self.egress
        if egress.idle and self._playing is None and not egress.unreported:
            return None
        popped = egress.pop(PTIME)
        if popped is None:
            self._playing = None
            self._report_sent()
            return None
        if popped.epoch < self._core.lane.epoch:
            self._context.observe("duplex_stale_packets_total", 1, {})
        if popped.reply != self._playing or egress.unreported >= _REPORT_EVERY:
            self._playing = popped.reply
            self._report_sent()
        if popped.reply is not None and (self._echo is not None or self._processor is not None):
            self._reference.sent(popped.pcm, self._ingress.samples)
        return OutputPacket(pcm=popped.pcm, epoch=popped.epoch)

    def pump(self) -> None:
        """WebSocket: send waiting audio, as far ahead of the client's player as this session may run."""
        if self._closed or not self.egress.waiting:
            return
        now = self._executor.now()
        lead_ms = self._core.lane.lead_ms
        n = min(_DELTA_SAMPLES, self.egress.waiting // 2)
        if lead_ms is not None:
            ahead = self._pumped - self._player.position(now)
            n = min(n, (samples_from_ms(lead_ms) - ahead) // 2)
        popped = self.egress.pop(n) if n > 0 else None
        if popped is None:
            return
        if popped.reply is not None:
            self._note_gap(popped.reply, now)
            self._pumped += 2 * n
            self._player.sent(self._pumped, now)
            item = self._items.get(popped.reply, "")
            self._send(ReplyAudio(reply_id=popped.reply, item_id=item, pcm=popped.pcm))
        self._report_sent()

    def _note_gap(self, reply: str, now: MonoNs) -> None:
        """WebSocket: a client's player that ran dry inside a reply is an underrun."""
        dry_ns = now - self._player.dry_at(now)
        if reply == self._playing and dry_ns > 0:
            self._context.observe("duplex_underruns_total", 1, {"observed": "sent"})
            self._context.observe(
                "duplex_underrun_seconds_total", seconds_from_ns(MonoNs(dry_ns)), {"observed": "sent"}
            )
        self._playing = reply

    def report(self, report: ReceiverReport) -> None:
        """Take the client's view of our audio."""
        self.post(Network(rtt_ms=report.rtt_ms, jitter_ms=report.jitter_ms, lost=report.packets_lost))

    def see(self, frame: VideoFrame) -> None:
        """Take the newest camera frame."""
        self._frame = frame
        self.post(Sampled(at=frame.at))

    def connected(self) -> None:
        """Media can flow."""
        _log.info("media_connected", session_id=self.session_id)

    def channel_open(self) -> None:
        """Events can be sent."""
        self._detached = False
        self.post(Connected())

    def receive(self, text: str | bytes) -> None:
        """Take one client event as it came off the wire."""
        if self._closed:
            return
        message = decode(
            text,
            self._core.config,
            transport=self._transport_name,
            profile=self._context.profile,
            arrived=self._arrived_position,
            unknown_fields=self.unknown_fields,
        )
        if isinstance(message, AppendAudio):
            pcm = np.frombuffer(message.pcm, dtype="<i2").astype(np.int16, copy=False)
            for start in range(0, len(pcm), WEBSOCKET_RATE):
                piece = self._append_resampler.push(pcm[start : start + WEBSOCKET_RATE])
                self._appended.append(piece)
                self._appended_samples += len(piece)
            self._take_appended()
        else:
            self.post(message)

    def closed(self, reason: str) -> None:
        """The transport is gone: every stage gives back what it holds."""
        if self._closed:
            return
        self.post(Disconnected(reason=reason))

    @property
    def _arrived_position(self) -> Samples:
        """Input position up to which the client's audio has come in, analysed or not."""
        return Samples(self._ingress.position + self._appended_samples * (POSITION_RATE // INPUT_RATE))

    def _take_appended(self) -> None:
        """Take in appended audio slice by slice, as fast as it is analysed."""
        while self._appended and len(self._backlog) < _WINDOWS_IN_FLIGHT and self._ticks_in_flight < _TICKS_IN_FLIGHT:
            piece = self._appended.popleft()
            self._appended_samples -= len(piece)
            self.hear(piece)

    # For the shell around it. ---------------------------------------------------------------------------------------

    @property
    def backlog_ms(self) -> int:
        """Input that has arrived and is not analysed yet; a WebSocket over its bound is not read."""
        waiting = len(self._backlog) * WINDOW + self._appended_samples
        return waiting * 1000 // INPUT_RATE

    @property
    def transport_name(self) -> TransportName:
        """How the client is connected."""
        return self._transport_name

    @property
    def resumable(self) -> bool:
        """The client asked to be waited for."""
        return self._core.config.resume

    @property
    def ended(self) -> bool:
        """The session has given everything back."""
        return self._closed

    @property
    def opened(self) -> bool:
        """The client can be told of events."""
        return self._opened

    def lane_state(self) -> LaneState:
        """Return what the session is doing; changes nothing."""
        return self._core.lane_state(self._executor.now())

    async def close(self, reason: str) -> None:
        """End the session from the server's side. Cancel: the session ends, its socket may linger."""
        if self._transport is not None:
            await self._transport.close(reason)
        self.closed(reason)

    def post(self, message: Inbound) -> None:
        """Take one message; runs to completion unless called from inside."""
        if self._closed:
            return
        if self._silence is not None:
            self._mailbox.append(self._silence)
            self._silence = None
        self._mailbox.append(message)
        if isinstance(message, Disconnected):
            self._ending = message.reason
        if not self._busy:
            self._run(None)

    # Inside. --------------------------------------------------------------------------------------------------------

    def _run(self, timeout: MonoNs | None) -> None:
        """Hand the core its deadline or the mailbox's messages, one at a time, draining it after each."""
        self._busy = True
        try:
            if timeout is not None:
                now = max(timeout, self._executor.now())
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
                self._send(event)
            case Observe():
                self._context.observe(effect.measure, effect.value, effect.labels)
            case Submit(job=job):
                self._runners.submit(self._with_frame(job))
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
            case OfferResume():
                self._offer_resume()
            case _:
                self._execute_output(effect)

    def _execute_output(self, effect: Enqueue | CutLane | Duck | Hold | ReleaseOutput) -> None:
        match effect:
            case Enqueue():
                assert effect.address.reply is not None
                self._items[effect.address.reply] = effect.item_id
                if effect.last and len(self._items) > 8:
                    self._items.pop(next(iter(self._items)))
                if not self.egress.enqueue(effect.address, effect.audio, effect.last):
                    self._violated("bounds")
            case CutLane():
                self._cut_at = self._executor.now()
                self._runners.cut(self.session_id, effect.lane, effect.epoch)
                self.egress.cut(effect.epoch, effect.fade_ms if self._transport_name == "webrtc" else 0)
                self._player.flush(self._executor.now())
                self._pumped = self._player.position(self._executor.now())
                self._mailbox.appendleft(self._sent(cut=effect.epoch))
            case Duck(gain_db=gain_db):
                self.egress.duck(gain_db)
            case Hold():
                self.egress.hold()
            case ReleaseOutput(reply=reply, content=content):
                self.egress.release(reply, content)

    def _send(self, event: ServerEvent) -> None:
        if self._detached:
            self._encoder.encode(event)
            return
        if self._transport is None:
            return
        if not self._opened and not isinstance(event, SessionCreated):
            self._early.append(event)
            return
        for wire in self._encoder.encode(event):
            self._transport.send(to_json(wire))
        if not self._opened:
            self._opened = True
            while self._early:
                self._send(self._early.popleft())

    def _offer_resume(self) -> None:
        token = self._context.offer(self.session_id)
        if token is not None:
            self._send(SessionToken(token=token, window_s=self._context.settings.server.resume_window_s))

    def _with_frame(self, job: Job) -> Job:
        frame, age_ms_max = self._frame, self._context.settings.camera.frame_age_ms_max
        if not isinstance(job.payload, Prompt) or frame is None:
            return job
        if self._executor.now() - frame.at > ns_from_ms(age_ms_max):
            return job  # the camera is off
        return replace(job, payload=replace(job.payload, frames=(frame.rgb,)))

    def _submit_picture(self, effect: SubmitPicture) -> None:
        assert self._frame is not None, "the core was told of a frame"
        payload = Picture(rgb=self._frame.rgb, at=self._frame.at)
        self._runners.submit(
            Job(id=effect.id, stage=Role.READ, address=effect.address, payload=payload, pace=effect.pace)
        )

    def _violated(self, invariant: str) -> None:
        _log.error("invariant_violated", session_id=self.session_id, invariant=invariant)
        self._context.observe("duplex_invariant_violations_total", 1, {"invariant": invariant})

    def _submit_utterance(self, effect: SubmitUtterance) -> None:
        if effect.span.end > self._ingress.position:
            self._violated("causality")
        payload = Utterance(span=effect.span, pcm=self._ingress.read(effect.span))
        self._runners.submit(
            Job(id=effect.id, stage=effect.role, address=effect.address, payload=payload, pace=effect.pace)
        )

    def _submit_windows(self) -> None:
        pace = Pace(since=self._executor.now() if self._arrived is None else self._arrived)
        while self._backlog and self._in_flight < _WINDOWS_IN_FLIGHT:
            window = self._backlog.popleft()
            self._in_flight += 1
            self._runners.submit(
                Job(id=self._next_job(), stage=Role.VAD, address=self._ear_address, payload=window, pace=pace)
            )

    def _submit_ticks(self, tick: Samples) -> None:
        """Give a model in lock-step its input; it hears all of it, whatever was cut meanwhile."""
        while self._ingress.position - self._ticked >= tick:
            span = Span(self._ticked, Samples(self._ticked + tick))
            self._ticked = span.end
            self._ticks_in_flight += 1
            payload = TickInput(span=span, pcm=self._ingress.read(span))
            pace = Pace(since=self._executor.now())
            self._runners.submit(
                Job(id=self._next_job(), stage=Role.TICK, address=self._ear_address, payload=payload, pace=pace)
            )

    def _stage_output(self, job: Job, payload: Payload | StageError) -> None:
        if job.address.session != self.session_id:
            self._violated("addressing")
            return
        if isinstance(job.payload, VoiceWindow):
            self._in_flight -= 1
            probability = payload.probability if isinstance(payload, VoiceProbability) else 0.0
            if self._is_echo(job.payload.span, probability):
                probability = 0.0
            if self._core.ignores(probability):
                self._hear_silence(job.payload.span, job.pace.since)
            else:
                self.post(Heard(span=job.payload.span, probability=probability, arrived=job.pace.since))
            if self._backlog:
                self._submit_windows()
            self._take_appended()
        elif isinstance(job.payload, TickInput):
            self._ticks_in_flight -= 1
            self.post(StageOutput(job=job.id, payload=payload))
            self._take_appended()
        else:
            self.post(StageOutput(job=job.id, payload=payload))

    def _is_echo(self, span: Span, probability: float) -> bool:
        """Return whether a voice in a VAD window is what we sent ourselves."""
        if self._echo is None or probability < self._context.settings.turn.release_threshold:
            return False
        end = span.end * INPUT_RATE // POSITION_RATE
        if not self._echo.listens(end):
            return False
        return self._echo.is_echo(self._ingress.before(end, HISTORY), end)

    def _hear_silence(self, span: Span, arrived: MonoNs) -> None:
        start = span.start if self._silence is None else self._silence.span.start
        silence = Heard(span=Span(start, span.end), probability=0.0, arrived=arrived)
        if span.end - start < _SILENCE_TOLD_EVERY:
            self._silence = silence
        else:
            self._silence = None
            self.post(silence)

    def _sent(self, cut: int | None = None) -> Sent:
        report = self.egress.report()
        return Sent(
            lane=CONVERSATION_LANE,
            ranges=report.ranges if report is not None else (),
            underruns=report.underruns if report is not None else 0,
            underrun=report.underrun if report is not None else Samples(0),
            cut=cut,
        )

    def _report_sent(self) -> None:
        sent = self._sent()
        if sent.ranges or sent.underruns:
            self.post(sent)

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
        self._backlog.clear()
        self._appended.clear()
        if reason in _OUR_REASONS and self._transport is not None:
            self._context.close(self._transport, reason)
        if self._cancel_timer is not None:
            self._cancel_timer()
            self._cancel_timer = None
        self._runners.release(self.session_id)
        if self._watch is not None:
            self._watch.ended(self._executor.now())
        _log.info("session_ended", session_id=self.session_id, reason=reason)
        self._on_closed(self.session_id)
