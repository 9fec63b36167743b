"""Word error rate of whole calls: recordings spoken at real time over WebRTC, transcripts from the session's events.

test_local_hearing.py has all twenty sentences, each clean and with both noises, heard by the model alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import numpy as np
import pytest

from duplex.payloads import Int16Array
from tests.model.caller import Caller, call
from tests.model.local_server import LocalServer, within
from tests.model.results import keep
from tests.speech import babble, resample, sentence_audio, sentences, white, with_noise, word_error_rate

pytestmark = [pytest.mark.model, pytest.mark.alone]
log = logging.getLogger(__name__)
log.setLevel(logging.INFO)

CALLS = 4
"""At once: as many as the server admits."""
PAUSE_S = 1.2
"""Between two sentences; under noise too, it goes on like speech."""
CONCEALED_MAX = 0.02
"""Share of audio that may have come too late; more of it would measure this machine and not the ear."""
LISTEN_ONLY = {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "create_response": False}}}}
NOISES: dict[str, Callable[[int, int], np.ndarray] | None] = {
    "clean": None,
    "white": lambda length, index: white(length, index),
    "babble": lambda length, index: babble(length, index, without=index),
}


def recording(index: int, noise: str) -> Int16Array:
    """Return a sentence and the pause after it at 48 kHz, with noise 10 dB below the sentence under both."""
    pcm = sentence_audio(index)
    whole = np.concatenate([pcm, np.zeros(int(PAUSE_S * 16_000), np.int16)])
    make = NOISES[noise]
    if make is not None:
        louder = 10 * np.log10(len(whole) / len(pcm))  # the level is taken over the pause too
        whole = with_noise(whole, make(len(whole), index), 10 - louder)
    return resample(whole, 16_000, 48_000)


async def transcripts(caller: Caller, recordings: list[Int16Array]) -> str:
    """Speak, and return the words of all turns in order."""
    for pcm in recordings:
        caller.microphone.say(pcm)
    await caller.microphone.said()
    ends = ("input_audio_buffer.committed", "conversation.item.input_audio_transcription.completed")
    while not len(caller.of("input_audio_buffer.speech_started")) == len(caller.of(ends[0])) == len(caller.of(ends[1])):
        await caller.until_that(lambda event: event["type"] in ends, "end of the turn")
    words = {event["item_id"]: event["transcript"] for event in caller.of(ends[1])}
    return " ".join(words[event["item_id"]] for event in caller.of(ends[0]))


@pytest.mark.parametrize(
    ("noise", "most", "sentences_said"), [("clean", 0.05, 12), ("white", 0.08, 8), ("babble", 0.08, 8)]
)
async def test_word_error_rate_over_webrtc(server: LocalServer, noise: str, most: float, sentences_said: int) -> None:
    ended_before = len(server.logged("peer_ended"))

    async def one(share: range) -> str:
        async with call(server.url, LISTEN_ONLY) as caller:
            return await transcripts(caller, [recording(i, noise) for i in share])

    shares = [range(k, sentences_said, CALLS) for k in range(CALLS)]
    async with asyncio.timeout(100), asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(one(share)) for share in shares]
    said = [" ".join(sentences()[i] for i in share) for share in shares]
    heard = [task.result() for task in calls]
    rate = word_error_rate(said, heard)
    for line in zip(said, heard, strict=True):
        log.info("said  %s\nheard %s", *line)
    await within(10, lambda: len(server.logged("peer_ended")) == ended_before + CALLS, "the calls end")
    ended = server.logged("peer_ended")[ended_before:]
    concealed = sum(line["concealed_ms"] for line in ended) / sum(20 * line["packets"] for line in ended)
    log.info("%s: word error rate %.1f %%, concealed %.2f %%", noise, 100 * rate, 100 * concealed)
    keep(f"hearing-{noise}", {"said": said, "heard": heard, "word_error_rate": rate, "concealed": concealed})
    assert concealed <= CONCEALED_MAX
    assert rate <= most
