"""Streaming sample-rate conversion whose output length is exact, however the input is cut into pieces.

A reply's audio is one stream from its first to its last piece, so its length converts by the exact ratio and its joints
are not heard. Where a whole factor must give an exact count at each call, see `polyphase`.
"""

from __future__ import annotations

import numpy as np
import soxr

from duplex.payloads import Int16Array
from duplex.units import convert

_QUALITY = "LQ"
"""soxr's LQ holds 1 ms back where HQ holds 26 ms, which first audio would wait for; both keep a voice's band (85 dB)."""
_EMPTY = np.zeros(0, np.int16)


class StreamResampler:
    """One stream from one rate to another, mono; saturates, never wraps around; equal rates pass through.

    Args:
        from_rate, to_rate: samples per second.
    """

    def __init__(self, from_rate: int, to_rate: int) -> None:
        self.from_rate = from_rate
        self.to_rate = to_rate
        self._taken = 0
        self._given = 0
        self._early = _EMPTY
        """Output past the exact length so far: soxr rounds up where we round down."""
        self._stream = (
            None
            if from_rate == to_rate
            else soxr.ResampleStream(from_rate, to_rate, 1, dtype="int16", quality=_QUALITY)
        )

    def push(self, pcm: Int16Array, *, last: bool = False) -> Int16Array:
        """Take more input and return the output that it completes.

        Args:
            pcm: shape (n,), mono, n ≥ 0.
            last: the stream ends here; the output's total is then exactly `convert(input total)`.
        """
        if self._stream is None:
            return pcm
        self._taken += len(pcm)
        out: Int16Array = self._stream.resample_chunk(pcm, last=last)
        if len(self._early):
            out = np.concatenate([self._early, out])
        room = convert(self._taken, self.from_rate, self.to_rate) - self._given
        out, self._early = out[:room], out[room:]
        if last and len(out) < room:
            out = np.concatenate([out, np.zeros(room - len(out), np.int16)])
        self._given += len(out)
        return out
