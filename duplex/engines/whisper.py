"""Whisper on CTranslate2: log-mel features in, token ids out. The tokenizer and the front end belong to the caller."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import ctranslate2
import numpy as np

from duplex.engines import EngineError, mapped
from duplex.payloads import Float32Array


class WhisperModel:
    """A whisper model on the CPU with int8 weights.

    Args:
        directory: folder with `model.bin`, `config.json` and `vocabulary.txt`.
        threads: threads of one call, ≥ 1.
    Raises:
        EngineError: the model cannot be loaded.
    """

    def __init__(self, directory: Path, *, threads: int) -> None:
        try:
            self._model = ctranslate2.models.Whisper(
                str(directory), device="cpu", compute_type="int8", inter_threads=1, intra_threads=threads
            )
        except (RuntimeError, ValueError) as error:
            raise EngineError(f"whisper cannot be loaded from {directory}: {error}") from error

    def generate(self, features: Float32Array, prompt: Sequence[int], *, tokens_max: int) -> list[int]:
        """Transcribe one window, greedily.

        Args:
            features: log-mel features of shape (80, frames), 100 frames per second, at most 3000.
            prompt: token ids that start the decoder, e.g. start of transcript and no timestamps.
            tokens_max: most tokens that are generated, the end not counted; a loop stops there.
        Returns:
            Token ids behind the prompt.
        Raises:
            EngineError: CTranslate2 refused the features or failed. MemoryError: it got no memory.
        """
        view = ctranslate2.StorageView.from_array(np.ascontiguousarray(features[np.newaxis], dtype=np.float32))
        try:
            results = self._model.generate(
                view,
                [list(prompt)],
                beam_size=1,
                max_length=tokens_max + len(prompt),
                return_scores=False,
                suppress_blank=True,
            )
        except (RuntimeError, ValueError) as error:
            raise mapped(error, "whisper failed: ") from error
        return list(results[0].sequences_ids[0])
