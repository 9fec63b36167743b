"""SessionCore: the one owner of a session's state. (message, now) → effects, and nothing else.

It is driven by the timed-core contract: `handle` one message, `poll` until None, ask `next_deadline`, and call
`handle_timeout` when it comes. It reads no clock, opens no socket and computes no audio.

    user's audio ─► ear ─► turns ─► replies ─► output ─► lane ─► playouts ◄─ what left, what was heard
                     └───────────── interruption: cut ────────────┘

Each of these owns its state; the core takes messages to them, and what one of them finds to the others.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from duplex.config import Settings
from duplex.payloads import CONVERSATION_LANE, JobId, StageError, TickOutput
from duplex.session.barge_in import BargeIn
from duplex.session.camera import Camera
from duplex.session.client_items import ClientItems
from duplex.session.clips import Clips
from duplex.session.config import SessionConfig
from duplex.session.conversation import Conversation, Item, ItemError
from duplex.session.ear import Ear
from duplex.session.effects import CutLane, Effect, EndSession, OfferResume, Outbox
from duplex.session.events import (
    CallDone,
    CallStarted,
    Failure,
    ReplyOutputStarted,
    ReplyStatus,
    SessionCreated,
    SessionEnding,
    SessionUpdated,
    StatusReason,
)
from duplex.session.failures import failure_of
from duplex.session.greeting import Greeter
from duplex.session.idle import Idle
from duplex.session.lane import Lane, Reply
from duplex.session.lifetime import Due, Lifetime
from duplex.session.messages import (
    CancelReply,
    ClearInput,
    ClearOutput,
    CommitInput,
    Configure,
    Connected,
    CreateReply,
    DeleteItem,
    Detached,
    Disconnected,
    Heard,
    HearingLags,
    Inbound,
    Network,
    PlaybackReport,
    Rejected,
    Sampled,
    Sent,
    StageOutput,
)
from duplex.session.pictures import Pictures
from duplex.session.playouts import Playouts
from duplex.session.replies import Replies
from duplex.session.returning import restore, tell_missed
from duplex.session.shared import Shared
from duplex.session.tick_output import TickOutputPolicy
from duplex.session.traits import Traits
from duplex.session.view import LaneState, lane_state
from duplex.timeline.playback import WebRtcDelay
from duplex.units import MonoNs, Samples

LEAD_MS_MIN = 100
"""Least run-ahead of WebSocket audio: a tick and its jitter."""
EXPIRED = "expired"
"""Why a session ends that has its greatest length."""


class Why(Enum):
    """Why a core asked to be woken."""

    INPUT_STALL = "input_stall"
    PLAYOUT = "playout"
    CAMERA = "camera"
    PICTURES = "pictures"
    GREETING = "greeting"
    LIFETIME = "lifetime"
    IDLE = "idle"


class SessionCore:
    """One live conversation.

    Args:
        session: id.
        config: the client's choices at its start.
        settings: the server's bounds.
        traits: of the pack and the transport.
        new_id: gives a fresh id for a prefix (`item`, `resp`); seeded by the shell.
        next_job: gives a number that no other job of the process has.
    """

    def __init__(
        self, session: str, config: SessionConfig, settings: Settings, traits: Traits, new_id: Callable[[str], str],
        next_job: Callable[[], JobId],
    ) -> None:  # fmt: skip
        self._settings = settings
        self._traits = traits
        self._new_id = new_id
        self._outbox = Outbox(next_job)
        self._drained = True
        self._now = MonoNs(0)
        pacing, kept = settings.pacing, settings.conversation
        webrtc = (
            WebRtcDelay(pacing.client_buffer_ms, pacing.network_jitter_ms) if traits.transport == "webrtc" else None
        )
        self.conversation = Conversation(kept.items_max, kept.chars_max)
        self.lane = Lane(CONVERSATION_LANE, webrtc, pacing)
        self._shared = shared = Shared(
            session=session, config=config, settings=settings, traits=traits, lane=self.lane,
            conversation=self.conversation, outbox=self._outbox, new_id=new_id,
        )  # fmt: skip
        self._lifetime = Lifetime(settings.session)
        self._greeter = Greeter(settings.session.greeting_delay_ms)
        self._playouts = Playouts(self.lane, self.conversation, self._outbox, self.floor_free)
        self._ear = Ear(shared, BargeIn(settings.barge_in, config.on_onset, self._outbox, self._playouts.resume), self)
        self._camera = Camera(session, settings.camera, settings.media.video_lag_ms, traits, self._outbox)
        self._clips = Clips(shared)
        self._pictures = Pictures(session, kept, traits, self.conversation, self._outbox)
        self._items = ClientItems(shared, self._ear, self._pictures, self._clips)
        self._replies = Replies(shared, self._ear, self._camera, self._pictures, self._lifetime, self)
        self._idle = Idle(shared, self._ear, self._replies, self._lifetime)
        self._ticks = TickOutputPolicy(self.lane, self._outbox, self._replies.unasked, self)
        self._cut_reason: StatusReason = "turn_detected"
        self._closed = False
        self._apply(config)

    @property
    def config(self) -> SessionConfig:
        """The client's choices, as they are at this moment."""
        return self._shared.config

    # The timed-core contract. ---------------------------------------------------------------------------------------

    def handle(self, msg: Inbound, now: MonoNs) -> None:
        """Take one message. The effects must be drained before the next one."""
        assert self._drained, "two inputs without a drain"
        self._drained = False
        self._now = max(self._now, now)
        self._lifetime.begin(self._now)
        if not self._closed or isinstance(msg, Sent):
            self._dispatch(msg)
            self._idle.look(self._now)

    def handle_timeout(self, now: MonoNs) -> None:
        """The deadline has come."""
        assert self._drained, "two inputs without a drain"
        self._drained = False
        self._now = max(self._now, now)
        stall = self._ear.stalled_at()
        if stall is not None and self._now >= stall:
            self._ear.stalled(self._now)
        self._playouts.settle(self._now)
        self._greet()
        self._replies.go_on(self._now)
        self._idle.speak_up(self._now)
        self._live_on()
        self._idle.look(self._now)

    def ignores(self, probability: float) -> bool:
        """Return whether a VAD window of this probability changes nothing but the time: several may be told as one span."""
        return self._ear.ignores(probability)

    def lane_state(self, now: MonoNs) -> LaneState:
        """Return what the session is doing, for those who watch; changes nothing."""
        awaited = self._replies.awaited or self._ear.committing or self.conversation.awaits_transcript()
        return lane_state(self.lane, self._ear.barge_in, hearing=self._ear.hearing, awaited=awaited, now=now)

    def listener_delay(self) -> Samples:
        """Return the least time from sending until the listener hears it, by what is known now (WebRTC)."""
        if self.lane.webrtc is None:
            return Samples(0)
        estimate = self.lane.webrtc.estimate()
        return Samples(max(0, estimate.delay - estimate.error))

    def poll(self) -> Effect | None:
        """Take the next effect; None when drained."""
        effect = self._outbox.poll()
        self._drained = effect is None
        return effect

    def next_deadline(self) -> tuple[MonoNs, Why] | None:
        """Return when to call `handle_timeout`, and why."""
        earliest: tuple[MonoNs, Why] | None = None
        for deadline, why in (
            (self._ear.stalled_at(), Why.INPUT_STALL),
            (self._playouts.deadline(self._now), Why.PLAYOUT),
            (self._camera.awaited_until(self._now), Why.CAMERA),
            (self._pictures.awaited_until(self._now), Why.PICTURES),
            (self._greeter.deadline(self.config.greeting), Why.GREETING),
            (self._lifetime.deadline(self.lane.alive), Why.LIFETIME),
            (self._idle.deadline(), Why.IDLE),
        ):
            if deadline is not None and (earliest is None or deadline < earliest[0]):
                earliest = deadline, why
        return earliest

    # Dispatch. ------------------------------------------------------------------------------------------------------

    def _dispatch(self, msg: Inbound) -> None:
        match msg:
            case Heard():
                self._ear.heard(msg.span, msg.probability, msg.arrived, self._now)
            case HearingLags():
                self._ear.lags(self._now)
            case Sent():
                self._sent(msg)
            case StageOutput():
                self._output(msg)
            case Network():
                self._network(msg)
            case Sampled():
                self._camera.sampled(msg.at, self._ear.watermark.position, self._now)
            case Connected():
                self._connected(msg)
            case Detached():
                self._detach(msg.quiet)
            case Disconnected():
                self._disconnect()
            case _:
                self._client(msg)

    def _client(self, msg: Inbound) -> None:
        try:
            if not self._items.take(msg, self._now):
                self._client_stream(msg)
            elif isinstance(msg, DeleteItem):
                self._replies.go_on(self._now)  # it may have waited for the item's pictures
        except ItemError as error:
            self._fail(error.code, str(error), getattr(msg, "event_id", None), error.param)
        self._replies.recheck(self._now)

    def _client_stream(self, msg: Inbound) -> None:
        """Take a client event about the session, its input or its output."""
        match msg:
            case Configure():
                self._configure(msg)
            case CommitInput():
                self._ear.commit(msg.arrived, self._now, msg.event_id)
            case ClearInput():
                self._ear.clear(msg.arrived)
            case CreateReply():
                self._create_reply(msg)
            case CancelReply():
                if self._replies.cancel(msg):
                    self._cut("client_cancelled")
            case ClearOutput():
                self._cut("client_cancelled")
            case PlaybackReport():
                self._played(msg)
            case Rejected():
                self._fail(msg.code, msg.message, msg.event_id, msg.param)

    def _output(self, msg: StageOutput) -> None:
        if isinstance(msg.payload, TickOutput):
            self._ticks.take(msg.payload, self._now)
        elif self._traits.tick_mode and isinstance(msg.payload, StageError):
            self._ticks.fail(msg.payload.reason)
        elif self._camera.take(msg.job, msg.payload):
            self._replies.go_on(self._now)
        elif self._pictures.take(msg.job, msg.payload, self._now):
            self._replies.recheck(self._now)
            self._replies.go_on(self._now)
        elif self._clips.take(msg.job, msg.payload):
            self._replies.recheck(self._now)
            self._replies.go_on(self._now)
        elif not self._ear.take(msg.job, msg.payload, self._now):
            self._replies.take(msg.job, msg.payload, self._now)
        self._playouts.settle(self._now)

    # Configuration. -------------------------------------------------------------------------------------------------

    def _configure(self, msg: Configure) -> None:
        if self._voice_is_fixed(msg.config.voice, msg.event_id, "session.audio.output.voice"):
            return
        if msg.config.kind != self.config.kind and not self._untouched:
            message = "the type is fixed once anything was said or asked for"
            self._fail("cannot_update_type", message, msg.event_id, "session.type")
            return
        offers = msg.config.resume and not self.config.resume
        self._shared.config = msg.config
        self._apply(msg.config)
        self._outbox.send(SessionUpdated(config=self.config))
        self._greeter.configured(self._now)
        self._greet()
        if offers:
            self._outbox.add(OfferResume())

    def _voice_is_fixed(self, voice: str | None, event_id: str | None, param: str) -> bool:
        """Refuse another voice than the session's once that was heard; return whether that was so."""
        if not self._playouts.spoke or voice in (None, self.config.voice):
            return False
        self._fail("cannot_update_voice", "the voice is fixed after the first audio", event_id, param)
        return True

    def _create_reply(self, msg: CreateReply) -> None:
        if not self._voice_is_fixed(msg.voice, msg.event_id, "response.audio.output.voice"):
            self._replies.create(msg, self._now)

    def _apply(self, config: SessionConfig) -> None:
        # On WebSocket the audio is with the client already: only a cut makes sense of it.
        self._ear.barge_in.on_onset = config.on_onset if self.lane.webrtc is not None else "none"
        self._ear.configure(config.turn_detection)
        self.lane.lead_ms = None if config.lead_ms is None else max(LEAD_MS_MIN, config.lead_ms)

    def _network(self, msg: Network) -> None:
        if self.lane.webrtc is not None:
            self.lane.webrtc.measured(msg.rtt_ms, msg.jitter_ms)
        self.lane.lost = max(self.lane.lost, msg.lost)

    # Beginning and end. ---------------------------------------------------------------------------------------------

    def _greet(self) -> None:
        """Speak first, if it is time for that and nobody has said or asked for anything."""
        greeting = self._greeter.take(self.config.greeting, self._untouched, self._now)
        if greeting is None:
            return
        if self._traits.tick_mode:
            message = "this model decides by itself when to speak: it gives no greeting"
            self._fail("unsupported_in_tick_mode", message, None, "session.duplex.greeting")
            return
        self._replies.greet(greeting, self._now)

    @property
    def _untouched(self) -> bool:
        """Nobody has said or asked for anything."""
        return not (self.conversation.begun or self.lane.alive or self._replies.awaited or self._lifetime.over)

    def _live_on(self) -> None:
        """Look at the session's greatest length: warn, begin no more replies, end."""
        match self._lifetime.look(self._now, self.lane.alive):
            case Due.WARNING:
                self._outbox.send(SessionEnding(seconds_left=self._lifetime.left_s(self._now)))
            case Due.LIMIT:
                self._replies.give_up()
            case Due.END:
                self._outbox.observe("duplex_limits_total", 1, limit="session")
                self._fail("session_expired", "the session has its greatest length", None, None)
                self._disconnect()
                self._outbox.add(EndSession(reason=EXPIRED))

    # Mind, to the ear. ----------------------------------------------------------------------------------------------

    @property
    def output_alive(self) -> bool:
        """A reply is being made or played that the user's voice may interrupt (a model in tick mode decides itself)."""
        return not self._traits.tick_mode and any(reply.status != "accepted" for reply in self.lane)

    def user_speaks(self) -> None:
        """The user has begun to speak: see what is shown with it, and read what the answer will begin from."""
        self._camera.look(self._now)
        self._replies.read_ahead(self._now)

    def turn_grows(self, text: str) -> None:
        """These words, most likely, were said so far: read on."""
        self._replies.read_ahead(self._now, text)

    def user_pauses(self) -> None:
        """An answer may follow soon: see what is shown now, beside the transcription."""
        self._camera.look_for_answer(self._now)
        self._pictures.wait_for_answer(self._now)

    def interrupt(self) -> None:
        """The user interrupts: cut the output. The turn that is being spoken will be answered, with all before it."""
        self._replies.give_up()
        self._cut("turn_detected")

    def floor_free(self) -> None:
        """Nobody speaks: what waited for that may go on."""
        self._replies.go_on(self._now)

    def turn_ready(self, item: Item, auto: bool, marks: dict[str, MonoNs], *, understood: bool) -> None:
        """A turn of the user has its words: it may be answered."""
        if item.text:
            self._idle.spoken()
        self._replies.turn_ready(item, auto, marks, self._now, understood=understood)

    def turn_foreseen(self, text: str, since: MonoNs) -> None:
        """The turn may have ended, and these are its words: the reply may be begun."""
        self._replies.turn_foreseen(text, since, self._now)

    def turn_withdrawn(self, resumed: bool) -> None:
        """The turn has not ended as foreseen: speech goes on, or there was none."""
        self._replies.turn_withdrawn(resumed)

    # Floor, to what makes the output. -------------------------------------------------------------------------------

    def begin_output(self, reply: Reply) -> None:
        """Give the reply its item, and tell the client."""
        previous = self.conversation.add(reply.open(self._new_id("item")))
        self._outbox.send(ReplyOutputStarted(reply=reply.view(), previous_item_id=previous))

    def begin_call(self, reply: Reply, item: Item) -> None:
        """Enter a function call's item into the conversation, and tell the client."""
        previous = self.conversation.add(item)
        self._outbox.send(CallStarted(reply_id=reply.id, item=item.view(), previous_item_id=previous))

    def end_call(self, reply: Reply, item: Item) -> None:
        """A function call is complete: tell the client, who carries it out."""
        self.conversation.grown(item)
        self._outbox.send(CallDone(reply_id=reply.id, item=item.view()))

    def finish(self, reply: Reply, status: ReplyStatus, reason: StatusReason | None, error: str | None) -> None:
        """Settle how a reply ends; its terminal event follows its last text, and on WebSocket its last audio."""
        reply.reason = reason
        reply.error = error
        reply.ending = status
        if status == "failed":
            self._outbox.send(failure_of(reason, error))
        self._playouts.settle(self._now)

    # Cuts. ----------------------------------------------------------------------------------------------------------

    def _cut(self, reason: StatusReason) -> None:
        """Make all output of the lane stale, at every stage at once; it is settled when the egress has answered."""
        self._replies.discard_draft()
        if not self.lane.alive:
            return
        self._cut_reason = reason
        self.lane.epoch += 1
        self._replies.cut()
        self._ticks.drop()
        fade_ms = 0 if reason == "disconnected" else self._settings.barge_in.fade_ms
        self._outbox.add(CutLane(lane=self.lane.number, epoch=self.lane.epoch, fade_ms=fade_ms))

    def _settle_cut(self, epoch: int) -> None:
        """The egress is cut: what was heard is now known, to the word."""
        cut = self._playouts.settle_cut(epoch, self._cut_reason, self._now)
        if cut is not None:
            self._replies.interrupted = cut if self._cut_reason == "turn_detected" else None
        self._replies.go_on(self._now)
        if self._ear.hearing:
            self._replies.read_ahead(self._now)

    def _disconnect(self) -> None:
        self._ear.close()
        self._camera.give_up()
        self._pictures.close()
        self._clips.close()
        self._replies.give_up()
        self._replies.asides.close()
        self._cut("disconnected")
        self._closed = True

    # Away, and back. ------------------------------------------------------------------------------------------------

    def _detach(self, quiet: MonoNs) -> None:
        """The client is away: settle both sides' speech as far as it was heard, and begin nothing."""
        self._replies.leave()
        self._playouts.leave(quiet)
        self._ear.leave(self._now)
        self._camera.give_up()
        self._cut("disconnected")

    def _connected(self, msg: Connected) -> None:
        """The client can be told of events: it is new, or has come back and is told what it missed or where things stand."""
        back = self._replies.come_back()
        if back:
            self._playouts.come_back()
        if msg.seen is not None:
            if tell_missed(msg, self.conversation, self._outbox):
                self._replies.owe()
        else:
            self._outbox.send(SessionCreated(config=self.config))
            if back or msg.again:
                restore(self.conversation, self._outbox)
        if self.config.resume:
            self._outbox.add(OfferResume())
        self._greeter.connected(self._now)
        self._replies.answer_owed(self._now)

    # Playback. ------------------------------------------------------------------------------------------------------

    def _sent(self, msg: Sent) -> None:
        if msg.lane != self.lane.number:
            self._replies.asides.sent(msg, self._now)
            return
        self._playouts.sent(msg, self._now)
        if msg.cut is not None:
            self._settle_cut(msg.cut)
        self._front_moved()

    def _played(self, msg: PlaybackReport) -> None:
        if self._playouts.reported(msg, self._now):
            self._front_moved()

    def _front_moved(self) -> None:
        self._replies.played(self._now)
        self._playouts.settle(self._now)

    def _fail(self, code: str, message: str, event_id: str | None, param: str | None) -> None:
        self._outbox.send(Failure(code=code, message=message, param=param, event_id=event_id))
