"""The opt-in models of `local` with real weights; each is left out where its extra is not installed.

Kokoro's style is taken from the file named by the environment variable KOKORO_STYLE.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from duplex_models.local import create, weights
from duplex_models.local.assembly import KOKORO, QWEN, WHISPER_BASE, Assembly
from duplex_models.local.kokoro import sound_end

from duplex.payloads import Audio, Clause, StageError, Transcript
from duplex.stages.contract import BatchStage, PackError, Role
from loadgen.jobs import job
from tests.model.harness import Answer, prompt, utterance
from tests.model.test_local_voice import _energy_edges
from tests.speech import FACT_VOICES, fact_audio, facts, resample, sentence_audio, sentences, word_error_rate

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]
STYLE = os.environ.get("KOKORO_STYLE")
Load = Callable[..., Any]


def need(assembly: Assembly) -> None:
    """Skip where the parts of a model are not installed."""
    try:
        for file in assembly.files:
            for part in file.parts:
                weights.locate(part)
    except PackError as error:
        pytest.skip(f"extra {assembly.extra}: {error}")


@pytest.fixture(scope="module")
def load() -> Iterator[Load]:
    """Return a function that loads one stage of the pack with options."""
    loaded: list[Any] = []

    def start(role: Role, **options: Any) -> Any:
        (stage,) = (stage for stage in create(options, 2).stages if stage.spec.role is role)
        loaded.append(stage)
        stage.load(lambda line: None)
        return stage

    yield start
    for stage in loaded:
        stage.close()


# Whisper base. -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(load: Load) -> BatchStage:
    need(WHISPER_BASE)
    stage: BatchStage = load(Role.TRANSCRIBE, whisper="base")
    return stage


def _heard(stage: BatchStage, audio: list[Any]) -> list[str]:
    return [
        result.text for result in stage.step([job(utterance(pcm)) for pcm in audio]) if isinstance(result, Transcript)
    ]


def test_whisper_base_hears_the_recordings_and_the_questions(base: BatchStage) -> None:
    heard = _heard(base, [sentence_audio(index) for index in range(20)])
    assert word_error_rate(list(sentences()), heard) <= 0.03
    asked = [fact.ask for fact in facts()]
    for voice in FACT_VOICES:
        heard = _heard(base, [fact_audio(index, voice) for index in range(len(asked))])
        assert word_error_rate(asked, heard) <= 0.03


def test_whisper_base_hears_nothing_in_silence(base: BatchStage) -> None:
    assert _heard(base, [np.zeros(32_000, np.int16)]) == [""]


# The thinker of 1.5 billion parameters. ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def qwen(load: Load) -> Any:
    need(QWEN)
    return load(Role.THINK, thinker="qwen2.5-coder-1.5b", sessions=1)


def _said(think: Any, *turns: str) -> str:
    answer = Answer()
    think.submit(job(prompt(*turns)), answer.emit)
    return answer.wait().text


def test_the_larger_thinker_knows_the_facts(qwen: Any) -> None:
    assert sum(fact.is_answered_by(_said(qwen, fact.ask)) for fact in facts()) >= 9


def test_the_larger_thinker_remembers_who_it_talks_to(qwen: Any) -> None:
    answer = _said(
        qwen,
        "My name is Anna and I live in Lisbon.",
        "Nice to meet you, Anna.",
        "What is my name, and where do I live?",
    )
    assert "Anna" in answer
    assert "Lisbon" in answer


# Kokoro. -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kokoro(load: Load) -> BatchStage:
    need(KOKORO)
    if STYLE is None:
        pytest.skip("KOKORO_STYLE names no file")
    stage: BatchStage = load(Role.TALK, voice="kokoro", kokoro_style=STYLE)
    return stage


def _spoken(kokoro: BatchStage, text: str, speed: float = 1.0) -> Audio:
    (audio,) = kokoro.step([job(Clause(index=3, text=text, voice="default", speed=speed))])
    assert isinstance(audio, Audio)
    assert (audio.clause, audio.rate, audio.last) == (3, 24_000, True)
    return audio


def test_kokoro_is_understood(kokoro: BatchStage, transcribe: BatchStage) -> None:
    said = list(sentences()[:6])
    heard = _heard(transcribe, [resample(_spoken(kokoro, text).pcm, 24_000, 16_000) for text in said])
    assert word_error_rate(said, heard) <= 0.08


def test_kokoros_words_end_where_their_sound_does(kokoro: BatchStage) -> None:
    text = "Apples. Oranges. Bananas. Pears. Dogs. Cats."
    audio = _spoken(kokoro, text)
    assert [text[: mark.text_end].split()[-1] for mark in audio.words] == text.replace(".", "").split()
    ends = [mark.end for mark in audio.words]
    assert ends == sorted(set(ends))
    assert ends[-1] == sound_end(audio.pcm)
    edges = _energy_edges(audio.pcm, audio.rate, under_db=18)
    assert max(min(abs(end / audio.rate - edge) for edge in edges) for end in ends[:-1]) <= 0.15


def test_kokoro_leaves_a_pause_behind_a_mark_and_none_inside_a_sentence(kokoro: BatchStage) -> None:
    pauses = [
        len(audio.pcm) - sound_end(audio.pcm) for audio in (_spoken(kokoro, "Yes, it is."), _spoken(kokoro, "It is"))
    ]
    assert pauses == [4800, 960]


def test_kokoro_says_nothing_where_nothing_can_be_said_and_refuses_the_rest(kokoro: BatchStage) -> None:
    assert [len(_spoken(kokoro, text).pcm) for text in ("", "...", "😀")] == [0, 0, 0]
    (refused,) = kokoro.step([job(prompt("Hi"))])
    assert isinstance(refused, StageError)


def test_kokoro_takes_speed(kokoro: BatchStage) -> None:
    text = "The quick brown fox jumps over the lazy dog."
    assert 1.3 < len(_spoken(kokoro, text, 0.8).pcm) / len(_spoken(kokoro, text, 1.5).pcm) < 2.5
