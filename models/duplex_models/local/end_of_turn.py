"""Semantic end of turn: smart-turn v3.2 on the last eight seconds of the open turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from duplex.engines.onnx import OnnxModel
from duplex.payloads import Float32Array, Int16Array, Job, StageError, TurnEnd, Utterance
from duplex.stages.contract import NodeSpec, Progress, Role
from duplex_models.local import mel, weights
from duplex_models.local.starting import starting

_SAMPLES = 8 * mel.RATE
_SCALE = np.float32(1 / 32768)
_VARIANCE_FLOOR = 1e-7


class EndOfTurn:
    """Batch stage: `Utterance` → `TurnEnd`; keeps nothing between calls.

    Sure of complete sentences, unsure of cut ones: combine it with silence and cap the hold (docs/models.md).
    """

    spec = NodeSpec(
        name="end_of_turn",
        role=Role.END_OF_TURN,
        takes=Utterance,
        gives=TurnEnd,
        unit="utterance",
        cut_ms=100,
        step_s=0.09,
    )

    def __init__(self, *, threads: int) -> None:
        self._threads = threads
        self._model: OnnxModel | None = None

    def load(self, progress: Progress) -> None:
        """Load the graph and run it once.

        Raises:
            PackError: the weights are missing or damaged.
        """
        progress("end of turn: smart-turn v3.2")
        with starting("end of turn"):
            self._model = OnnxModel(weights.verified(weights.SMART_TURN), threads=self._threads)
            self._probability(np.zeros(mel.RATE, np.int16))

    def step(self, jobs: Sequence[Job]) -> list[TurnEnd | StageError]:
        """Return the probability that each speaker has finished."""
        results: list[TurnEnd | StageError] = []
        for job in jobs:
            if isinstance(job.payload, Utterance) and job.payload.pcm.size:
                probability = self._probability(job.payload.pcm)
                results.append(TurnEnd(span=job.payload.span, probability=probability))
            else:
                results.append(StageError(reason="end of turn takes an utterance with audio", kind="refused"))
        return results

    def _probability(self, pcm: Int16Array) -> float:
        assert self._model is not None, "loaded before the first step"
        (probability,) = self._model.run({"input_features": features(pcm)[np.newaxis]})
        return float(np.clip(probability.reshape(-1)[0], 0.0, 1.0))

    def release(self, session: str) -> None:
        """Nothing is kept for a session."""

    def close(self) -> None:
        """Forget the model."""
        self._model = None


def features(pcm: Int16Array) -> Float32Array:
    """Return smart-turn's input for an utterance at 16 kHz: its last 8 s, silence in front, unit variance; (80, 800)."""
    tail = pcm[-_SAMPLES:].astype(np.float32) * _SCALE
    samples = np.zeros(_SAMPLES, np.float32)
    samples[_SAMPLES - len(tail) :] = tail
    samples = (samples - samples.mean()) / np.sqrt(samples.var() + _VARIANCE_FLOOR)
    return mel.log_mel(samples)
