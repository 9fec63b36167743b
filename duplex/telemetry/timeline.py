"""What happened in one session and when: a bounded record of tuples, made into a trace only when somebody asks.

A record holds times, numbers and ids, never audio, and text only where `telemetry.timeline_text` says so. It is written
from what passes the session's actor (messages, effects) and from the stages' spans; overflow rule of both rings:
`drop_oldest`. Tuples hold nothing but numbers, strings and None, so that the garbage collector has nothing to visit.

Source: DESIGN.md §1 (fronts, epochs), §2 (telemetry: timeline traces).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from duplex.config import TelemetrySettings
from duplex.payloads import Clause, Role
from duplex.protocol import TransportName
from duplex.session.effects import CutLane, Duck, Effect, Enqueue, Hold, ReleaseOutput, Send, Submit
from duplex.session.events import (
    Failure,
    InputCommitted,
    PlayoutCleared,
    PlayoutStopped,
    ReplyCreated,
    ReplyDone,
    SpeechStarted,
    SpeechStopped,
    Transcribed,
    TurnMetrics,
)
from duplex.session.lane import Lane
from duplex.session.messages import Heard, Inbound, Sent
from duplex.stages.runner import StageSpan
from duplex.telemetry.window import PARTS
from duplex.timeline.ledger import Kind
from duplex.units import POSITION_RATE, MonoNs, Samples, convert, ns_from_ms, ns_from_samples, ns_from_seconds

_VOICED: Final = 0.5
"""VAD probability from which the trace shows voice."""
_FRONTS_EVERY_NS: Final = ns_from_ms(150)
"""The fronts, and what has left, are noted this often at most: WebSocket audio can leave in fifty pieces a second."""
_INPUT_ROLES: Final = frozenset({Role.VAD, Role.TICK})
"""Stages that work all the time: their jobs have a ring of their own, so that they push nothing else out."""


class What(StrEnum):
    """Kinds of event; beside each, what follows (time, kind) in its tuple."""

    VOICE = "voice"
    """voiced: bool"""
    SPEECH = "speech"
    """began: bool, item id; the time is that of the audio, not of the news"""
    COMMITTED = "committed"
    """item id"""
    TRANSCRIBED = "transcribed"
    """item id, characters, text or None"""
    CREATED = "created"
    """reply id"""
    DONE = "done"
    """reply id, status, reason or None, input tokens, output tokens"""
    TURN = "turn"
    """reply id, seconds of each of PARTS"""
    CLAUSE = "clause"
    """reply id, clause index, characters, text or None, job id"""
    AUDIO = "audio"
    """reply id, clause index, length in samples at 48 kHz, whether the clause ends"""
    SENT = "sent"
    """reply id, content position of its start and its end, when its first part left"""
    FADE = "fade"
    """length in samples"""
    FRONTS = "fronts"
    """reply id, generated, sent and played front (samples at 48 kHz)"""
    STOPPED = "stopped"
    """reply id: all of it was played"""
    CLEARED = "cleared"
    """reply id: what was unsent was dropped"""
    UNDERRUN = "underrun"
    """gaps, length in samples"""
    DUCK = "duck"
    """decibels; 0 restores the level"""
    HOLD = "hold"
    RELEASE = "release"
    CUT = "cut"
    """lane, its new epoch"""
    FAILURE = "failure"
    """error code"""


Event = tuple[Any, ...]
"""(MonoNs, kind, …) as `What` says; the kind is a plain string."""
Work = tuple[MonoNs, "MonoNs | None", MonoNs, str, int, int, str, "str | None", int]
"""queued, began (None: never), ended, stage, job id, batch, outcome, reply id (None: work on the input), epoch."""
# Plain strings: an enum's members are objects that the garbage collector has to follow.
_VOICE, _SPEECH, _COMMITTED, _TRANSCRIBED, _CREATED, _DONE, _TURN, _CLAUSE, _AUDIO, _SENT, _FADE, _FRONTS, _STOPPED, \
    _CLEARED, _UNDERRUN, _DUCK, _HOLD, _RELEASE, _CUT, _FAILURE = (what.value for what in What)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Which session a timeline is of."""

    session_id: str
    conversation_id: str
    transport: TransportName
    opened_at: MonoNs
    opened_unix_ns: int
    """The same moment as Unix time."""


class Timeline:
    """One session's record; a `SessionWatch`.

    Args:
        about: which session.
        events_max: bound on what is kept of its messages, effects and stage work; a quarter as much of the work on its
            windows of input.
        with_text: keep transcripts and clauses.
    """

    def __init__(self, about: About, events_max: int, with_text: bool) -> None:
        self.about = about
        self.ended_at: MonoNs | None = None
        """When the session ended; None while it lives."""
        self.events: deque[Event] = deque(maxlen=events_max)
        self.work: deque[Work] = deque(maxlen=events_max)
        self.input_work: deque[Work] = deque(maxlen=max(1, events_max // 4))
        self._with_text = with_text
        self._voiced = False
        self._heard_end = Samples(0)
        """Input position up to which the core has heard …"""
        self._heard_at = MonoNs(0)
        """… and when it did."""
        self._fronts_at = MonoNs(0)
        """When the fronts were last noted."""
        self._left_of: str | None = None
        """The reply of which something has left that is not noted yet: content from …"""
        self._left_start = 0
        self._left_end = 0
        """… to, between …"""
        self._left_first_at = MonoNs(0)
        self._left_at = MonoNs(0)
        """… and."""

    # SessionWatch. --------------------------------------------------------------------------------------------------

    def took(self, message: Inbound, lane: Lane, now: MonoNs) -> None:
        """Note what a message says of the voice and of what left."""
        kind = type(message)
        if kind is Heard:
            assert isinstance(message, Heard)
            self._heard_end, self._heard_at = message.span.end, now
            voiced = message.probability >= _VOICED
            if voiced is not self._voiced:
                self._voiced = voiced
                self.events.append((self._time_of(message.span.start), _VOICE, voiced))
        elif kind is Sent:
            assert isinstance(message, Sent)
            self._sent(message, lane, now)

    def gave(self, effect: Effect, now: MonoNs) -> None:
        """Note what an effect says."""
        thing = effect.event if type(effect) is Send else effect
        note = _NOTES.get(type(thing))
        if note is not None:
            self.events.append((now, *note(thing, self._with_text)))
        elif type(thing) is SpeechStarted:
            self.events.append((self._time_of(thing.start), _SPEECH, True, thing.item_id))
        elif type(thing) is SpeechStopped:
            self.events.append((self._time_of(thing.end), _SPEECH, False, thing.item_id))
        elif type(thing) is Enqueue and thing.audio is not None:
            audio = thing.audio
            length = convert(len(audio.pcm), audio.rate, POSITION_RATE)
            self.events.append((now, _AUDIO, thing.address.reply, audio.clause, length, audio.last))
        elif type(thing) is Submit and type(thing.job.payload) is Clause:
            clause = thing.job.payload
            text = clause.text if self._with_text else None
            reply = thing.job.address.reply
            self.events.append((now, _CLAUSE, reply, clause.index, len(clause.text), text, thing.job.id))

    def ended(self, now: MonoNs) -> None:
        """The session is over; its record stays as it is."""
        self.ended_at = now

    def span(self, span: StageSpan) -> None:
        """A job of the session has left a stage."""
        address = span.address
        ring = self.input_work if span.role in _INPUT_ROLES else self.work
        ring.append((
            span.queued_at, span.began_at, span.ended_at, span.stage, span.job, span.batch, span.outcome, address.reply,
            address.epoch,
        ))  # fmt: skip

    @property
    def size(self) -> int:
        """Events and jobs that are kept."""
        return len(self.events) + len(self.work) + len(self.input_work)

    def copy(self) -> Timeline:
        """Return the record as it stands, for another thread to read."""
        self._flush()
        copied = Timeline(self.about, 0, self._with_text)
        copied.ended_at = self.ended_at
        copied.events, copied.work, copied.input_work = self.events.copy(), self.work.copy(), self.input_work.copy()
        return copied

    # Inside. --------------------------------------------------------------------------------------------------------

    def _time_of(self, position: Samples) -> MonoNs:
        """Return when the audio at an input position was there, by when the newest was heard."""
        return MonoNs(self._heard_at - ns_from_samples(max(0, self._heard_end - position)))

    def _sent(self, message: Sent, lane: Lane, now: MonoNs) -> None:
        for sent in message.ranges:
            if sent.kind is Kind.FADE:
                self.events.append((now, _FADE, sent.length))
            if sent.kind is not Kind.CONTENT:
                continue
            if sent.reply != self._left_of or sent.content_start != self._left_end:
                self._flush()
                self._left_of, self._left_start, self._left_first_at = sent.reply, sent.content_start, now
            self._left_end = sent.content_start + sent.length
            self._left_at = now
        if message.underruns or message.underrun:
            self.events.append((now, _UNDERRUN, message.underruns, message.underrun))
        if message.cut is None and now < self._fronts_at + _FRONTS_EVERY_NS:
            return
        self._flush()
        self._fronts_at = now
        for reply in lane:
            if reply.generated:
                self.events.append((now, _FRONTS, reply.id, reply.generated, lane.sent(reply), lane.played(reply)))

    def _flush(self) -> None:
        """Note the stretch of a reply that has left since the last time."""
        if self._left_of is not None and self._left_end > self._left_start:
            self.events.append((
                self._left_at, _SENT, self._left_of, self._left_start, self._left_end, self._left_first_at,
            ))  # fmt: skip
            self._left_start, self._left_first_at = self._left_end, self._left_at


def _done(event: ReplyDone, with_text: bool) -> tuple[Any, ...]:
    reply = event.reply
    return _DONE, reply.id, reply.status, reply.reason, reply.input_tokens, reply.output_text_tokens


def _transcribed(event: Transcribed, with_text: bool) -> tuple[Any, ...]:
    return _TRANSCRIBED, event.item_id, len(event.text), event.text if with_text else None


_NOTES: Final[dict[type, Callable[[Any, bool], tuple[Any, ...]]]] = {
    InputCommitted: lambda event, with_text: (_COMMITTED, event.item_id),
    Transcribed: _transcribed,
    ReplyCreated: lambda event, with_text: (_CREATED, event.reply.id),
    ReplyDone: _done,
    TurnMetrics: lambda event, with_text: (_TURN, event.reply_id, *[event.split.get(part, 0.0) for part in PARTS]),
    PlayoutStopped: lambda event, with_text: (_STOPPED, event.reply_id),
    PlayoutCleared: lambda event, with_text: (_CLEARED, event.reply_id),
    Failure: lambda event, with_text: (_FAILURE, event.code),
    CutLane: lambda effect, with_text: (_CUT, effect.lane, effect.epoch),
    Duck: lambda effect, with_text: (_DUCK, effect.gain_db),
    Hold: lambda effect, with_text: (_HOLD,),
    ReleaseOutput: lambda effect, with_text: (_RELEASE,),
}  # fmt: skip
"""What is noted of an effect, or of an event that is sent, where it does not depend on the session."""


class Timelines:
    """The timelines of the live sessions, and of those that ended last.

    Args:
        settings: bounds.
    """

    def __init__(self, settings: TelemetrySettings) -> None:
        self._settings = settings
        self._keep_ns = ns_from_seconds(settings.timeline_keep_s)
        self._live: dict[str, Timeline] = {}
        self._ended: OrderedDict[str, Timeline] = OrderedDict()
        """In the order in which they ended; overflow rule: `drop_oldest`."""

    def open(self, about: About) -> Timeline:
        """Begin a session's timeline."""
        timeline = Timeline(about, self._settings.timeline_events_max, self._settings.timeline_text)
        self._live[about.session_id] = timeline
        return timeline

    def close(self, session_id: str, now: MonoNs) -> None:
        """A session ended: its timeline is kept for a while."""
        timeline = self._live.pop(session_id, None)
        if timeline is None:
            return
        timeline.ended(now)
        self._ended[session_id] = timeline
        while len(self._ended) > self._settings.timeline_ended_max:
            self._ended.popitem(last=False)
        self._expire(now)

    def find(self, session_id: str, now: MonoNs) -> Timeline | None:
        """Return a session's timeline, if it is (still) there."""
        self._expire(now)
        return self._live.get(session_id) or self._ended.get(session_id)

    def all(self, now: MonoNs) -> list[Timeline]:
        """Return all of them: the ended ones first, oldest first."""
        self._expire(now)
        return [*self._ended.values(), *self._live.values()]

    def _expire(self, now: MonoNs) -> None:
        while self._ended:
            oldest = next(iter(self._ended.values()))
            if oldest.ended_at is not None and now - oldest.ended_at <= self._keep_ns:
                return
            self._ended.popitem(last=False)
