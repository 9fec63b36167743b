"""Transcription: whisper (tiny.en, or base) on windows of 10, 20 or 30 s.

A window is never under 10 s, because the model loops on shorter ones, and never over the 30 s that it was trained on:
longer audio is cut at its quietest moment. On silence the model makes words up ("you", "Okay."); very quiet audio is
therefore answered with nothing here, and noise is kept away by voice activity.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from tokenizers import Tokenizer

from duplex.engines.whisper import WhisperModel
from duplex.payloads import Float32Array, Int16Array, Job, StageError, Transcript, Utterance
from duplex.stages.contract import NodeSpec, Progress, Role
from duplex_models.local import mel, weights
from duplex_models.local.assembly import WHISPER_BASE, assembled, cache_folder
from duplex_models.local.options import LocalOptions, WhisperName
from duplex_models.local.starting import starting

_SCALE = np.float32(1 / 32768)
_WINDOW_S = 10
_WINDOWS_MAX = 3
_CUT_SEARCH_S = 5
"""A cut is looked for in the last seconds of the 30."""
_TOKENS_PER_WINDOW = 60
"""Twice what fast speech takes in 10 s; a loop ends there."""
_QUIET_RMS = 10 ** (-60 / 20)
"""Full scale is 1. Louder in no tenth of a second: nothing was said."""
_QUESTION = re.compile(
    r"(?:(?:who|whose|which|where|why|when|what(?! an?\b)|how)\b|"
    r"(?:can|could|will|would|should|do|does|did|is|are|was|were|have|has) (?:i|you|he|she|it|we|they|there)\b)[^,.!?]*\.?$",
    re.IGNORECASE,
)
_TENTH = mel.RATE // 10
_LEAD = _TENTH
"""Silence put in front: speech from the very first sample is written without capitals or question marks."""


_PROMPTS: dict[WhisperName, tuple[int, ...]] = {"tiny.en": (50257, 50362), "base": (50258, 50259, 50359, 50363)}
"""Start of transcript, for base (which knows many languages) English and transcribe, no timestamps."""


class Transcribe:
    """Batch stage: `Utterance` → `Transcript`; keeps nothing between calls. English only."""

    spec = NodeSpec(
        name="asr",
        role=Role.TRANSCRIBE,
        takes=Utterance,
        gives=Transcript,
        unit="utterance",
        cut_ms=200,
        step_s=0.09,
    )

    def __init__(self, options: LocalOptions) -> None:
        self._options = options
        if options.whisper == "base":
            self.spec = dataclasses.replace(self.spec, cut_ms=500, step_s=0.4)
        self._model: WhisperModel | None = None
        self._tokenizer: Tokenizer | None = None

    def load(self, progress: Progress) -> None:
        """Load model and tokenizer and run them once.

        Raises:
            PackError: the weights are missing or damaged.
        """
        name = self._options.whisper
        progress(f"transcription: whisper {name}")
        folder, tokenizer = _files(self._options, progress)
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        with starting("transcription"):
            self._model = WhisperModel(folder, threads=self._options.whisper_threads)
            self._window(np.zeros(mel.RATE, np.float32))

    def step(self, jobs: Sequence[Job]) -> list[Transcript | StageError]:
        """Return what was said; an empty text where nothing was."""
        results: list[Transcript | StageError] = []
        for job in jobs:
            if isinstance(job.payload, Utterance):
                results.append(Transcript(span=job.payload.span, text=self._text(job.payload.pcm)))
            else:
                results.append(StageError(reason="transcription takes an utterance", kind="refused"))
        return results

    def _text(self, pcm: Int16Array) -> str:
        samples = pcm.astype(np.float32) * _SCALE
        if is_quiet(samples):
            return ""
        texts = (self._window(part) for part in parts(samples) if not is_quiet(part))
        return " ".join(text for text in texts if text)

    def _window(self, samples: Float32Array) -> str:
        assert self._model is not None and self._tokenizer is not None, "loaded before the first step"
        padded, windows = pad(samples)
        prompt, tokens_max = _PROMPTS[self._options.whisper], _TOKENS_PER_WINDOW * windows
        tokens = self._model.generate(mel.log_mel(padded), prompt, tokens_max=tokens_max)
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=True)
        return tidy(text)

    def release(self, session: str) -> None:
        """Nothing is kept for a session."""

    def close(self) -> None:
        """Forget the model."""
        self._model = self._tokenizer = None


def _files(options: LocalOptions, progress: Progress) -> tuple[Path, Path]:
    """Return the folder of the model and the file of its tokenizer."""
    if options.whisper == "base":
        folder = assembled(WHISPER_BASE, cache_folder(options.cache_dir), progress)
        return folder, folder / "tokenizer.json"
    model = weights.verified(weights.WHISPER_MODEL, weights.WHISPER_CONFIG, weights.WHISPER_VOCABULARY)
    return model.parent, weights.verified(weights.WHISPER_TOKENIZER)


def pad(samples: Float32Array) -> tuple[Float32Array, int]:
    """Return the audio with 0.1 s of silence before and more behind it, in 1 to 3 windows of 10 s, and their number."""
    size = _WINDOW_S * mel.RATE
    windows = -(-(_LEAD + len(samples)) // size)
    padded = np.zeros(windows * size, np.float32)
    padded[_LEAD : _LEAD + len(samples)] = samples
    return padded, windows


def is_quiet(samples: Float32Array) -> bool:
    """Return whether no tenth of a second is louder than -60 dBFS."""
    if len(samples) < _TENTH:
        return True
    whole = samples[: len(samples) // _TENTH * _TENTH].reshape(-1, _TENTH)
    return bool(np.sqrt((whole.astype(np.float64) ** 2).mean(axis=1)).max() < _QUIET_RMS)


def parts(samples: Float32Array) -> Iterator[Float32Array]:
    """Cut audio into pieces that fit into 30 s with their lead, each at the quietest tenth of a second of its last five seconds."""
    longest = _WINDOWS_MAX * _WINDOW_S * mel.RATE - _LEAD
    while len(samples) > longest:
        tail = samples[longest - _CUT_SEARCH_S * mel.RATE : longest].astype(np.float64)
        energy = sliding_window_view(tail**2, _TENTH)[:: _TENTH // 4].sum(axis=1)
        cut = longest - len(tail) + int(energy.argmin()) * (_TENTH // 4) + _TENTH // 2
        yield samples[:cut]
        samples = samples[cut:]
    yield samples


def tidy(text: str) -> str:
    """Give a transcript its capital, and a plain question its mark: a small thinker answers worse without them.

    A sentence counts as a question if it begins as one, ends with a full stop or nothing, and has no comma
    (`When I was young, …`).
    """
    text = text.strip()
    text = text[:1].upper() + text[1:]
    if _QUESTION.match(text) and text[-1:] not in "?!,;:":
        return text.rstrip(".") + "?"
    return text
