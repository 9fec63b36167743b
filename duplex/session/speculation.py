"""A reply that is begun before the turn has ended: made in the dark, adopted with the turn or thrown away.

    pause ──► transcript ──► draft: think ─► talk ─► vocode, speculative_ms_max of sound at most
                               │                 │
                speech goes on,│                 │the turn is committed and answered,
        cut, config, other item▼                 ▼and its prompt is the draft's
              discard: each job is dropped     adopt: what was kept back goes out, jobs get their listener's pace

Until it is adopted a draft is in no lane and no history, and nobody is told of it: its ids are known to the stages alone.
Source: DESIGN.md §3; ADR-0012.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from duplex.payloads import JobId, Message, Payload, StageError, Toolset
from duplex.session.conversation import Conversation, Item
from duplex.session.effects import Drop, Effect, Observe, Outbox, Repace, Send, Submit
from duplex.session.events import CallDone, CallStarted, ReplyOutputStarted, ReplyStatus, StatusReason
from duplex.session.lane import Lane, Reply
from duplex.session.turn_output import Floor, TurnOutput
from duplex.units import MonoNs

Outcome = Literal["adopted", "resumed", "differed", "dropped", "preempted", "failed"]
"""Answers the turn; speech went on; the prompt became another one; cut, cleared, reconfigured, committed by hand or
disconnected; made room for those who wait for a reply; a stage failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a reply is made from: two that are asked the same may stand for each other."""

    messages: tuple[Message, ...]
    """The conversation as heard, instructions first."""
    shown: str | None
    """What is legible on camera, however old."""
    modality: Literal["audio", "text"]
    voice: str
    speed: float
    tokens_max: int | None
    toolset: Toolset = Toolset()


class _Veil(Outbox):
    """Passes on what stages are asked for, and keeps back what anyone else would see, until it is lifted.

    What is measured meanwhile (the lead) is of nothing that anybody hears, and is forgotten.
    """

    def __init__(self, outbox: Outbox) -> None:
        super().__init__(outbox.next_job)
        self._outbox = outbox
        self._lifted = False

    def add(self, effect: Effect) -> None:
        if self._lifted or isinstance(effect, Submit | Drop | Repace):
            self._outbox.add(effect)
        elif not isinstance(effect, Observe):
            super().add(effect)

    def lift(self, previous: Mapping[str, str | None]) -> None:
        """Give out what was kept back, in order.

        Args:
            previous: the item before each of the reply's, by id.
        """
        self._lifted = True
        while (effect := self.poll()) is not None:
            self._outbox.add(_placed(effect, previous))


def _placed(effect: Effect, previous: Mapping[str, str | None]) -> Effect:
    """Return an effect that says behind which item the reply's own item stands."""
    match effect:
        case Send(event=CallStarted(item=item) as event):
            return Send(event=replace(event, previous_item_id=previous[item.id]))
        case Send(event=ReplyOutputStarted(reply=reply) as event) if reply.item is not None:
            return Send(event=replace(event, previous_item_id=previous[reply.item.id]))
        case _:
            return effect


class Draft:
    """One reply in the dark, and its `Floor`.

    Args:
        said: the words of the turn that it answers.
        ask: what it is made from.
        reply: not in the lane; `item_id` is for its item.
        outbox, floor: the core's.
        make: gives what makes it, over an outbox and a floor.
    """

    def __init__(
        self, said: str, ask: Ask, reply: Reply, item_id: str, outbox: Outbox, floor: Floor,
        make: Callable[[Outbox, Floor], TurnOutput],
    ) -> None:  # fmt: skip
        self.said = said
        self.ask = ask
        self.reply = reply
        self._floor = floor
        self._item_id = item_id
        self._veil = _Veil(outbox)
        self._ended: tuple[ReplyStatus, StatusReason | None, str | None] | None = None
        self.turns = make(self._veil, self)
        """What makes it, and goes on with it when it is adopted."""

    def begin_output(self, reply: Reply) -> None:
        """Text has begun: the item is made, and nobody told."""
        if not reply.speculative:
            self._floor.begin_output(reply)
            return
        reply.open(self._item_id)
        self._veil.send(ReplyOutputStarted(reply=reply.view(), previous_item_id=None))

    def begin_call(self, reply: Reply, item: Item) -> None:
        """A function call has begun: nobody is told."""
        if reply.speculative:
            self._veil.send(CallStarted(reply_id=reply.id, item=item.view(), previous_item_id=None))
        else:
            self._floor.begin_call(reply, item)

    def end_call(self, reply: Reply, item: Item) -> None:
        """A function call is complete: it is not carried out before the reply is adopted."""
        if reply.speculative:
            self._veil.send(CallDone(reply_id=reply.id, item=item.view()))
        else:
            self._floor.end_call(reply, item)

    def finish(self, reply: Reply, status: ReplyStatus, reason: StatusReason | None, error: str | None) -> None:
        """All of it is made: told when it is adopted."""
        if not reply.speculative:
            self._floor.finish(reply, status, reason, error)
        else:
            self._ended = status, reason, error

    def adopt(self, lane: Lane, conversation: Conversation, now: MonoNs) -> None:
        """Enter lane and history, give out what was kept back, and go on as any reply does."""
        reply = self.reply
        if reply.generated:
            lane.begin_draining(now)
        lane.add(reply)
        reply.speculative = False
        self._veil.lift({item.id: conversation.add(item) for item in reply.outputs})
        self.turns.adopt(now)
        if self._ended is not None:
            self._floor.finish(reply, *self._ended)


class Speculation:
    """The draft of one session; there is at most one.

    Args:
        outbox: takes the outcomes.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._draft: Draft | None = None

    @property
    def said(self) -> str | None:
        """The words that the draft answers; None: there is no draft."""
        return None if self._draft is None else self._draft.said

    def begin(self, draft: Draft, prompt: tuple[Message, ...], now: MonoNs) -> None:
        """Begin a draft.

        Args:
            prompt: the messages of what it is made from, with what the camera shows.
        """
        assert self._draft is None, "one draft at a time"
        self._draft = draft
        draft.turns.start(draft.reply, prompt, now)

    def take(self, job: JobId, payload: Payload | StageError, now: MonoNs) -> bool:
        """Take an output; return False if the job is not the draft's. A draft that fails is thrown away."""
        if self._draft is None:
            return False
        turns = self._draft.turns
        if isinstance(payload, StageError) and turns.owns(job):
            self.discard("preempted" if payload.kind == "preempted" else "failed")
            return True
        return turns.take(job, payload, now)

    def check(self, ask: Ask) -> None:
        """The turn would be answered by `ask` as things stand: a draft of another one is of no use."""
        if self._draft is not None and self._draft.ask != ask:
            self.discard("differed")

    def claim(self, ask: Ask) -> Draft | None:
        """Return the draft of what is asked, for its adoption; one of anything else is thrown away."""
        self.check(ask)
        draft, self._draft = self._draft, None
        if draft is not None:
            self._observe("adopted")
        return draft

    def discard(self, outcome: Outcome) -> None:
        """Throw the draft away, if there is one, at every stage."""
        draft, self._draft = self._draft, None
        if draft is not None:
            draft.turns.abandon()
            self._observe(outcome)

    def _observe(self, outcome: Outcome) -> None:
        self._outbox.observe("duplex_speculation_total", 1, outcome=outcome)
