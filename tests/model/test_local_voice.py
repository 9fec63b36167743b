"""Talker and vocoder with real weights: word timings, joins, lengths, what the voice says."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from duplex_models.local.options import LocalOptions
from duplex_models.local.phonemes import Phonemizer
from duplex_models.local.speakable import speakable
from duplex_models.local.talk import Talk, word_marks
from duplex_models.local.vocode import MARGIN_AFTER, MARGIN_BEFORE
from duplex_models.local.voice import Voice

from duplex.payloads import (
    Audio,
    Clause,
    Float32Array,
    Int16Array,
    LatentChunk,
    Latents,
    StageError,
    Transcript,
    WordMark,
)
from duplex.stages.contract import BatchStage, PackError
from loadgen.jobs import job
from tests.model.harness import prompt, utterance
from tests.speech import resample, word_error_rate

pytestmark = pytest.mark.model
PAUSED = (
    "Red, green, blue, black, white.",
    "Monday, Tuesday, yesterday, today.",
    "Apples. Oranges. Bananas. Pears. Dogs. Cats.",
    "Stop! Look! Listen! Wait! Help!",
    "London, Paris, Tokyo, Berlin, Madrid, Rome.",
    "Water, coffee, tea, milk, juice, soup.",
    "Hand, foot, head, leg, arm, lip.",
    "Well, yes, no, maybe, perhaps, never.",
)
"""Sentences with a pause behind every word."""


def _latents(talk: BatchStage, text: str, **more: Any) -> Latents:
    (latents,) = talk.step([job(Clause(index=3, text=text, voice="joe", **more))])
    assert isinstance(latents, Latents)
    return latents


def _audio(vocode: BatchStage, latents: Latents, first: int, last: int) -> Audio:
    (audio,) = vocode.step([job(LatentChunk(latents=latents, first=first, last=last))])
    assert isinstance(audio, Audio)
    return audio


def _whole(vocode: BatchStage, latents: Latents) -> Int16Array:
    return _audio(vocode, latents, 0, latents.frames).pcm


# Word timings. -------------------------------------------------------------------------------------------------------


def _energy_edges(pcm: Int16Array, rate: int, under_db: float = 35, pause_s: float = 0.05) -> list[float]:
    """Return the seconds at which sound ends before a pause: level over 15 ms, against the loudest."""
    step = rate // 200
    power = (pcm[: len(pcm) // step * step].astype(np.float64) ** 2).reshape(-1, step).mean(axis=1)
    level = np.convolve(np.sqrt(power), np.ones(3) / 3, "same")
    loud = np.flatnonzero(level > level.max() * 10 ** (-under_db / 20))
    gaps = np.append(np.diff(loud), len(level)) * step / rate
    return [float(end + 1) * step / rate for end in loud[gaps >= pause_s]]


def _errors(marks: Sequence[WordMark], edges: Sequence[float], latents: Latents) -> list[float]:
    """Return how far each word's end is from the nearest edge, in seconds."""
    return [min(abs(mark.end * latents.hop / latents.rate - edge) for edge in edges) for mark in marks]


@pytest.fixture(scope="module")
def seeded_talk() -> Talk:
    """Return a talker of its own, whose rhythm is the same in every run."""
    onnxruntime.set_seed(7)
    options = LocalOptions()
    own = Talk(options, Voice(options.cache_dir))
    own.load(lambda line: None)
    return own


def test_words_end_where_their_sound_ends_and_uniform_durations_do_not(seeded_talk: Talk, vocode: BatchStage) -> None:
    exact: list[float] = []
    uniform: list[float] = []
    phonemizer = Phonemizer()
    for text in PAUSED * 2:
        latents = _latents(seeded_talk, text)
        edges = _energy_edges(_whole(vocode, latents), latents.rate)
        words = speakable(text)
        phonemes = phonemizer.phonemize([word.text for word in words])
        assert phonemes is not None
        even = np.full(len(phonemes.ids), latents.frames / len(phonemes.ids), np.float32)
        exact += _errors(latents.words, edges, latents)
        uniform += _errors(word_marks(words, phonemes.ends, even), edges, latents)
    assert len(exact) == len(uniform) == 2 * sum(len(text.split()) for text in PAUSED)
    assert np.percentile(exact, 95) <= 0.060
    assert np.percentile(uniform, 95) > 0.060
    assert np.median(uniform) > 3 * np.median(exact)


def test_marks_are_in_order_and_inside_the_clause(talk: BatchStage) -> None:
    text = "It costs $25.50 at 7:30 pm — see [the docs](https://x.org), OK? 😀"
    latents = _latents(talk, text)
    assert [text[: mark.text_end].split()[-1] for mark in latents.words] == [
        "It", "costs", "$25.50", "at", "pm", "see", "[the", "docs", "OK",
    ]  # fmt: skip
    ends = [mark.end for mark in latents.words]
    assert ends == sorted(set(ends))
    assert 0 < ends[0]
    assert ends[-1] <= latents.frames


# The talker. ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "  ", "...", "😀", "日本語", "***"])
def test_a_clause_with_nothing_to_say_has_no_frames(talk: BatchStage, vocode: BatchStage, text: str) -> None:
    latents = _latents(talk, text)
    assert (latents.frames, latents.words, latents.clause) == (0, (), 3)
    audio = _audio(vocode, latents, 0, 0)
    assert audio.last
    assert audio.pcm.size == 0


@pytest.mark.parametrize(
    "text", ["a", "A.", "Hmm", "Xylqorzz", "x" * 5000, "1 " * 3000, "mp3s' 'n' roll-", "\x00 hi \ufffd"]
)
def test_odd_clauses_are_spoken_within_bounds(talk: BatchStage, text: str) -> None:
    latents = _latents(talk, text)
    assert 0 < latents.frames * latents.hop / latents.rate < 90


def test_speed_shortens_speech(talk: BatchStage) -> None:
    text = "The quick brown fox jumps over the lazy dog."
    slow, fast = (np.mean([_latents(talk, text, speed=s).frames for _ in range(3)]) for s in (0.8, 1.6))
    assert 1.4 < slow / fast < 2.2  # under 2, because no phoneme is shorter than one frame


@pytest.mark.alone
def test_first_audio_never_waits_for_the_sentence(talk: BatchStage, vocode: BatchStage) -> None:
    begun = time.perf_counter()
    latents = _latents(talk, "The capital of France is Paris, and it has been for a very long time indeed.")
    first = _audio(vocode, latents, 0, 9)
    assert time.perf_counter() - begun < 0.5  # 70 ms on a quiet core
    assert not first.last


def test_stages_refuse_what_is_not_theirs(talk: BatchStage, vocode: BatchStage) -> None:
    latents = _latents(talk, "Hello.")
    foreign = replace(latents, data=b"other")
    outside = LatentChunk(latents=latents, first=0, last=latents.frames + 1)
    refused = vocode.step([job(LatentChunk(latents=foreign, first=0, last=5)), job(outside), job(prompt("Hi"))])
    refused = [*refused, *talk.step([job(prompt("Hi"))])]
    assert all(isinstance(result, StageError) for result in refused)


# The vocoder. --------------------------------------------------------------------------------------------------------


def _schedule(frames: int, sizes: Sequence[int]) -> list[tuple[int, int]]:
    bounds = [0]
    for index in range(frames):
        if bounds[-1] >= frames:
            break
        bounds.append(min(frames, bounds[-1] + sizes[min(index, len(sizes) - 1)]))
    return list(zip(bounds, bounds[1:], strict=False))


@pytest.mark.parametrize("sizes", [(9, 16, 32, 64), (7,), (1, 2, 3, 50)])
def test_chunks_join_to_what_one_decoding_gives(talk: BatchStage, vocode: BatchStage, sizes: tuple[int, ...]) -> None:
    latents = _latents(talk, "Chunks of speech must join without a click, wherever they are cut.")
    whole = _whole(vocode, latents)
    parts = [_audio(vocode, latents, first, last) for first, last in _schedule(latents.frames, sizes)]
    joined = np.concatenate([part.pcm for part in parts])
    assert len(joined) == len(whole) == latents.frames * latents.hop
    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]
    difference = joined.astype(np.float64) - whole
    signal = np.sqrt((whole.astype(np.float64) ** 2).mean())
    # 16-bit rounding alone is about 78 dB under a signal of this level.
    assert 20 * np.log10(signal / max(np.sqrt((difference**2).mean()), 1e-3)) >= 60


def test_shorter_margins_would_be_heard(talk: BatchStage, vocode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    latents = _latents(talk, "Chunks of speech must join without a click, wherever they are cut.")
    whole: Float32Array = _whole(vocode, latents).astype(np.float32)
    monkeypatch.setattr("duplex_models.local.vocode.MARGIN_BEFORE", MARGIN_BEFORE // 3)
    monkeypatch.setattr("duplex_models.local.vocode.MARGIN_AFTER", MARGIN_AFTER // 3)
    parts = [_audio(vocode, latents, first, last).pcm for first, last in _schedule(latents.frames, (9, 16))]
    difference = np.concatenate(parts).astype(np.float32) - whole
    assert 20 * np.log10(np.sqrt((whole**2).mean()) / np.sqrt((difference**2).mean())) < 60


def test_the_voice_is_understood(talk: BatchStage, vocode: BatchStage, transcribe: BatchStage) -> None:
    said = {
        "The weather is nice today, so we went for a walk.": "the weather is nice today so we went for a walk",
        "Your train leaves at 7:30 in the morning.": "your train leaves at seven thirty in the morning",
        "It costs **$25** for 2 people.": "it costs twenty five dollars for two people",
        "Please write to Dr. Brown on the 21st of March.": "please write to doctor brown on the twenty first of march",
    }
    heard = []
    for text in said:
        pcm = resample(_whole(vocode, _latents(talk, text)), 22_050, 16_000)
        (result,) = transcribe.step([job(utterance(pcm))])
        assert isinstance(result, Transcript)
        heard.append(_spelled(result.text))
    assert word_error_rate(list(said.values()), heard) <= 0.15


def _spelled(text: str) -> str:
    """Undo the digits that whisper likes to write, for the sentences above."""
    for written, spoken in {"7.30": "seven thirty", "7:30": "seven thirty", "730": "seven thirty", "$25": "25 dollars",
                            "21st": "twenty first", "Dr.": "doctor"}.items():  # fmt: skip
        text = text.replace(written, spoken)
    return text


# The split voice on disk. --------------------------------------------------------------------------------------------


def test_a_damaged_cache_is_made_again_and_an_intact_one_is_taken(tmp_path: Path) -> None:
    lines: list[str] = []
    split = Voice(tmp_path).split(lines.append)
    manifest = json.loads((split.folder / "manifest.json").read_text())
    assert len(lines) == 1
    assert sorted(manifest["sha256"]) == ["decoder.onnx", "frontend.onnx"]
    assert Voice(tmp_path).split(lines.append) == split
    assert len(lines) == 1
    split.decoder.write_bytes(b"damaged")
    assert Voice(tmp_path).split(lines.append) == split
    assert len(lines) == 2
    assert split.decoder.stat().st_size > 1_000_000
    assert [path.name for path in tmp_path.iterdir()] == [split.folder.name]


def test_a_cache_that_cannot_be_written_says_which_option_to_set(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(PackError, match="cache_dir"):
        Voice(blocked).split(lambda line: None)
