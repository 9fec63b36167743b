"""Output in turn mode: a reply is asked for, thought, and spoken. One reply of the lane is active at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from duplex.config import PacingSettings, ToolSettings
from duplex.payloads import (
    Audio,
    CallDelta,
    Job,
    JobId,
    Latents,
    Message,
    Pace,
    Payload,
    Prompt,
    Role,
    StageError,
    TextDelta,
)
from duplex.session.context import estimate_tokens
from duplex.session.effects import Drop, Outbox, Repace, Submit
from duplex.session.events import ReplyStatus, ReplyText, StatusReason
from duplex.session.lane import Lane, Reply
from duplex.session.speech import Speech, moved
from duplex.session.tools import BadCallError, CallFloor, Calls
from duplex.session.traits import Traits
from duplex.units import MonoNs


class Floor(CallFloor, Protocol):
    """What an output strategy asks of the core."""

    def begin_output(self, reply: Reply) -> None:
        """Give the reply its item, and tell the client."""

    def finish(self, reply: Reply, status: ReplyStatus, reason: StatusReason | None, error: str | None) -> None:
        """Send the one terminal event, now or once the audio has left."""


class TurnOutput:
    """Makes the active reply of a lane.

    Args:
        lane: the conversation's, or that of an out-of-band reply.
        traits: a thinker that cannot be paused has its text bounded and then cut off.
        floor: the core.
        tools: bounds on function calls.
        new_id: gives a fresh id for a prefix.
    """

    def __init__(
        self, lane: Lane, outbox: Outbox, pacing: PacingSettings, traits: Traits, floor: Floor, tools: ToolSettings,
        new_id: Callable[[str], str],
    ) -> None:  # fmt: skip
        self._lane = lane
        self._outbox = outbox
        self._pacing = pacing
        self._traits = traits
        self._count = estimate_tokens if traits.context is None else traits.context.count
        self._floor = floor
        self._tools = tools
        self._new_id = new_id
        self._reply: Reply | None = None
        self._speech: Speech | None = None
        self._calls: Calls | None = None
        self._pace = Pace(since=MonoNs(0))
        """Of the thinker's job, as it was last told."""
        self._finish: str | None = None

    def start(self, reply: Reply, messages: tuple[Message, ...], now: MonoNs) -> None:
        """Submit a reply to the thinker over the conversation as heard."""
        job = self._outbox.next_job()
        reply.think_job = job
        reply.status = "in_progress"
        reply.mark("submitted", now)
        self._reply = reply
        self._speech = None
        self._calls = Calls(reply, self._outbox, self._tools, self._new_id, self._floor)
        self._pace = self._think_pace(reply, now)
        self._finish = None
        prompt = Prompt(
            messages=messages, tokens_max=reply.tokens_max or None, toolset=reply.toolset, sees=reply.input is None
        )
        reply.input_tokens, reply.input_estimated = self._estimate(prompt), True
        self._outbox.add(
            Submit(job=Job(id=job, stage=Role.THINK, address=reply.address, payload=prompt, pace=self._pace))
        )

    def say(self, reply: Reply, text: str, now: MonoNs) -> None:
        """Speak a text that is there already: the thinker is not asked."""
        reply.status = "in_progress"
        self._reply, self._speech = reply, None
        self._thought(reply, TextDelta(text=text, tokens=0, finish="stop"), now)
        self._settle(reply, now)

    def take(self, job: JobId, payload: Payload | StageError, now: MonoNs) -> bool:
        """Take an output; return False if the job is not ours."""
        reply = self._reply
        if reply is None:
            return False
        speech = self._speech
        if isinstance(payload, StageError):
            if not self.owns(job):
                return False
            self._fail(reply, payload.reason)
            return True
        if job == reply.think_job and isinstance(payload, TextDelta):
            self._thought(reply, payload, now)
            if (
                self._traits.pausable
                and speech is not None
                and reply.think_job is not None
                and speech.full == self._pace.blocked
            ):
                return True  # as most tokens: nothing that the thinker has to know
        elif job == reply.think_job and isinstance(payload, CallDelta):
            try:
                self._called(reply, payload, now)
            except BadCallError as error:
                self._fail(reply, str(error))
                return True
        elif speech is None or not isinstance(payload, Latents | Audio) or not speech.take(job, payload, now):
            return False
        self._settle(reply, now)
        return True

    def owns(self, job: JobId) -> bool:
        """Return whether a job in the stages is the reply's."""
        reply, speech = self._reply, self._speech
        return reply is not None and (job == reply.think_job or (speech is not None and speech.owns(job)))

    def adopt(self, now: MonoNs) -> None:
        """A reply that was begun speculatively is in the lane: its jobs get the pace of its listener."""
        reply = self._reply
        if reply is None:
            return
        if self._speech is not None:
            self._speech.adopt(now)
        if reply.think_job is not None:
            self._pace_thinker(reply, reply.think_job, now)

    def played(self, now: MonoNs) -> None:
        """The playback front has moved: renew the pace of the reply's work."""
        if self._reply is not None and self._speech is not None and self._speech.repace(now):
            self._bound(self._reply, self._speech, now)

    def drop(self) -> None:
        """The reply was cut: nothing of it is wanted any more (the stages were told by the cut itself)."""
        self._reply = None
        self._speech = None

    def abandon(self) -> None:
        """Take back what is submitted, job by job; what was queued for the listener still plays."""
        if self._reply is not None and self._reply.think_job is not None:
            self._outbox.add(Drop(role=Role.THINK, job=self._reply.think_job))
        if self._speech is not None:
            self._speech.abandon()
        self.drop()

    def _estimate(self, prompt: Prompt) -> int:
        """Return the tokens of a prompt, roughly."""
        calls = (call for message in prompt.messages for call in message.calls)
        texts = [message.text for message in prompt.messages]
        texts += [call.arguments for call in calls]
        texts += [tool.description + tool.parameters for tool in prompt.toolset.callable]
        return sum(self._count(text) for text in texts)

    def _fail(self, reply: Reply, reason: str) -> None:
        self.abandon()
        self._floor.finish(reply, "failed", "stage_failed", reason)

    def _called(self, reply: Reply, delta: CallDelta, now: MonoNs) -> None:
        """The thinker goes on with a function call: what was said before it is said whole, and is waited for by nobody."""
        assert self._calls is not None, "made as the thinker was asked"
        reply.text_tokens += delta.tokens
        reply.mark("first_token", now)
        if self._speech is not None:
            self._speech.flush_text(now)
        verdict = self._calls.take(delta)
        if verdict != "go_on":
            self._stop_thinking(reply, "stop" if verdict == "enough" else "text_bound", now)

    def _stop_thinking(self, reply: Reply, finish: str, now: MonoNs) -> None:
        """The rest of what the thinker makes is not wanted."""
        assert reply.think_job is not None
        self._outbox.add(Drop(role=Role.THINK, job=reply.think_job))
        reply.think_job = None
        self._finish = finish
        if self._speech is not None:
            self._speech.finish_text(now)

    def _thought(self, reply: Reply, delta: TextDelta, now: MonoNs) -> None:
        reply.text_tokens += delta.tokens
        reply.text_chars += len(delta.text)
        if reply.item is None and (delta.text or not reply.outputs):
            self._floor.begin_output(reply)
            if reply.modality == "audio":
                self._speech = Speech(reply, self._lane, self._outbox, self._pacing, self._traits)
        reply.mark("first_token", now)
        if delta.finish is not None:
            reply.think_job = None
            self._finish = delta.finish
        if delta.prompt_tokens is not None:
            reply.input_tokens, reply.input_estimated = delta.prompt_tokens, False
            reply.cached_tokens = min(delta.cached_tokens, delta.prompt_tokens)
        if self._speech is not None:
            if delta.text:
                self._speech.push_text(delta.text, now)
            if delta.finish is not None:
                self._speech.finish_text(now)
        elif delta.text:
            assert reply.item is not None
            reply.item.text = (reply.item.text or "") + delta.text
            self._outbox.send(ReplyText(reply_id=reply.id, item_id=reply.item.id, modality="text", delta=delta.text))

    def _settle(self, reply: Reply, now: MonoNs) -> None:
        """Keep the thinker within its bound, and finish what is complete."""
        speech = self._speech
        if speech is not None:
            self._bound(reply, speech, now)
        if self._finish is not None and (speech is None or speech.complete):
            self._reply = None
            self._speech = None
            match self._finish:
                case "length":
                    self._floor.finish(reply, "incomplete", "max_output_tokens", None)
                case "text_bound":
                    self._floor.finish(reply, "incomplete", "text_bound", None)
                case _:
                    self._floor.finish(reply, "completed", None, None)

    def _bound(self, reply: Reply, speech: Speech, now: MonoNs) -> None:
        """Tell the thinker how far ahead it is; one that cannot be paused is stopped at the bound on its text."""
        if reply.think_job is None:
            return
        self._pace_thinker(reply, reply.think_job, now)
        if not self._traits.pausable and speech.chars_waiting > self._pacing.text_chars_max:
            self._stop_thinking(reply, "text_bound", now)

    def _pace_thinker(self, reply: Reply, job: JobId, now: MonoNs) -> None:
        pace = self._think_pace(reply, now)
        if moved(self._pace, pace):
            self._pace = pace
            self._outbox.add(Repace(role=Role.THINK, job=job, pace=pace))

    def _think_pace(self, reply: Reply, now: MonoNs) -> Pace:
        if self._speech is not None:
            return self._speech.think_pace(now)
        return Pace(since=reply.since, unpaced=reply.modality == "text", speculative=reply.speculative)
