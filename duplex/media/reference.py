"""What was sent, by the input position at which it left: what an echo in the microphone is compared with."""

from __future__ import annotations

from collections import deque

import numpy as np

from duplex.media.contract import INPUT_RATE, OUTPUT_RATE
from duplex.payloads import Int16Array

_FACTOR = OUTPUT_RATE // INPUT_RATE
_PACKET_MS = 20


class Reference:
    """The last part of one session's output at 16 kHz, silence where nothing left.

    Args:
        keep_ms: how far back it can be read; overflow rule: `drop_oldest`.
    """

    def __init__(self, keep_ms: int) -> None:
        self._ring = np.zeros(keep_ms * INPUT_RATE // 1000, np.int16)
        self._end = 0
        self._fresh: deque[tuple[int, Int16Array]] = deque(maxlen=keep_ms // _PACKET_MS + 1)
        """Packets that nobody has asked for yet, so that sending costs no arithmetic; overflow rule: `drop_oldest`."""
        self.sounded = -len(self._ring)
        """Input position (16 kHz) of the newest sound."""

    def sent(self, pcm: Int16Array, at: int) -> None:
        """Note sound that left as input had come up to `at` (16 kHz samples): shape (n,), 48 kHz, n a multiple of 3, not changed later."""
        self._fresh.append((at, pcm))
        self.sounded = at + len(pcm) // _FACTOR

    def read(self, start: int, end: int) -> Int16Array:
        """Return what left between two input positions, start ≤ end, as far back as it is kept.

        Three samples become their mean: what is folded from over 8 kHz is little in speech, and the same in every echo.
        """
        while self._fresh:
            at, pcm = self._fresh.popleft()
            low = (pcm[0::3].astype(np.int32) + pcm[1::3] + pcm[2::3]) // _FACTOR
            self._silence_until(at + len(low))
            self._write(at, low.astype(np.int16))
        self._silence_until(end)
        size = len(self._ring)
        at, length = start % size, end - start
        if at + length <= size:
            return self._ring[at : at + length].copy()
        return np.concatenate([self._ring[at:], self._ring[: length - (size - at)]])

    def _silence_until(self, position: int) -> None:
        missing = min(position - self._end, len(self._ring))
        if missing > 0:
            self._write(position - missing, np.zeros(missing, np.int16))
            self._end = position

    def _write(self, at: int, pcm: Int16Array) -> None:
        size = len(self._ring)
        place = at % size
        head = min(len(pcm), size - place)
        self._ring[place : place + head] = pcm[:head]
        if head < len(pcm):
            self._ring[: len(pcm) - head] = pcm[head:]
