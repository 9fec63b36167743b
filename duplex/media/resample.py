"""Resampling of a stream in pieces, with state across them: soxr behind one class.

A reply's audio is one stream from its first to its last piece, so its length converts by the exact ratio and its joints
are not heard. Where a whole factor must give an exact count at each call, see `polyphase`.
"""

from __future__ import annotations

import numpy as np
import soxr

from duplex.payloads import Int16Array


class StreamResampler:
    """One stream from `from_rate` to `to_rate`, mono; equal rates pass through.

    The output runs behind by soxr's delay (some ms) until the last piece, which gives the rest. Overload saturates.
    """

    def __init__(self, from_rate: int, to_rate: int) -> None:
        self._soxr = None
        if from_rate != to_rate:
            self._soxr = soxr.ResampleStream(from_rate, to_rate, 1, dtype="int16", quality="HQ")

    def push(self, pcm: Int16Array, *, last: bool = False) -> Int16Array:
        """Return what `pcm` (shape (n,), n ≥ 0) completes; after `last` the stream is over."""
        if self._soxr is None:
            return pcm
        resampled: Int16Array = self._soxr.resample_chunk(np.ascontiguousarray(pcm), last=last)
        return resampled
