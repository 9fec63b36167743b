"""RTP headers: parsed from hostile bytes, built for one outgoing stream.

Source: RFC 3550 §5.1; RFC 8285 (header extensions); RFC 6464 (audio level); RFC 9143 §15 (mid).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from duplex.payloads import Int16Array

_FIXED = struct.Struct("!BBHII")
_WORD = struct.Struct("!HH")
_ONE_BYTE = 0xBEDE
_TWO_BYTE = 0x1000
LEVEL_SILENT = 127
"""RFC 6464 level (−dBov) of digital silence."""


class RtpError(Exception):
    """Not an RTP packet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RtpPacket:
    """One packet as received; header values are as they stand on the wire."""

    payload_type: int
    rtp_seq: int
    rtp_ts: int
    ssrc: int
    marker: bool
    payload: bytes
    """Without padding; may be empty."""
    level: int | None = None
    """Audio level in −dBov, 0 (loudest) to 127 (silence); None where the sender does not say."""


def is_rtcp(data: bytes) -> bool:
    """Tell RTCP from RTP on one port (RFC 5761 §4)."""
    return len(data) >= 2 and 192 <= data[1] <= 223


def parse(data: bytes, *, level_id: int | None = None) -> RtpPacket:
    """Parse an unprotected RTP packet.

    Args:
        data: any bytes.
        level_id: header extension id negotiated for the audio level; None reads none.
    Raises:
        RtpError: version, lengths or padding are wrong.
    """
    if len(data) < 12:
        raise RtpError("shorter than a header")
    first, second, seq, ts, ssrc = _FIXED.unpack_from(data)
    if first >> 6 != 2:
        raise RtpError("version is not 2")
    start = 12 + 4 * (first & 0x0F)
    end = len(data)
    if first & 0x20:
        padding = data[-1]
        if not 0 < padding <= end - 12:
            raise RtpError("padding is longer than the packet")
        end -= padding
    level = None
    if first & 0x10:
        if start + 4 > end:
            raise RtpError("header extension is cut short")
        profile, words = _WORD.unpack_from(data, start)
        begin, start = start + 4, start + 4 + 4 * words
        if start <= end and level_id is not None:
            level = _level(data, begin, start, profile, level_id)
    if start > end:
        raise RtpError("header is longer than the packet")
    return RtpPacket(
        payload_type=second & 0x7F,
        rtp_seq=seq,
        rtp_ts=ts,
        ssrc=ssrc,
        marker=second >= 0x80,
        payload=data[start:end],
        level=level,
    )


def _level(data: bytes, at: int, end: int, profile: int, level_id: int) -> int | None:
    """Find the audio level among the header extensions; malformed ones end the search."""
    one_byte = profile == _ONE_BYTE
    if not one_byte and profile & 0xFFF0 != _TWO_BYTE:
        return None
    while at < end:
        if data[at] == 0:  # padding between extensions
            at += 1
            continue
        if one_byte:
            number, size, at = data[at] >> 4, (data[at] & 0x0F) + 1, at + 1
            if number == 15:  # RFC 8285 §4.2: stop here
                return None
        else:
            if at + 2 > end:
                return None
            number, size, at = data[at], data[at + 1], at + 2
        if at + size > end:
            return None
        if number == level_id and size >= 1:
            return data[at] & 0x7F
        at += size
    return None


def level_of(pcm: Int16Array) -> int:
    """Return the RFC 6464 level of `pcm` (any shape (n,), n ≥ 1) in −dBov, 0 to 127."""
    x = pcm.astype(np.float32)
    power = float(np.dot(x, x)) / (len(x) * 32768.0**2)
    return LEVEL_SILENT if power <= 1e-12 else min(max(round(-10 * np.log10(power)), 0), LEVEL_SILENT)


class RtpWriter:
    """Headers of one outgoing stream: constant parts are packed once.

    Args:
        ssrc, payload_type: of the stream.
        rtp_seq: first sequence number.
        mid, mid_id: media section and the extension id negotiated to name it; both or neither.
        level_id: extension id negotiated for the audio level.
    """

    def __init__(
        self,
        *,
        ssrc: int,
        payload_type: int,
        rtp_seq: int,
        mid: str = "",
        mid_id: int | None = None,
        level_id: int | None = None,
    ) -> None:
        self._ssrc = ssrc
        self._payload_type = payload_type
        self._seq_ext = rtp_seq
        self._extensions = bytearray()
        self._level_at: int | None = None
        if level_id is not None:
            self._extensions += bytes([level_id << 4, 0])
            self._level_at = 1
        if mid_id is not None:
            name = mid.encode()
            self._extensions += bytes([mid_id << 4 | (len(name) - 1)]) + name
        if self._extensions:
            self._extensions += bytes(-len(self._extensions) % 4)
            self._extensions[:0] = _WORD.pack(_ONE_BYTE, len(self._extensions) // 4)
            if self._level_at is not None:
                self._level_at += 4

    @property
    def next_seq_ext(self) -> int:
        """Sequence number of the next packet, extended."""
        return self._seq_ext

    def write(self, payload: bytes, *, rtp_ts: int, marker: bool, level: int = LEVEL_SILENT) -> bytes:
        """Return the next packet of the stream, not yet protected.

        Args:
            rtp_ts: in ticks of the payload's clock, taken modulo 2**32.
            level: of the payload in −dBov; below 127 it is marked as voice.
        """
        first = 0x90 if self._extensions else 0x80
        second = self._payload_type | (0x80 if marker else 0)
        header = _FIXED.pack(first, second, self._seq_ext & 0xFFFF, rtp_ts & 0xFFFFFFFF, self._ssrc)
        self._seq_ext += 1
        if self._level_at is not None:
            self._extensions[self._level_at] = level if level == LEVEL_SILENT else level | 0x80
        return header + self._extensions + payload
