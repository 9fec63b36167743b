"""Replies beside the conversation: out of band, in parallel, each in an output lane of its own.

    response.create, conversation none ─► lane 1 … n ─► waits for the words of its items ─► begun ─► its one terminal event
                                            │                                                         │
    the user speaks, another reply begins, ─┴─ nothing happens to it         response.cancel with its id, disconnect ─► cut

Its items are in no history, so nothing of it is truncated, and nobody has the floor while it is made. A lane is used again when
its reply has ended; its epoch goes on growing, so that nothing of a former reply passes an edge.
Source: DESIGN.md §1 (reply, lane, epoch); ADR-0019.
"""

from __future__ import annotations

from collections.abc import Callable

from duplex.payloads import JobId, Payload, StageError
from duplex.session.conversation import Item
from duplex.session.effects import CutLane
from duplex.session.events import (
    CallDone,
    CallStarted,
    Failure,
    ReplyCreated,
    ReplyOutputStarted,
    ReplyStatus,
    StatusReason,
)
from duplex.session.failures import CONTEXT_EXCEEDED, CONTEXT_EXCEEDED_SAID, failure_of
from duplex.session.lane import Lane, Reply
from duplex.session.messages import CreateReply, Sent
from duplex.session.own_input import items_of
from duplex.session.pictures import Pictures
from duplex.session.playouts import Playouts
from duplex.session.prompts import Prompts
from duplex.session.shared import Shared
from duplex.session.turn_output import TurnOutput
from duplex.units import MonoNs

NewReply = Callable[[MonoNs, CreateReply, Lane], Reply]
"""Makes a reply of a lane from a request, as of a moment."""


class Aside:
    """One reply in its own lane, and its `Floor`.

    Args:
        shared: the session.
        lane: of this reply alone.
        reply: not begun yet.
    """

    def __init__(self, shared: Shared, lane: Lane, reply: Reply) -> None:
        self._shared = shared
        self._outbox = shared.outbox
        self.lane = lane
        self.reply = reply
        self._playouts = Playouts(lane, None, shared.outbox, lambda: None)
        self._turns = TurnOutput(
            lane, shared.outbox, shared.settings.pacing, shared.traits, self, shared.settings.tools, shared.new_id
        )
        self._cut_reason: StatusReason | None = None
        lane.add(reply)

    # Floor, to what makes the output. -------------------------------------------------------------------------------

    def begin_output(self, reply: Reply) -> None:
        """Give the reply its item, which enters no conversation, and tell the client."""
        reply.open(self._shared.new_id("item"))
        self._outbox.send(ReplyOutputStarted(reply=reply.view(), previous_item_id=None))

    def begin_call(self, reply: Reply, item: Item) -> None:
        """A function call has begun: tell the client."""
        self._outbox.send(CallStarted(reply_id=reply.id, item=item.view(), previous_item_id=None))

    def end_call(self, reply: Reply, item: Item) -> None:
        """A function call is complete: tell the client, who brings what it gave in the input of another response."""
        self._outbox.send(CallDone(reply_id=reply.id, item=item.view()))

    def finish(self, reply: Reply, status: ReplyStatus, reason: StatusReason | None, error: str | None) -> None:
        """Note how it ends: `take` and `sent` settle it, once its audio has left."""
        reply.reason, reply.error, reply.ending = reason, error, status
        if status == "failed":
            self._outbox.send(failure_of(reason, error))

    # Its life. ------------------------------------------------------------------------------------------------------

    def begin(self, prompts: Prompts, now: MonoNs) -> None:
        """Have it made from its items as they stand."""
        assert self.reply.input is not None, "an aside is made from the items that it was asked over"
        if prompts.overflows(self.reply.instructions, self.reply.input):
            self.finish(self.reply, "failed", CONTEXT_EXCEEDED, CONTEXT_EXCEEDED_SAID)
            self._playouts.settle(now)
        else:
            self._turns.start(self.reply, prompts.over(self.reply.input, self.reply.instructions), now)

    def take(self, job: JobId, payload: Payload | StageError, now: MonoNs) -> bool:
        """Take an output; return False if the job is not its own."""
        if not self._turns.take(job, payload, now):
            return False
        self._playouts.settle(now)
        return True

    def sent(self, msg: Sent, now: MonoNs) -> None:
        """Output of its lane has left, or the lane's cut is done."""
        self._playouts.sent(msg, now)
        if msg.cut is not None:
            assert self._cut_reason is not None, "who cuts says why"
            self._playouts.settle_cut(msg.cut, self._cut_reason, now)
            return
        self._turns.played(now)
        self._playouts.settle(now)

    def cut(self, reason: StatusReason) -> None:
        """Make all of it stale, at every stage at once; the lane's last `Sent` brings its end."""
        if self._cut_reason is not None:
            return
        self._cut_reason = reason
        self.lane.epoch += 1
        self._turns.drop()
        self._outbox.add(CutLane(lane=self.lane.number, epoch=self.lane.epoch, fade_ms=0))


class Asides:
    """The replies beside one session's conversation.

    Args:
        shared: the session.
        prompts: makes what the thinker is asked.
        pictures: of items, which may have to be read before.
        new_reply: makes a reply of a request.
    """

    def __init__(self, shared: Shared, prompts: Prompts, pictures: Pictures, new_reply: NewReply) -> None:
        self._shared = shared
        self._prompts = prompts
        self._pictures = pictures
        self._new_reply = new_reply
        self._most = shared.settings.conversation.out_of_band_max
        self._epochs: dict[int, int] = {}
        """Of each lane that was used, after its last reply."""
        self._asides: list[Aside] = []

    def create(self, msg: CreateReply, now: MonoNs) -> None:
        """The client asks for a reply beside the conversation.

        Raises:
            ItemError: its input names what is not there, or is too much; nothing is begun.
        """
        if len(self._asides) >= self._most:
            message = f"this server makes {self._most} out-of-band responses of a session at once"
            self._refuse("too_many_out_of_band_responses", message, msg, "response.conversation")
            return
        lane = self._free_lane()
        reply = self._new_reply(now, msg, lane)
        if reply.modality == "audio" and self._shared.traits.transport == "webrtc":
            message = "a call has one voice: an out-of-band response on it is text (output_modalities: ['text'])"
            self._refuse("unsupported_on_transport", message, msg, "response.output_modalities")
            return
        conversation = self._shared.conversation
        if msg.input is None:
            reply.input = tuple(conversation.items())
        else:
            reply.input = items_of(msg.input, conversation, self._shared.settings.conversation)
        if _unread(reply.input):
            self._pictures.wait_for_answer(now)
        self._asides.append(Aside(self._shared, lane, reply))
        self._shared.outbox.send(ReplyCreated(reply=reply.view()))
        self.go_on(now)

    def go_on(self, now: MonoNs) -> None:
        """Begin what waited for words, said or shown."""
        for aside in self._asides:
            if aside.reply.status == "accepted" and not self._waits(aside.reply, now):
                aside.begin(self._prompts, now)
        self._forget_ended()

    def take(self, job: JobId, payload: Payload | StageError, now: MonoNs) -> bool:
        """Take a stage's output; return False if the job is nobody's here."""
        for aside in self._asides:
            if aside.take(job, payload, now):
                self._forget_ended()
                return True
        return False

    def sent(self, msg: Sent, now: MonoNs) -> None:
        """Output of a lane other than the conversation's has left."""
        for aside in [aside for aside in self._asides if aside.lane.number == msg.lane]:
            aside.sent(msg, now)
        self._forget_ended()

    def cancel(self, reply_id: str) -> bool:
        """Cut the reply of this id; return False if it is none of these."""
        for aside in self._asides:
            if aside.reply.id == reply_id:
                aside.cut("client_cancelled")
                return True
        return False

    def close(self) -> None:
        """The client is away, or gone: nobody waits for any of them."""
        for aside in self._asides:
            aside.cut("disconnected")

    # Inside. --------------------------------------------------------------------------------------------------------

    def _free_lane(self) -> Lane:
        used = {aside.lane.number for aside in self._asides}
        number = next(n for n in range(1, self._most + 1) if n not in used)
        lane = Lane(number, None, self._shared.settings.pacing)
        lane.epoch = self._epochs.get(number, 0)
        lane.lead_ms = self._shared.lane.lead_ms
        return lane

    def _waits(self, reply: Reply, now: MonoNs) -> bool:
        assert reply.input is not None
        if any(item.text is None and item.role == "user" for item in reply.input):
            return True
        return _unread(reply.input) and self._pictures.awaited_until(now) is not None

    def _forget_ended(self) -> None:
        for aside in [aside for aside in self._asides if aside.reply.done]:
            self._epochs[aside.lane.number] = aside.lane.epoch
            self._asides.remove(aside)

    def _refuse(self, code: str, message: str, msg: CreateReply, param: str) -> None:
        self._shared.outbox.send(Failure(code=code, message=message, param=param, event_id=msg.event_id))


def _unread(items: tuple[Item, ...]) -> bool:
    return any(view.state == "waiting" for item in items for view in item.pictures)
