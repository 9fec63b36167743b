"""Audio in items of the user: each is transcribed once, and its words are the item's. Whatever is asked meanwhile waits.

item.create ──► the item, without words ──► transcription ──► completed | failed      a deleted item is not waited for
"""

from __future__ import annotations

from duplex.payloads import INPUT_LANE, Address, Job, JobId, Pace, Payload, Role, StageError, Transcript, Utterance
from duplex.session.conversation import Item, ItemError
from duplex.session.effects import Drop, Submit
from duplex.session.events import Transcribed, TranscriptionFailed
from duplex.session.shared import Shared
from duplex.units import MonoNs, Samples, seconds_from_samples


class Clips:
    """Has the audio of items transcribed.

    Args:
        shared: the session; without a transcription stage, and in tick mode, none is taken.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._hears = shared.traits.transcribes and not shared.traits.tick_mode
        self._most = shared.settings.conversation.audio_unheard_max
        self._waiting: dict[JobId, tuple[Item, Samples]] = {}
        """By job: the item, and the length of its audio; `audio_unheard_max` at most, more are refused."""

    def check(self) -> None:
        """Refuse audio that cannot be taken.

        Raises:
            ItemError: nobody could hear it, or too much waits; nothing is changed.
        """
        if not self._hears:
            raise ItemError("unsupported", "this model hears no audio in items", "item.content")
        if len(self._waiting) >= self._most:
            message = f"at most {self._most} items with audio wait to be transcribed; send the next later"
            raise ItemError("too_many_audio_items", message, "item.content")

    def hear(self, item: Item, audio: Utterance, now: MonoNs) -> None:
        """Have the audio of a new item, which passed `check`, transcribed."""
        job = self._shared.outbox.next_job()
        self._waiting[job] = item, Samples(len(audio.span))
        address = Address(session=self._shared.session, lane=INPUT_LANE, epoch=0, tenant=self._shared.traits.tenant)
        submitted = Job(id=job, stage=Role.TRANSCRIBE, address=address, payload=audio, pace=Pace(since=now))
        self._shared.outbox.add(Submit(job=submitted))

    def take(self, job: JobId, payload: Payload | StageError) -> bool:
        """Take a transcript; return False if the job is not ours, or was given up."""
        if job not in self._waiting:
            return False
        item, length = self._waiting.pop(job)
        item.text = payload.text.strip() if isinstance(payload, Transcript) else ""
        if not isinstance(payload, Transcript):
            reason = payload.reason if isinstance(payload, StageError) else "the stage gave no text"
            self._shared.outbox.send(TranscriptionFailed(item_id=item.id, message=reason))
            return True
        self._shared.conversation.grown(item)
        self._shared.conversation.listened(length)
        if self._shared.config.transcribe:
            seconds = seconds_from_samples(length)
            self._shared.outbox.send(Transcribed(item_id=item.id, text=item.text, seconds=seconds))
        return True

    def forget(self, item_id: str) -> None:
        """The item was deleted: its words are not wanted."""
        self._drop([job for job, (item, _) in self._waiting.items() if item.id == item_id])

    def close(self) -> None:
        """The session ends."""
        self._drop(list(self._waiting))

    def _drop(self, jobs: list[JobId]) -> None:
        for job in jobs:
            del self._waiting[job]
            self._shared.outbox.add(Drop(role=Role.TRANSCRIBE, job=job))
