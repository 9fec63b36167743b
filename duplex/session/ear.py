"""The ear of a session: from VAD windows to committed turns of the user.

    onset ──► utterance ──► pause: end of turn ∥ transcription ──► look ──► commit ──► transcript ──► the core's turn
                  ▲                │ speech goes on    └► foreseen  │
                  └────────────────┴────────────────────────────────┘ (what was begun is taken back)

While a reply is alive the onset may be an interruption; that is the barge-in policy's business (`duplex.session.barge_in`).
"""

from __future__ import annotations

from dataclasses import dataclass

from duplex.payloads import JobId, Payload, Role, StageError, TurnEnd
from duplex.session.barge_in import BargeIn, Verdict
from duplex.session.config import TurnDetection
from duplex.session.conversation import Item
from duplex.session.effects import Drop
from duplex.session.events import (
    Failure,
    InputCleared,
    InputCommitted,
    InputTimedOut,
    ItemAdded,
    SpeechStarted,
    SpeechStopped,
    Transcribed,
    TurnLimited,
)
from duplex.session.mind import Mind
from duplex.session.shared import Shared
from duplex.session.transcripts import Transcription, Transcripts
from duplex.session.turns import Fact, TurnTracker, limits_for
from duplex.session.unfinished import Hold, Unfinished
from duplex.timeline.watermark import Watermark
from duplex.units import MonoNs, Samples, Span, ns_from_samples, samples_from_ms, seconds_from_ns, seconds_from_samples

_WINDOW = samples_from_ms(32)
"""Audio that may wait for a VAD window to be full."""


@dataclass(slots=True)
class _Utterance:
    item_id: str
    start: Samples
    announced: bool = False
    """speech_started was sent."""


@dataclass(slots=True)
class _Commit:
    arrived: Samples
    event_id: str | None


class Ear:
    """Follows the user's audio.

    Args:
        shared: the session; without an end-of-turn model silence of the server_vad length decides.
        barge_in: the policy.
        mind: the core.
    """

    def __init__(self, shared: Shared, barge_in: BargeIn, mind: Mind) -> None:
        self.watermark = Watermark()
        self.barge_in = barge_in
        self._shared = shared
        self._settings = shared.settings.turn
        self._traits = shared.traits
        self._outbox = shared.outbox
        self._mind = mind
        self._detection = shared.config.turn_detection
        self._tracker = TurnTracker(limits_for(self._effective(self._detection), self._settings))
        self._transcripts = Transcripts(shared, mind)
        listed = shared.settings.unfinished
        known = bool(listed.language) and listed.language == shared.traits.hears_language
        self._hold = Hold(Unfinished(listed) if known else None, shared.outbox)
        self._utterance: _Utterance | None = None
        self._buffer_start = Samples(0)
        self._dropped_to = Samples(-1)
        """Where the buffer began when its oldest audio was last dropped."""
        self._voice_in_buffer = False
        self._end_job: JobId | None = None
        self._end_probability: float | None = None
        """What the end-of-turn model said of the present pause, until it is decided on."""
        self._decides = False
        """The present pause is long enough to decide."""
        self._analysed = Samples(0)
        """Position up to which the VAD has spoken; audio that arrived waits behind it."""
        self._commit_wanted: _Commit | None = None
        self._clear_wanted: Samples | None = None
        """A clear that came behind that commit, up to where audio had arrived."""
        self._last_heard = MonoNs(0)
        self._arrived = MonoNs(0)

    # Media. ---------------------------------------------------------------------------------------------------------

    def heard(self, span: Span, probability: float, arrived: MonoNs, now: MonoNs) -> None:
        """One VAD window became final; its last packet had come in at `arrived`."""
        if span.end <= self._analysed:
            return  # refused by a full queue and told too early: its time has passed
        self.watermark.advance(span.end)
        self._analysed = span.end
        self._arrived = arrived
        self._last_heard = now
        if self._detection is None:
            self._keep_newest()
        if self._detection is not None and span.end > self._buffer_start:
            self._follow(span, probability, now)
        commit = self._commit_wanted
        if commit is not None and span.end + _WINDOW > commit.arrived:
            self._commit_wanted = None
            self._commit_asked(commit, now)
            if self._clear_wanted is not None:
                self.clear(self._clear_wanted)

    def _keep_newest(self) -> None:
        """Without turn detection only the client empties the buffer: past the bound its oldest audio goes (C73).

        Who appends it is told, once per buffer; a microphone that is always on is expected to run over.
        """
        kept_ms = self._settings.input_buffer_ms_max
        start = Samples(self._analysed - samples_from_ms(kept_ms))
        if start <= self._buffer_start or self._traits.tick_mode:
            return
        if self._buffer_start != self._dropped_to and self._traits.transport == "websocket":
            message = f"the input buffer holds more than {kept_ms} ms: the oldest is dropped until a commit or clear"
            self._outbox.send(Failure(code="input_audio_buffer_full", message=message, event_id=None))
        self._buffer_start = self._dropped_to = start

    def _follow(self, span: Span, probability: float, now: MonoNs) -> None:
        fact = self._tracker.window(span, probability)
        if fact is None and not self.barge_in.pending:
            return
        match fact:
            case Fact.ONSET:
                self._onset(span, now)
            case Fact.VOICED:
                self._overhear(span, now)
            case Fact.RESUMED:
                self._take_back(resumed=True)
            case Fact.PAUSE:
                self._pause(span, now)
            case Fact.LOOK:
                self._look(span, now)
            case Fact.ENDED:
                self._ended(now)
            case Fact.LIMIT:
                self._limited(span, now)
        self._settle(span, now)

    def stalled_at(self) -> MonoNs | None:
        """Return when missing media closes the open utterance."""
        if self._utterance is None:
            return None
        return MonoNs(self._last_heard + self._settings.input_stall_ms * 1_000_000)

    def lags(self, now: MonoNs) -> None:
        """Media waits for the VAD: as long as it does, none is missing."""
        self._last_heard = now

    def stalled(self, now: MonoNs) -> None:
        """No media has come for too long: what was said so far is the turn, or it was none."""
        self.barge_in.take_back("refused")
        self._ended(now)

    # Client events. -------------------------------------------------------------------------------------------------

    def configure(self, detection: TurnDetection | None) -> None:
        """Change the turn detection; one that hears otherwise ends an open utterance, whose pair of events is completed."""
        limits = limits_for(self._effective(detection), self._settings)
        same = (detection is None) == (self._detection is None) and limits == self._tracker.limits
        if not same:
            self._discard()
            self._tracker = TurnTracker(limits)
            self._buffer_start = self._analysed
        self._detection = detection
        if detection is not None and not detection.interrupt_response:
            self.barge_in.take_back("cleared")

    @property
    def speaking(self) -> bool:
        """The user is in the middle of something that may interrupt."""
        return self._utterance is not None and self._detection is not None and self._detection.interrupt_response

    @property
    def hearing(self) -> bool:
        """The user speaks, or may be."""
        return self._utterance is not None

    def ignores(self, probability: float) -> bool:
        """Return whether a window of this probability changes nothing but the time: several may be told as one."""
        tracker = self._tracker
        return (
            probability < tracker.limits.release
            and not tracker.open
            and not tracker.voiced
            and self._commit_wanted is None
        )

    @property
    def committing(self) -> bool:
        """A commit waits until all that had arrived before it is analysed."""
        return self._commit_wanted is not None

    def is_open(self, item_id: str) -> bool:
        """Return whether an item of this id is being spoken."""
        return self._utterance is not None and self._utterance.item_id == item_id

    def commit(self, arrived: Samples, now: MonoNs, event_id: str | None) -> None:
        """The client ends the turn by itself, once what has arrived is analysed."""
        commit = _Commit(arrived, event_id)
        if self._analysed + _WINDOW > arrived:
            self._commit_asked(commit, now)
        elif self._commit_wanted is None:
            self._commit_wanted = commit
        else:
            self._refuse_commit("a commit is under way", event_id)

    def clear(self, arrived: Samples) -> None:
        """The client drops what it has said since the last commit, which is waited for."""
        if self._commit_wanted is not None:
            self._clear_wanted = arrived
            return
        self._clear_wanted = None
        self._discard()
        self._buffer_start = max(arrived, self._analysed)
        self._outbox.send(InputCleared())

    def time_out(self, start: Samples) -> None:
        """Nobody has spoken since `start`: commit an empty turn, which has no words to wait for."""
        self._transcripts.drop_partial()
        item = Item(id=self._shared.new_id("item"), role="user", modality="audio", text="")
        self._outbox.send(InputTimedOut(item_id=item.id, start=min(start, self._analysed), end=self._analysed))
        previous = self._shared.conversation.add(item)
        self._outbox.send(InputCommitted(item_id=item.id, previous_item_id=previous))
        self._outbox.send(ItemAdded(item=item.view(), previous_item_id=previous))
        if self._traits.transcribes and self._shared.config.transcribe:
            seconds = seconds_from_samples(max(0, self._analysed - self._buffer_start))
            self._outbox.send(Transcribed(item_id=item.id, text="", seconds=seconds))
        self._buffer_start = self._analysed
        self._voice_in_buffer = False

    # Stage outputs. -------------------------------------------------------------------------------------------------

    def take(self, job: JobId, payload: Payload | StageError, now: MonoNs) -> bool:
        """Take an output; return False if the job is not ours."""
        if job == self._end_job:
            self._end_job = None
            self._end_probability = payload.probability if isinstance(payload, TurnEnd) else 1.0
            if self._decides:
                self._decide(now)
            return True
        if not self._transcripts.owns(job):
            return False
        words = self._transcripts.take(job, payload, now)
        if words is not None:
            self._words_came(job, words, now)
        return True

    def leave(self, now: MonoNs) -> None:
        """The client is away: what it was saying is a turn as it stands, which nobody waits to have answered, or was none."""
        self.barge_in.take_back("refused")
        utterance = self._utterance
        if utterance is None or not utterance.announced:
            self._forget_utterance()
        else:
            self._commit(utterance, self._analysed, self._tracker.speech_end, auto=False, now=now)

    def close(self) -> None:
        """The session ends."""
        self._commit_wanted = self._clear_wanted = None
        self._take_back()

    # Inside. --------------------------------------------------------------------------------------------------------

    def _effective(self, detection: TurnDetection | None) -> TurnDetection | None:
        if detection is None or detection.kind == "server_vad" or self._traits.semantic:
            return detection
        return TurnDetection(
            kind="server_vad",
            create_response=detection.create_response,
            interrupt_response=detection.interrupt_response,
        )

    @property
    def _looks_semantically(self) -> bool:
        return self._traits.semantic and self._detection is not None and self._detection.kind == "semantic_vad"

    def _onset(self, span: Span, now: MonoNs) -> None:
        detection = self._detection
        assert detection is not None
        padding = detection.prefix_padding_ms
        if padding is None:
            padding = self._settings.prefix_padding_ms
        start = max(self._buffer_start, self._tracker.onset - samples_from_ms(padding))
        self._utterance = _Utterance(self._shared.new_id("item"), Samples(start))
        self._transcripts.open(self._utterance.item_id, self._tracker.onset)
        if self._mind.output_alive and detection.interrupt_response:
            self.barge_in.begin(self._tracker.onset, span.end, now, self._traits.words_tell)

    def _settle(self, span: Span, now: MonoNs) -> None:
        """Announce the utterance once it is sure, and let the barge-in policy judge what it has got."""
        utterance = self._utterance
        if self.barge_in.pending:
            if not self._mind.output_alive:
                self.barge_in.take_back("drained")
            else:
                self._act_on(self.barge_in.judge(self._tracker.voiced, span.end, now), now)
            if self.barge_in.pending:
                return
        if utterance is self._utterance and utterance is not None and not utterance.announced:
            if self._tracker.voiced >= samples_from_ms(self._settings.speech_ms_min):
                self._announce()

    def _act_on(self, verdict: Verdict, now: MonoNs) -> None:
        match verdict:
            case Verdict.CONFIRMED:
                self._announce()
                self._mind.interrupt()
                self._go_on_with_pause(now)
            case Verdict.REFUSED:
                self._forget_utterance()

    def _go_on_with_pause(self, now: MonoNs) -> None:
        """An interruption was confirmed while it is quiet: what a pause begins and a look decides was left out so far."""
        utterance = self._utterance
        if utterance is None or not self._tracker.paused:
            return
        whole = Span(utterance.start, self._analysed)
        if self._transcripts.foreseen is None:
            self._transcripts.begin(whole, self._tracker.speech_end, self._arrived, now)
        self._ask_for_end(whole, now)
        self._mind.user_pauses()
        self._decides = self._tracker.looks > 0

    def _announce(self) -> None:
        utterance = self._utterance
        if utterance is not None and not utterance.announced:
            utterance.announced = True
            self._voice_in_buffer = True
            self._outbox.send(SpeechStarted(item_id=utterance.item_id, start=utterance.start))
            self._mind.user_speaks()

    def _overhear(self, span: Span, now: MonoNs) -> None:
        """Have what was said so far transcribed, if the client wants to read along and the stage has nothing else to do."""
        utterance = self._utterance
        if utterance is not None and utterance.announced:
            self._transcripts.overhear(Span(utterance.start, span.end), now)

    def _pause(self, span: Span, now: MonoNs) -> None:
        """Let the models begin; a sound that is no speech is forgotten."""
        self._transcripts.drop_partial()
        utterance = self._utterance
        if utterance is None:
            return
        whole = Span(utterance.start, span.end)
        if not utterance.announced:
            if not self.barge_in.pending:
                self._forget_utterance()
            elif self.barge_in.by_words and self._tracker.voiced >= samples_from_ms(self._settings.speech_ms_min):
                self._transcripts.begin(whole, self._tracker.speech_end, self._arrived, now)
            return
        self._transcripts.begin(whole, self._tracker.speech_end, self._arrived, now)
        self._ask_for_end(whole, now)
        self._mind.user_pauses()

    def _look(self, span: Span, now: MonoNs) -> None:
        """Decide on what the model said of the pause; if that was no, ask again with more silence behind it."""
        utterance = self._utterance
        if utterance is None or not utterance.announced:
            return
        self._decides = True
        if self._end_probability is not None:
            self._decide(now)
        if self._utterance is utterance and self._tracker.looks > 1:
            self._ask_for_end(Span(utterance.start, span.end), now)

    def _ask_for_end(self, whole: Span, now: MonoNs) -> None:
        if self._looks_semantically and self._end_job is None:
            self._end_job = self._shared.submit_input(Role.END_OF_TURN, whole, self._tracker.speech_end, now)

    def _decide(self, now: MonoNs) -> None:
        """End the turn if both the model and the words say so; words that are under way are waited for, as the reply waits."""
        assert self._end_probability is not None
        sure = self._tracker.looks > 0 and self._end_probability >= self._settings.end_probability
        words = self._transcripts.foreseen if self._hold.asks else None
        if sure and words is not None and not words.finished:
            return
        self._end_probability = None
        if sure and (words is None or not self._hold.keeps(words.text or "")):
            self._ended(now)

    def _ended(self, now: MonoNs) -> None:
        utterance = self._utterance
        if utterance is None or not utterance.announced:
            if not self.barge_in.pending:
                self._forget_utterance()
            return
        assert self._detection is not None
        speech_end = self._tracker.speech_end
        self._commit(utterance, self._analysed, speech_end, auto=self._detection.create_response, now=now)

    def _limited(self, span: Span, now: MonoNs) -> None:
        """Sound that does not end is a turn all the same; while it goes on, who makes it has the floor."""
        utterance, sounding = self._utterance, self._tracker.sounding
        self._ended(now)
        if utterance is None or not utterance.announced:
            return
        length = Samples(self._buffer_start - utterance.start)
        self._outbox.observe("duplex_limits_total", 1, limit="turn")
        self._outbox.send(TurnLimited(item_id=utterance.item_id, audio=length))
        if sounding:
            self._tracker.go_on(span.end)
            self._onset(span, now)

    def _commit_asked(self, commit: _Commit, now: MonoNs) -> None:
        length = commit.arrived - self._buffer_start
        silent = self._detection is not None and not self._voice_in_buffer
        if length < samples_from_ms(self._settings.commit_ms_min) or silent:
            message = f"the input buffer holds {max(0, length) // 48} ms" + (
                " of silence" if silent and length > 0 else ""
            )
            self._refuse_commit(message, commit.event_id)
            return
        self.watermark.advance(commit.arrived)
        utterance = self._utterance or _Utterance(self._shared.new_id("item"), self._buffer_start)
        self._commit(utterance, commit.arrived, commit.arrived, auto=False, now=now)

    def _refuse_commit(self, message: str, event_id: str | None) -> None:
        self._outbox.send(Failure(code="input_audio_buffer_commit_empty", message=message, event_id=event_id))
        self._mind.floor_free()

    def _commit(self, utterance: _Utterance, end: Samples, speech_end: Samples, auto: bool, now: MonoNs) -> None:
        if utterance.announced:
            self._outbox.send(SpeechStopped(item_id=utterance.item_id, end=speech_end))
        self._stop_asking()
        self._hold.over("ended")
        self._transcripts.drop_partial()
        item = Item(id=utterance.item_id, role="user", modality="audio", text=None)
        previous = self._shared.conversation.add(item)
        self._outbox.send(InputCommitted(item_id=item.id, previous_item_id=previous))
        self._outbox.send(ItemAdded(item=item.view(), previous_item_id=previous))
        ended = MonoNs(now - ns_from_samples(end - speech_end))
        self._outbox.observe("duplex_endpointing_seconds", seconds_from_ns(MonoNs(now - ended)))
        self._utterance = None
        span = Span(utterance.start, max(end, utterance.start))
        self._transcripts.attach(item, span, speech_end, auto, ended, self._arrived, now)
        self._tracker.close()
        self._buffer_start = end
        self._voice_in_buffer = False

    def _words_came(self, job: JobId, words: Transcription, now: MonoNs) -> None:
        """The words of a pause are there, before it is decided whether the turn has ended."""
        if self.barge_in.by_words:
            text = None if words.error is not None else words.text or ""
            self._act_on(self.barge_in.judge_words(text, self._tracker.voiced, now), now)
        wanted = self._transcripts.owns(job) and self._detection is not None and self._detection.create_response
        if words.text and wanted:
            since = MonoNs(now - ns_from_samples(Samples(self._analysed - words.speech_end)))
            self._mind.turn_foreseen(words.text, since)
        if self._decides and self._end_probability is not None:
            self._decide(now)

    def _stop_asking(self) -> None:
        if self._end_job is not None:
            self._outbox.add(Drop(role=Role.END_OF_TURN, job=self._end_job))
            self._end_job = None
        self._end_probability = None
        self._decides = False

    def _take_back(self, resumed: bool = False) -> None:
        """Speech goes on (or the utterance is none): what was begun at the pause is not wanted."""
        self._stop_asking()
        self._hold.over("resumed" if resumed else "dropped")
        self._transcripts.drop_partial()
        self._mind.turn_withdrawn(resumed)
        self._transcripts.drop_pending()

    def _forget_utterance(self) -> None:
        """It was noise: nothing was said about it, nothing will be."""
        self._take_back()
        was_open, self._utterance = self._utterance is not None, None
        self._tracker.close()
        if was_open:
            self._mind.floor_free()

    def _discard(self) -> None:
        """Drop the open utterance; if it was announced, its pair of events is completed."""
        if self._utterance is not None and self._utterance.announced:
            end = max(self._utterance.start, self._tracker.speech_end)
            self._outbox.send(SpeechStopped(item_id=self._utterance.item_id, end=Samples(end)))
        self.barge_in.take_back("cleared")
        self._voice_in_buffer = False
        self._forget_utterance()
