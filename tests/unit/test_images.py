"""Images of clients: their heads before any decoder, their pixels by Pillow, and whatever else they turn out to be."""

from __future__ import annotations

import base64
import io
import random
import struct
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from duplex.config import load
from duplex.media.images import ImageError, decoded, pixels_of
from duplex.payloads import EncodedImage, Picture
from duplex.protocol.errors import RemoteProtocolError
from duplex.protocol.image_head import ImageHead, read_head
from duplex.protocol.images import ImageBounds, bounds_of, read_image
from duplex.units import MonoNs

pytestmark = pytest.mark.unit

BOUNDS = ImageBounds(bytes_max=100_000, px_max=1_000_000, per_item_max=4)
ORIENTATION = 0x0112


def picture(width: int = 40, height: int = 30, mode: str = "RGB") -> Image.Image:
    """Return a picture that is red on its left half and blue on its right."""
    image = Image.new("RGB", (width, height), (200, 0, 0))
    image.paste((0, 0, 200), (width // 2, 0, width, height))
    return image.convert(mode)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def url_of(raw: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(raw).decode()}"


def taken(raw: bytes) -> EncodedImage:
    return read_image(url_of(raw), "p", BOUNDS)


def lying(raw: bytes, **changes: Any) -> EncodedImage:
    """Return what is not let in: bytes with a head of our own."""
    image = EncodedImage(format="png", width=40, height=30, size_bytes=len(raw), data=raw)
    return replace(image, **changes)


KINDS = {
    "png": encoded(picture(), "PNG"),
    "png, interlaced palette": encoded(picture(mode="P"), "PNG"),
    "jpeg": encoded(picture(), "JPEG"),
    "jpeg, progressive": encoded(picture(), "JPEG", progressive=True, comment=b"x" * 50_000),
    "jpeg, cmyk": encoded(picture(mode="CMYK"), "JPEG"),
    "webp, lossy": encoded(picture(), "WEBP"),
    "webp, lossless": encoded(picture(), "WEBP", lossless=True),
    "webp, extended": encoded(picture(mode="RGBA"), "WEBP", icc_profile=b"x" * 99),
    "webp, animated": encoded(picture(), "WEBP", save_all=True, append_images=[picture(mode="L")]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_known_by_its_head_and_decoded(kind: str) -> None:
    raw = KINDS[kind]
    image = taken(raw)
    assert (image.format, image.width, image.height, image.size_bytes) == (kind.split(",")[0], 40, 30, len(raw))
    rgb = decoded(image, 640)
    assert rgb.shape == (30, 40, 3) and rgb.dtype == np.uint8
    left, right = rgb[:, :15].mean(axis=(0, 1)), rgb[:, 25:].mean(axis=(0, 1))
    assert left[0] - left[2] > 100 and right[2] - right[0] > 100


def test_a_cameras_frame_is_what_it_is() -> None:
    frame = np.zeros((1080, 1920, 3), np.uint8)
    assert pixels_of(Picture(rgb=frame, at=MonoNs(0)), 640) is frame
    assert pixels_of(Picture(image=taken(KINDS["png"]), at=MonoNs(0)), 640).shape == (30, 40, 3)


def test_a_large_image_is_scaled_down_and_a_small_one_left() -> None:
    for kind in ("PNG", "JPEG", "WEBP"):
        assert decoded(taken(encoded(picture(900, 600), kind)), 300).shape == (200, 300, 3)
        assert decoded(taken(encoded(picture(90, 60), kind)), 300).shape == (60, 90, 3)


@pytest.mark.parametrize(("orientation", "shape", "red"), [(1, (30, 40, 3), (0, 0)), (6, (40, 30, 3), (0, 0)), (8, (40, 30, 3), (-1, 0))])  # fmt: skip
def test_a_picture_is_turned_as_its_exif_says(orientation: int, shape: tuple[int, ...], red: tuple[int, int]) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    for kind in ("JPEG", "PNG", "WEBP"):
        rgb = decoded(taken(encoded(picture(), kind, exif=exif)), 640)
        assert rgb.shape == shape
        assert rgb[red][0] > 150 and rgb[red][2] < 60


def test_what_is_transparent_is_white() -> None:
    clear = Image.new("RGBA", (20, 10), (0, 0, 0, 0))
    palette = Image.new("P", (20, 10), 0)
    for raw in (encoded(clear, "PNG"), encoded(clear, "WEBP"), encoded(palette, "PNG", transparency=0)):
        assert (decoded(taken(raw), 640) == 255).all()


def test_sixteen_bits_of_grey_are_shown_in_eight() -> None:
    grey = Image.fromarray(np.full((4, 4), 40_000, np.uint16))
    assert abs(int(decoded(taken(encoded(grey, "PNG")), 640)[0, 0, 0]) - 156) <= 1


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://127.0.0.1/x.png", "unsupported"),
        ("https://example.com/x.png", "unsupported"),
        ("file:///etc/passwd", "unsupported"),
        ("", "unsupported"),
        ("data:image/gif;base64,R0lGODlh", "unsupported"),
        ("data:image/svg+xml;base64,PHN2Zz4=", "unsupported"),
        ("data:text/html;base64,PHN2Zz4=", "unsupported"),
        ("data:image/png,abc", "unsupported"),
        ("data:image/png;base64,", "invalid_image"),
        ("data:image/png;base64,====", "invalid_image"),
        ("data:image/png;base64,ab cd", "invalid_image"),
        ("data:image/png;base64,\u00e4\u00f6", "invalid_image"),
        (url_of(b"GIF89a" + bytes(100)), "invalid_image"),
        (url_of(b"<svg/>"), "invalid_image"),
        (url_of(KINDS["png"][:20]), "invalid_image"),
        (url_of(bytes(100_001)), "image_too_large"),
        (url_of(encoded(picture(1001, 1000), "JPEG", quality=1)), "image_too_large"),
    ],
)
def test_what_is_refused_says_why_and_where(url: str, code: str) -> None:
    with pytest.raises(RemoteProtocolError) as refusal:
        read_image(url, "item.content.3.image_url", BOUNDS)
    assert (refusal.value.code, refusal.value.param) == (code, "item.content.3.image_url")
    assert url[-20:] not in refusal.value.message or not url


def test_the_content_decides_and_not_the_label() -> None:
    assert read_image(url_of(KINDS["jpeg"], "PNG"), "p", BOUNDS).format == "jpeg"


def png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """Return a PNG of the given size, whose chunks may say anything."""
    head = (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    out = b"\x89PNG\r\n\x1a\n"
    for name, body in (head, *chunks, (b"IEND", b"")):
        out += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return out


VP8X_HUGE = b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\x10\0\0\0" + b"\xff\x3f\0" * 2


@pytest.mark.parametrize("bomb", [png(30_000, 30_000, (b"IDAT", zlib.compress(bytes(1_000_000)))), VP8X_HUGE])
def test_a_bomb_is_refused_by_its_head(bomb: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as refusal:
        taken(bomb)
    assert refusal.value.code == "image_too_large"


@pytest.mark.parametrize(
    "image",
    [
        lying(encoded(picture(400, 300), "PNG")),
        lying(KINDS["jpeg"]),
        lying(png(40, 30, (b"zTXt", b"k\0\0" + zlib.compress(bytes(20_000_000))), (b"IDAT", zlib.compress(bytes(10))))),
        lying(png(40, 30, (b"iCCP", b"k\0\0" + zlib.compress(bytes(20_000_000))), (b"IDAT", b""))),
        lying(png(40, 30)),
        lying(KINDS["png"][:-30]),
        lying(KINDS["jpeg"][:200], format="jpeg"),
        lying(KINDS["webp, lossy"][:60], format="webp"),
        lying(b""),
    ],
)
def test_what_is_broken_behind_its_head_is_an_image_error(image: EncodedImage) -> None:
    with pytest.raises(ImageError):
        decoded(image, 640)


def test_a_jpeg_of_nothing_but_segments_is_not_walked_for_long() -> None:
    assert read_head(b"\xff\xd8" + b"\xff\xe0\0\x02" * 100_000) is None
    assert read_head(b"\xff\xd8" + b"\xff" * 100_000) is None


@settings(deadline=None)
@given(st.binary(max_size=64), st.sampled_from([b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WEBPVP8 "]))
def test_a_head_is_read_or_not_and_nothing_is_raised(tail: bytes, start: bytes) -> None:
    head = read_head(start + tail)
    assert head is None or (isinstance(head, ImageHead) and head.width > 0 and head.height > 0)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_damaged_bytes_give_pixels_or_an_image_error(kind: str, seed: int) -> None:
    chance, raw = random.Random(seed), bytearray(KINDS[kind])
    for _ in range(chance.randint(1, 8)):
        raw[chance.randrange(len(raw))] = chance.randrange(256)
    image = lying(bytes(raw[: chance.randint(1, len(raw))]), format=kind.split(",")[0])
    try:
        rgb = decoded(image, 64)
    except ImageError:
        return
    assert rgb.shape[2] == 3 and max(rgb.shape) <= 64


def test_bounds_come_from_the_configuration() -> None:
    kept = load(conversation={"images_max": 2, "image_bytes_max": 1000, "image_px_max": 500}).conversation
    assert bounds_of(kept, reads=True) == ImageBounds(bytes_max=1000, px_max=500, per_item_max=2)
    assert bounds_of(kept, reads=False) is None
    assert bounds_of(load(conversation={"images_max": 0}).conversation, reads=True) is None
