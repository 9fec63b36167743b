"""Makes what Chromium's fake microphone plays: utterances of the test data with silence between them."""

from __future__ import annotations

import wave
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

RATE = 24_000
"""Of the test data and of the files made here."""
_SPEECH = Path(__file__).resolve().parents[1] / "data" / "speech"


def utterance(name: str) -> NDArray[np.int16]:
    """Return one recording of `tests/data/speech`, mono, at `RATE`."""
    with av.open(str(_SPEECH / f"{name}.flac")) as container:
        resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
        frames = [*container.decode(audio=0), None]
        pieces = [out.to_ndarray().reshape(-1) for frame in frames for out in resampler.resample(frame)]
    return np.concatenate(pieces)


def write(path: Path, *parts: str | float) -> Path:
    """Write a wav: names are utterances, numbers are seconds of silence."""
    pieces = [utterance(part) if isinstance(part, str) else np.zeros(round(part * RATE), np.int16) for part in parts]
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(np.concatenate(pieces).tobytes())
    return path
