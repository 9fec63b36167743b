"""The codecs of one peer's audio behind two small classes each way: Opus, and G.711 for phones and gateways.

Inside, hearing is 16 kHz and speaking 48 kHz; what a codec needs beyond that stays in here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from duplex.config import MediaSettings
from duplex.media import g711, opus, polyphase
from duplex.payloads import Int16Array

_PTIME_AT_8K = 160
_PER_8K = 6
_DTX_BYTES_MAX = 2


class CodecError(Exception):
    """A payload cannot be decoded; the decoder stays usable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioCodec:
    """A negotiated format."""

    name: str
    """`opus`, `PCMU` or `PCMA`."""
    payload_type: int
    clock_rate: int
    """Of RTP timestamps."""


class Hearing(Protocol):
    """Payloads to 16 kHz mono."""

    def duration(self, payload: bytes) -> int:
        """Return the samples at 48 kHz in `payload`; raises CodecError."""

    def decode(self, payload: bytes) -> Int16Array:
        """Return the audio; raises CodecError."""

    def recover(self, following: bytes, samples: int) -> Int16Array:
        """Return the `samples` (48 kHz) lost just before `following`; raises CodecError."""

    def conceal(self, samples: int) -> Int16Array:
        """Return `samples` (48 kHz) that continue the last sound."""


class Speaking(Protocol):
    """20 ms of 48 kHz mono to one payload."""

    def encode(self, pcm: Int16Array) -> bytes:
        """Encode shape (960,)."""

    def nothing(self) -> bytes | None:
        """Return the payload that says nothing is being said (DTX), or None where the codec has none."""

    def protect(self, loss: float | None) -> None:
        """Add redundancy for this much loss (0..1), or take it away again; ignored where there is none."""


def is_dtx(codec: AudioCodec, payload: bytes) -> bool:
    """Tell a payload that announces silence (RFC 7587 §3.1.3: Opus frames of at most two bytes)."""
    return codec.name == "opus" and len(payload) <= _DTX_BYTES_MAX


def hearing(codec: AudioCodec) -> Hearing:
    """Return a decoder of `codec`."""
    return _OpusHearing() if codec.name == "opus" else _G711Hearing(g711.Law(codec.name))


def speaking(codec: AudioCodec, settings: MediaSettings) -> Speaking:
    """Return an encoder of `codec`."""
    return _OpusSpeaking(settings) if codec.name == "opus" else _G711Speaking(g711.Law(codec.name))


class _OpusHearing:
    def __init__(self) -> None:
        self._decoder = opus.Decoder()

    def duration(self, payload: bytes) -> int:
        try:
            return opus.duration(payload)
        except opus.OpusError as error:
            raise CodecError(str(error)) from error

    def decode(self, payload: bytes) -> Int16Array:
        try:
            return self._decoder.decode(payload)
        except opus.OpusError as error:
            raise CodecError(str(error)) from error

    def recover(self, following: bytes, samples: int) -> Int16Array:
        try:
            return self._decoder.recover(following, samples)
        except opus.OpusError as error:
            raise CodecError(str(error)) from error

    def conceal(self, samples: int) -> Int16Array:
        return self._decoder.conceal(samples)


class _OpusSpeaking:
    def __init__(self, settings: MediaSettings) -> None:
        self._encoder = opus.Encoder(bitrate=settings.opus_bitrate, complexity=settings.opus_complexity)
        self._toc = 0

    def encode(self, pcm: Int16Array) -> bytes:
        payload = self._encoder.encode(pcm)
        self._toc = payload[0]
        return payload

    def nothing(self) -> bytes | None:
        return bytes([self._toc & 0xFC])  # the last frame's configuration, one frame of no bytes: RFC 6716 §3.2.1

    def protect(self, loss: float | None) -> None:
        self._encoder.protect(loss)


class _G711Hearing:
    """8 kHz to 16 kHz; a loss repeats the last 20 ms, each time at half the level."""

    def __init__(self, law: g711.Law) -> None:
        self._law = law
        self._up = polyphase.Upsampler(2)
        self._last = np.zeros(_PTIME_AT_8K, np.int16)

    def duration(self, payload: bytes) -> int:
        if not 0 < len(payload) <= 8000 // 5:  # 200 ms
            raise CodecError(f"G.711 payload of {len(payload)} bytes")
        return len(payload) * _PER_8K

    def decode(self, payload: bytes) -> Int16Array:
        pcm = g711.decode(payload, self._law)
        self._last = np.concatenate([self._last, pcm])[-_PTIME_AT_8K:]
        return self._up.feed(pcm)

    def recover(self, following: bytes, samples: int) -> Int16Array:
        return self.conceal(samples)

    def conceal(self, samples: int) -> Int16Array:
        self._last = self._last // 2
        return self._up.feed(np.resize(self._last, samples // _PER_8K))


class _G711Speaking:
    def __init__(self, law: g711.Law) -> None:
        self._law = law
        self._down = polyphase.Downsampler(_PER_8K)

    def encode(self, pcm: Int16Array) -> bytes:
        return g711.encode(self._down.feed(pcm), self._law)

    def nothing(self) -> bytes | None:
        return None

    def protect(self, loss: float | None) -> None:
        return None
