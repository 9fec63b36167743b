"""The words of the user's turns: the transcript of each, and partial ones while it is spoken.

voice      ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▁▁▁▁▁▁▁▁▁▁▁
partial      └─┘   └─┘    │
transcript                └ begun at the pause ──► words ─┬► the turn is committed: they are its own
                             speech goes on: taken back ◄─┘
"""

from __future__ import annotations

from dataclasses import dataclass, field

from duplex.payloads import JobId, Payload, Role, StageError, Transcript
from duplex.session.conversation import Item
from duplex.session.effects import Drop
from duplex.session.events import Overheard, Transcribed, TranscriptionFailed
from duplex.session.mind import Mind
from duplex.session.partials import Partials
from duplex.session.shared import Shared
from duplex.units import MonoNs, Samples, Span, samples_from_ms, seconds_from_samples


@dataclass(slots=True)
class Transcription:
    """One transcription, under way or done."""

    span: Span
    speech_end: Samples
    item: Item | None = None
    """The turn whose words they are; None: it is not committed yet."""
    text: str | None = None
    error: str | None = None
    finished: bool = False
    auto: bool = False
    """The turn is answered without being asked."""
    told: str = ""
    """What the client has of it already."""
    marks: dict[str, MonoNs] = field(default_factory=dict)


class Transcripts:
    """Has the turns of one session transcribed.

    Args:
        shared: the session.
        mind: is told of words.
    """

    def __init__(self, shared: Shared, mind: Mind) -> None:
        self._shared = shared
        self._outbox = shared.outbox
        self._transcribes = shared.traits.transcribes
        self._mind = mind
        self._transcriptions: dict[JobId, Transcription] = {}
        self._partials = Partials(samples_from_ms(shared.settings.turn.partial_every_ms))
        self._item_id = ""
        """Of the turn that is spoken."""

    # While it is spoken. --------------------------------------------------------------------------------------------

    def open(self, item_id: str, onset: Samples) -> None:
        """A turn began."""
        self._item_id = item_id
        self._partials.open(onset)

    def overhear(self, whole: Span, now: MonoNs) -> None:
        """Have what was said so far transcribed, if the client wants to read along and the stage has nothing else to do."""
        wanted = self._transcribes and self._shared.config.transcribe
        if wanted and self._partials.due(whole.end):
            job = self._shared.submit_input(Role.TRANSCRIBE, whole, whole.end, now, idle_only=True)
            self._partials.begin(job, whole.end)

    def drop_partial(self) -> None:
        """A partial transcript that is under way is not wanted."""
        job = self._partials.drop()
        if job is not None:
            self._outbox.add(Drop(role=Role.TRANSCRIBE, job=job))

    # When it may have ended. ----------------------------------------------------------------------------------------

    @property
    def foreseen(self) -> Transcription | None:
        """The words of a turn that is not committed yet: being transcribed, or there."""
        return next((each for each in self._transcriptions.values() if each.item is None), None)

    def begin(self, span: Span, speech_end: Samples, arrived: MonoNs, now: MonoNs) -> None:
        """Transcribe what may be a turn, where the pack can; its last packet came in at `arrived`."""
        if self._transcribes:
            self._begin(span, speech_end, arrived, now)

    def drop_pending(self) -> None:
        """The turn has not ended: its words are not wanted."""
        for job in [job for job, each in self._transcriptions.items() if each.item is None]:
            del self._transcriptions[job]
            self._outbox.add(Drop(role=Role.TRANSCRIBE, job=job))

    def attach(
        self, item: Item, span: Span, speech_end: Samples, auto: bool, ended: MonoNs, arrived: MonoNs, now: MonoNs
    ) -> None:  # fmt: skip
        """A turn is committed: its words are those of the transcription that its pause began, or of one that begins now."""
        if not self._transcribes:
            item.text = ""
            return
        job = next((job for job, each in self._transcriptions.items() if each.item is None), None)
        if job is None:
            job = self._begin(span, speech_end, arrived, now)
        transcription = self._transcriptions[job]
        transcription.item = item
        transcription.auto = auto
        transcription.told = self._partials.close()
        transcription.marks.update(speech_end=ended, committed=now)
        if transcription.finished:
            self._ready(job, item, transcription, now)

    # Stage outputs. -------------------------------------------------------------------------------------------------

    def owns(self, job: JobId) -> bool:
        """Return whether a job is one of these."""
        return job == self._partials.job or job in self._transcriptions

    def take(self, job: JobId, payload: Payload | StageError, now: MonoNs) -> Transcription | None:
        """Take an output of a job of these; return the words of a turn that is not committed yet."""
        if job == self._partials.job:
            self._overheard(payload)
            return None
        transcription = self._transcriptions[job]
        transcription.finished = True
        if isinstance(payload, Transcript):
            transcription.text = payload.text.strip()
        elif isinstance(payload, StageError):
            transcription.error = payload.reason
        if transcription.item is None:
            return transcription
        self._ready(job, transcription.item, transcription, now)
        return None

    # Inside. --------------------------------------------------------------------------------------------------------

    def _begin(self, span: Span, speech_end: Samples, arrived: MonoNs, now: MonoNs) -> JobId:
        job = self._shared.submit_input(Role.TRANSCRIBE, span, speech_end, now)
        marks = {"look_arrived": arrived, "looked": now}
        self._transcriptions[job] = Transcription(span=span, speech_end=speech_end, marks=marks)
        return job

    def _overheard(self, payload: Payload | StageError) -> None:
        """Tell what is sure of a partial transcript; one that failed, or found the stage busy, is followed by the next."""
        if not isinstance(payload, Transcript):
            self._partials.drop()
            return
        delta = self._partials.take(payload.text)
        if delta and self._shared.config.transcribe:
            self._outbox.send(Overheard(item_id=self._item_id, delta=delta))
        if self._partials.likely:
            self._mind.turn_grows(self._partials.likely)

    def _ready(self, job: JobId, item: Item, transcription: Transcription, now: MonoNs) -> None:
        """A committed turn has its words."""
        del self._transcriptions[job]
        item.text = transcription.text or ""
        if transcription.error is not None:
            self._outbox.send(TranscriptionFailed(item_id=item.id, message=transcription.error))
        else:
            self._shared.conversation.listened(Samples(len(transcription.span)))
        if transcription.error is None and self._shared.config.transcribe:
            seconds = seconds_from_samples(len(transcription.span))
            self._outbox.send(Transcribed(item_id=item.id, text=item.text, seconds=seconds, told=transcription.told))
        transcription.marks["transcribed"] = now
        understood = transcription.error is None
        self._mind.turn_ready(item, transcription.auto, transcription.marks, understood=understood)
