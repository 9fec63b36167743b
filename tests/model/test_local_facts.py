"""Simple facts, asked by two voices: recording → transcription → thinker, without a server in between."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from duplex_models.local.options import SYSTEM_PROMPT

from duplex.payloads import Transcript
from duplex.stages.contract import BatchStage
from loadgen.jobs import job
from tests.model.harness import Answer, prompt, utterance
from tests.speech import FACT_VOICES, fact_audio, facts, normal

pytestmark = pytest.mark.model
log = logging.getLogger(__name__)


@pytest.mark.parametrize("voice", FACT_VOICES)
def test_eight_of_ten_spoken_questions_are_answered_right(transcribe: BatchStage, think: Any, voice: str) -> None:
    right = 0
    for index, fact in enumerate(facts()):
        (heard,) = transcribe.step([job(utterance(fact_audio(index, voice)))])
        assert isinstance(heard, Transcript)
        answer = Answer()
        think.submit(job(prompt(heard.text), f"{voice}-{index}"), answer.emit)
        right += fact.is_answered_by(answer.wait().text)
        log.info("%s: heard %r, answered %r", voice, heard.text, answer.text)
        think.release(f"{voice}-{index}")
    assert right >= 8


def test_no_answer_stands_in_the_prompt() -> None:
    words = set(normal(SYSTEM_PROMPT).split())
    assert not [word for fact in facts() for word in fact.accept if normal(word) in words]
