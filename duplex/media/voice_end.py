"""Where a voice ends, by its level: a VAD goes on saying speech for about 100 ms after the energy is gone.

    level        ▇▇▆▇▇▅▇▇▆▁▁▁▁▁▁▁▁
    VAD          ▇▇▇▇▇▇▇▇▇▇▇▇▃▁▁▁▁
    with it      ▇▇▇▇▇▇▇▇▇▁▁▁▁▁▁▁▁    a window far below the voice before it is silence

Where there is noise the level never falls so far, and the VAD's word stands. Pure.
"""

from __future__ import annotations

import numpy as np

from duplex.payloads import Int16Array

_FORGETS_DB = 0.3
"""Per window of 32 ms: after a second of silence a voice may be 9 dB quieter than it was, and is heard whole."""
_SILENCE_DBFS = -90.0


def level_dbfs(pcm: Int16Array) -> float:
    """Return the level of audio of shape (n,), n ≥ 1, in dB below full scale."""
    samples = pcm.astype(np.float32)
    power = float(np.dot(samples, samples)) / len(samples) / 32768.0**2
    return max(_SILENCE_DBFS, 10.0 * float(np.log10(power + 1e-12)))


class VoiceEnd:
    """Follows the level of one input track.

    Args:
        drop_db: a window this much below the loudest of late is silence; 0: never.
        voice_min: probability from which the VAD's word is looked at.
    """

    def __init__(self, drop_db: float, voice_min: float) -> None:
        self._drop = drop_db
        self._voice_min = voice_min
        self._loud = _SILENCE_DBFS

    def probability(self, pcm: Int16Array, probability: float) -> float:
        """Return the probability of voice in the next window: the VAD's, or 0 where the level has fallen."""
        self._loud -= _FORGETS_DB
        if probability < self._voice_min or not self._drop:
            return probability
        level = level_dbfs(pcm)
        self._loud = max(self._loud, level)
        return 0.0 if level < self._loud - self._drop else probability
