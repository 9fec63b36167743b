"""The input ring: the last seconds of what a session has heard, cut into VAD windows as they complete."""

from __future__ import annotations

import numpy as np

from duplex.media.contract import INPUT_RATE
from duplex.payloads import Int16Array, VoiceWindow
from duplex.units import POSITION_RATE, Samples, Span

WINDOW = 512
"""Samples of a VAD window at 16 kHz: 32 ms."""
_SCALE = POSITION_RATE // INPUT_RATE


class Ingress:
    """Audio at 16 kHz by absolute position.

    Args:
        keep_ms: how far back audio can be read; overflow rule: `drop_oldest`.
    """

    def __init__(self, keep_ms: int) -> None:
        self._ring = np.zeros(keep_ms * INPUT_RATE // 1000, np.int16)
        self._end = 0
        self._windowed = 0

    @property
    def position(self) -> Samples:
        """Input position up to which audio has arrived."""
        return Samples(self._end * _SCALE)

    @property
    def samples(self) -> int:
        """The same at 16 kHz."""
        return self._end

    def push(self, pcm: Int16Array) -> list[VoiceWindow]:
        """Append audio of shape (n,), n ≤ the ring's length; return the windows that it completes."""
        self._write(pcm)
        windows: list[VoiceWindow] = []
        while self._end - self._windowed >= WINDOW:
            start = self._windowed
            self._windowed = start + WINDOW
            span = Span(Samples(start * _SCALE), Samples(self._windowed * _SCALE))
            windows.append(VoiceWindow(span=span, pcm=self._read(start, self._windowed)))
        return windows

    def read(self, span: Span) -> Int16Array:
        """Return a copy of the audio of a span, as far back as it is kept and as far as it has come."""
        oldest = max(0, self._end - len(self._ring))
        start = min(max(span.start // _SCALE, oldest), self._end)
        return self._read(start, max(start, min(span.end // _SCALE, self._end)))

    def before(self, end: int, n: int) -> Int16Array:
        """Return the n samples (16 kHz) before a position that has come; silence where there were none."""
        start = end - n
        return self._read(start, end) if start >= 0 else np.pad(self._read(0, end), (-start, 0))

    def close(self) -> None:
        """Give the memory back at once, for what ends in a cycle is found late: nothing is pushed or read any more."""
        self._ring = self._ring[:0].copy()

    def _write(self, pcm: Int16Array) -> None:
        size = len(self._ring)
        at = self._end % size
        head = min(len(pcm), size - at)
        self._ring[at : at + head] = pcm[:head]
        if head < len(pcm):
            self._ring[: len(pcm) - head] = pcm[head:]
        self._end += len(pcm)

    def _read(self, start: int, end: int) -> Int16Array:
        size = len(self._ring)
        at, length = start % size, end - start
        if at + length <= size:
            return self._ring[at : at + length].copy()
        return np.concatenate([self._ring[at:], self._ring[: length - (size - at)]])
