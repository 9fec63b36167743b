"""Whisper's log-mel front end in numpy, shared by transcription and end of turn.

    16 kHz samples → frames of 400 every 160 (centred, mirrored at the ends) → Hann → |FFT|² → 80 Slaney mel bands
    → log10 → floored 8 below the maximum → (x + 4) / 4

Source: Radford et al. 2022 (Whisper), §2.2; Slaney 1998 (Auditory Toolbox) for the mel scale. Equal within 1e-4 to the
reference front ends, which tests/model/test_local_mel.py checks.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from duplex.payloads import Float32Array

RATE = 16_000
"""Samples per second of the input."""
HOP = 160
"""Samples per frame: 100 frames per second."""
BANDS = 80

_WINDOW = 400
_FLOOR = 1e-10
_RANGE = 8.0  # log10 units under the maximum that are kept
_LINEAR_HZ = 200.0 / 3.0  # width of a mel below the break
_BREAK_HZ = 1000.0
_LOG_STEP = np.log(6.4) / 27.0


def _hz_from_mel(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    break_mel = _BREAK_HZ / _LINEAR_HZ
    return np.where(mel < break_mel, mel * _LINEAR_HZ, _BREAK_HZ * np.exp(_LOG_STEP * (mel - break_mel)))


def _mel_from_hz(hz: float) -> float:
    if hz < _BREAK_HZ:
        return hz / _LINEAR_HZ
    return float(_BREAK_HZ / _LINEAR_HZ + np.log(hz / _BREAK_HZ) / _LOG_STEP)


def _bands() -> NDArray[np.float64]:
    """Return triangles of equal area, shape (80, 201)."""
    edges = _hz_from_mel(np.linspace(0.0, _mel_from_hz(RATE / 2), BANDS + 2))
    bins = np.linspace(0.0, RATE / 2, _WINDOW // 2 + 1)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (bins - low) / (middle - low), (high - bins) / (high - middle)
    return np.maximum(0.0, np.minimum(rising, falling)) * (2.0 / (high - low))


_HANN = np.hanning(_WINDOW + 1)[:-1]
_MEL = _bands()


def log_mel(samples: Float32Array) -> Float32Array:
    """Return the features of a waveform.

    Args:
        samples: shape (n,), 16 kHz, n a multiple of 160 and > 200.
    Returns:
        Shape (80, n / 160).
    """
    count, end = len(samples) // HOP, int(np.flatnonzero(samples).max(initial=-1)) + 1
    sounding = min(
        count, -(-(end + _WINDOW // 2) // HOP)
    )  # behind them is nothing but padding, whose features are known
    padded = np.pad(samples.astype(np.float64), _WINDOW // 2, mode="reflect")
    frames = sliding_window_view(padded, _WINDOW)[: sounding * HOP : HOP]
    power = np.abs(np.fft.rfft(frames * _HANN, axis=-1)) ** 2
    logs = np.full((BANDS, count), np.log10(_FLOOR))
    logs[:, :sounding] = np.log10(np.maximum(_MEL @ power.T, _FLOOR))
    floored = np.maximum(logs, logs.max() - _RANGE)
    result: Float32Array = ((floored + 4.0) / 4.0).astype(np.float32)
    return result
