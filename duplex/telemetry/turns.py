"""One record per turn, for tracing systems: what the turn took, stage by stage, and how it ended. No content.

A turn begins at the end of the user's speech, as far as it was measured, else with its reply's creation; it is over when its
reply has its terminal event and its audio has been played or cut. Work on an utterance (transcription, end of turn) is counted
to the reply that follows it, and work on a reply that was begun before its turn had ended to that reply, if it was adopted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from duplex.payloads import Role
from duplex.session.effects import CutLane, Duck, Effect, Hold, ReleaseOutput, Send
from duplex.session.events import (
    PlayoutCleared,
    PlayoutStopped,
    ReplyCreated,
    ReplyDone,
    ReplyView,
    SpeechStarted,
    TurnMetrics,
)
from duplex.session.lane import Lane
from duplex.session.messages import Inbound, Sent
from duplex.stages.runner import StageSpan
from duplex.units import MonoNs, ns_from_samples, ns_from_seconds

SPANS_MAX: Final = 256
"""Stage jobs kept of one turn; further ones are counted only."""
_EVENTS_MAX: Final = 64
"""Events kept of one turn; further ones are left out."""
_LISTENING: Final = frozenset({Role.END_OF_TURN, Role.TRANSCRIBE})
_MAKING: Final = frozenset({Role.THINK, Role.TALK, Role.VOCODE})
_ATTRIBUTES = dict[str, int | float]


@dataclass(slots=True, kw_only=True)
class Turn:
    """One turn, from the end of the user's speech until the answer is over."""

    conversation_id: str
    reply: ReplyView
    """As it was last told to the client, without its item and metadata."""
    started_at: MonoNs
    ended_at: MonoNs
    epoch: int = 0
    """Of the lane when the turn was over."""
    split: dict[str, float] = field(default_factory=dict)
    """Parts of the time to first audio and their sum `ttfas`, seconds; empty: nothing was said, or typing began it."""
    stages: list[StageSpan] = field(default_factory=list)
    stages_left_out: int = 0
    events: list[tuple[str, MonoNs, _ATTRIBUTES]] = field(default_factory=list)
    """Of interruptions: `duck`, `hold`, `release`, `cut`."""


class TurnCollector:
    """Collects the turns of one session; a `SessionWatch`.

    Args:
        conversation_id: stands in every turn.
        emit: takes each turn once, when it is over.
    """

    def __init__(self, conversation_id: str, emit: Callable[[Turn], None]) -> None:
        self._conversation_id = conversation_id
        self._emit = emit
        self._turn: Turn | None = None
        self._done = False
        """The reply has its terminal event."""
        self._silent_at: MonoNs | None = None
        """When all that was sent so far will have been played."""
        self._epoch = 0
        self._listening: deque[StageSpan] = deque(maxlen=SPANS_MAX)
        """Work on the utterance that is spoken or waits for its reply; overflow rule: `drop_oldest`."""

        self._drafted: deque[StageSpan] = deque(maxlen=SPANS_MAX)
        """Work on a reply that nobody was told of yet; overflow rule: `drop_oldest`."""

    def took(self, message: Inbound, lane: Lane, now: MonoNs) -> None:
        """Follow the listener, and close a turn whose audio has come to its end."""
        if self._turn is None:
            return
        if type(message) is Sent:
            waiting = sum(max(0, reply.generated - lane.played(reply)) for reply in lane)
            self._silent_at = MonoNs(now + ns_from_samples(waiting))
        elif self._done and (self._silent_at is None or now >= self._silent_at):
            self._close(now if self._silent_at is None else self._silent_at)

    def gave(self, effect: Effect, now: MonoNs) -> None:
        """Note what happens to the reply."""
        match effect:
            case Send(event=event):
                self._told(event, now)
            case CutLane():
                self._epoch = effect.epoch
                self._note("cut", now, epoch=effect.epoch)
                self._silent_at = now
            case Duck():
                self._note("duck" if effect.gain_db else "release", now, db=effect.gain_db)
            case Hold():
                self._note("hold", now)
            case ReleaseOutput():
                self._note("release", now)
            case _:
                pass  # the rest is work, which comes as stage spans

    def span(self, span: StageSpan) -> None:
        """A job of the session has left a stage."""
        turn = self._turn
        if span.role in _LISTENING:
            self._listening.append(span)
        elif turn is not None and span.address.reply == turn.reply.id:
            self._add(turn, span)
        elif span.role in _MAKING:
            self._drafted.append(span)

    def ended(self, now: MonoNs) -> None:
        """The session is over."""
        if self._turn is not None:
            self._close(now)

    # Inside. --------------------------------------------------------------------------------------------------------

    def _told(self, event: object, now: MonoNs) -> None:
        turn = self._turn
        match event:
            case ReplyCreated(reply=reply):
                if turn is not None:
                    self._close(now)
                self._turn = Turn(
                    conversation_id=self._conversation_id, reply=_bare(reply), started_at=now, ended_at=now,
                    stages=[*self._listening, *(span for span in self._drafted if span.address.reply == reply.id)],
                )  # fmt: skip
                self._listening.clear()
                self._drafted.clear()
                self._done, self._silent_at = False, None
            case TurnMetrics(reply_id=reply_id, split=split) if turn is not None and turn.reply.id == reply_id:
                turn.split = split
                turn.started_at = min(turn.started_at, MonoNs(now - ns_from_seconds(split["ttfas"])))
            case ReplyDone(reply=reply) if turn is not None and turn.reply.id == reply.id:
                turn.reply = _bare(reply)
                turn.ended_at = now
                self._done = True
                if not reply.output_audio:
                    self._close(now)
            case SpeechStarted():
                self._listening.clear()
            case PlayoutStopped(reply_id=reply_id) | PlayoutCleared(reply_id=reply_id) if turn is not None:
                if turn.reply.id == reply_id:
                    self._silent_at = now
            case _:
                pass

    def _note(self, name: str, now: MonoNs, **attributes: int | float) -> None:
        if self._turn is not None and len(self._turn.events) < _EVENTS_MAX:
            self._turn.events.append((name, now, attributes))

    def _add(self, turn: Turn, span: StageSpan) -> None:
        if len(turn.stages) < SPANS_MAX:
            turn.stages.append(span)
        else:
            turn.stages_left_out += 1

    def _close(self, now: MonoNs) -> None:
        turn = self._turn
        assert turn is not None
        self._turn = None
        turn.ended_at = max(turn.ended_at, now)
        turn.epoch = self._epoch
        turn.started_at = min([turn.started_at, *(span.queued_at for span in turn.stages)])
        self._emit(turn)


def _bare(reply: ReplyView) -> ReplyView:
    """Return a reply without what was said in it, or about it by the client."""
    return replace(reply, item=None, metadata=None)
