"""A timeline laid out on tracks: slices with a start and an end, instants, and the lead as a curve. Pure.

    voice    ▁▁████▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁████      what the VAD heard
    speech     |███|                   |████     what the client was told of it
    turn           |end|asr|think|talk|voc|      the way to the first audio
    reply               |███████████████████|    from its creation to its terminal event
    said                   |clause 0|clause 1|   from the text to its last audio
    sent                           |████████|    what left
    played                           |██████|    what the listener is estimated to have heard
    output                              |ducked| and cuts as instants
    asr queue, asr compute, …                    each stage's work for this session

A slice whose beginning the bounded record has lost is left out; one that has not ended ends at the present and says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from duplex.telemetry.timeline import Event, Timeline, What, Work
from duplex.telemetry.window import PARTS
from duplex.units import MonoNs, Samples, ms_from_samples, ns_from_ms, ns_from_samples, ns_from_seconds

TRACKS: Final = ("voice", "speech", "turn", "reply", "said", "sent", "played", "output")
"""The tracks of the conversation, top to bottom; those of the stages follow."""
LEAD: Final = "lead"
"""The one curve: audio generated and not yet played, in milliseconds."""
_ONE_STRETCH_NS: Final = ns_from_ms(500)
"""What leaves of one reply within this time is shown as one stretch."""
Args = dict[str, str | int | float]


@dataclass(slots=True)
class Slice:
    """Something that lasts."""

    track: str
    name: str
    start: MonoNs
    end: MonoNs
    args: Args = field(default_factory=dict)
    flow: int | None = None
    """Slices of the same number are joined by an arrow."""


@dataclass(frozen=True, slots=True)
class Instant:
    track: str
    name: str
    at: MonoNs
    args: Args = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Point:
    """One value of the lead."""

    at: MonoNs
    value: int


@dataclass(frozen=True, slots=True)
class Layout:
    """All that a trace shows."""

    slices: list[Slice]
    """By start."""
    instants: list[Instant]
    lead: list[Point]


@dataclass(slots=True)
class _Playing:
    """Where the listener was in a reply when it was last looked at."""

    start: MonoNs
    at: MonoNs
    played: int
    sent: int

    @property
    def runs_out(self) -> MonoNs:
        """When what was sent will have been played."""
        return MonoNs(self.at + ns_from_samples(max(0, self.sent - self.played)))


def lay_out(timeline: Timeline, now: MonoNs) -> Layout:
    """Return what a session's timeline shows at `now`."""
    conversation = _Conversation(timeline.about.transport == "webrtc")
    for event in sorted(timeline.events, key=lambda event: event[0]):
        conversation.take(event)
    conversation.finish(timeline.ended_at or now)
    slices = [*conversation.slices, *_stage_slices([*timeline.input_work, *timeline.work])]
    slices.sort(key=lambda piece: (piece.start, piece.end))
    return Layout(slices=slices, instants=conversation.instants, lead=conversation.lead)


def _stage_slices(work: Iterable[Work]) -> Iterable[Slice]:
    for queued, began, ended, stage, job, batch, outcome, reply, epoch in work:
        args: Args = {"job": job, "batch": batch, "outcome": outcome, "epoch": epoch}
        if reply is not None:
            args["reply"] = reply
        computes_from = ended if began is None else began
        if computes_from > queued:
            yield Slice(f"{stage} queue", stage, queued, computes_from, args, job)
        if began is not None:
            name = stage if outcome == "done" else f"{stage} ({outcome})"
            yield Slice(f"{stage} compute", name, began, ended, args, job)


class _Conversation:
    """Turns the events of a session, in the order of their times, into slices."""

    def __init__(self, real_time: bool) -> None:
        self.slices: list[Slice] = []
        self.instants: list[Instant] = []
        self.lead: list[Point] = []
        self._real_time = real_time
        """Audio leaves as it is played (WebRTC); else ahead of it."""
        self._open: dict[tuple[str, object], Slice] = {}
        """What has begun, by its track and what it is."""
        self._sent: Slice | None = None
        self._sent_of: str | None = None
        self._playing: dict[str, _Playing] = {}
        self._created: set[str] = set()
        self._drafted: dict[str, list[Event]] = {}
        """Clauses of replies that nobody was told of yet: shown if they are adopted."""

    def take(self, event: Event) -> None:
        """Take the next event."""
        at, kind = event[0], event[1]
        rest = event[2:]
        match What(kind):
            case What.VOICE | What.SPEECH:
                self._begin_or_end(at, kind, *rest)
            case What.TURN:
                self._turn(at, *rest)
            case What.CREATED:
                self._made(at, rest[0])
            case What.DONE:
                self._done(at, *rest)
            case What.CLAUSE | What.AUDIO:
                self._said(at, kind, *rest)
            case What.SENT:
                self._left(at, *rest)
            case What.FRONTS:
                self._fronts(at, *rest)
            case What.STOPPED | What.CLEARED:
                self._stop(rest[0], at)
            case _:
                self._output(at, What(kind), rest)

    def finish(self, now: MonoNs) -> None:
        """The record ends here: so does what is open."""
        for piece in self._open.values():
            piece.end = max(piece.start, now)
            piece.args["open"] = 1
            self.slices.append(piece)
        self._open.clear()
        for reply, playing in list(self._playing.items()):
            self._stop(reply, min(now, playing.runs_out))

    # The user. ------------------------------------------------------------------------------------------------------

    def _begin_or_end(self, at: MonoNs, track: str, began: bool, item: str | None = None) -> None:
        if began:
            self._begin(track, item, track, at, {} if item is None else {"item": item})
        else:
            self._end(track, item, at)

    def _turn(self, sent_at: MonoNs, reply: str, *seconds: float) -> None:
        at = MonoNs(sent_at - sum(ns_from_seconds(part) for part in seconds))
        for name, part in zip(PARTS, seconds, strict=True):
            end = MonoNs(at + ns_from_seconds(part))
            if end > at:
                self.slices.append(Slice("turn", name, at, end, {"reply": reply, "ms": round(part * 1000, 1)}))
            at = end

    # The reply. -----------------------------------------------------------------------------------------------------

    def _made(self, at: MonoNs, reply: str) -> None:
        self._begin("reply", reply, "reply", at, {"reply": reply})
        self._created.add(reply)
        for drafted in self._drafted.pop(reply, ()):
            self.take(drafted)

    def _done(self, at: MonoNs, reply: str, status: str, reason: str | None, tokens_in: int, tokens_out: int) -> None:
        piece = self._end("reply", reply, at)
        if piece is not None:
            piece.name = f"reply {status}"
            piece.args |= {"status": status, "input_tokens": tokens_in, "output_tokens": tokens_out}
            if reason is not None:
                piece.args["reason"] = reason
        for track, what in list(self._open):  # a clause that has no sound, or not all of it
            if track == "said" and isinstance(what, tuple) and what[0] == reply:
                self._end(track, what, at)

    def _said(self, at: MonoNs, kind: str, reply: str, clause: int, *rest: object) -> None:
        if kind == What.CLAUSE and reply not in self._created:
            self._drafted.setdefault(reply, []).append((at, kind, reply, clause, *rest))
            return
        if kind == What.CLAUSE:
            chars, text, job = rest
            args: Args = {"reply": reply, "chars": int(str(chars)), "audio_ms": 0}
            if text is not None:
                args["text"] = str(text)
            self._begin("said", (reply, clause), f"clause {clause}", at, args, int(str(job)))
            return
        length, last = rest
        piece = self._open.get(("said", (reply, clause)))
        if piece is None:
            return
        piece.args["audio_ms"] = int(piece.args["audio_ms"]) + ms_from_samples(int(str(length)))
        if last:
            self._end("said", (reply, clause), at)

    # The output. ----------------------------------------------------------------------------------------------------

    def _left(self, at: MonoNs, reply: str, start: int, end: int, first_at: MonoNs) -> None:
        began = min(first_at, MonoNs(at - ns_from_samples(end - start))) if self._real_time else first_at
        piece = self._sent
        if piece is None or self._sent_of != reply or began - piece.end > _ONE_STRETCH_NS:
            start_ms = ms_from_samples(Samples(start))
            began = began if piece is None else max(began, piece.end)
            piece = self._sent = Slice("sent", "sent", began, at, {"reply": reply, "from_ms": start_ms})
            self._sent_of = reply
            self.slices.append(piece)
        playing = self._playing.get(reply)
        if playing is not None:
            playing.sent = max(playing.sent, end)
        piece.end = at
        piece.args["to_ms"] = ms_from_samples(Samples(end))

    def _fronts(self, at: MonoNs, reply: str, generated: int, sent: int, played: int) -> None:
        lead_ms = ms_from_samples(Samples(generated - played))
        if self.lead and self.lead[-1].at == at:
            lead_ms += self.lead.pop().value
        self.lead.append(Point(at, lead_ms))
        playing = self._playing.get(reply)
        if playing is None and sent:
            began = MonoNs(at - ns_from_samples(played))
            self._playing[reply] = _Playing(began, at, played, sent)
        elif playing is not None:
            playing.at, playing.played, playing.sent = at, played, sent

    def _stop(self, reply: str, at: MonoNs) -> None:
        """The listener hears no more of a reply."""
        playing = self._playing.pop(reply, None)
        if playing is None:
            return
        played = min(playing.sent, playing.played + max(0, at - playing.at) * 48 // 1_000_000)
        if at > playing.start and played:
            args: Args = {"reply": reply, "to_ms": ms_from_samples(Samples(played))}
            self.slices.append(Slice("played", "played", playing.start, at, args))
        if not self._playing:
            self.lead.append(Point(at, 0))

    def _output(self, at: MonoNs, what: What, rest: tuple[object, ...]) -> None:
        match what:
            case What.DUCK if rest[0]:
                self._begin("output", "duck", "ducked", at, {"db": float(str(rest[0]))})
            case What.DUCK:
                self._end("output", "duck", at)
            case What.HOLD:
                self._begin("output", "hold", "held", at, {})
            case What.RELEASE:
                self._end("output", "hold", at)
            case What.CUT:
                self._cut(at, *rest)
            case What.UNDERRUN:
                ms = ms_from_samples(Samples(int(str(rest[1]))))
                self.instants.append(Instant("sent", "underrun", at, {"gaps": int(str(rest[0])), "ms": ms}))
            case What.FADE:
                self.instants.append(Instant("sent", "fade", at, {}))
            case What.FAILURE:
                self.instants.append(Instant("reply", "failure", at, {"code": str(rest[0])}))
            case What.COMMITTED:
                self.instants.append(Instant("turn", "committed", at, {"item": str(rest[0])}))
            case _:
                self._transcribed(at, rest)

    def _transcribed(self, at: MonoNs, rest: tuple[object, ...]) -> None:
        item, chars, text = rest
        args: Args = {"item": str(item), "chars": int(str(chars))}
        if text is not None:
            args["text"] = str(text)
        self.instants.append(Instant("turn", "transcribed", at, args))

    def _cut(self, at: MonoNs, lane: object, epoch: object) -> None:
        """A cut ends what is being made and played of its lane."""
        self.instants.append(Instant("output", "cut", at, {"lane": int(str(lane)), "epoch": int(str(epoch))}))
        for track, what in list(self._open):
            if track in ("said", "output"):
                piece = self._end(track, what, at)
                if piece is not None and track == "said":
                    piece.args["cut"] = 1
        for reply, playing in list(self._playing.items()):
            self._stop(reply, min(at, playing.runs_out))

    # Pieces. --------------------------------------------------------------------------------------------------------

    def _begin(self, track: str, what: object, name: str, at: MonoNs, args: Args, flow: int | None = None) -> None:
        self._end(track, what, at)
        self._open[track, what] = Slice(track, name, at, at, args, flow)

    def _end(self, track: str, what: object, at: MonoNs) -> Slice | None:
        piece = self._open.pop((track, what), None)
        if piece is not None:
            piece.end = max(piece.start, at)
            self.slices.append(piece)
        return piece
