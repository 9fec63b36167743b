"""Sound as a listener's clock has it: what an ear or a player gives to the talker, and how its level is told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duplex.payloads import Int16Array
from duplex.units import MonoNs

AUDIBLE_DBFS = -50.0
"""Level of a 10 ms window from which it counts as audible; `duplex talk` and the benchmarks use the same."""
_AUDIBLE_POWER = 10 ** (AUDIBLE_DBFS / 10) * 32768.0**2
SILENCE_PEAK = 8
"""Peak of decoded audio up to which it is taken for silence that a codec passed on: Opus needs some packets to decay."""


@dataclass(frozen=True, slots=True)
class Level:
    """What is to be heard in a piece of audio."""

    audible: tuple[float, float] | None
    """First and last audible moment as fractions of the piece; None when nothing is."""
    content: bool
    """Its sender had something to say: it is more than digital silence."""


SILENT = Level(None, False)


def level_of(pcm: Int16Array, rate: int, silence_peak: int = 0) -> Level:
    """Return the level of shape (n,) mono audio, n ≥ 1; a last window shorter than 10 ms counts as one.

    Args:
        silence_peak: loudest sample of what is still no content.
    """
    window, size = rate // 100, len(pcm)
    samples = pcm.astype(np.float32)
    first = last = -1
    for at in range(0, size, window):
        piece = samples[at : at + window]
        if float(np.dot(piece, piece)) > _AUDIBLE_POWER * len(piece):
            first, last = (at if first < 0 else first), at
    if last >= 0:
        return Level((first / size, min(last + window, size) / size), True)
    return Level(None, True) if max(int(pcm.max()), -int(pcm.min())) > silence_peak else SILENT


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
