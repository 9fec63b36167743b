"""Voice activity, end of turn and transcription on recorded speech."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from duplex_models.local import mel, weights
from duplex_models.local.end_of_turn import features

from duplex.payloads import Int16Array, Job, StageError, Transcript, TurnEnd, VoiceProbability, VoiceWindow
from duplex.stages.contract import BatchStage
from duplex.units import Samples, Span
from loadgen.jobs import job
from tests.model.harness import prompt, utterance
from tests.speech import babble, sentence_audio, sentences, white, with_noise, word_error_rate

pytestmark = pytest.mark.model
SECOND = 16_000


def _windows(pcm: Int16Array, session: str, start: int = 0) -> list[Job]:
    spans = [Span(Samples(i * 1536), Samples((i + 1) * 1536)) for i in range(start, len(pcm) // 512)]
    return [job(VoiceWindow(span=s, pcm=pcm[s.start // 3 : s.end // 3]), session) for s in spans]


def _probabilities(results: Any) -> list[float]:
    assert all(isinstance(result, VoiceProbability) for result in results)
    return [result.probability for result in results]


# Voice activity. -----------------------------------------------------------------------------------------------------


def test_voice_is_told_from_silence_and_noise(vad: BatchStage) -> None:
    speech = _probabilities(vad.step(_windows(sentence_audio(0), "speech")))
    noise = (white(2 * SECOND, 1) * 100).astype(np.int16)
    assert np.percentile(speech, 75) > 0.9
    assert max(_probabilities(vad.step(_windows(np.zeros(SECOND, np.int16), "silence")))) < 0.2
    assert max(_probabilities(vad.step(_windows(noise, "noise")))) < 0.5
    for session in ("speech", "silence", "noise"):
        vad.release(session)


def test_a_batch_gives_what_single_windows_give_whatever_its_make_up(vad: BatchStage) -> None:
    streams = {name: _windows(sentence_audio(i), name)[:40] for i, name in enumerate("abc")}
    single = {name: [_probabilities(vad.step([window]))[0] for window in jobs] for name, jobs in streams.items()}
    for name in streams:
        vad.release(name)
    # Three sessions at once, then two windows of one session in the same batch.
    mixed = [window for step in zip(*streams.values(), strict=True) for window in step]
    batched: dict[str, list[float]] = {name: [] for name in streams}
    for first in range(0, len(mixed), 8):
        part = mixed[first : first + 8]
        for window, probability in zip(part, _probabilities(vad.step(part)), strict=True):
            batched[window.address.session].append(probability)
    for name in streams:
        assert np.allclose(batched[name], single[name], atol=1e-4)
        vad.release(name)


def test_a_gap_or_a_release_begins_anew(vad: BatchStage) -> None:
    jobs = _windows(sentence_audio(1), "s")
    fresh = _probabilities(vad.step(jobs[20:21]))
    vad.step(jobs[:10])
    assert _probabilities(vad.step(jobs[20:21])) == pytest.approx(fresh, abs=1e-5)
    vad.step(jobs[21:30])
    vad.release("s")
    assert _probabilities(vad.step(jobs[20:21])) == pytest.approx(fresh, abs=1e-5)
    vad.release("s")


def test_a_window_of_another_length_is_refused_and_its_neighbours_are_not(vad: BatchStage) -> None:
    good = _windows(sentence_audio(0), "good")[0]
    bad = job(VoiceWindow(span=Span(Samples(0), Samples(30)), pcm=np.zeros(10, np.int16)), "bad")
    first, second = vad.step([bad, good])
    assert isinstance(first, StageError)
    assert isinstance(second, VoiceProbability)
    vad.release("good")


# Front end. ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference() -> Any:
    """Return pipecat's copy of the transformers front end, loaded by path."""
    path = weights.locate(weights.SMART_TURN).parents[1] / "_whisper_features.py"
    spec = importlib.util.spec_from_file_location("whisper_reference", Path(path))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.compute_whisper_log_mel_features


def test_the_log_mel_front_end_is_whispers(reference: Callable[..., Any]) -> None:
    speech = sentence_audio(3).astype(np.float32) / 32768
    samples = np.zeros(8 * SECOND, np.float32)
    samples[: len(speech)] = speech
    assert np.abs(mel.log_mel(samples) - reference(samples, do_normalize=False)).max() < 1e-4
    padded_left = np.concatenate([np.zeros(8 * SECOND - len(speech), np.float32), speech])
    assert np.abs(features(sentence_audio(3)) - reference(padded_left)).max() < 1e-3


# End of turn. --------------------------------------------------------------------------------------------------------


def test_complete_sentences_end_the_turn_and_cut_ones_are_held_where_the_model_can(end_of_turn: BatchStage) -> None:
    whole = [sentence_audio(i) for i in range(20)]
    cut = [pcm[: len(pcm) * 55 // 100] for pcm in whole]
    silence = np.zeros(SECOND // 5, np.int16)

    def finished(audio: list[Int16Array]) -> list[float]:
        results = end_of_turn.step([job(utterance(np.concatenate([pcm, silence]))) for pcm in audio])
        assert all(isinstance(result, TurnEnd) for result in results)
        return [result.probability for result in results if isinstance(result, TurnEnd)]

    complete, broken = finished(whole), finished(cut)
    assert sum(p > 0.5 for p in complete) >= 19
    assert sum(p < 0.5 for p in broken) >= 6  # it is poor at abrupt cuts: hence the cap on the hold
    assert np.mean(complete) > np.mean(broken) + 0.2


def test_end_of_turn_refuses_what_is_not_audio(end_of_turn: BatchStage) -> None:
    results = end_of_turn.step([job(utterance(np.zeros(0, np.int16))), job(prompt("Hi"))])
    assert all(isinstance(result, StageError) for result in results)


# Transcription. ------------------------------------------------------------------------------------------------------


def _heard(transcribe: BatchStage, audio: list[Int16Array]) -> list[str]:
    results = transcribe.step([job(utterance(pcm)) for pcm in audio])
    assert all(isinstance(result, Transcript) for result in results)
    return [result.text for result in results if isinstance(result, Transcript)]


NOISES: dict[str, Callable[[Int16Array, int], Int16Array]] = {
    "clean": lambda pcm, index: pcm,
    "white": lambda pcm, index: with_noise(pcm, white(len(pcm), index), 10),
    "babble": lambda pcm, index: with_noise(pcm, babble(len(pcm), index, without=index), 10),
}


@pytest.mark.parametrize(("noise", "most"), [("clean", 0.05), ("white", 0.08), ("babble", 0.08)])
def test_word_error_rate(transcribe: BatchStage, noise: str, most: float) -> None:
    heard = _heard(transcribe, [NOISES[noise](sentence_audio(i), i) for i in range(20)])
    assert word_error_rate(list(sentences()), heard) <= most


@pytest.mark.parametrize("seconds", [12, 28, 40])
def test_long_turns_are_heard_to_the_end(transcribe: BatchStage, seconds: int) -> None:
    pause = np.zeros(SECOND // 2, np.int16)
    audio: list[Int16Array] = []
    said: list[str] = []
    for index in range(20):
        if sum(len(pcm) for pcm in audio) >= seconds * SECOND:
            break
        audio += [sentence_audio(index), pause]
        said.append(sentences()[index])
    heard = _heard(transcribe, [np.concatenate(audio)])
    assert word_error_rate([" ".join(said)], heard) <= 0.08


@pytest.mark.parametrize("level", [0, 3])
def test_silence_says_nothing(transcribe: BatchStage, level: int) -> None:
    noise = (white(2 * SECOND, 5) * level).astype(np.int16)
    assert _heard(transcribe, [noise, noise[:0], noise[:100]]) == ["", "", ""]


def test_quiet_speech_is_still_heard(transcribe: BatchStage) -> None:
    quiet = (sentence_audio(4) * 0.03).astype(np.int16)
    assert word_error_rate([sentences()[4]], _heard(transcribe, [quiet])) <= 0.15
