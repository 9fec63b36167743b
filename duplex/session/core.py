"""SessionCore: the one owner of a session's state. (message, now) → effects, and nothing else.

It is driven by the timed-core contract: `handle` one message, `poll` until None, ask `next_deadline`, and call
`handle_timeout` when it comes. It reads no clock, opens no socket and computes no audio.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

from duplex.config import Settings
from duplex.payloads import CONVERSATION_LANE, Address, JobId, Message, StageError, TickOutput
from duplex.session.barge_in import BargeIn
from duplex.session.camera import Camera, with_note
from duplex.session.config import Greeting, SessionConfig
from duplex.session.context import ContextWindow
from duplex.session.conversation import Conversation, Item, ItemError
from duplex.session.ear import Ear
from duplex.session.effects import CutLane, Effect, EndSession, OfferResume, Outbox, ReleaseOutput
from duplex.session.events import (
    ContextTrimmed,
    Failure,
    ItemAdded,
    ItemDeleted,
    ItemRetrieved,
    ItemTruncated,
    PlayoutCleared,
    PlayoutStarted,
    PlayoutStopped,
    ReplyCreated,
    ReplyDone,
    ReplyOutputStarted,
    ReplyStatus,
    ReplyText,
    SessionCreated,
    SessionEnding,
    SessionResumed,
    SessionUpdated,
    StatusReason,
    TurnMetrics,
)
from duplex.session.greeting import Greeter
from duplex.session.lane import Lane, Playout, Reply
from duplex.session.lifetime import Due, Lifetime
from duplex.session.messages import (
    CancelReply,
    ClearInput,
    ClearOutput,
    CommitInput,
    Configure,
    Connected,
    CreateItem,
    CreateReply,
    DeleteItem,
    Detached,
    Disconnected,
    Heard,
    Inbound,
    Network,
    PlaybackReport,
    Rejected,
    RetrieveItem,
    Sampled,
    Sent,
    StageOutput,
    TruncateItem,
)
from duplex.session.pictures import Pictures, views_of
from duplex.session.prefill import Prefill
from duplex.session.speculation import Ask, Draft, Speculation
from duplex.session.tick_output import TickOutputPolicy
from duplex.session.traits import Traits
from duplex.session.turn_output import Floor, TurnOutput
from duplex.session.view import LaneState, lane_state
from duplex.timeline.playback import WebRtcDelay
from duplex.units import (
    MonoNs,
    Samples,
    samples_from_ns,
    seconds_from_ns,
    seconds_from_samples,
)

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


@dataclass(slots=True)
class _Wanted:
    """A reply that waits for the one before it, or for the words it shall answer."""

    request: CreateReply
    marks: dict[str, MonoNs]
    since: MonoNs
    greeting: Greeting | None = None


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
        self.config = config
        self._session = session
        self._settings = settings
        self._traits = traits
        self._new_id = new_id
        self._outbox = Outbox(next_job)
        self._drained = True
        self._now = MonoNs(0)
        pacing = settings.pacing
        webrtc = (
            WebRtcDelay(pacing.client_buffer_ms, pacing.network_jitter_ms) if traits.transport == "webrtc" else None
        )
        kept = settings.conversation
        self.conversation = Conversation(kept.items_max, kept.chars_max)
        self._window = ContextWindow(traits.context, kept.history_tokens_max, kept.history_kept_share)
        self._lifetime = Lifetime(settings.session)
        self._greeter = Greeter(settings.session.greeting_delay_ms)
        self.lane = Lane(CONVERSATION_LANE, webrtc, pacing)
        barge_in = BargeIn(settings.barge_in, config.on_onset, self._outbox)
        barge_in.resumer = self
        self._ear = Ear(
            session, config.turn_detection, settings.turn, barge_in, traits, self.conversation, self._outbox, new_id, self,
        )  # fmt: skip
        self._turns = self._turn_output(self._outbox, self)
        self._speculation = Speculation(self._outbox)
        self._prefill = Prefill(self._outbox)
        self._ticks = TickOutputPolicy(self.lane, self._outbox, self._new_tick_reply, self)
        self._camera = Camera(session, settings.camera, settings.media.video_lag_ms, traits, self._outbox)
        self._pictures = Pictures(session, kept, traits, self.conversation, self._outbox)
        self._wanted: _Wanted | None = None
        self._unanswered = False
        """A voice cut the last reply before it was heard."""
        self._cut_reason: StatusReason = "turn_detected"
        self._spoke = False
        self._away = False
        """The client has lost its connection and may come back: nothing is said to nobody."""
        self._owes = False
        """While it is away: a turn of the user has ended and was not answered by a sound."""
        self._quiet = Samples(0)
        """Output that left for a client that was gone already."""
        self._closed = False
        self._apply(config)

    # The timed-core contract. ---------------------------------------------------------------------------------------

    def handle(self, msg: Inbound, now: MonoNs) -> None:
        """Take one message. The effects must be drained before the next one."""
        assert self._drained, "two inputs without a drain"
        self._drained = False
        self._now = max(self._now, now)
        self._lifetime.begin(self._now)
        if not self._closed or isinstance(msg, Sent):
            self._dispatch(msg)

    def handle_timeout(self, now: MonoNs) -> None:
        """The deadline has come."""
        assert self._drained, "two inputs without a drain"
        self._drained = False
        self._now = max(self._now, now)
        stall = self._ear.stalled_at()
        if stall is not None and self._now >= stall:
            self._ear.stalled(self._now)
        self._settle_playout()
        self._greet()
        self._start_wanted()
        self._live_on()

    def ignores(self, probability: float) -> bool:
        """Return whether a VAD window of this probability changes nothing but the time: several may be told as one span."""
        return self._ear.ignores(probability)

    def lane_state(self, now: MonoNs) -> LaneState:
        """Return what the session is doing, for those who watch; changes nothing."""
        awaited = self._wanted is not None or self._ear.committing or self.conversation.awaits_transcript()
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
        earliest = self._next_deadline_of_media()
        for deadline, why in (
            (self._camera.awaited_until(self._now), Why.CAMERA),
            (self._pictures.awaited_until(self._now), Why.PICTURES),
            (self._greeter.deadline(self.config.greeting), Why.GREETING),
            (self._lifetime.deadline(self.lane.alive), Why.LIFETIME),
        ):
            if deadline is not None and (earliest is None or deadline < earliest[0]):
                earliest = deadline, why
        return earliest

    def _next_deadline_of_media(self) -> tuple[MonoNs, Why] | None:
        stall = self._ear.stalled_at()
        if not self.lane.alive or self.lane.waiting or not all(reply.done for reply in self.lane):
            return None if stall is None else (stall, Why.INPUT_STALL)
        playout = max(self.lane.dry_at(self._now), MonoNs(self._now + 1))
        if stall is not None and stall <= playout:
            return stall, Why.INPUT_STALL
        return playout, Why.PLAYOUT

    # Dispatch. ------------------------------------------------------------------------------------------------------

    def _dispatch(self, msg: Inbound) -> None:
        match msg:
            case Heard():
                self._ear.heard(msg.span, msg.probability, msg.arrived, self._now)
            case Sent():
                self._sent(msg)
            case StageOutput():
                self._output(msg)
            case Network():
                self._network(msg)
            case Sampled():
                self._camera.sampled(msg.at, self._ear.watermark.position, self._now)
            case Connected():
                self._connected()
            case Detached():
                self._detach(msg.quiet)
            case Disconnected():
                self._disconnect()
            case _:
                self._client(msg)

    def _client(self, msg: Inbound) -> None:
        try:
            if not self._client_item(msg):
                self._client_stream(msg)
        except ItemError as error:
            self._failure(error.code, str(error), getattr(msg, "event_id", None), error.param)
        self._check_draft()

    def _check_draft(self) -> None:
        if self._speculation.said is not None:
            self._speculation.check(self._ask(CreateReply(), self._speculation.said))

    def _client_item(self, msg: Inbound) -> bool:
        """Take a client event about an item; return False if it is about something else."""
        match msg:
            case CreateItem():
                self._create_item(msg)
            case RetrieveItem():
                self._outbox.send(ItemRetrieved(item=self.conversation.get(msg.item_id).view()))
            case DeleteItem():
                self.conversation.delete(msg.item_id)
                self._pictures.forget(msg.item_id, self._now)
                self._outbox.send(ItemDeleted(item_id=msg.item_id))
                self._start_wanted()  # it may have waited for the item's pictures
            case TruncateItem():
                self.conversation.truncate(msg.item_id, msg.content_index, msg.audio_end)
                self._outbox.send(ItemTruncated(item_id=msg.item_id, audio_end=msg.audio_end))
            case _:
                return False
        return True

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
                self._cancel(msg)
            case ClearOutput():
                self._cut("client_cancelled")
            case PlaybackReport():
                self._playback(msg)
            case Rejected():
                self._failure(msg.code, msg.message, msg.event_id, msg.param)

    def _output(self, msg: StageOutput) -> None:
        if isinstance(msg.payload, TickOutput):
            self._ticks.take(msg.payload, self._now)
        elif self._traits.tick_mode and isinstance(msg.payload, StageError):
            self._ticks.fail(msg.payload.reason)
        elif self._camera.take(msg.job, msg.payload):
            self._start_wanted()
        elif self._pictures.take(msg.job, msg.payload, self._now):
            self._check_draft()
            self._start_wanted()
        elif (
            not self._ear.take(msg.job, msg.payload, self._now)
            and not self._prefill.take(msg.job, msg.payload)
            and not self._speculation.take(msg.job, msg.payload, self._now)
        ):
            self._turns.take(msg.job, msg.payload, self._now)
        self._settle_playout()

    # Configuration. -------------------------------------------------------------------------------------------------

    def _configure(self, msg: Configure) -> None:
        if self._spoke and msg.config.voice != self.config.voice:
            message = "the voice is fixed after the first audio"
            self._failure("cannot_update_voice", message, msg.event_id, "session.audio.output.voice")
            return
        offers = msg.config.resume and not self.config.resume
        self.config = msg.config
        self._apply(msg.config)
        self._outbox.send(SessionUpdated(config=self.config))
        self._greeter.configured(self._now)
        self._greet()
        if offers:
            self._outbox.add(OfferResume())

    def _apply(self, config: SessionConfig) -> None:
        # On WebSocket the audio is with the client already: only a cut makes sense of it.
        self._ear.barge_in.on_onset = config.on_onset if self.lane.webrtc is not None else "none"
        self._ear.transcribe_for_client = config.transcribe
        self._ear.configure(config.turn_detection)
        self.lane.lead_ms = None if config.lead_ms is None else max(LEAD_MS_MIN, config.lead_ms)

    def _network(self, msg: Network) -> None:
        if self.lane.webrtc is not None:
            self.lane.webrtc.measured(msg.rtt_ms, msg.jitter_ms)
        self.lane.lost = max(self.lane.lost, msg.lost)

    # Beginning and end. ---------------------------------------------------------------------------------------------

    def _greet(self) -> None:
        """Speak first, if it is time for that and nobody has said or asked for anything."""
        untouched = not (len(self.conversation) or self.lane.alive or self._wanted is not None or self._lifetime.over)
        greeting = self._greeter.take(self.config.greeting, untouched, self._now)
        if greeting is None:
            return
        if self._traits.tick_mode:
            message = "this model decides by itself when to speak: it gives no greeting"
            self._failure("unsupported_in_tick_mode", message, None, "session.duplex.greeting")
            return
        self._wanted = _Wanted(CreateReply(), {}, self._now, greeting)
        self._start_wanted()

    def _live_on(self) -> None:
        """Look at the session's greatest length: warn, begin no more replies, end."""
        match self._lifetime.look(self._now, self.lane.alive):
            case Due.WARNING:
                self._outbox.send(SessionEnding(seconds_left=self._lifetime.left_s(self._now)))
            case Due.LIMIT:
                self._speculation.discard("dropped")
                self._wanted = None
            case Due.END:
                self._outbox.observe("duplex_limits_total", 1, limit="session")
                self._failure("session_expired", "the session has its greatest length", None, None)
                self._disconnect()
                self._outbox.add(EndSession(reason=EXPIRED))

    # Items. ---------------------------------------------------------------------------------------------------------

    def _create_item(self, msg: CreateItem) -> None:
        if len(msg.text) > self._settings.conversation.text_chars_max:
            raise ItemError("text_too_long", "the item's text is longer than the server allows", "item.content")
        if msg.item_id is not None and self._ear.is_open(msg.item_id):
            raise ItemError("item_id_taken", f"the user is speaking item {msg.item_id}", "item.id")
        self._pictures.check(msg.images)
        role: Literal["user", "assistant", "system"] = msg.role  # type: ignore[assignment]
        item_id = msg.item_id or self._new_id("item")
        item = Item(id=item_id, role=role, modality="text", text=msg.text, pictures=views_of(msg.images))
        previous = self.conversation.add(item, msg.previous_item_id)
        self._outbox.send(ItemAdded(item=item.view(), previous_item_id=previous))
        self._pictures.show(item, msg.images, msg.event_id, self._now)

    # Mind, to the ear. ----------------------------------------------------------------------------------------------

    @property
    def output_alive(self) -> bool:
        """A reply is being made or played that the user's voice may interrupt (a model in tick mode decides itself)."""
        return not self._traits.tick_mode and any(reply.status != "accepted" for reply in self.lane)

    def user_speaks(self) -> None:
        """The user has begun to speak: see what is shown with it, and read what the answer will begin from."""
        self._camera.look(self._now)
        self._read_ahead()

    def turn_grows(self, text: str) -> None:
        """These words, most likely, were said so far: read on."""
        self._read_ahead(text)

    def user_pauses(self) -> None:
        """An answer may follow soon: see what is shown now, beside the transcription."""
        self._camera.look_for_answer(self._now)
        self._pictures.wait_for_answer(self._now)

    def interrupt(self) -> None:
        """The user interrupts: cut the output. The turn that is being spoken will be answered, with all before it."""
        self._wanted = None
        self._cut("turn_detected")

    def floor_free(self) -> None:
        """The user is not speaking after all: what waited for that may go on."""
        self._start_wanted()

    def turn_ready(self, item: Item, auto: bool, marks: dict[str, MonoNs]) -> None:
        """A turn of the user has its words: answer it, if that is wanted and there is anything to answer.

        One reply answers all turns that are in its prompt, so at most one is wanted, and none if one is about to start.
        Noise that cut a reply before its first sound leaves a question that is answered after all.
        """
        active = self.lane.active
        answers = bool(item.text) or self._unanswered
        silent = self._traits.tick_mode or self._lifetime.over
        if item.text and self._wanted is not None and self._wanted.greeting is not None:
            self._wanted = None  # the user spoke first
        if auto and answers and not silent and (active is None or active.status != "accepted"):
            self._owes = self._away
            self._wanted = None if self._away else _Wanted(CreateReply(), marks, marks["speech_end"])
        self._start_wanted()
        self._speculation.discard("dropped")  # a turn that is not answered at once

    def turn_foreseen(self, text: str, since: MonoNs) -> None:
        """The turn may have ended, and these are its words: begin the reply, if the committed turn would get one at once."""
        wanted = self._settings.turn.speculate and self._traits.speculates and not self._traits.tick_mode
        if not wanted or self._lifetime.over or self.lane.alive or "audio" not in self.config.modalities:
            return  # text alone has no listener who waits for sound, and no bound
        if self._awaits_reading:
            return  # the prompt is about to change
        self._prefill.drop()
        request = CreateReply()
        reply = self._new_reply(since, request)
        reply.speculative = True
        ask = self._ask(request, text)
        draft = Draft(text, ask, reply, self._new_id("item"), self._outbox, self, self._turn_output)
        self._speculation.begin(draft, with_note(ask.messages, self._camera.note(self._now)), self._now)

    def turn_withdrawn(self, resumed: bool) -> None:
        """The turn has not ended as foreseen: speech goes on, or there was none."""
        self._speculation.discard("resumed" if resumed else "dropped")
        if not resumed:
            self._prefill.drop()

    def _read_ahead(self, said: str | None = None) -> None:
        """Have the thinker read the conversation, and the words that the user has said of the next turn, before it is asked."""
        detection = self.config.turn_detection
        answers = detection is not None and detection.create_response and not self._traits.tick_mode
        if not answers or not self._traits.prefills or not self._settings.turn.prefill or self.lane.alive:
            return  # what will be heard of a reply that lives is not known yet
        address = Address(
            session=self._session, lane=self.lane.number, epoch=self.lane.epoch, tenant=self._traits.tenant
        )
        self._prefill.read(
            self._window.messages(self.conversation.items(said), self.config.instructions), address, self._now
        )

    # Replies. -------------------------------------------------------------------------------------------------------

    def _create_reply(self, msg: CreateReply) -> None:
        active = self.lane.active
        if self._traits.tick_mode:
            message = "this model decides by itself when to speak"
            self._failure("unsupported_in_tick_mode", message, msg.event_id, None)
        elif self._lifetime.over:
            self._failure("session_expired", "the session ends: no reply begins any more", msg.event_id, None)
        elif active is not None or self._wanted is not None:
            name = active.id if active is not None else "the reply to the last turn"
            message = f"the conversation already has an active response: {name}"
            self._failure("conversation_already_has_active_response", message, msg.event_id, None)
        else:
            self._camera.look_for_answer(self._now)
            self._pictures.wait_for_answer(self._now)
            self._accept(_Wanted(msg, {}, self._now))

    @property
    def _listens(self) -> bool:
        """Words, said or shown, are still to come that a reply should know of."""
        hears = self._ear.committing or self._ear.speaking or self.conversation.awaits_transcript()
        return hears or self._awaits_reading

    @property
    def _awaits_reading(self) -> bool:
        waits = self._camera.awaited_until(self._now), self._pictures.awaited_until(self._now)
        return any(until is not None for until in waits)

    def _start_wanted(self) -> None:
        """Go on with what waits: a reply that was accepted before its words came, or the next turn's."""
        if self._away:
            return
        active = self.lane.active
        if active is not None and active.status == "accepted" and not self._listens:
            self._begin(active)
        elif active is None and self._wanted is not None and not self._ear.speaking:
            wanted, self._wanted = self._wanted, None
            self._accept(wanted)

    def _accept(self, wanted: _Wanted) -> None:
        """Enter a reply into the lane: its draft, if there is one of the same prompt, else a new one."""
        self._unanswered = False
        self._prefill.drop()
        waits = self._listens
        draft = None if waits or wanted.greeting else self._speculation.claim(self._ask(wanted.request))
        self._speculation.discard("dropped")
        reply = self._new_reply(wanted.since, wanted.request) if draft is None else draft.reply
        reply.since, reply.metadata, reply.greeting = wanted.since, wanted.request.metadata, wanted.greeting
        reply.marks.update(wanted.marks)
        created = replace(reply.view(), item=None, status="in_progress", output_text_tokens=0, output_audio=Samples(0))
        self._outbox.send(ReplyCreated(reply=created))
        if draft is not None:
            self._camera.give_up()
            self._trim(reply.instructions)
            self._turns = draft.turns
            draft.adopt(self.lane, self.conversation, self._now)
            return
        self.lane.add(reply)
        if not waits:
            self._begin(reply)

    def _begin(self, reply: Reply) -> None:
        """Have a reply of the lane made, from the conversation as it stands."""
        greeting = reply.greeting
        if greeting is not None and greeting.text is not None:
            self._turns.say(reply, greeting.text, self._now)
            return
        messages = self._window.messages(self.conversation.items(), reply.instructions)
        if greeting is not None and greeting.instructions is not None:
            messages += (Message(role="user", text=greeting.instructions),)
        self._trim(reply.instructions)
        self._turns.start(reply, self._shown(messages), self._now)

    def _trim(self, instructions: str) -> None:
        """A reply begins: what its prompt leaves out stays out, so that the next one begins alike."""
        trim = self._window.step(self.conversation.items(), instructions)
        if trim is not None:
            self._outbox.observe("duplex_limits_total", 1, limit="context")
            self._outbox.send(ContextTrimmed(first_item_id=trim.first_item_id, items=trim.items))

    def _shown(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the prompt with what the camera shows; a reading that is not there by now is not waited for."""
        self._camera.give_up()
        return with_note(messages, self._camera.note(self._now))

    def _ask(self, request: CreateReply, said: str | None = None) -> Ask:
        """Return what a reply would be made from, as things stand (and with words that are not committed yet)."""
        instructions = self.config.instructions if request.instructions is None else request.instructions
        return Ask(
            messages=self._window.messages(self.conversation.items(said), instructions),
            shown=self._camera.legible(self._now),
            modality="audio" if "audio" in (request.modalities or self.config.modalities) else "text",
            voice=self.config.voice,
            speed=self.config.speed,
            tokens_max=request.tokens_max if request.tokens_max is not None else self.config.tokens_max,
        )

    def _turn_output(self, outbox: Outbox, floor: Floor) -> TurnOutput:
        return TurnOutput(self.lane, outbox, self._settings.pacing, self._traits, floor)

    def _new_reply(self, since: MonoNs, request: CreateReply) -> Reply:
        modalities = request.modalities or self.config.modalities
        address = Address(
            session=self._session, lane=self.lane.number, epoch=self.lane.epoch, reply=self._new_id("resp"),
            tenant=self._traits.tenant,
        )  # fmt: skip
        assert address.reply is not None
        reply = Reply(
            id=address.reply,
            address=address,
            modality="audio" if "audio" in modalities else "text",
            voice=self.config.voice,
            speed=self.config.speed,
            tokens_max=request.tokens_max if request.tokens_max is not None else self.config.tokens_max,
            metadata=request.metadata,
            instructions=self.config.instructions if request.instructions is None else request.instructions,
            since=since,
        )
        return reply

    def _new_tick_reply(self, now: MonoNs) -> Reply:
        reply = self._new_reply(now, CreateReply())
        self.lane.add(reply)
        reply.status = "in_progress"
        self._outbox.send(ReplyCreated(reply=reply.view()))
        return reply

    def begin_output(self, reply: Reply) -> None:
        """Give the reply its item, and tell the client."""
        previous = self.conversation.add(reply.open(self._new_id("item")))
        self._outbox.send(ReplyOutputStarted(reply=reply.view(), previous_item_id=previous))

    def finish(self, reply: Reply, status: ReplyStatus, reason: StatusReason | None, error: str | None) -> None:
        """Settle how a reply ends; its terminal event follows its last text, and on WebSocket its last audio."""
        reply.reason = reason
        reply.error = error
        reply.ending = status
        if status == "failed":
            self._failure("stage_failed", error or "a stage failed", None, None, kind="server_error")
        self._settle_playout()

    def _end(self, reply: Reply, status: ReplyStatus) -> None:
        if reply.done:
            self._outbox.violated("terminal")
            return
        reply.status = status
        item = reply.item
        if item is not None:
            item.status = "completed" if status == "completed" else "incomplete"
            if item.spoken is not None and not item.spoken.complete:
                item.heard = (
                    reply.generated if item.heard is None else item.heard
                )  # a stage failed inside a clause: its text is longer than its sound
        self._tell_done(reply)
        if not reply.generated:
            reply.playout = Playout.DRAINED
            self.lane.remove(reply)
        self._start_wanted()

    def _tell_done(self, reply: Reply) -> None:
        self._outbox.observe("duplex_replies_total", 1, status=reply.status)
        self._outbox.send(ReplyDone(reply=reply.view()))

    def _cancel(self, msg: CancelReply) -> None:
        self._speculation.discard("dropped")
        active = self.lane.active
        if active is None and self._wanted is not None:
            self._wanted = None
        elif active is None or (msg.reply_id is not None and msg.reply_id != active.id):
            message = "there is no active response" + (f" {msg.reply_id}" if msg.reply_id else "")
            self._failure("response_cancel_not_active", message, msg.event_id, None)
        else:
            self._cut("client_cancelled")

    # Cuts. ----------------------------------------------------------------------------------------------------------

    def _cut(self, reason: StatusReason) -> None:
        """Make all output of the lane stale, at every stage at once; it is settled when the egress has answered."""
        self._speculation.discard("dropped")
        if not self.lane.alive:
            return
        self._cut_reason = reason
        self.lane.epoch += 1
        self._turns.drop()
        self._ticks.drop()
        fade_ms = 0 if reason == "disconnected" else self._settings.barge_in.fade_ms
        self._outbox.add(CutLane(lane=self.lane.number, epoch=self.lane.epoch, fade_ms=fade_ms))

    def _settle_cut(self, epoch: int) -> None:
        """The egress is cut: what was heard is now known, to the word."""
        self.lane.advance(self._now)
        for reply in [reply for reply in self.lane if reply.address.epoch < epoch]:
            self._settle_cut_of(reply)
            self.lane.remove(reply)
        self.lane.flush_player(self._now)
        self._start_wanted()
        if self._ear.hearing:
            self._read_ahead()

    def _settle_cut_of(self, reply: Reply) -> None:
        heard = Samples(max(0, self.lane.heard_at_cut(reply, self._now) - self._quiet))
        unheard = max(0, reply.generated - heard)
        item = reply.item
        cut_short = bool(unheard) or not reply.done
        if item is not None and cut_short:
            item.status = "incomplete"
            if item.spoken is not None:
                item.heard = heard if item.heard is None else min(item.heard, heard)
        heard_none = not (item is not None and item.heard_text())
        self._unanswered = self._cut_reason == "turn_detected" and heard_none and reply.greeting is None
        heard_chars = len(item.heard_text()) if item is not None else 0
        share = 1 - heard_chars / max(1, reply.text_chars, heard_chars)
        self._outbox.observe("duplex_unheard_tokens_total", round(reply.text_tokens * share))
        self._outbox.observe("duplex_unheard_audio_seconds_total", seconds_from_samples(unheard))
        webrtc = self.lane.webrtc is not None
        if webrtc and reply.playout is Playout.PLAYING:
            self._outbox.send(PlayoutCleared(reply_id=reply.id))
        reply.playout = Playout.CUT
        if not reply.done:
            reply.status = "cancelled"
            reply.reason = self._cut_reason
            self._tell_done(reply)
        if webrtc and item is not None and item.heard is not None:
            self._outbox.send(ItemTruncated(item_id=item.id, audio_end=item.heard))

    def resume_output(self) -> None:
        """A hold ends: go on with the reply that was playing, from a word's start."""
        playing = [reply for reply in self.lane if reply.playout is Playout.PLAYING]
        reply = playing[-1] if playing else None
        content = Samples(0)
        if reply is not None and reply.item is not None and reply.item.spoken is not None:
            content = reply.item.spoken.word_start(self.lane.sent(reply))
        self._outbox.add(ReleaseOutput(reply=reply.id if reply is not None else None, content=content))

    def _disconnect(self) -> None:
        self._ear.close()
        self._camera.give_up()
        self._pictures.close()
        self._wanted = None
        self._cut("disconnected")
        self._closed = True

    # Away, and back. ------------------------------------------------------------------------------------------------

    def _detach(self, quiet: MonoNs) -> None:
        """The client is away: settle both sides' speech as far as it was heard, and begin nothing."""
        active = self.lane.active
        unheard = active is not None and active.modality == "audio" and active.playout is Playout.QUEUED
        self._owes = self._owes or self._wanted is not None or (unheard and not self._traits.tick_mode)
        self._away = True
        # On WebSocket the client plays on by itself what it has got.
        self._quiet = samples_from_ns(quiet) if self.lane.webrtc is not None else Samples(0)
        self._ear.leave(self._now)
        self._camera.give_up()
        self._wanted = None
        self._cut("disconnected")

    def _connected(self) -> None:
        """The client can be told of events: it is new, or has come back and is told where the conversation stands."""
        self._outbox.send(SessionCreated(config=self.config))
        returned, self._away = self._away, False
        if returned:
            self._quiet = Samples(0)
            self.lane.new_way()
            self._restore()
        if self.config.resume:
            self._outbox.add(OfferResume())
        self._greeter.connected(self._now)
        if self._owes:
            self._owes = False
            self._wanted = _Wanted(CreateReply(), {}, self._now)
            self._start_wanted()

    def _restore(self) -> None:
        views = self.conversation.views()
        self._outbox.send(SessionResumed(items=len(views)))
        previous: str | None = None
        for view in views:
            self._outbox.send(ItemAdded(item=view, previous_item_id=previous, restored=True))
            previous = view.id

    # Playback. ------------------------------------------------------------------------------------------------------

    def _sent(self, msg: Sent) -> None:
        if not self.lane.sent_ranges(msg.ranges, self._now):
            self._outbox.violated("fronts")
        if msg.underruns or msg.underrun:
            self._outbox.observe("duplex_underruns_total", msg.underruns, observed="sent")
            self._outbox.observe("duplex_underrun_seconds_total", seconds_from_samples(msg.underrun), observed="sent")
        for reply in list(self.lane):
            if reply.playout is Playout.QUEUED and self.lane.sent(reply):
                self._playing(reply)
            self._tell_text(reply)
        if msg.cut is not None:
            self._settle_cut(msg.cut)
        self._turns.played(self._now)
        self._settle_playout()

    def _tell_text(self, reply: Reply) -> None:
        """On WebRTC a clause's text follows its first sound out of the door; text without sound, the reply's last."""
        sent = self.lane.sent(reply)
        all_left = reply.ending is not None and sent >= reply.generated
        while reply.captions and (all_left or reply.captions[0][0] < sent):
            assert reply.item is not None
            text = reply.captions.popleft()[1]
            self._outbox.send(ReplyText(reply_id=reply.id, item_id=reply.item.id, modality="audio", delta=text))

    def _playing(self, reply: Reply) -> None:
        """The first sound of a reply has left."""
        reply.playout = Playout.PLAYING
        reply.lost_before = self.lane.lost
        self._spoke = True
        left = MonoNs(self._now)
        reply.mark("sent", left)
        if self.lane.webrtc is not None:
            self._outbox.send(PlayoutStarted(reply_id=reply.id))
        marks = reply.marks
        if "speech_end" not in marks:
            return
        ttfas = seconds_from_ns(left - marks["speech_end"])
        self._outbox.observe("duplex_ttfas_seconds", ttfas, observed="sent")
        if self.lane.webrtc is not None:
            estimate = self.lane.webrtc.estimate()
            self._outbox.observe("duplex_ttfas_seconds", ttfas + seconds_from_samples(estimate.delay), observed="heard")
            self._outbox.observe("duplex_playback_error_seconds", seconds_from_samples(estimate.error))
        there = max(marks["vocoded"], marks["transcribed"])  # what was made before the turn had ended waited for that
        overhead = left - there + marks["looked"] - marks["look_arrived"]
        self._outbox.observe("duplex_server_overhead_seconds", seconds_from_ns(MonoNs(overhead)))
        self._outbox.send(TurnMetrics(reply_id=reply.id, split=reply.split()))

    def _settle_playout(self) -> None:
        """Close what has left (WebSocket) and what has been played to its end."""
        if not self.lane.alive:
            return
        self.lane.advance(self._now)
        for reply in list(self.lane):
            self._tell_text(reply)
            if reply.ending is not None and not reply.done and self._all_told(reply):
                self._end(reply, reply.ending)
            if reply.done and reply.generated and self.lane.played(reply) >= reply.generated:
                reply.playout = Playout.DRAINED
                if self.lane.webrtc is not None:
                    self._outbox.send(PlayoutStopped(reply_id=reply.id))
                self.lane.remove(reply)

    def _all_told(self, reply: Reply) -> bool:
        """Nothing that belongs before the terminal event is still to come."""
        if self.lane.webrtc is not None:
            return not reply.captions
        return self.lane.sent(reply) >= reply.generated

    def _playback(self, msg: PlaybackReport) -> None:
        reply = self.lane.find(msg.reply)
        if reply is None:
            return
        error = self.lane.report_played(reply, msg.played, self._now)
        self._outbox.observe("duplex_playback_error_seconds", seconds_from_samples(error))
        self._turns.played(self._now)
        self._settle_playout()

    def _failure(
        self, code: str, message: str, event_id: str | None, param: str | None,
        kind: Literal["invalid_request_error", "server_error"] = "invalid_request_error",
    ) -> None:  # fmt: skip
        self._outbox.send(Failure(code=code, message=message, param=param, event_id=event_id, kind=kind))
