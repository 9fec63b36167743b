"""The vocoder: latent frames → audio, in chunks whose joins cannot be heard.

The decoder sees a bounded way to both sides, so a chunk is decoded with a margin of frames that is then thrown away:

    frames    ───────[ 24 margin ][ first … last ][ 24 margin ]───────
    audio                         [  kept: × hop ]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from duplex.engines.onnx import OnnxModel
from duplex.payloads import Audio, Float32Array, Job, LatentChunk, StageError
from duplex.stages.contract import NodeSpec, Progress, Role
from duplex_models.local.options import LocalOptions
from duplex_models.local.pcm import to_int16
from duplex_models.local.starting import starting
from duplex_models.local.talk import VoiceLatents
from duplex_models.local.voice import SplitVoice, Voice

MARGIN_BEFORE = 24
MARGIN_AFTER = 24
"""Frames decoded before and after a chunk. Error against whole decoding, worst clause: 12 dB with 16 and 12 frames, 46 dB
with 24 and 20, 70 dB with 24 and 24, 79 dB with 28 and 24; a frame costs 0.7 ms."""
_WARM_FRAMES = (9, 16, 32)


class Vocode:
    """Batch stage: `LatentChunk` → `Audio`; keeps nothing between calls."""

    spec = NodeSpec(
        name="vocoder",
        role=Role.VOCODE,
        takes=LatentChunk,
        gives=Audio,
        unit="codec frames",
        cut_ms=50,
        step_s=0.045,
    )

    def __init__(self, options: LocalOptions, voice: Voice) -> None:
        self._threads = options.onnx_threads
        self._voice = voice
        self._split: SplitVoice | None = None
        self._model: OnnxModel | None = None

    def load(self, progress: Progress) -> None:
        """Load the vocoder's half of the voice and decode a few lengths of nothing.

        Raises:
            PackError: the weights are missing or damaged, or the split voice cannot be kept.
        """
        progress("vocoder: Piper voice joe")
        self._split = self._voice.split(progress)
        with starting("the vocoder"):
            self._model = OnnxModel(self._split.decoder, threads=self._threads)
            for frames in _WARM_FRAMES:
                self._decode(np.zeros((1, 192, frames + MARGIN_BEFORE + MARGIN_AFTER), np.float32))

    def step(self, jobs: Sequence[Job]) -> list[Audio | StageError]:
        """Return the audio of each chunk."""
        results: list[Audio | StageError] = []
        for job in jobs:
            chunk = job.payload
            if isinstance(chunk, LatentChunk) and isinstance(chunk.latents.data, VoiceLatents) and _is_inside(chunk):
                results.append(self._audio(chunk, chunk.latents.data.z))
            else:
                results.append(StageError(reason="the vocoder takes frames of its own talker", kind="refused"))
        return results

    def _audio(self, chunk: LatentChunk, z: Float32Array) -> Audio:
        latents = chunk.latents
        before, after = max(0, chunk.first - MARGIN_BEFORE), min(latents.frames, chunk.last + MARGIN_AFTER)
        pcm = np.zeros(0, np.float32)
        if chunk.last > chunk.first:
            offset = (chunk.first - before) * latents.hop
            pcm = self._decode(z[:, :, before:after])[offset : offset + (chunk.last - chunk.first) * latents.hop]
        last = chunk.last == latents.frames
        return Audio(clause=latents.clause, pcm=to_int16(pcm), rate=latents.rate, last=last)

    def _decode(self, z: Float32Array) -> Float32Array:
        """Decode frames of shape (1, channels, n) to n × hop samples."""
        assert self._model is not None and self._split is not None, "loaded before the first step"
        mask = np.ones((1, 1, z.shape[2]), np.float32)
        (audio,) = self._model.run({self._split.z: np.ascontiguousarray(z), self._split.mask: mask})
        return audio.reshape(-1)

    def release(self, session: str) -> None:
        """Nothing is kept for a session."""

    def close(self) -> None:
        """Forget the model."""
        self._model = self._split = None


def _is_inside(chunk: LatentChunk) -> bool:
    return 0 <= chunk.first <= chunk.last <= chunk.latents.frames
