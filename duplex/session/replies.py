"""Which reply begins, and when: one at a time, from what was heard, and perhaps before anyone has asked for it.

asked for ──► awaited, while the user speaks or words are to come ──► accepted ──► begun: from its draft, or anew
turn, greeting ┘         a turn that comes meanwhile is in its prompt              ▲
a pause's words ──► draft in the dark (`duplex.session.speculation`) ──────────────┘ or thrown away
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from duplex.payloads import Address, JobId, Payload, StageError, Toolset
from duplex.session.aside import Asides
from duplex.session.camera import Camera
from duplex.session.config import Greeting
from duplex.session.conversation import Item
from duplex.session.ear import Ear
from duplex.session.effects import Outbox
from duplex.session.events import Failure, ReplyCreated
from duplex.session.failures import CONTEXT_EXCEEDED, CONTEXT_EXCEEDED_SAID
from duplex.session.lane import Lane, Playout, Reply
from duplex.session.lifetime import Lifetime
from duplex.session.messages import CancelReply, CreateReply
from duplex.session.own_input import items_of
from duplex.session.pictures import Pictures
from duplex.session.playouts import CutOff
from duplex.session.prefill import Prefill
from duplex.session.prompts import Prompts
from duplex.session.shared import Shared
from duplex.session.speculation import Draft, Speculation
from duplex.session.turn_output import Floor, TurnOutput
from duplex.units import MonoNs, Samples


@dataclass(slots=True)
class _Wanted:
    """A reply that waits for the one before it, or for the words it shall answer."""

    request: CreateReply
    marks: dict[str, MonoNs]
    since: MonoNs
    greeting: Greeting | None = None
    own_input: tuple[Item, ...] | None = None
    """What it is made from in place of the conversation."""
    takes_up: bool = False
    """It goes on where a sound without words has cut the one before it."""
    asked: bool = False
    """By a client event, while the reply before it was still being said, or the client was away: not told of yet."""


class Replies:
    """Begins the replies of one session.

    Args:
        shared: the session.
        ear, camera, pictures: what is still to come that a reply should know of.
        lifetime: once it is over no reply begins.
        floor: the core.
    """

    def __init__(
        self, shared: Shared, ear: Ear, camera: Camera, pictures: Pictures, lifetime: Lifetime, floor: Floor
    ) -> None:  # fmt: skip
        self._shared = shared
        self._lane = shared.lane
        self._traits = shared.traits
        self._outbox = shared.outbox
        self._ear = ear
        self._camera = camera
        self._pictures = pictures
        self._lifetime = lifetime
        self._floor = floor
        self._prompts = Prompts(shared, camera)
        self.asides = Asides(shared, self._prompts, pictures, self._new)
        self._turns = self._turn_output(shared.outbox, floor)
        self._speculation = Speculation(shared.outbox)
        self._prefill = Prefill(shared.outbox)
        self._wanted: _Wanted | None = None
        self._away = False
        """The client has lost its connection and may come back: nothing is said to nobody."""
        self._owes = False
        """While it is away: a turn of the user has ended and was not answered by a sound."""
        self.interrupted: CutOff | None = None
        """The last reply, if a voice cut it and no other has begun since."""

    @property
    def away(self) -> bool:
        """The client has lost its connection and may come back."""
        return self._away

    @property
    def awaited(self) -> bool:
        """A reply is wanted that the lane has not got yet."""
        return self._wanted is not None

    # What asks for a reply. -----------------------------------------------------------------------------------------

    def create(self, msg: CreateReply, now: MonoNs) -> None:
        """The client asks for a reply.

        Raises:
            ItemError: its own input names what is not there, or is too much; nothing is begun.
        """
        active = self._lane.active
        if self._traits.tick_mode:
            self._refuse("unsupported_in_tick_mode", "this model decides by itself when to speak", msg.event_id)
        elif self._lifetime.over:
            self._refuse("session_expired", "the session ends: no reply begins any more", msg.event_id)
        elif msg.out_of_band:
            self.asides.create(msg, now)
        elif active is not None and self._wanted is None and (active.called or self._lacks_result(active)):
            # The client has carried out a call while the reply that holds it, or one without its result, is still being said.
            self._wanted = _Wanted(msg, {}, now, own_input=self._own_input(msg), asked=True)
        elif active is not None or self._wanted is not None:
            name = active.id if active is not None else "the reply to the last turn"
            message = f"the conversation already has an active response: {name}"
            self._refuse("conversation_already_has_active_response", message, msg.event_id)
        elif self._away:
            # A side channel asks, and nobody would hear it: it is made when the client is back.
            self._wanted = _Wanted(msg, {}, now, own_input=self._own_input(msg), asked=True)
        else:
            own = self._own_input(msg)
            self._camera.look_for_answer(now)
            self._pictures.wait_for_answer(now)
            self._accept(_Wanted(msg, {}, now, own_input=own), now)

    def _lacks_result(self, reply: Reply) -> bool:
        """Whether a function call has given something since a reply was begun: as with several calls, each told by itself."""
        return reply.results is not None and reply.results < self._shared.conversation.results

    def greet(self, greeting: Greeting, now: MonoNs) -> None:
        """The model speaks first."""
        self._wanted = _Wanted(CreateReply(), {}, now, greeting)
        self.go_on(now)

    def turn_ready(
        self, item: Item, auto: bool, marks: dict[str, MonoNs], now: MonoNs, *, understood: bool
    ) -> None:  # fmt: skip
        """A turn of the user has its words: answer it, if that is wanted and there is anything to answer.

        One reply answers all turns that are in its prompt, so at most one is wanted, and none if one is about to start.
        A sound without words that has cut a reply before it was heard leaves a question that is answered after all; if some
        of it was heard, the reply goes on, unless it is not `understood` whether there were words.
        """
        active = self._lane.active
        answers = bool(item.text and item in self._shared.conversation) or self._unanswered
        only_noise = auto and understood and not item.text
        if only_noise and self.interrupted is not None:
            self._outbox.observe("duplex_barge_in_total", 1, outcome="noise")
        silent = self._traits.tick_mode or self._lifetime.over
        if item.text and self._wanted is not None and self._wanted.greeting is not None:
            self._wanted = None  # the user spoke first
        if auto and answers and not silent and (active is None or active.status != "accepted"):
            self._owes = self._away
            asked = self._wanted if self._wanted is not None and self._wanted.asked else None
            wanted = _Wanted(CreateReply(), marks, marks["speech_end"])
            if asked is not None:
                wanted = replace(wanted, request=asked.request, own_input=asked.own_input)
            self._wanted = wanted if asked is not None or not self._away else None
        elif only_noise and not (silent or self._away):
            self._take_up(now)
        self.go_on(now)
        self.discard_draft()  # a turn that is not answered at once

    @property
    def _unanswered(self) -> bool:
        """A voice cut the last reply, which answers somebody, before it was heard."""
        cut = self.interrupted
        return cut is not None and cut.unheard and cut.reply.greeting is None and not cut.reply.called

    def _take_up(self, now: MonoNs) -> None:
        """What cut the last reply were no words: it goes on, a greeting from its beginning; once, for the sound may go on too."""
        cut, self.interrupted = self.interrupted, None
        instructions = self._shared.settings.barge_in.go_on_instructions
        if cut is None or not cut.short or cut.reply.called or cut.reply.takes_up or cut.reply.modality == "text":
            return
        greeting = cut.reply.greeting or (Greeting(instructions=instructions) if instructions else None)
        if greeting is not None and self._traits.transcribes and self._lane.active is None and self._wanted is None:
            self._wanted = _Wanted(CreateReply(), {}, now, greeting, takes_up=True)

    def turn_foreseen(self, text: str, since: MonoNs, now: MonoNs) -> None:
        """The turn may have ended, and these are its words: begin the reply, if the committed turn would get one at once."""
        wanted = self._shared.settings.turn.speculate and self._traits.speculates and not self._traits.tick_mode
        if not wanted or self._lifetime.over or self._lane.alive or "audio" not in self._shared.config.modalities:
            return  # text alone has no listener who waits for sound, and no bound
        if self._awaits_reading(now):
            return  # the prompt is about to change
        if self._prompts.overflows(self._shared.config.instructions, said=text):
            return  # it will fail
        self._prefill.drop()
        request = CreateReply()
        reply = self._new(since, request)
        reply.speculative = True
        ask = self._prompts.ask(request, now, text)
        draft = Draft(text, ask, reply, self._shared.new_id("item"), self._outbox, self._floor, self._turn_output)
        self._speculation.begin(draft, self._prompts.draft(ask, now), now)

    def turn_withdrawn(self, resumed: bool) -> None:
        """The turn has not ended as foreseen: speech goes on, or there was none."""
        self._speculation.discard("resumed" if resumed else "dropped")
        if not resumed:
            self._prefill.drop()

    def read_ahead(self, now: MonoNs, said: str | None = None) -> None:
        """Have the thinker read the conversation, and the words that the user has said of the next turn, before it is asked."""
        detection = self._shared.config.turn_detection
        answers = detection is not None and detection.create_response and not self._traits.tick_mode
        if not answers or not self._traits.prefills or not self._shared.settings.turn.prefill or self._lane.alive:
            return  # what will be heard of a reply that lives is not known yet
        self._prefill.read(self._prompts.ahead(said), self._address(), now, self._shared.config.toolset)

    def unasked(self, now: MonoNs) -> Reply:
        """Enter a reply that a model in tick mode has begun by itself."""
        reply = self._new(now, CreateReply())
        self._lane.add(reply)
        reply.status = "in_progress"
        self._outbox.send(ReplyCreated(reply=reply.view()))
        return reply

    # What takes it back. --------------------------------------------------------------------------------------------

    def cancel(self, msg: CancelReply) -> bool:
        """The client cancels: what is only awaited is given up; return whether the active reply has to be cut."""
        if msg.reply_id is not None and self.asides.cancel(msg.reply_id):
            return False
        self.discard_draft()
        active = self._lane.active
        if active is None and self._wanted is not None:
            self._wanted = None
        elif active is None or (msg.reply_id is not None and msg.reply_id != active.id):
            # LiveKit's client knows by how it begins that nothing is wrong: it cancels what a barge-in has cut already.
            message = "Cancellation failed: there is no active response" + (f" {msg.reply_id}" if msg.reply_id else "")
            self._refuse("response_cancel_not_active", message, msg.event_id)
        else:
            self._drop_wanted()
            return True
        return False

    def give_up(self) -> None:
        """What is awaited, or begun in the dark, is not wanted any more."""
        self._drop_wanted()
        self.discard_draft()

    def _drop_wanted(self) -> None:
        wanted, self._wanted = self._wanted, None
        if wanted is not None and wanted.asked:
            message = "the response behind which this one was to begin was cut off"
            self._refuse("conversation_already_has_active_response", message, wanted.request.event_id)

    def discard_draft(self) -> None:
        """What was begun in the dark is not wanted any more."""
        self._speculation.discard("dropped")

    def recheck(self, now: MonoNs) -> None:
        """The session or the conversation may have changed: a draft of another prompt is of no use."""
        if self._speculation.said is not None:
            self._speculation.check(self._prompts.ask(CreateReply(), now, self._speculation.said))

    def cut(self) -> None:
        """The lane was cut: the reply that was being made is wanted no more (the stages were told by the cut itself)."""
        self._turns.drop()

    def leave(self) -> None:
        """The client is away: nothing begins until it is back."""
        active = self._lane.active
        unheard = active is not None and active.modality == "audio" and active.playout is Playout.QUEUED
        unheard = unheard and not (active is not None and active.called)  # the client's result asks for what follows
        self._owes = self._owes or self._wanted is not None or (unheard and not self._traits.tick_mode)
        self._away = True
        if self._wanted is not None and not self._wanted.asked:
            self._wanted = None
        self.asides.close()

    def come_back(self) -> bool:
        """The client is there; return whether it was away."""
        returned, self._away = self._away, False
        return returned

    def owe(self) -> None:
        """Nothing of the last answer reached the client: it is given again."""
        self._owes = not self._traits.tick_mode

    def answer_owed(self, now: MonoNs) -> None:
        """Answer what was asked before the client was lost."""
        if self._owes and self._wanted is None:
            self._wanted = _Wanted(CreateReply(), {}, now)
        self._owes = False
        if self._wanted is not None:
            self.go_on(now)

    # How it begins. -------------------------------------------------------------------------------------------------

    def go_on(self, now: MonoNs) -> None:
        """Go on with what waits: a reply that was accepted before its words came, or the next turn's."""
        if self._away:
            return
        self.asides.go_on(now)
        active = self._lane.active
        if active is not None and active.status == "accepted" and not self._listens(now):
            self._begin(active, now)
        elif active is None and self._wanted is not None and not self._ear.speaking:
            wanted, self._wanted = self._wanted, None
            self._accept(wanted, now)

    def take(self, job: JobId, payload: Payload | StageError, now: MonoNs) -> None:
        """Take a stage's output."""
        if self._prefill.take(job, payload) or self._speculation.take(job, payload, now):
            return
        if not self._turns.take(job, payload, now):
            self.asides.take(job, payload, now)

    def played(self, now: MonoNs) -> None:
        """The playback front has moved."""
        self._turns.played(now)

    def _listens(self, now: MonoNs) -> bool:
        """Words, said or shown, are still to come that a reply should know of."""
        hears = self._ear.committing or self._ear.speaking or self._shared.conversation.awaits_transcript()
        return hears or self._awaits_reading(now)

    def _awaits_reading(self, now: MonoNs) -> bool:
        waits = self._camera.awaited_until(now), self._pictures.awaited_until(now)
        return any(until is not None for until in waits)

    def _accept(self, wanted: _Wanted, now: MonoNs) -> None:
        """Enter a reply into the lane: its draft, if there is one of the same prompt, else a new one."""
        self.interrupted = None
        self._prefill.drop()
        waits = self._listens(now)
        special = wanted.greeting is not None or wanted.own_input is not None
        draft = None if waits or special else self._speculation.claim(self._prompts.ask(wanted.request, now))
        self.discard_draft()
        reply = self._new(wanted.since, wanted.request) if draft is None else draft.reply
        reply.since, reply.metadata, reply.greeting = wanted.since, wanted.request.metadata, wanted.greeting
        reply.input, reply.takes_up = wanted.own_input, wanted.takes_up
        reply.marks.update(wanted.marks)
        if wanted.greeting is not None:
            reply.toolset = Toolset()  # it speaks
        created = replace(reply.view(), item=None, status="in_progress", output_text_tokens=0, output_audio=Samples(0))
        self._outbox.send(ReplyCreated(reply=created))
        if draft is not None:
            self._prompts.adopt(reply)
            reply.results = self._shared.conversation.results
            self._turns = draft.turns
            draft.adopt(self._lane, self._shared.conversation, now)
            return
        self._lane.add(reply)
        if not waits:
            self._begin(reply, now)

    def _begin(self, reply: Reply, now: MonoNs) -> None:
        """Have a reply of the lane made, from the conversation as it stands."""
        reply.results, greeting = self._shared.conversation.results, reply.greeting
        if greeting is not None and greeting.text is not None:
            self._turns.say(reply, greeting.text, now)
        elif self._prompts.overflows(reply.instructions, reply.input):
            self._floor.finish(reply, "failed", CONTEXT_EXCEEDED, CONTEXT_EXCEEDED_SAID)
        else:
            self._turns.start(reply, self._prompts.begin(reply, now), now)

    def _own_input(self, msg: CreateReply) -> tuple[Item, ...] | None:
        shared = self._shared
        return None if msg.input is None else items_of(msg.input, shared.conversation, shared.settings.conversation)

    def _turn_output(self, outbox: Outbox, floor: Floor) -> TurnOutput:
        shared = self._shared
        return TurnOutput(
            self._lane, outbox, shared.settings.pacing, self._traits, floor, shared.settings.tools, shared.new_id
        )

    def _address(self, reply: str | None = None, lane: Lane | None = None) -> Address:
        lane = self._lane if lane is None else lane
        return Address(
            session=self._shared.session, lane=lane.number, epoch=lane.epoch, reply=reply, tenant=self._traits.tenant
        )

    def _new(self, since: MonoNs, request: CreateReply, lane: Lane | None = None) -> Reply:
        config, reply_id = self._shared.config, self._shared.new_id("resp")
        return Reply(
            id=reply_id,
            address=self._address(reply_id, lane),
            modality="audio" if "audio" in (request.modalities or config.modalities) else "text",
            voice=request.voice or config.voice,
            speed=config.speed,
            tokens_max=request.tokens_max if request.tokens_max is not None else config.tokens_max,
            metadata=request.metadata,
            instructions=config.instructions if request.instructions is None else request.instructions,
            toolset=config.toolset if request.toolset is None else request.toolset,
            since=since,
        )

    def _refuse(self, code: str, message: str, event_id: str | None) -> None:
        self._outbox.send(Failure(code=code, message=message, event_id=event_id))
