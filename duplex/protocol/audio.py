"""Audio inside events: base64 of PCM at 24 kHz or of G.711 at 8 kHz, on its way to samples and back.

append, input_audio ─► read_audio ─► samples_of ─► the session's resampler
a reply's samples   ─► OutputAudio ─► base64 of one delta after the other; the filter's last ones with `finish`

Source: protocol.md, "Session config" (audio formats); ITU-T G.711.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final, Literal

import numpy as np

from duplex.media import g711
from duplex.media.contract import WEBSOCKET_RATE
from duplex.media.polyphase import Downsampler
from duplex.payloads import Int16Array
from duplex.protocol import errors
from duplex.protocol.errors import RemoteProtocolError
from duplex.protocol.wire_session import AudioFormat

FormatName = Literal["audio/pcm", "audio/pcmu", "audio/pcma"]
_G711_RATE: Final = 8_000
_LAWS: Final[dict[FormatName, g711.Law]] = {"audio/pcmu": g711.Law.MU, "audio/pcma": g711.Law.A}
_FACTOR: Final = WEBSOCKET_RATE // _G711_RATE
_NOTHING: Final = np.zeros(0, np.int16)


def shown_format(asked: AudioFormat | None, param: str) -> dict[str, Any]:
    """Return a format as the session object shows it; None: the default.

    Args:
        asked: as the client sent it.
        param: its path.
    Raises:
        RemoteProtocolError: it has another rate than its kind.
    """
    name: FormatName = "audio/pcm" if asked is None else asked.type
    rate = _G711_RATE if name in _LAWS else WEBSOCKET_RATE
    if asked is not None and asked.rate not in (None, rate):
        raise RemoteProtocolError(errors.INVALID_VALUE, f"{name} has {rate} samples in a second.", f"{param}.rate")
    return {"type": name} if name in _LAWS else {"type": name, "rate": rate}


def read_audio(audio: str, name: FormatName, *, bytes_max: int, param: str) -> bytes:
    """Return the bytes of an event's audio: at least one sample, never half of one.

    Args:
        audio: base64, as it came.
        name: its format.
        bytes_max: most of it, decoded.
        param: its path.
    Raises:
        RemoteProtocolError: it is too long, no base64, empty, or ends within a sample.
    """
    if len(audio) > (bytes_max + 2) // 3 * 4:
        raise RemoteProtocolError(errors.TOO_LONG, f"One event takes {bytes_max} bytes of audio.", param)
    try:
        raw = binascii.a2b_base64(audio, strict_mode=True)
    except ValueError:  # binascii.Error, and text outside ASCII
        raise RemoteProtocolError(errors.INVALID_AUDIO, "The audio is not valid base64.", param) from None
    if not raw:
        raise RemoteProtocolError(errors.INVALID_AUDIO, "The audio is empty.", param)
    if name not in _LAWS and len(raw) % 2:
        raise RemoteProtocolError(
            errors.INVALID_AUDIO, "The audio ends within a sample: PCM of 16 bits has an even number of bytes.", param
        )
    return raw


def samples_of(raw: bytes, name: FormatName) -> tuple[Int16Array, int]:
    """Return what `read_audio` gave as samples, shape (n,), mono, and their rate."""
    law = _LAWS.get(name)
    if law is not None:
        return g711.decode(raw, law), _G711_RATE
    return np.frombuffer(raw, dtype="<i2").astype(np.int16, copy=False), WEBSOCKET_RATE


class OutputAudio:
    """The audio of one reply in the format that its session had when it began.

    G.711 is as long as what it is made of, to the sample: the filter's delay is taken off at the beginning.

    Args:
        name: the format.
    """

    def __init__(self, name: FormatName) -> None:
        self._law = _LAWS.get(name)
        self._down = None if self._law is None else Downsampler(_FACTOR)
        self._rest = _NOTHING
        """Less than a sample of G.711."""
        self._early = Downsampler.delay
        """Samples of the filter's delay that are still to come."""

    def push(self, pcm: Int16Array) -> str:
        """Return the base64 of what more audio, shape (n,), 24 kHz, completes; empty: nothing yet."""
        if self._law is None:
            return _base64(pcm.astype("<i2", copy=False).tobytes())
        line = np.concatenate([self._rest, pcm])
        whole = len(line) - len(line) % _FACTOR
        self._rest = line[whole:]
        return self._encode(line[:whole])

    def finish(self) -> str:
        """Return the base64 of what the filter held back, once, behind the last sample; empty: nothing."""
        return "" if self._law is None else self._encode(np.zeros(Downsampler.delay * _FACTOR, np.int16))

    def _encode(self, pcm: Int16Array) -> str:
        assert self._law is not None and self._down is not None, "only G.711 has another rate"
        if not len(pcm):
            return ""
        slow = self._down.feed(pcm)
        early = min(self._early, len(slow))
        self._early -= early
        return _base64(g711.encode(slow[early:], self._law))


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
