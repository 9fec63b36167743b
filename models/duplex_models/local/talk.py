"""The talker: a clause's text → latent frames of the voice, and when each of its words ends in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duplex.engines.onnx import OnnxModel, Tensor
from duplex.payloads import Clause, Float32Array, Job, Latents, StageError, WordMark
from duplex.stages.contract import NodeSpec, Progress, Role
from duplex_models.local.options import LocalOptions
from duplex_models.local.phonemes import Phonemizer
from duplex_models.local.speakable import SpokenWord, speakable
from duplex_models.local.starting import starting
from duplex_models.local.voice import RATE, SplitVoice, Voice

_SPEED = (0.5, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceLatents:
    """What the vocoder gets in `Latents.data`."""

    z: Float32Array
    """Shape (1, channels, frames)."""


class Talk:
    """Batch stage: `Clause` → `Latents`; keeps nothing between calls."""

    spec = NodeSpec(
        name="talker",
        role=Role.TALK,
        takes=Clause,
        gives=Latents,
        unit="clause",
        cut_ms=40,
        step_s=0.03,
    )

    def __init__(self, options: LocalOptions, voice: Voice) -> None:
        self._options = options
        self._voice = voice
        self._split: SplitVoice | None = None
        self._model: OnnxModel | None = None
        self._phonemizer: Phonemizer | None = None

    def load(self, progress: Progress) -> None:
        """Split the voice if that was never done here, load the talker's half and the dictionaries, and speak once.

        Raises:
            PackError: the weights are missing or damaged, or the split voice cannot be kept.
        """
        progress("talker: Piper voice joe")
        self._split = self._voice.split(progress)
        self._phonemizer = Phonemizer()
        with starting("the talker"):
            self._model = OnnxModel(self._split.frontend, threads=self._options.onnx_threads)
            self._latents(Clause(index=0, text="Hello there.", voice="default"))

    def step(self, jobs: Sequence[Job]) -> list[Latents | StageError]:
        """Return each clause's frames; 0 frames for a clause in which nothing can be said."""
        results: list[Latents | StageError] = []
        for job in jobs:
            if isinstance(job.payload, Clause):
                results.append(self._latents(job.payload))
            else:
                results.append(StageError(reason="the talker takes a clause", kind="refused"))
        return results

    def _latents(self, clause: Clause) -> Latents:
        assert self._split is not None and self._phonemizer is not None, "loaded before the first step"
        words = speakable(clause.text)
        phonemes = self._phonemizer.phonemize([word.text for word in words])
        if phonemes is None:
            empty = VoiceLatents(z=np.zeros((1, 0, 0), np.float32))
            return Latents(clause=clause.index, frames=0, hop=self._split.hop, rate=RATE, words=(), data=empty)
        z, durations = self._run(phonemes.ids, clause.speed)
        return Latents(
            clause=clause.index,
            frames=z.shape[2],
            hop=self._split.hop,
            rate=RATE,
            words=word_marks(words, phonemes.ends, durations),
            data=VoiceLatents(z=z),
        )

    def _run(self, ids: NDArray[np.int64], speed: float) -> tuple[Float32Array, Float32Array]:
        """Return latent frames of shape (1, channels, frames), and the frames of every id, shape (ids,)."""
        assert self._model is not None and self._split is not None, "loaded before the first step"
        slowest, fastest = _SPEED
        length_scale = 1 / min(max(speed, slowest), fastest)
        scales = [self._options.noise_scale, length_scale, self._options.noise_scale_duration]
        feeds: dict[str, Tensor] = {
            "input": ids[np.newaxis],
            "input_lengths": np.array([len(ids)], np.int64),
            "scales": np.array(scales, np.float32),
        }
        z, durations = self._model.run(feeds, [self._split.z, self._split.durations])
        return z, durations.reshape(-1)

    def release(self, session: str) -> None:
        """Nothing is kept for a session."""

    def close(self) -> None:
        """Forget the model."""
        self._model = self._phonemizer = self._split = None


def word_marks(words: Sequence[SpokenWord], ends: Sequence[int], durations: Float32Array) -> tuple[WordMark, ...]:
    """Return when each written word ends, from the frames of the ids before its end.

    Args:
        words: what is said, in order.
        ends: ids up to each word's end.
        durations: frames of every id; whole numbers.
    """
    frames = np.concatenate([[0.0], np.cumsum(durations)]).astype(int)
    return tuple(
        WordMark(text_end=word.end, end=int(frames[end]))
        for word, end in zip(words, ends, strict=True)
        if word.end is not None
    )
