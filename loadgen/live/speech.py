"""What talkers say: recordings, encoded once per process in packets of 20 ms that all talkers share.

An utterance is a list of packet numbers: the last so many seconds of a recording, so that it ends as a sentence ends (an
end-of-turn model judges that), longer ones with further recordings before it, pauses as silence. Opus packets depend on
those before them; the encoder is told to predict nothing, so that packets of different recordings follow each other
without a splice to be heard.

Where the energy of an utterance begins and ends is known from the recording, by the rule of `duplex talk`: 10 ms windows
over −50 dBFS and within 35 dB of the loudest.
"""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr

from duplex.media import opus
from duplex.payloads import Int16Array
from duplex.talk import RATE, TalkError, levels_dbfs, read_recording
from duplex.units import Samples
from loadgen.live.options import OptionError
from loadgen.trace import Turn

PACKET = 960
PACKET_S = PACKET / RATE
SILENCE = 0
"""Number of the packet that says nothing."""
WEBSOCKET_RATE = 24_000
_BUILT_IN = Path(__file__).parent / "speech"
_BITRATE = 32_000
_COMPLEXITY = 5
_SET_PREDICTION_DISABLED = 4046
_LEAD_IN = 5
"""Packets of silence before a recording, so that its first packet follows silence as it will when it is said."""
_AUDIBLE_DBFS = -50.0
_BELOW_PEAK_DB = 35.0


@dataclass(frozen=True, slots=True)
class Packet:
    """20 ms of speech in every form a transport wants."""

    opus: bytes
    base64: str
    """PCM16 at 24 kHz."""
    loud: tuple[bool, bool]
    """Of its two windows of 10 ms."""
    power: float


@dataclass(frozen=True, slots=True)
class Utterance:
    """Something to say."""

    packets: tuple[int, ...]
    """Numbers in the bank."""
    begin: Samples
    """Onset of energy, from its start at 48 kHz."""
    end: Samples
    """End of energy."""


class Bank:
    """All packets, and how utterances are made of them.

    Args:
        recordings: each of shape (n,), mono, 48 kHz, with speech in it.
    """

    def __init__(self, recordings: list[Int16Array]) -> None:
        self.packets: list[Packet] = [_silence()]
        self._recordings = [self._add(pcm) for pcm in recordings]

    def _add(self, pcm: Int16Array) -> range:
        windows = levels_dbfs(pcm)
        loud = windows > max(_AUDIBLE_DBFS, float(windows.max(initial=-120.0)) - _BELOW_PEAK_DB)
        where = np.flatnonzero(loud)
        first, last = int(where[0]) // 2, int(where[-1]) // 2
        pcm = np.pad(pcm, (0, PACKET))[first * PACKET : (last + 1) * PACKET]
        loud = np.pad(loud, (0, 2))[first * 2 : (last + 1) * 2]
        at = len(self.packets)
        slow = soxr.resample(pcm, RATE, WEBSOCKET_RATE).astype("<i2").reshape(-1, PACKET // 2)
        for number, payload in enumerate(_encoded(pcm)):
            piece = pcm[number * PACKET : (number + 1) * PACKET].astype(np.float64)
            windows_loud = (bool(loud[2 * number]), bool(loud[2 * number + 1]))
            text = base64.b64encode(slow[number].tobytes()).decode()
            self.packets.append(Packet(payload, text, windows_loud, float(np.mean(piece**2))))
        return range(at, len(self.packets))

    def utterance(self, turn: Turn, rng: random.Random) -> Utterance:
        """Return what is said in a turn: exactly its length, with its pauses."""
        total = max(round(turn.speech_s / PACKET_S), 1)
        silent: set[int] = set()
        for start, length in turn.pauses:
            silent.update(range(round(start / PACKET_S), round((start + length) / PACKET_S)))
        voiced = iter(self._last(max(total - len(silent), 1), rng))
        return self._labelled(tuple(SILENCE if n in silent else next(voiced) for n in range(total)))

    def backchannel(self, length_s: float, rng: random.Random) -> Utterance:
        """Return a short voiced sound: the loudest stretch of that length in a recording."""
        recording = rng.choice(self._recordings)
        length = min(max(round(length_s / PACKET_S), 1), len(recording))
        powers = np.cumsum([0.0] + [self.packets[n].power for n in recording])
        at = int(np.argmax(powers[length:] - powers[:-length]))
        return self._labelled(tuple(recording[at : at + length]))

    def _last(self, count: int, rng: random.Random) -> list[int]:
        long_enough = [r for r in self._recordings if len(r) >= count]
        said = list(rng.choice(long_enough or self._recordings))
        while len(said) < count:
            said[:0] = rng.choice(self._recordings)
        return said[-count:]

    def _labelled(self, packets: tuple[int, ...]) -> Utterance:
        loud = [window for number in packets for window in self.packets[number].loud]
        begin = loud.index(True) if True in loud else 0
        end = len(loud) - loud[::-1].index(True) if True in loud else len(loud)
        return Utterance(packets, Samples(begin * PACKET // 2), Samples(end * PACKET // 2))


def load(files: tuple[str, ...]) -> Bank:
    """Read recordings (none named: those that come along) and encode them.

    Raises:
        OptionError: a file cannot be read or holds no speech.
    """
    paths = [Path(file) for file in files] or sorted(_BUILT_IN.glob("*.ogg"))
    recordings = []
    for path in paths:
        try:
            pcm = read_recording(path)
        except TalkError as error:
            raise OptionError(str(error)) from error
        if not len(pcm) or float(levels_dbfs(pcm).max(initial=-120.0)) <= _AUDIBLE_DBFS:
            raise OptionError(f"{path} holds no speech")
        recordings.append(pcm)
    return Bank(recordings)


class _IndependentEncoder(opus.Encoder):
    """Its packets depend on no packet before them. Source: libopus `opus_defines.h`, OPUS_SET_PREDICTION_DISABLED."""

    def __init__(self, *, bitrate: int, complexity: int) -> None:
        super().__init__(bitrate=bitrate, complexity=complexity)
        self._control(lambda control, state, value: control(state, _SET_PREDICTION_DISABLED, value), 1)


def _encoded(pcm: Int16Array) -> list[bytes]:
    encoder = _IndependentEncoder(bitrate=_BITRATE, complexity=_COMPLEXITY)
    quiet = np.zeros(PACKET, np.int16)
    for _ in range(_LEAD_IN):
        encoder.encode(quiet)
    return [encoder.encode(piece) for piece in pcm.reshape(-1, PACKET)]


def _silence() -> Packet:
    encoder = opus.Encoder(bitrate=_BITRATE, complexity=_COMPLEXITY)
    quiet = np.zeros(PACKET, np.int16)
    payloads = [encoder.encode(quiet) for _ in range(_LEAD_IN)]
    return Packet(payloads[-1], base64.b64encode(bytes(PACKET)).decode(), (False, False), 0.0)
