"""Resampling by a whole factor that loses no sample: n in give exactly n × up or n ÷ down out, at every call.

A windowed-sinc low pass runs across calls, so that joints are not heard. soxr, which the rest of the server uses, holds
back a varying count; RTP packets need an exact one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duplex.payloads import Int16Array

_TAPS_PER_PHASE = 32
_KAISER_BETA = 7.0
_PASS = 0.9
"""Cut-off as a part of the lower rate's Nyquist frequency."""


def _low_pass(factor: int) -> NDArray[np.float32]:
    n = _TAPS_PER_PHASE * factor + 1
    t = np.arange(n) - n // 2
    taps = np.sinc(t * _PASS / factor) * np.kaiser(n, _KAISER_BETA)
    return np.asarray(taps / taps.sum(), dtype=np.float32)


def _clipped(x: NDArray[np.float32]) -> Int16Array:
    return np.clip(np.rint(x), -32768, 32767).astype(np.int16)


class Upsampler:
    """n samples to n × `factor`; delay: 16 samples of input."""

    def __init__(self, factor: int) -> None:
        self._factor = factor
        self._taps = _low_pass(factor) * factor
        self._past = np.zeros(len(self._taps) - 1, np.float32)

    def feed(self, pcm: Int16Array) -> Int16Array:
        """Return shape (n × factor,) for `pcm` of shape (n,)."""
        stuffed = np.zeros(len(self._past) + len(pcm) * self._factor, np.float32)
        stuffed[: len(self._past)] = self._past
        stuffed[len(self._past) :: self._factor] = pcm
        self._past = stuffed[len(stuffed) - len(self._past) :].copy()
        return _clipped(np.convolve(stuffed, self._taps, "valid"))


class Downsampler:
    """n samples to n ÷ `factor`."""

    delay = _TAPS_PER_PHASE // 2
    """In samples of output."""

    def __init__(self, factor: int) -> None:
        self._factor = factor
        self._taps = _low_pass(factor)
        self._past = np.zeros(len(self._taps) - 1, np.float32)

    def feed(self, pcm: Int16Array) -> Int16Array:
        """Return shape (n ÷ factor,) for `pcm` of shape (n,), n a multiple of the factor."""
        line = np.concatenate([self._past, pcm.astype(np.float32)])
        self._past = line[len(line) - len(self._past) :]
        windows = np.lib.stride_tricks.sliding_window_view(line, len(self._taps))[:: self._factor]
        return _clipped(windows @ self._taps[::-1])
