"""Voice activity: silero, one step for the waiting windows of all sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from duplex.engines.onnx import OnnxModel
from duplex.payloads import Float32Array, Job, StageError, VoiceProbability, VoiceWindow
from duplex.stages.contract import NodeSpec, Progress, Role
from duplex.units import Samples
from duplex_models.local import weights
from duplex_models.local.starting import starting

_WINDOW = 512  # samples at 16 kHz
_CONTEXT = 64  # samples of the window before that the model wants in front
_STATE = (2, 128)
_RATE = np.array(16_000, dtype=np.int64)
_SCALE = np.float32(1 / 32768)


@dataclass(slots=True)
class _Memory:
    """What the model has to remember of one session."""

    state: Float32Array
    """Shape (2, 128)."""
    context: Float32Array
    """Shape (64,): the tail of the window before."""
    end: Samples
    """Where that window ended; one that does not start there begins anew."""


class Vad:
    """Batch stage: `VoiceWindow` → `VoiceProbability`. State per session: 1.3 kB."""

    spec = NodeSpec(
        name="vad",
        role=Role.VAD,
        takes=VoiceWindow,
        gives=VoiceProbability,
        unit="window",
        batch_max=32,
        bytes_per_session=4 * (2 * 128 + _CONTEXT),
        step_s=0.0003,
    )

    def __init__(self) -> None:
        self._model: OnnxModel | None = None
        self._sessions: dict[str, _Memory] = {}

    def load(self, progress: Progress) -> None:
        """Load the graph and run it once.

        Raises:
            PackError: the weights are missing or damaged.
        """
        progress("voice activity: silero")
        with starting("voice activity"):
            self._model = OnnxModel(weights.verified(weights.SILERO_VAD), threads=1)
            self._run(np.zeros((1, _CONTEXT + _WINDOW), np.float32), np.zeros((2, 1, 128), np.float32))

    def step(self, jobs: Sequence[Job]) -> list[VoiceProbability | StageError]:
        """Return one probability per window; windows of one session are taken in the order given."""
        results: list[VoiceProbability | StageError | None] = [None] * len(jobs)
        waiting = list(range(len(jobs)))
        while waiting:
            turn: dict[str, int] = {}
            for index in waiting:
                turn.setdefault(jobs[index].address.session, index)
            for index, result in zip(turn.values(), self._step([jobs[i] for i in turn.values()]), strict=True):
                results[index] = result
            waiting = [index for index in waiting if results[index] is None]
        return [result for result in results if result is not None]

    def _step(self, jobs: Sequence[Job]) -> list[VoiceProbability | StageError]:
        """One run of the model over windows of different sessions."""
        windows = [_window(job) for job in jobs]
        good = [(job.address.session, w) for job, w in zip(jobs, windows, strict=True) if w is not None]
        probabilities = iter(self._advance(good) if good else [])
        refused = StageError(reason=f"vad takes windows of {_WINDOW} samples", kind="refused")
        return [
            refused if w is None else VoiceProbability(span=w.span, probability=next(probabilities)) for w in windows
        ]

    def _advance(self, windows: Sequence[tuple[str, VoiceWindow]]) -> list[float]:
        memories = [self._memory(session, window.span.start) for session, window in windows]
        pcm = np.stack([window.pcm for _, window in windows]).astype(np.float32) * _SCALE
        audio = np.concatenate([np.stack([m.context for m in memories]), pcm], axis=1)
        probabilities, state = self._run(audio, np.stack([m.state for m in memories], axis=1))
        for row, (memory, (_, window)) in enumerate(zip(memories, windows, strict=True)):
            memory.state = state[:, row].copy()
            memory.context = pcm[row, -_CONTEXT:].copy()
            memory.end = window.span.end
        return [float(p) for p in probabilities[:, 0]]

    def _memory(self, session: str, start: Samples) -> _Memory:
        memory = self._sessions.get(session)
        if memory is None or memory.end != start:
            memory = _Memory(state=np.zeros(_STATE, np.float32), context=np.zeros(_CONTEXT, np.float32), end=start)
            self._sessions[session] = memory
        return memory

    def _run(self, audio: Float32Array, state: Float32Array) -> tuple[Float32Array, Float32Array]:
        assert self._model is not None, "loaded before the first step"
        probabilities, state = self._model.run({"input": audio, "state": state, "sr": _RATE})
        return probabilities, state

    def release(self, session: str) -> None:
        """Forget a session's state."""
        self._sessions.pop(session, None)

    def close(self) -> None:
        """Forget all sessions and the model."""
        self._sessions.clear()
        self._model = None


def _window(job: Job) -> VoiceWindow | None:
    payload = job.payload
    return payload if isinstance(payload, VoiceWindow) and payload.pcm.shape == (_WINDOW,) else None
