"""Samples as the edges between stages carry them. Pure."""

from __future__ import annotations

import numpy as np

from duplex.payloads import Float32Array, Int16Array

_PEAK = 32767.0


def to_int16(samples: Float32Array) -> Int16Array:
    """Convert samples of full scale 1 to 16 bits; what is louder is clipped, never wrapped."""
    result: Int16Array = np.rint(np.clip(samples, -1.0, 1.0) * _PEAK).astype(np.int16)
    return result
