"""How one reply's text becomes sound: clause by clause to the talker, chunk by chunk to the vocoder, never far ahead.

    text ──ClauseSplitter──► waiting clauses ──1 at a time──► talker ──► ready ──1 chunk at a time──► vocoder ──► egress
         ◄──pause/resume the thinker (clauses_ahead)          ◄────────── held until the lead falls to its target

The text of a clause goes to the client with the clause's first sound.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from duplex.config import PacingSettings
from duplex.payloads import Audio, Clause, Job, JobId, LatentChunk, Latents, Pace, Role, WordMark
from duplex.session.clauses import ClauseSplitter
from duplex.session.effects import Drop, Enqueue, Outbox, Submit
from duplex.session.events import ReplyText
from duplex.session.lane import Lane, Reply
from duplex.units import POSITION_RATE, MonoNs, Samples, convert, ns_from_samples, seconds_from_ns


@dataclass(slots=True)
class _Voicing:
    """The clause that is being turned into sound."""

    text: str
    latents: Latents
    next_frame: int = 0
    said: bool = False
    """Its text went out: its first sound is there."""


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
    """

    def __init__(self, reply: Reply, lane: Lane, outbox: Outbox, pacing: PacingSettings) -> None:
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
        self._talking: tuple[JobId, str] | None = None
        self._ready: deque[tuple[str, Latents]] = deque()
        self._voicing: _Voicing | None = None
        self._vocoding: JobId | None = None
        self._due = MonoNs(0)
        """When the chunk in work was due."""
        self._chunk_ms = pacing.chunk_ms_first
        self._source = 0
        """Samples made so far at the voice's own rate."""
        self.complete = False
        """All of the reply's text has become sound."""

    # What comes in. -------------------------------------------------------------------------------------------------

    def push_text(self, delta: str, now: MonoNs) -> None:
        """More text from the thinker."""
        self._waiting.extend(self._splitter.push(delta))
        self.advance(now)

    def finish_text(self, now: MonoNs) -> None:
        """The thinker is done."""
        self._waiting.extend(self._splitter.finish())
        self._text_done = True
        self.advance(now)

    def take(self, job: JobId, payload: Latents | Audio, now: MonoNs) -> bool:
        """Take a talker's or vocoder's output; return False if the job is not ours."""
        if self._talking is not None and job == self._talking[0]:
            text = self._talking[1]
            self._talking = None
            self._reply.mark("talked", now)
            if isinstance(payload, Latents):
                self._ready.append((text, payload))
            else:
                self._say(text, payload.words, payload.rate, 1)
                self._queue(payload, now)
        elif job == self._vocoding and isinstance(payload, Audio):
            self._vocoding = None
            self._lane.stage_jitter.observed(seconds_from_ns(MonoNs(now - self._due)) * 1000)
            self._voiced(payload, now)
        else:
            return False
        self.advance(now)
        return True

    def owns(self, job: JobId) -> bool:
        """Return whether a job is one of this reply's voice."""
        return job == self._vocoding or (self._talking is not None and job == self._talking[0])

    def abandon(self) -> None:
        """Take back what is submitted; what was queued for the listener still plays."""
        if self._talking is not None:
            self._outbox.add(Drop(role=Role.TALK, job=self._talking[0]))
        if self._vocoding is not None:
            self._outbox.add(Drop(role=Role.VOCODE, job=self._vocoding))
        self._talking = self._vocoding = None
        self._outbox.add(Enqueue(address=self._reply.address, item_id=self._item_id, audio=None, last=True))

    # What it tells the thinker. -------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """The thinker is as far ahead as it may be."""
        return len(self._waiting) >= self._pacing.clauses_ahead

    @property
    def chars_waiting(self) -> int:
        """Text that waits for the talker."""
        return sum(map(len, self._waiting))

    # What it does next. ---------------------------------------------------------------------------------------------

    def advance(self, now: MonoNs) -> None:
        """Submit whatever has become possible."""
        if self._talking is None and self._waiting and not self._ready:
            self._talk(self._waiting.popleft(), now)
        while self._voicing is None and self._ready:
            text, latents = self._ready.popleft()
            if latents.frames:
                self._voicing = _Voicing(text, latents)
            else:
                self._say(text, latents.words, latents.rate, latents.hop)
            if self._talking is None and self._waiting:
                self._talk(self._waiting.popleft(), now)
        if (
            self._voicing is not None
            and self._vocoding is None
            and self._voicing.next_frame < self._voicing.latents.frames
        ):
            self._vocode(self._voicing, now)
        idle = self._voicing is None and self._talking is None and not self._waiting and not self._ready
        if self._text_done and idle and not self.complete:
            self.complete = True
            self._spoken.complete = True
            self._outbox.add(Enqueue(address=self._reply.address, item_id=self._item_id, audio=None, last=True))

    def _talk(self, text: str, now: MonoNs) -> None:
        self._reply.mark("thought", now)
        clause = Clause(index=self._clauses, text=text, voice=self._reply.voice, speed=self._reply.speed)
        self._clauses += 1
        job = self._outbox.next_job()
        self._talking = job, text
        ahead = self._unvoiced()
        pace = self._pace(now, ahead, slack=2)
        self._outbox.add(
            Submit(job=Job(id=job, stage=Role.TALK, address=self._reply.address, payload=clause, pace=pace))
        )

    def _vocode(self, voicing: _Voicing, now: MonoNs) -> None:
        latents = voicing.latents
        frames = max(1, -(-self._chunk_ms * latents.rate // (1000 * latents.hop)))
        first = voicing.next_frame
        last = min(latents.frames, first + frames)
        self._chunk_ms = min(2 * self._chunk_ms, self._pacing.chunk_ms_max)
        voicing.next_frame = last
        job = self._vocoding = self._outbox.next_job()
        chunk = LatentChunk(latents=latents, first=first, last=last)
        pace = self._pace(now, Samples(0), slack=1)
        self._due = max(now, pace.hold_until or now)
        self._outbox.add(
            Submit(job=Job(id=job, stage=Role.VOCODE, address=self._reply.address, payload=chunk, pace=pace))
        )

    def _pace(self, now: MonoNs, downstream: Samples, slack: int) -> Pace:
        """Return when work is due; `downstream` is what later stages still hold, `slack` widens the target."""
        if not self._reply.generated and not self._lane.waiting and not downstream:
            return Pace(since=self._reply.since)
        dry_at = MonoNs(max(now, self._lane.dry_at(now)) + ns_from_samples(downstream))
        held = self._lane.hold_until(dry_at, now, slack)
        return Pace(since=self._reply.since, dry_at=dry_at, hold_until=held)

    def _unvoiced(self) -> Samples:
        """Audio that will come of latents which wait for the vocoder."""
        waiting = [(latents, latents.frames) for _, latents in self._ready]
        if self._voicing is not None:
            waiting.append((self._voicing.latents, self._voicing.latents.frames - self._voicing.next_frame))
        return Samples(sum(convert(n * latents.hop, latents.rate, POSITION_RATE) for latents, n in waiting))

    def _voiced(self, audio: Audio, now: MonoNs) -> None:
        """A chunk became sound; with a clause's first one its text goes out."""
        voicing = self._voicing
        assert voicing is not None
        if not voicing.said:
            voicing.said = True
            self._say(voicing.text, voicing.latents.words, voicing.latents.rate, voicing.latents.hop)
        if voicing.next_frame == voicing.latents.frames:
            self._voicing = None
        self._queue(audio, now)

    def _say(self, text: str, words: tuple[WordMark, ...], rate: int, hop: int) -> None:
        """A clause begins to sound: its words get their places, and its text goes out with it."""
        before = len(self._spoken.text)
        for word in words:
            end = Samples(convert(self._source + word.end * hop, rate, POSITION_RATE))
            self._spoken.word(before + word.text_end, end)
        self._spoken.text += text
        say_text(self._reply, text, self._lane, self._outbox)

    def _queue(self, audio: Audio, now: MonoNs) -> None:
        self._reply.mark("vocoded", now)
        self._lane.begin_draining(now)
        self._source += len(audio.pcm)
        self._reply.generated = content_length(self._source, audio.rate)
        self._spoken.audio = self._reply.generated
        self._outbox.add(Enqueue(address=self._reply.address, item_id=self._item_id, audio=audio, last=False))
        self._outbox.observe("duplex_lead_seconds", seconds_from_ns(self._lane.dry_at(now) - now))
