"""Pixels of what a reader is shown: a camera's frame as it is, an image that a client sent by decoding it.

Whatever the bytes are, this gives pixels or `ImageError`. It takes up to half a second, so it is called on a stage's thread and
never on the loop's. Memory is bounded by the head that was checked as the image came in: one that decodes to another size is
refused before its pixels are, and Pillow's own guards against decompression bombs stay on. Field cases C40, C73.
"""

from __future__ import annotations

from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from duplex.payloads import EncodedImage, Picture


class ImageError(Exception):
    """The bytes are no image of the kind and size that their head claims."""


def pixels_of(picture: Picture, edge_px_max: int) -> NDArray[np.uint8]:
    """Return what is to be read: shape (height, width, 3), RGB.

    Args:
        picture: a camera's frame comes back in its own size.
        edge_px_max: greatest longer edge of an image that is decoded.
    Raises:
        ImageError: the image is broken.
    """
    if picture.image is not None:
        return decoded(picture.image, edge_px_max)
    rgb: NDArray[np.uint8] = picture.rgb
    return rgb


def decoded(image: EncodedImage, edge_px_max: int) -> NDArray[np.uint8]:
    """Return an image's pixels, (height, width, 3), turned as its EXIF says, what is transparent on white; the first of several.

    Raises:
        ImageError: it is broken. MemoryError: there is none for it.
    """
    try:
        return _decoded(image, edge_px_max)
    except (ImageError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 (on broken bytes decoders raise a dozen kinds; all mean the same)
        raise ImageError(f"the {image.format} image is broken: {type(error).__name__}") from error


def _decoded(image: EncodedImage, edge_px_max: int) -> NDArray[np.uint8]:
    with Image.open(BytesIO(image.data), formats=(image.format.upper(),)) as opened:
        if opened.size != (image.width, image.height):
            raise ImageError(f"the {image.format} image has another size than its head says")
        opened.draft(
            None, (edge_px_max, edge_px_max)
        )  # JPEG: decoded at a half, a quarter or an eighth, if that is enough
        opened.load()
        turned = ImageOps.exif_transpose(opened)
        flat = _flat(turned)
        flat.thumbnail((edge_px_max, edge_px_max))
        return np.array(flat, dtype=np.uint8)


def _flat(image: Image.Image) -> Image.Image:
    """Return a picture in RGB, eight bits each, on white."""
    if image.mode.startswith("I"):  # 16 bits of grey, which Pillow would cut off at 255
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if not image.has_transparency_data:
        return image.convert("RGB")
    rgba = image.convert("RGBA")
    page = Image.new("RGB", rgba.size, "white")
    page.paste(rgba, mask=rgba.getchannel("A"))
    return page
