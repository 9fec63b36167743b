"""G.711 (PCMU, PCMA) between 8 kHz bytes and linear samples, by table.

Source: ITU-T G.711; RFC 3551 §4.5.14.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from duplex.payloads import Int16Array


class Law(Enum):
    """Companding law, by RTP encoding name."""

    MU = "PCMU"
    A = "PCMA"


def _mu_to_linear() -> Int16Array:
    code = ~np.arange(256) & 0xFF
    magnitude = (((code & 0x0F) << 3) + 0x84) << (code >> 4 & 7)
    return np.where(code & 0x80, 0x84 - magnitude, magnitude - 0x84).astype(np.int16)


def _a_to_linear() -> Int16Array:
    code = np.arange(256) ^ 0x55
    exponent = code >> 4 & 7
    mantissa = (code & 0x0F) << 4
    magnitude = np.where(exponent == 0, mantissa + 8, (mantissa + 0x108) << np.maximum(exponent - 1, 0))
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


def _from_linear(decoded: Int16Array) -> NDArray[np.uint8]:
    """Invert a decoding table: for each 16-bit sample (index: its unsigned bits) the code of the nearest level."""
    order = 255 - np.argsort(decoded[::-1], kind="stable")  # of µ-law's two zeros the usual one, 0xFF
    levels = decoded[order].astype(np.int32)
    samples = np.arange(-32768, 32768)
    nearest = order[np.searchsorted((levels[:-1] + levels[1:]) / 2, samples)]
    return np.roll(nearest, 32768).astype(np.uint8)  # index 0 is sample 0, negative samples follow the positive


_DECODED = {Law.MU: _mu_to_linear(), Law.A: _a_to_linear()}
_ENCODED = {law: _from_linear(table) for law, table in _DECODED.items()}


def decode(payload: bytes, law: Law) -> Int16Array:
    """Return shape (len(payload),), 8 kHz."""
    return _DECODED[law][np.frombuffer(payload, np.uint8)]


def encode(pcm: Int16Array, law: Law) -> bytes:
    """Return one byte for each sample of `pcm`, 8 kHz."""
    return _ENCODED[law][pcm.view(np.uint16)].tobytes()
