"""How one reply's text becomes sound: clause by clause to the talker, chunk by chunk to the vocoder, never far ahead.

    text ──ClauseSplitter──► waiting clauses ──1 at a time──► talker ──► ready ──1 chunk at a time──► vocoder ──► egress
         ◄── no credit for the thinker (clauses_ahead)      ◄── held until the lead falls to twice its target, its target

Before its turn has ended (`Reply.speculative`) a reply gets `speculative_ms_max` of sound at most, and its jobs come last.

A talker may give a clause in pieces. Each job carries a pace in terms of the listener: when it runs dry, counting what later
stages hold. The pace of a job that waits or runs is renewed when the playback front or the later stages' stock moves.

The text of a clause goes to the client with the clause's first sound.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from duplex.config import PacingSettings
from duplex.payloads import Audio, Clause, Job, JobId, LatentChunk, Latents, Pace, Role, WordMark
from duplex.session.clauses import ClauseSplitter
from duplex.session.effects import Drop, Enqueue, Outbox, Repace, Submit
from duplex.session.events import ReplyText
from duplex.session.lane import Lane, Reply
from duplex.session.traits import Traits
from duplex.units import (
    POSITION_RATE,
    MonoNs,
    Samples,
    convert,
    ms_from_samples,
    ns_from_ms,
    ns_from_samples,
    samples_from_ms,
    seconds_from_ns,
)

_MOVED = ns_from_ms(40)
"""A pace is renewed when the moment of running dry has moved by more."""
_STILL = ns_from_ms(1)
"""By less than this nothing has moved."""
_CHARS_PER_WORD = 6
_RATE_SMOOTHING = 0.2


@dataclass(slots=True)
class _Said:
    """A clause as it is said: its text goes out with its first sound."""

    text: str
    start: int | None = None
    """Where its text begins in the reply's, once it has gone out."""


@dataclass(slots=True)
class _Voicing:
    """The piece that is being turned into sound."""

    clause: _Said
    latents: Latents
    next_frame: int = 0
    said: bool = False
    """Its words have their places: its first sound is there."""

    @property
    def left(self) -> int:
        """Samples that will come of what the vocoder has not taken yet."""
        latents = self.latents
        return convert((latents.frames - self.next_frame) * latents.hop, latents.rate, POSITION_RATE)


@dataclass(slots=True)
class _Task:
    """A job of ours in a stage, and the pace it has there."""

    job: JobId
    pace: Pace


def content_length(source: int, rate: int) -> Samples:
    """Return the content length of `source` samples made at `rate`: even, so that 24 kHz and 48 kHz outputs agree."""
    return Samples(convert(source, rate, POSITION_RATE) & ~1)


def say_text(reply: Reply, text: str, lane: Lane, outbox: Outbox) -> None:
    """Send text that begins to sound where the reply's audio now ends: on WebSocket at once, else as its sound leaves."""
    assert reply.item is not None
    if lane.webrtc is not None:
        reply.captions.append((reply.generated, text))
    else:
        outbox.send(ReplyText(reply_id=reply.id, item_id=reply.item.id, modality="audio", delta=text))


class Speech:
    """The spoken half of one reply.

    Args:
        reply, lane: whose.
        outbox: takes the effects.
        pacing: bounds.
        traits: of the pack.
    """

    def __init__(self, reply: Reply, lane: Lane, outbox: Outbox, pacing: PacingSettings, traits: Traits) -> None:
        assert reply.item is not None and reply.item.spoken is not None
        self._reply = reply
        self._item_id = reply.item.id
        self._spoken = reply.item.spoken
        self._lane = lane
        self._outbox = outbox
        self._pacing = pacing
        self._splitter = ClauseSplitter(pacing.first_clause_words_max)
        self._waiting: deque[str] = deque()
        self._text_done = False
        self._clauses = 0
        self._bounded = traits.bounded
        self._char_ns = 60e9 / (traits.speaking_rate_wpm * _CHARS_PER_WORD)
        """Sound of one character of text, corrected by the talker's lengths."""
        self._talking: _Task | None = None
        self._clause = _Said("")
        """The clause that the talker has."""
        self._ready: deque[_Voicing] = deque()
        self._voicing: _Voicing | None = None
        self._vocoding: _Task | None = None
        self._clause_length = 0
        self._newest_starts: MonoNs | None = None
        self._inferred_dry = MonoNs(0)
        self._due = MonoNs(0)
        """When the chunk in work was due."""
        self._chunk_ms = pacing.chunk_ms_first
        self._source = 0
        """Samples made so far at the voice's own rate."""
        self._renewed: tuple[MonoNs, MonoNs] | None = None
        """When the listener would run dry, and work become due, as the paces were last looked at; None: look again."""
        self.complete = False
        """All of the reply's text has become sound."""

    # What comes in. -------------------------------------------------------------------------------------------------

    def push_text(self, delta: str, now: MonoNs) -> None:
        """More text from the thinker."""
        self._waiting.extend(self._splitter.push(delta))
        self.advance(now)

    def flush_text(self, now: MonoNs) -> None:
        """No more text is to come for a while: what there is is said."""
        self._waiting.extend(self._splitter.finish())
        self.advance(now)

    def finish_text(self, now: MonoNs) -> None:
        """The thinker is done."""
        self._waiting.extend(self._splitter.finish())
        self._text_done = True
        self.advance(now)

    def take(self, job: JobId, payload: Latents | Audio, now: MonoNs) -> bool:
        """Take a talker's or vocoder's output; return False if the job is not ours."""
        if self._talking is not None and job == self._talking.job:
            self._talked(payload, now)
        elif self._vocoding is not None and job == self._vocoding.job and isinstance(payload, Audio):
            self._vocoding = None
            if not self._reply.speculative:
                self._lane.stage_jitter.observed(seconds_from_ns(MonoNs(now - self._due)) * 1000)
            self._voiced(payload, now)
        else:
            return False
        self.advance(now)
        return True

    def _talked(self, payload: Latents | Audio, now: MonoNs) -> None:
        self._reply.mark("talked", now)
        if isinstance(payload, Latents):
            self._ready.append(_Voicing(self._clause, payload))
            length = convert(payload.frames * payload.hop, payload.rate, POSITION_RATE)
        else:
            self._say(self._clause, payload.words, payload.rate, 1)
            self._queue(payload, now)
            length = convert(len(payload.pcm), payload.rate, POSITION_RATE)
        self._clause_length += length
        if payload.last:
            self._talking = None
            measured = ns_from_samples(Samples(self._clause_length)) / max(1, len(self._clause.text))
            self._char_ns += _RATE_SMOOTHING * (measured - self._char_ns)
        elif self._talking is not None:
            self._renew(self._talking, Role.TALK, now)

    def owns(self, job: JobId) -> bool:
        """Return whether a job is one of this reply's voice."""
        return any(task is not None and task.job == job for task in (self._talking, self._vocoding))

    def abandon(self) -> None:
        """Take back what is submitted; what was queued for the listener still plays."""
        if self._talking is not None:
            self._outbox.add(Drop(role=Role.TALK, job=self._talking.job))
        if self._vocoding is not None:
            self._outbox.add(Drop(role=Role.VOCODE, job=self._vocoding.job))
        self._talking = self._vocoding = None
        self._outbox.add(Enqueue(address=self._reply.address, item_id=self._item_id, audio=None, last=True))

    # What it tells the thinker. -------------------------------------------------------------------------------------

    @property
    def chars_waiting(self) -> int:
        """Text that waits for the talker."""
        return sum(map(len, self._waiting))

    @property
    def full(self) -> bool:
        """The thinker is as far ahead as it may be."""
        return self._bounded and len(self._waiting) >= self._pacing.clauses_ahead

    def think_pace(self, now: MonoNs) -> Pace:
        """Return the pace of the reply's text: all that later stages hold counts as lead, and clauses are its credit."""
        if self._reply.speculative:
            return Pace(since=self._reply.since, blocked=self.full, speculative=True)
        chars = self.chars_waiting + (len(self._clause.text) if self._talking is not None else 0)
        dry_at = self._dry_at(now, self._unvoiced(), round(chars * self._char_ns))
        newest = None if dry_at is None else self._newest_starts
        return Pace(since=self._reply.since, dry_at=dry_at, blocked=self.full, newest_starts=newest)

    def repace(self, now: MonoNs) -> bool:
        """The playback front has moved: renew the pace of what waits in the stages; False if no pace can have changed.

        As long as audio leaves at real time, the listener runs dry when it was known to before: nothing to renew.
        """
        dry_at = MonoNs(max(now, self._lane.dry_at(now)))
        held = self._lane.hold_until(dry_at, now) or MonoNs(0)
        if self._renewed is not None and abs(dry_at - self._renewed[0]) + abs(held - self._renewed[1]) < _STILL:
            return False
        self._renewed = dry_at, held
        if self._talking is not None:
            self._renew(self._talking, Role.TALK, now)
        if self._vocoding is not None:
            self._renew(self._vocoding, Role.VOCODE, now)
        return True

    def adopt(self, now: MonoNs) -> None:
        """The turn has ended, and the reply is its answer: what was made waits for the listener, and the rest is due."""
        self._inferred_dry = MonoNs(now + ns_from_samples(self._reply.generated))
        self._newest_starts = now if self._reply.generated else None
        self._due = now
        self.repace(now)
        self.advance(now)

    def _renew(self, task: _Task, role: Role, now: MonoNs) -> None:
        pace = self._pace(role, now)
        inferred = not self._bounded and task.pace.newest_starts != pace.newest_starts
        if inferred or moved(task.pace, pace):
            task.pace = pace
            self._outbox.add(Repace(role=role, job=task.job, pace=pace))

    # What it does next. ---------------------------------------------------------------------------------------------

    def advance(self, now: MonoNs) -> None:
        """Submit whatever has become possible."""
        self._renewed = None
        if self._talking is None and self._waiting and not self._enough:
            self._talk(self._waiting.popleft(), now)
        while self._voicing is None and self._ready:
            voicing = self._ready.popleft()
            if voicing.latents.frames:
                self._voicing = voicing
            else:
                self._say(voicing.clause, voicing.latents.words, voicing.latents.rate, voicing.latents.hop)
        voicing_now = self._voicing
        if voicing_now is not None and self._vocoding is None:
            self._vocode(voicing_now, now)
        idle = self._voicing is None and self._talking is None and not self._waiting and not self._ready
        if self._text_done and idle and not self.complete:
            self.complete = True
            self._spoken.complete = True
            self._outbox.add(Enqueue(address=self._reply.address, item_id=self._item_id, audio=None, last=True))

    def _talk(self, text: str, now: MonoNs) -> None:
        self._reply.mark("thought", now)
        clause = Clause(index=self._clauses, text=text, voice=self._reply.voice, speed=self._reply.speed)
        self._clauses += 1
        self._clause = _Said(text)
        self._clause_length = 0
        task = self._talking = _Task(self._outbox.next_job(), self._pace(Role.TALK, now))
        job = Job(id=task.job, stage=Role.TALK, address=self._reply.address, payload=clause, pace=task.pace)
        self._outbox.add(Submit(job=job))

    def _vocode(self, voicing: _Voicing, now: MonoNs) -> None:
        """Submit the next chunk, if there is one that may be made."""
        latents = voicing.latents
        frames = max(1, -(-self._chunk_ms * latents.rate // (1000 * latents.hop)))
        if self._reply.speculative:
            allowed = self._pacing.speculative_ms_max - ms_from_samples(self._reply.generated)
            frames = min(frames, allowed * latents.rate // (1000 * latents.hop))
        first = voicing.next_frame
        last = min(latents.frames, first + frames)
        if last <= first:
            return
        self._chunk_ms = min(2 * self._chunk_ms, self._pacing.chunk_ms_max)
        voicing.next_frame = last
        task = self._vocoding = _Task(self._outbox.next_job(), self._pace(Role.VOCODE, now))
        chunk = LatentChunk(latents=latents, first=first, last=last)
        self._due = max(now, task.pace.hold_until or now)
        job = Job(id=task.job, stage=Role.VOCODE, address=self._reply.address, payload=chunk, pace=task.pace)
        self._outbox.add(Submit(job=job))

    def _pace(self, role: Role, now: MonoNs) -> Pace:
        """Return when work of the talker or the vocoder is due; the talker works further ahead, by twice the target."""
        talks = role is Role.TALK
        if self._reply.speculative:
            return Pace(since=self._reply.since, blocked=talks and self._enough, speculative=True)
        downstream, slack = (self._unvoiced(), 2) if talks else (Samples(0), 1)
        dry_at = self._dry_at(now, downstream)
        if dry_at is None:
            return Pace(since=self._reply.since)
        held = self._lane.hold_until(dry_at, now, slack)
        return Pace(since=self._reply.since, dry_at=dry_at, hold_until=held, newest_starts=self._newest_starts)

    def _dry_at(self, now: MonoNs, downstream: Samples, text_ns: int = 0) -> MonoNs | None:
        """Return when the listener runs dry; None before the first audio.

        Args:
            downstream: sound that later stages still hold.
            text_ns: estimated sound of text that later stages still hold.
        """
        if not self._reply.generated and not downstream and not self._lane.waiting:
            return None
        return MonoNs(max(now, self._lane.dry_at(now)) + ns_from_samples(downstream) + text_ns)

    @property
    def _enough(self) -> bool:
        """The turn has not ended, and as much sound is made or under way as may be before it has."""
        if not self._reply.speculative:
            return False
        return self._reply.generated + self._unvoiced() >= samples_from_ms(self._pacing.speculative_ms_max)

    def _unvoiced(self) -> Samples:
        """Audio that will come of latents which wait for the vocoder."""
        length = 0 if self._voicing is None else self._voicing.left
        for voicing in self._ready:
            length += voicing.left
        return Samples(length)

    def _voiced(self, audio: Audio, now: MonoNs) -> None:
        """A chunk became sound; with a clause's first one its text goes out."""
        voicing = self._voicing
        assert voicing is not None
        if not voicing.said:
            voicing.said = True
            self._say(voicing.clause, voicing.latents.words, voicing.latents.rate, voicing.latents.hop)
        if voicing.next_frame == voicing.latents.frames:
            self._voicing = None
        self._queue(audio, now)

    def _say(self, clause: _Said, words: tuple[WordMark, ...], rate: int, hop: int) -> None:
        """A piece begins to sound: its words get their places; with the clause's first one its text goes out."""
        first = clause.start is None
        start = clause.start = len(self._spoken.text) if clause.start is None else clause.start
        for word in words:
            end = Samples(convert(self._source + word.end * hop, rate, POSITION_RATE))
            self._spoken.word(start + word.text_end, end)
        if first:
            self._spoken.text += clause.text
            say_text(self._reply, clause.text, self._lane, self._outbox)

    def _queue(self, audio: Audio, now: MonoNs) -> None:
        self._reply.mark("vocoded", now)
        if not self._reply.speculative:
            self._lane.begin_draining(now)
        before = self._reply.generated
        self._source += len(audio.pcm)
        self._reply.generated = content_length(self._source, audio.rate)
        self._spoken.audio = self._reply.generated
        self._newest_starts = MonoNs(max(now, self._inferred_dry))
        self._inferred_dry = MonoNs(self._newest_starts + ns_from_samples(Samples(self._reply.generated - before)))
        self._outbox.add(Enqueue(address=self._reply.address, item_id=self._item_id, audio=audio, last=False))
        self._outbox.observe("duplex_lead_seconds", seconds_from_ns(self._lane.dry_at(now) - now))


def moved(old: Pace, new: Pace) -> bool:
    """Return whether a pace has changed by more than is worth telling."""
    if (old.blocked, old.speculative) != (new.blocked, new.speculative):
        return True
    return _apart(old.dry_at, new.dry_at) or _apart(old.hold_until, new.hold_until)


def _apart(old: MonoNs | None, new: MonoNs | None) -> bool:
    if old is None or new is None:
        return old is not new
    return abs(new - old) > _MOVED
