"""Speech for tests: the recordings of tests/data/speech, noise with a seed, and how answers are compared.

Every recording is synthetic (Kokoro-82M voices) and clean; see tests/data/speech/README.md.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import av
import jiwer
import numpy as np
import soxr
from num2words import num2words

from duplex.payloads import Int16Array

DATA = Path(__file__).parent / "data"
SPEECH = DATA / "speech"
FACT_VOICES = ("af_sarah", "am_michael")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A question whose answer is right when it contains one of the accepted words."""

    ask: str
    accept: tuple[str, ...]

    def is_answered_by(self, text: str) -> bool:
        """Return whether a spoken answer is right."""
        words = set(normal(text).split())
        return any(normal(word) in words for word in self.accept)


def sentences() -> tuple[str, ...]:
    """Return what is said in s00 … s19."""
    return tuple((SPEECH / "sentences.txt").read_text().splitlines())


def facts() -> tuple[Fact, ...]:
    """Return the ten questions, in the order of their recordings."""
    listed = tomllib.loads((DATA / "facts.toml").read_text())["fact"]
    return tuple(Fact(ask=f["ask"], accept=tuple(f["accept"])) for f in listed)


@cache
def sentence_audio(index: int, rate: int = 16_000) -> Int16Array:
    """Return sentence `index` (0 to 19), mono."""
    return read_audio(SPEECH / f"s{index:02d}.flac", rate)


@cache
def fact_audio(index: int, voice: str, rate: int = 16_000) -> Int16Array:
    """Return question `index` (0 to 9) spoken by one of `FACT_VOICES`, mono."""
    return read_audio(SPEECH / "facts" / f"{voice}-{index:02d}.flac", rate)


def read_audio(path: Path, rate: int) -> Int16Array:
    """Return an audio file's first channel at the given rate."""
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        pcm = np.concatenate([frame.to_ndarray().reshape(-1) for frame in container.decode(stream)])
        return resample(pcm.astype(np.int16), stream.rate, rate)


def resample(pcm: Int16Array, from_rate: int, to_rate: int) -> Int16Array:
    """Return the audio at another rate."""
    if from_rate == to_rate:
        return pcm
    result: Int16Array = soxr.resample(pcm, from_rate, to_rate).astype(np.int16)
    return result


def with_noise(pcm: Int16Array, noise: Int16Array | np.ndarray, snr_db: float) -> Int16Array:
    """Return the audio with noise of the same length under it, `snr_db` below the speech, never clipped."""
    speech = pcm.astype(np.float64)
    level = np.sqrt((speech**2).mean()) / np.sqrt((noise.astype(np.float64) ** 2).mean()) * 10 ** (-snr_db / 20)
    mixed = speech + noise * level
    mixed *= min(1.0, 32_000 / np.abs(mixed).max())
    result: Int16Array = np.rint(mixed).astype(np.int16)
    return result


def white(length: int, seed: int) -> np.ndarray:
    """Return white noise."""
    return np.random.default_rng(seed).standard_normal(length)


def babble(length: int, seed: int, without: int, voices: int = 8) -> np.ndarray:
    """Return other sentences at 16 kHz talking all at once, each from a random place on.

    Args:
        without: the sentence that the noise is for; it is not among the voices.
    """
    random = np.random.default_rng(seed)
    others = random.choice([i for i in range(len(sentences())) if i != without], voices, replace=False)
    mix = np.zeros(length)
    for index in others:
        voice = sentence_audio(int(index)).astype(np.float64)
        mix += np.roll(np.resize(voice, length), int(random.integers(length))) / np.sqrt((voice**2).mean())
    return mix


def normal(text: str) -> str:
    """Return a text as word error rates compare it: lower case, no punctuation, numbers as words."""
    text = text.lower().replace("’", "'").replace("'", "")
    text = re.sub(r"(\d+)\s?%", r"\1 percent", text)
    text = re.sub(r"\d+", lambda m: f" {num2words(int(m[0]))} ", text)
    return " ".join(re.sub(r"[^a-z ]", " ", text).split())


def word_error_rate(said: list[str], heard: list[str]) -> float:
    """Return errors per word over all texts together."""
    return float(jiwer.wer([normal(t) for t in said], [normal(t) for t in heard]))
