"""Kind and size of an image, read off its first bytes: before any decoder has seen it.

Decoders allocate by what a head says (libwebp the whole canvas, as it opens a file), so a bound on pixels has to be kept
here. Reading costs microseconds whatever the bytes are. Source: PNG (W3C) §11.2.1; ITU-T T.81 §B.1.1, B.2.2; RFC 9649 §2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from duplex.payloads import ImageFormat

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers SOF0…SOF15; the three between them define tables."""
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD8)})
"""Markers without a length."""
_JPEG_SEGMENTS_MAX = 1000
"""Before the frame's; cameras write some ten, a colour profile in pieces at most 255."""
_WEBP_14_BITS = 0x3FFF


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageHead:
    """What the first bytes say; the rest may say otherwise, which is for the decoder to find."""

    format: ImageFormat
    width: int
    """Pixels, ≥ 1, before the picture is turned as its EXIF says."""
    height: int


def read_head(raw: bytes) -> ImageHead | None:
    """Return what an image is; None: not PNG, JPEG or WebP, or no size can be found.

    Args:
        raw: any bytes.
    """
    try:
        if raw.startswith(_PNG):
            return _head("png", *_png_size(raw))
        if raw.startswith(b"\xff\xd8"):
            return _head("jpeg", *_jpeg_size(raw))
        if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
            return _head("webp", *_webp_size(raw))
    except (struct.error, IndexError):  # it ends within its head
        return None
    return None


def _head(kind: ImageFormat, width: int, height: int) -> ImageHead | None:
    return ImageHead(format=kind, width=width, height=height) if width > 0 and height > 0 else None


def _png_size(raw: bytes) -> tuple[int, int]:
    if raw[12:16] != b"IHDR":
        return 0, 0
    width, height = struct.unpack_from(">II", raw, 16)
    return width, height


def _jpeg_size(raw: bytes) -> tuple[int, int]:
    """Walk the segments to the first frame header; (0, 0) where there is none."""
    at = 2
    for _ in range(_JPEG_SEGMENTS_MAX):
        if raw[at] != 0xFF:
            return 0, 0
        marker = raw[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
        elif marker in _JPEG_BARE:
            at += 2
        elif marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", raw, at + 5)
            return width, height
        else:
            (length,) = struct.unpack_from(">H", raw, at + 2)
            at += 2 + length
    return 0, 0


def _webp_size(raw: bytes) -> tuple[int, int]:
    match raw[12:16]:
        case b"VP8 ":  # lossy: behind the frame tag and the start code
            if raw[23:26] != b"\x9d\x01\x2a":
                return 0, 0
            width, height = struct.unpack_from("<HH", raw, 26)
            return width & _WEBP_14_BITS, height & _WEBP_14_BITS
        case b"VP8L":  # lossless
            if raw[20] != 0x2F:
                return 0, 0
            (bits,) = struct.unpack_from("<I", raw, 21)
            return (bits & _WEBP_14_BITS) + 1, (bits >> 14 & _WEBP_14_BITS) + 1
        case b"VP8X":  # extended: the canvas
            if len(raw) < 30:
                return 0, 0
            return int.from_bytes(raw[24:27], "little") + 1, int.from_bytes(raw[27:30], "little") + 1
        case _:
            return 0, 0
