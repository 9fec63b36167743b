"""libopus, bound once: the encoder of what we say and the decoder of what we hear.

PyAV ships its own libopus, newer and faster than most systems'. opuslib looks its library up with
`ctypes.util.find_library` while it is imported; this module answers that look-up with PyAV's file, so that a machine
without a system libopus works. opuslib's low-level functions reach what PyAV's codecs do not: forward error correction
(FEC), packet loss concealment (PLC), complexity.

What we say is 48 kHz mono in frames of 20 ms; what we hear is decoded straight to 16 kHz mono (libopus resamples and
mixes stereo down itself).

Source: RFC 6716; RFC 7587; libopus 1.6 `opus.h`.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import weakref
from pathlib import Path
from typing import Any

import av
import numpy as np

from duplex.payloads import Int16Array

HEAR_RATE = 16_000
_SAY_RATE = 48_000
_FRAME = 960
_PACKET_BYTES_MAX = 1275
_DURATION_MAX = _SAY_RATE * 120 // 1000
_PER_HEARD = _SAY_RATE // HEAR_RATE
_FINEST = _SAY_RATE // 400
"""Samples at 48 kHz of 2.5 ms, the unit of every Opus duration."""


class OpusError(Exception):
    """A packet cannot be decoded, or libopus refuses a setting."""


def _bundled() -> str | None:
    """Return the path of PyAV's own libopus: beside the package (Linux, Windows) or inside it (macOS)."""
    package = Path(av.__file__).parent
    for folder in (package.parent / "av.libs", package / ".dylibs"):
        for file in sorted(folder.glob("*opus*")):
            return str(file)
    return None


def _bind() -> tuple[Any, Any, Any]:
    """Import opuslib on PyAV's libopus, or on the system's where PyAV brings none."""
    system = ctypes.util.find_library
    ctypes.util.find_library = lambda name: (_bundled() if name == "opus" else None) or system(name)
    try:
        names = ("opuslib.api.encoder", "opuslib.api.decoder", "opuslib.api.ctl")
        encoder, decoder, ctl = (importlib.import_module(name) for name in names)
    finally:
        ctypes.util.find_library = system
    # The controls are variadic in C: naming the fixed arguments makes ctypes pass the others as the platform's
    # convention for variadic calls wants it (on arm64 macOS it differs from an ordinary call).
    encoder.libopus_ctl.argtypes = (encoder.EncoderPointer, ctypes.c_int)
    decoder.libopus_ctl.argtypes = (decoder.DecoderPointer, ctypes.c_int)
    return encoder, decoder, ctl


_encoder, _decoder, _ctl = _bind()
_SIGNAL_AUTO = -1000
_SIGNAL_VOICE = 3001
_APPLICATION_AUDIO = 2049


def version() -> str:
    """Return libopus's own name and version, e.g. `libopus 1.6.1`."""
    get = _decoder.opuslib.api.libopus.opus_get_version_string
    get.restype = ctypes.c_char_p
    return str(get().decode())


def duration(packet: bytes) -> int:
    """Return the samples at 48 kHz that `packet` carries.

    Raises:
        OpusError: the packet is empty, malformed or longer than 120 ms.
    Source: RFC 6716 §3.1.
    """
    if not packet:
        raise OpusError("empty packet")
    toc = packet[0]
    code = toc & 3
    if code == 3 and len(packet) < 2:
        raise OpusError("no frame count")
    frames = (1, 2, 2, packet[1] & 0x3F if code == 3 else 0)[code]
    config = toc >> 3
    if config < 12:  # SILK
        frame = (480, 960, 1920, 2880)[config & 3]
    elif config < 16:  # hybrid
        frame = (480, 960)[config & 1]
    else:  # CELT
        frame = (120, 240, 480, 960)[config & 3]
    total = frames * frame
    if not 0 < total <= _DURATION_MAX:
        raise OpusError(f"packet of {total} samples")
    return total


class Encoder:
    """What we say: 48 kHz mono, 20 ms a packet.

    CELT by default (a third of SILK's cost); `protect` changes the same encoder to SILK with in-band FEC, so that the
    switch in either direction is a smooth one for the decoder.

    Args:
        bitrate: bits per second.
        complexity: 0 (cheapest) to 10.
    """

    def __init__(self, *, bitrate: int, complexity: int) -> None:
        self._state = _encoder.create_state(_SAY_RATE, 1, _APPLICATION_AUDIO)
        weakref.finalize(self, _encoder.destroy, self._state)
        self._pcm = (ctypes.c_int16 * _FRAME)()
        self._view: Int16Array = np.ctypeslib.as_array(self._pcm)
        self._packet = ctypes.create_string_buffer(_PACKET_BYTES_MAX)
        self._protected = False
        self._control(_ctl.set_bitrate, bitrate)
        self._control(_ctl.set_complexity, complexity)

    @property
    def protected(self) -> bool:
        """Whether packets carry FEC."""
        return self._protected

    def protect(self, loss: float | None) -> None:
        """Carry in-band FEC from the next packet on, dimensioned for `loss` (0..1); None goes back to CELT."""
        self._protected = loss is not None
        # Under 10 % libopus keeps the bits for full-band sound and leaves the FEC out at our bit rates.
        percent = 0 if loss is None else min(max(round(100 * loss), 10), 30)
        self._control(_ctl.set_signal, _SIGNAL_AUTO if loss is None else _SIGNAL_VOICE)
        self._control(_ctl.set_inband_fec, int(self._protected))
        self._control(_ctl.set_packet_loss_perc, percent)

    def encode(self, pcm: Int16Array) -> bytes:
        """Encode 20 ms: `pcm` of shape (960,), mono, 48 kHz; not kept.

        Raises:
            OpusError: libopus refuses, which valid audio never makes it do.
        """
        self._view[:] = pcm
        n = _encoder.libopus_encode(self._state, self._pcm, _FRAME, self._packet, _PACKET_BYTES_MAX)
        if n < 0:
            raise OpusError(f"encoder error {n}")
        return ctypes.string_at(self._packet, n)

    def _control(self, request: Any, value: int) -> None:
        _encoder.encoder_ctl(self._state, request, value)


class Decoder:
    """What we hear: any Opus packet of 2.5 to 120 ms, mono or stereo, to 16 kHz mono.

    A stereo packet is mixed down, (left + right) / 2. Results are copies; the C buffer is used again.
    """

    def __init__(self) -> None:
        self._state = _decoder.create_state(HEAR_RATE, 1)
        weakref.finalize(self, _decoder.destroy, self._state)
        self._pcm = (ctypes.c_int16 * (_DURATION_MAX // _PER_HEARD))()
        self._view: Int16Array = np.ctypeslib.as_array(self._pcm)

    def decode(self, packet: bytes) -> Int16Array:
        """Decode a packet to shape (n,), 16 kHz.

        Raises:
            OpusError: empty or corrupt. The decoder stays usable.
        """
        if not packet:  # libopus would take an empty packet for a lost one
            raise OpusError("empty packet")
        return self._run(packet, len(packet), len(self._view), 0)

    def recover(self, following: bytes, samples: int) -> Int16Array:
        """Decode the `samples` (48 kHz) just before `following`, from its FEC, or conceal where it carries none.

        Raises:
            OpusError: as `decode`.
        """
        return self._run(following, len(following), _heard(samples), 1)

    def conceal(self, samples: int) -> Int16Array:
        """Continue the sound for `samples` (48 kHz, a multiple of 2.5 ms, at most 120 ms), fading as losses go on."""
        return self._run(None, 0, _heard(samples), 0)

    def _run(self, packet: bytes | None, size: int, room: int, fec: int) -> Int16Array:
        n = _decoder.libopus_decode(self._state, packet, size, self._pcm, room, fec)
        if n < 0:
            raise OpusError(f"decoder error {n}")
        return self._view[:n].copy()


def _heard(samples: int) -> int:
    if samples % _FINEST or not 0 < samples <= _DURATION_MAX:
        raise OpusError(f"cannot conceal {samples} samples")
    return samples // _PER_HEARD
