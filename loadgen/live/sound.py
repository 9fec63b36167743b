"""Sound as a listener's clock has it: what an ear or a player gives to the talker, and how its level is told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duplex.payloads import Float32Array, Int16Array
from duplex.units import MonoNs

AUDIBLE_DBFS = -50.0
"""Level of a 10 ms window from which it counts as audible; `duplex talk` and the benchmarks use the same."""
_AUDIBLE_POWER = 10 ** (AUDIBLE_DBFS / 10) * 32768.0**2
_DIGITAL_SILENCE = 1
"""Peak up to which a packet is digital silence: what a server sends while it has nothing to say. Recorded and
synthesised pauses are louder than one step of 16 bits."""


@dataclass(frozen=True, slots=True)
class Level:
    """What is to be heard in a piece of audio."""

    audible: tuple[float, float] | None
    """First and last audible moment as fractions of the piece; None when nothing is."""
    content: bool
    """It is more than digital silence."""


SILENT = Level(None, False)


def level_of(pcm: Int16Array, rate: int) -> Level:
    """Return the level of shape (n,) mono audio; a last window shorter than 10 ms counts as one."""
    window = rate // 100
    loud = np.flatnonzero(_powers(pcm, window) > _AUDIBLE_POWER)
    if len(loud):
        size = len(pcm)
        return Level((int(loud[0]) * window / size, min((int(loud[-1]) + 1) * window / size, 1.0)), True)
    content = bool(len(pcm)) and max(int(pcm.max()), -int(pcm.min())) > _DIGITAL_SILENCE
    return Level(None, content) if content else SILENT


def _powers(pcm: Int16Array, window: int) -> Float32Array:
    if len(pcm) % window:
        pcm = np.pad(pcm, (0, -len(pcm) % window))
    windows = pcm.astype(np.float32).reshape(-1, window)
    powers: Float32Array = np.einsum("ij,ij->i", windows, windows) / np.float32(window)
    return powers


@dataclass(frozen=True, slots=True)
class Sound:
    """A stretch that has been played."""

    start: MonoNs
    end: MonoNs
    level: Level
    answer: int
    """The answer it belongs to, as the talker named it when it arrived."""
    concealed: bool = False
    """Made up for what the network lost."""
