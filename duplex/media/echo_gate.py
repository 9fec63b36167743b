"""Is what the microphone hears over a reply the reply itself? A judge of single windows, not a canceller.

    sent        ▁▃▇▅▁▂▇▆▃▁▁▅▇▂          what left, by the input position at which it left
    microphone  ▁▁▁▁▁▂▅▃▁▁▅▄▂▁          the same modulation, later and weaker: echo
                └─lag─┘                 more than the path explains: a voice

A client without echo cancellation sends the reply back, and the VAD hears a voice in it. The path (lag, and level by band) is learnt
where the modulation of many bands follows what was sent; from then on a window is echo if the path explains its energy. It costs
nothing but a copy until a voice is heard over a reply. Source: ADR-0016.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duplex.config import EchoSettings
from duplex.media.contract import INPUT_RATE
from duplex.media.reference import Reference
from duplex.payloads import Int16Array

_HOP = 160
_FRAME = 320
"""10 and 20 ms at 16 kHz."""
_FRAMES = 32
"""Frames that are compared to find the path: 330 ms."""
HISTORY = (_FRAMES - 1) * _HOP + _FRAME
"""Samples of microphone (16 kHz) that a judgement wants."""
_EDGES_HZ = np.geomspace(150, 6000, 17)
_RANGE_DB = 30.0
"""Under the loudest by more than this, modulation is noise."""
_FLOOR_DB = -75.0
"""Level of a band, of full scale, that is nothing."""
_TAIL_DB = 1.5
"""Least decay of a room's echo in 10 ms: 60 dB in 0.4 s."""
_LEARN_EVERY = 8
"""Windows between two measurements of a path that is known."""
_LEARN = 0.3
"""Share of a new measurement in the path's levels."""
_NOISE_RISE_DB = 0.1
"""By window."""
_MOVES = 0.1
"""A path has moved if another lag is that much more like what is heard."""
Float = NDArray[np.float32]


def _bands() -> Float:
    hz = np.fft.rfftfreq(_FRAME, 1 / INPUT_RATE)
    inside = (hz[:, None] >= _EDGES_HZ[:-1]) & (hz[:, None] < _EDGES_HZ[1:])
    return inside.astype(np.float32)


_BANDS = np.repeat(_bands(), 2, axis=0)
"""Which band takes the square of each real and imaginary part of a spectrum."""
_AVERAGE = np.full((1, _FRAMES), 1 / _FRAMES, np.float32)
_WINDOW = np.hanning(_FRAME).astype(np.float32)
_UNIT = np.float32(2 / (32768**2 * (_WINDOW**2).sum() * _FRAME))


def reference_ms(settings: EchoSettings) -> int:
    """Return how much of what was sent has to be kept, with half a second for windows that wait for their analysis."""
    return settings.delay_ms_max + HISTORY * 1000 // INPUT_RATE + 500


class EchoGate:
    """Follows one session's echo path.

    Args:
        settings: thresholds and the longest way of an echo.
        reference: what was sent; keeps `reference_ms(settings)` at least.
    """

    def __init__(self, settings: EchoSettings, reference: Reference) -> None:
        self._settings = settings
        self._reference = reference
        self._lags = settings.delay_ms_max // 10
        self._places = np.arange(self._lags + 1)[:, None] + np.arange(_FRAMES)
        """Frames of what was sent that are compared, by place, oldest first."""
        self._lag: int | None = None
        """Of the path, in frames of 10 ms."""
        self._judged = 0
        self._path_db: Float = np.zeros(_BANDS.shape[1], np.float32)
        """Level of the echo against what was sent, by band."""
        self._noise_db: Float = np.full(_BANDS.shape[1], 0.0, np.float32)
        """Level of what is always heard, by band."""

    @property
    def lag_ms(self) -> int | None:
        """Time from sending to hearing of the path that was learnt; None: no echo was heard."""
        return None if self._lag is None else self._lag * 10

    def listens(self, at: int) -> bool:
        """Return whether something that was sent may still be heard at an input position (16 kHz samples)."""
        return at - self._reference.sounded <= (self._lags * 10 + self._settings.tail_ms) * INPUT_RATE // 1000

    def is_echo(self, microphone: Int16Array, end: int) -> bool:
        """Return whether the newest window of the microphone is explained by what was sent.

        Args:
            microphone: shape (HISTORY,), 16 kHz, what was heard before `end`.
            end: input position (16 kHz samples).
        """
        heard = _levels_db(microphone)
        self._noise_db = np.minimum(self._noise_db + _NOISE_RISE_DB, heard.min(axis=0))
        if self._lag is None or self._judged % _LEARN_EVERY == 0:
            self._learn(heard, _levels_db(self._reference.read(end - HISTORY - self._lags * _HOP, end)))
        self._judged += 1
        if self._lag is None:
            return False
        start, stop = end - HISTORY - self._lag * _HOP, end - max(0, self._lag - 1) * _HOP
        return self._explains(heard, _levels_db(self._reference.read(start, stop)))

    def _learn(self, heard: Float, sent: Float) -> None:
        if sent.max() < _FLOOR_DB + _RANGE_DB / 2:
            return
        likeness = _likeness(heard, sent, self._places)
        best = int(likeness.argmax())
        if likeness[best] < self._settings.likeness:
            return
        if self._lag is not None and likeness[len(likeness) - 1 - self._lag] > likeness[best] - _MOVES:
            best = len(likeness) - 1 - self._lag
        lag = len(likeness) - 1 - best
        before = sent[best : best + _FRAMES]
        loud = before > max(before.max() - _RANGE_DB / 2, _FLOOR_DB + _RANGE_DB / 3)
        measured = np.where(loud, heard - before, np.nan)
        known = loud.any(axis=0)
        path = self._path_db.copy()
        path[known] = np.nanmedian(measured[:, known], axis=0)
        if not known.all():
            path[~known] = np.median(path[known])
        self._path_db = (1 - _LEARN) * self._path_db + _LEARN * path if lag == self._lag else path
        self._lag = lag

    def _explains(self, heard: Float, sent: Float) -> bool:
        """Return whether the last window holds little more than the path makes of what was sent one lag before."""
        expected = sent[0]
        for frame in sent[1:]:
            expected = np.maximum(frame, expected - _TAIL_DB)
        expected = np.maximum(expected + self._path_db, self._noise_db) + self._settings.margin_db
        newest = 10 ** (heard[-3:].max(axis=0) / 10)
        more = np.maximum(0, newest - 10 ** (expected / 10))
        return bool(more.sum() <= self._settings.unexplained * newest.sum())


def _levels_db(pcm: Int16Array) -> Float:
    """Return the level by frame and band, shape (frames, bands), dB of full scale; of audio of shape (_HOP · (frames + 1),)."""
    hops = pcm.reshape(-1, _HOP)
    frames = np.empty((len(hops) - 1, _FRAME), np.float32)
    frames[:, :_HOP] = hops[:-1]
    frames[:, _HOP:] = hops[1:]
    frames *= _WINDOW
    parts = np.fft.rfft(frames).astype(np.complex64, copy=False).view(np.float32)
    parts *= parts
    levels: Float = 10 * np.log10(parts @ _BANDS * _UNIT + np.float32(10 ** (_FLOOR_DB / 10)))
    return levels


def _likeness(heard: Float, sent: Float, places: NDArray[np.intp]) -> Float:
    """Return the correlation of the modulation of bands against each other, by place of `heard` in `sent`, oldest first.

    What all bands do together is taken out: two voices that begin in silence do that alike.

    Args:
        heard: shape (frames, bands).
        sent: shape (more frames, bands).
        places: shape (places, frames), indices into `sent`.
    """
    mine = _modulation(heard)
    mine -= mine.mean(axis=0)
    theirs = np.take(_modulation(sent), places, axis=0)
    theirs -= _AVERAGE @ theirs
    flat = theirs.reshape(len(places), -1)
    norm = np.sqrt(np.einsum("pi,pi->p", flat, flat) * (mine**2).sum())
    result: Float = flat @ mine.ravel() / np.maximum(norm, np.float32(1e-6))
    return result


def _modulation(levels: Float) -> Float:
    audible = np.maximum(levels, levels.max() - _RANGE_DB)
    result: Float = audible - audible.mean(axis=1, keepdims=True)
    return result
