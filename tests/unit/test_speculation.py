"""Drafts alone: what passes while they are in the dark, in which order the rest comes out, and what they may stand for."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from duplex.config import PacingSettings, ToolSettings
from duplex.payloads import Address, JobId, LatentChunk, Latents, Message, Payload, Role, StageError, TextDelta
from duplex.payloads import Audio as Sound
from duplex.session.conversation import Conversation, Item
from duplex.session.effects import Drop, Effect, Enqueue, Observe, Outbox, Repace, Send, Submit
from duplex.session.events import ReplyOutputStarted, ReplyStatus, ReplyText, StatusReason
from duplex.session.lane import Lane, Reply
from duplex.session.speculation import Ask, Draft, Outcome, Speculation
from duplex.session.traits import Traits
from duplex.session.turn_output import TurnOutput
from duplex.timeline.playback import WebRtcDelay
from duplex.units import MonoNs, ns_from_samples

pytestmark = pytest.mark.unit
NOW, LATER = MonoNs(10**9), MonoNs(2 * 10**9)
ASK = Ask(
    messages=(Message(role="user", text="hello there"),),
    shown=None,
    modality="audio",
    voice="default",
    speed=1.0,
    tokens_max=None,
)
TRAITS = Traits(transport="websocket", semantic=True, pausable=True, transcribes=True, tick_mode=False)


LATENTS = Latents(clause=0, frames=100, hop=480, rate=24_000, words=(), data=None)
"""Two seconds."""


def sound_of(effect: Effect) -> Sound:
    """Return what the vocoder makes of a chunk."""
    assert isinstance(effect, Submit) and isinstance(effect.job.payload, LatentChunk)
    chunk = effect.job.payload
    pcm = np.zeros((chunk.last - chunk.first) * chunk.latents.hop, np.int16)
    return Sound(clause=0, pcm=pcm, rate=24_000, last=chunk.last == chunk.latents.frames)


class Rig:
    """A draft over a bare outbox; its stages are played by hand."""

    def __init__(self, webrtc: WebRtcDelay | None = None) -> None:
        jobs = itertools.count(1)
        self.outbox = Outbox(lambda: JobId(next(jobs)))
        self.pacing = PacingSettings()
        self.lane = Lane(0, webrtc, self.pacing)
        self.conversation = Conversation(10)
        self.speculation = Speculation(self.outbox)
        self.finished: list[ReplyStatus] = []
        address = Address(session="s", lane=0, epoch=0, reply="r")
        reply = Reply(
            id="r", address=address, modality="audio", voice="default", speed=1.0, tokens_max=None, metadata=None,
            instructions="", since=NOW, speculative=True,
        )  # fmt: skip
        self.draft = Draft("hello there", ASK, reply, "item", self.outbox, self, self._make)
        self.speculation.begin(self.draft, ASK.messages, NOW)

    def _make(self, outbox: Outbox, floor: Any) -> TurnOutput:
        return TurnOutput(self.lane, outbox, self.pacing, TRAITS, floor, ToolSettings(), lambda prefix: f"{prefix}_1")

    def begin_output(self, reply: Reply) -> None:
        raise AssertionError("told by the draft itself")

    def begin_call(self, reply: Reply, item: Item) -> None:
        raise AssertionError("told by the draft itself")

    def end_call(self, reply: Reply, item: Item) -> None:
        raise AssertionError("told by the draft itself")

    def finish(self, reply: Reply, status: ReplyStatus, reason: StatusReason | None, error: str | None) -> None:
        self.finished.append(status)

    def drain(self) -> list[Effect]:
        effects: list[Effect] = []
        while (effect := self.outbox.poll()) is not None:
            effects.append(effect)
        return effects

    def answer(self, effect: Effect, payload: Payload | StageError, at: MonoNs = NOW) -> list[Effect]:
        assert isinstance(effect, Submit)
        assert self.speculation.take(effect.job.id, payload, at)
        return self.drain()

    def sounding(self, at: MonoNs = NOW) -> list[Effect]:
        """Make the draft as far as it may be made, its sound at some time; return what came out meanwhile."""
        (think,) = self.drain()
        (talk,) = self.answer(think, TextDelta(text="All is well.", tokens=4, finish="stop"))
        effects = [think, talk, *self.answer(talk, LATENTS)]
        while more := self.answer(effects[-1], sound_of(effects[-1]), at):
            effects += more
        return effects


def observed(effects: list[Effect]) -> list[Outcome]:
    return [e.labels["outcome"] for e in effects if isinstance(e, Observe) and "speculation" in e.measure]  # type: ignore[misc]


def test_only_the_stages_see_anything_of_a_draft() -> None:
    rig = Rig()
    effects = rig.sounding()
    assert {type(effect) for effect in effects} == {Submit}
    assert all(effect.job.pace.speculative for effect in effects if isinstance(effect, Submit))
    assert rig.draft.reply.generated == 48 * 600
    assert not rig.lane.alive and len(rig.conversation) == 0


def test_what_was_kept_back_comes_out_in_order_when_it_is_adopted() -> None:
    rig = Rig()
    rig.sounding()
    draft = rig.speculation.claim(ASK)
    assert draft is rig.draft and observed(rig.drain()) == ["adopted"]
    draft.adopt(rig.lane, rig.conversation, LATER)
    effects = rig.drain()
    kinds = [type(effect.event) if isinstance(effect, Send) else type(effect) for effect in effects]
    assert kinds == [ReplyOutputStarted, ReplyText, Enqueue, Enqueue, Enqueue, Submit]
    assert isinstance(effects[-1], Submit) and not effects[-1].job.pace.speculative
    assert effects[-1].job.pace.dry_at == LATER + 600 * 10**6
    assert effects[-1].job.pace.newest_starts == LATER
    assert [reply.id for reply in rig.lane] == ["r"] and len(rig.conversation) == 1
    assert rig.speculation.said is None


def test_the_listener_of_an_adopted_draft_hears_it_from_then_on() -> None:
    webrtc = WebRtcDelay(60, 40)
    rig = Rig(webrtc)
    rig.sounding()
    draft = rig.speculation.claim(ASK)
    assert draft is not None
    draft.adopt(rig.lane, rig.conversation, LATER)
    assert rig.lane.dry_at(LATER) == LATER + 600 * 10**6 + ns_from_samples(webrtc.estimate().delay)


def test_how_long_a_draft_takes_says_nothing_of_the_stages_lateness() -> None:
    rig = Rig()
    usual = rig.lane.stage_jitter.p95_ms
    effects = rig.sounding(at=LATER)
    assert rig.lane.stage_jitter.p95_ms == usual
    rig = Rig()
    (think,) = rig.drain()
    (talk,) = rig.answer(think, TextDelta(text="All is well.", tokens=4, finish="stop"))
    (chunk,) = rig.answer(talk, LATENTS)
    draft = rig.speculation.claim(ASK)
    assert draft is not None and isinstance(chunk, Submit) and effects
    draft.adopt(rig.lane, rig.conversation, LATER)
    assert draft.turns.take(chunk.job.id, sound_of(chunk), MonoNs(LATER + 10**7))
    assert rig.lane.stage_jitter.p95_ms < usual  # on time, counted from the adoption


def test_a_job_in_work_gets_its_listeners_pace_at_the_adoption() -> None:
    rig = Rig()
    (think,) = rig.drain()
    draft = rig.speculation.claim(ASK)
    assert draft is not None and isinstance(think, Submit)
    rig.drain()
    draft.adopt(rig.lane, rig.conversation, LATER)
    (repace,) = rig.drain()
    assert isinstance(repace, Repace) and (repace.job, repace.pace.speculative) == (think.job.id, False)


@pytest.mark.parametrize(
    "change",
    [
        {"messages": ()},
        {"shown": "EXIT 4"},
        {"modality": "text"},
        {"voice": "other"},
        {"speed": 1.5},
        {"tokens_max": 9},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_draft_stands_for_nothing_but_what_it_was_made_from(change: dict[str, Any]) -> None:
    rig = Rig()
    (think,) = rig.drain()
    assert isinstance(think, Submit)
    assert rig.speculation.claim(replace(ASK, **change)) is None
    effects = rig.drain()
    assert effects[0] == Drop(role=Role.THINK, job=think.job.id)
    assert observed(effects) == ["differed"]
    assert not rig.speculation.take(think.job.id, TextDelta(text="late", tokens=1), LATER)
    assert rig.drain() == []


@pytest.mark.parametrize(("kind", "outcome"), [("failed", "failed"), ("timeout", "failed"), ("preempted", "preempted")])
def test_a_stage_that_gives_it_up_ends_it_and_tells_nobody(kind: str, outcome: str) -> None:
    rig = Rig()
    (think,) = rig.drain()
    effects = rig.answer(think, StageError(reason="no", kind=kind))
    assert observed(effects) == [outcome] and not any(isinstance(effect, Send) for effect in effects)
    assert not rig.finished


def test_the_parts_of_a_turns_time_are_never_negative_and_sum_up() -> None:
    rig = Rig()
    marks = {"speech_end": 0, "thought": 120, "talked": 150, "committed": 200, "transcribed": 200, "sent": 215}
    rig.draft.reply.marks.update({name: MonoNs(at * 10**6) for name, at in marks.items()})
    rig.draft.reply.marks["vocoded"] = MonoNs(210 * 10**6)
    split = rig.draft.reply.split()
    parts = {"endpointing": 0.2, "transcribe": 0, "think": 0, "talk": 0, "vocode": 0.01, "send": 0.005, "ttfas": 0.215}
    assert split == pytest.approx(parts)
