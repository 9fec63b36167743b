"""Simple facts asked by voice in whole calls: recording → WebRTC → answer, each question in a call of its own.

The voices take turns; test_local_facts.py has every question in every voice, without the call.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from dataclasses import asdict, dataclass

import pytest

from tests.model.caller import call
from tests.model.local_server import LocalServer
from tests.model.results import keep
from tests.speech import FACT_VOICES, fact_audio, facts

pytestmark = [pytest.mark.model, pytest.mark.alone]
log = logging.getLogger(__name__)
log.setLevel(logging.INFO)

CALLS = 4
"""At once: as many as the server admits. Latencies are measured elsewhere."""
_DELTA = "response.output_audio_transcript.delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, what the server understood, and what it answered up to the right word (or its end)."""

    voice: str
    ask: str
    understood: str
    answered: str
    right: bool


async def ask(url: str, voice: str, index: int) -> Asked:
    """Ask one question in a call; hang up once it is answered right."""
    fact = facts()[index]
    answered = ""
    async with call(url) as caller:
        caller.microphone.say(fact_audio(index, voice, 48_000))
        while not fact.is_answered_by(answered):
            event = await caller.until_that(lambda e: e["type"] in (_DELTA, "response.done"), "answer")
            if event["type"] == "response.done":
                break
            answered += event["delta"]
        heard = caller.of("conversation.item.input_audio_transcription.completed")
    return Asked(
        voice=voice,
        ask=fact.ask,
        understood=" ".join(event["transcript"] for event in heard),
        answered=answered,
        right=fact.is_answered_by(answered),
    )


async def test_eight_of_ten_spoken_questions_are_answered_right(server: LocalServer) -> None:
    room = asyncio.Semaphore(CALLS)

    async def one(voice: str, index: int) -> Asked:
        async with room:
            return await ask(server.url, voice, index)

    async with asyncio.timeout(100), asyncio.TaskGroup() as tasks:
        voices = itertools.cycle(FACT_VOICES)
        questions = [tasks.create_task(one(voice, i)) for i, voice in zip(range(len(facts())), voices, strict=False)]
    asked = [task.result() for task in questions]
    keep("facts", [asdict(each) for each in asked])
    for each in asked:
        log.info("%s %s: %r → %r", "right" if each.right else "WRONG", each.voice, each.understood, each.answered)
    assert sum(each.right for each in asked) >= 8
