"""Heard text is what was heard: a long answer is cut, and what arrived at the client is transcribed and compared."""

from __future__ import annotations

import logging
from typing import Any

import jiwer
import numpy as np
import pytest

from duplex.payloads import Int16Array, Transcript
from duplex.talk import end_of_energy
from loadgen.jobs import job
from tests.model.caller import RATE, Caller, call
from tests.model.harness import utterance
from tests.model.local_server import LocalServer
from tests.speech import normal, resample, sentence_audio

pytestmark = [pytest.mark.model, pytest.mark.alone]
log = logging.getLogger(__name__)
log.setLevel(logging.INFO)

WORDS_APART_MAX = 2
MISHEARD_MAX = 0.3
"""Share of words that the ear of this test may get wrong in a voice that is not a person's."""
LATE_S_MAX = 0.3
"""Sound at the client after the news of the cut: what its jitter buffer still held."""
LISTEN_ONLY = {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "create_response": False}}}}


async def interrupt_by_voice(caller: Caller) -> None:
    caller.microphone.say(sentence_audio(8, RATE))
    await caller.until("input_audio_buffer.speech_started")


async def interrupt_by_button(caller: Caller) -> None:
    caller.send("response.cancel")
    caller.send("output_audio_buffer.clear")


def likely_words_heard(said: str, transcript: str) -> tuple[list[int], int]:
    """Return how many of the said words the transcript reaches to (every best guess), and the errors in it."""
    words, heard = said.split(), transcript
    errors = {}
    for count in range(1, len(words) + 1):
        compared = jiwer.process_words(" ".join(words[:count]), heard)
        errors[count] = compared.substitutions + compared.deletions + compared.insertions
    fewest = min(errors.values())
    return [count for count, wrong in errors.items() if wrong == fewest], fewest


@pytest.mark.parametrize(
    ("interrupt", "asked", "after_s", "reason"),
    [
        (interrupt_by_voice, "Tell me about the history of London.", 3.0, "turn_detected"),
        (interrupt_by_button, "How do I make a cup of tea?", 4.0, "client_cancelled"),
    ],
)
async def test_the_history_holds_what_arrived_at_the_client(
    server: LocalServer, transcribe: Any, interrupt: Any, asked: str, after_s: float, reason: str
) -> None:
    async with call(server.url, LISTEN_ONLY) as caller:
        caller.ask(asked)
        await caller.until("output_audio_buffer.started")
        await caller.until_heard(lambda pcm: end_of_energy(pcm) >= after_s * RATE)
        await interrupt(caller)
        await caller.until("output_audio_buffer.cleared")
        heard_at_cut = len(caller.heard())
        done = await caller.until("response.done")
        truncated = await caller.until("conversation.item.truncated")
        await caller.until_heard(_is_silent_again)
        history = await caller.item_text(truncated["item_id"])
        said = caller.said(truncated["item_id"])
        arrived = caller.heard()
        errors = caller.of("error")
    (heard,) = transcribe.step([job(utterance(resample(arrived, RATE, 16_000)))])
    assert isinstance(heard, Transcript)
    log.info("said    %s\nhistory %s\nheard   %s", said, history, heard.text)
    assert done["response"]["status_details"] == {"type": "cancelled", "reason": reason}
    assert history and said.startswith(history) and len(history) < len(said)
    likely, wrong = likely_words_heard(normal(said), normal(heard.text))
    words = len(normal(history).split())
    assert wrong <= MISHEARD_MAX * words
    assert min(abs(count - words) for count in likely) <= WORDS_APART_MAX
    assert end_of_energy(arrived) <= heard_at_cut + LATE_S_MAX * RATE
    assert errors == []


def _is_silent_again(pcm: Int16Array) -> bool:
    return len(pcm) > RATE and int(np.abs(pcm[-RATE // 20 :].astype(np.int32)).max()) < 100
