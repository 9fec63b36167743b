"""`input_image` parts: from a data URL to an image that is known by kind and size, and not decoded yet.

Images come inside the event only. Nothing is fetched from anywhere, so no address of a client is ever asked (field case C68).
Pixels are decoded by the stage that looks at them, on its thread: `duplex.media.images`.
"""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass

from duplex.config import ConversationSettings
from duplex.payloads import EncodedImage
from duplex.protocol import errors
from duplex.protocol.errors import RemoteProtocolError
from duplex.protocol.image_head import read_head

_PREFIX = re.compile(r"data:image/(?:png|jpeg|jpg|webp);base64,", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBounds:
    """What a server takes of images."""

    bytes_max: int
    """Of one image, decoded from base64."""
    px_max: int
    """Width times height of one image."""
    per_item_max: int
    """In one item, ≥ 1."""


def bounds_of(settings: ConversationSettings, *, reads: bool) -> ImageBounds | None:
    """Return what is taken of images; None: none is.

    Args:
        reads: the model pack can read them.
    """
    if not reads or not settings.images_max:
        return None
    return ImageBounds(
        bytes_max=settings.image_bytes_max, px_max=settings.image_px_max, per_item_max=settings.images_max
    )


def read_image(url: str, param: str, bounds: ImageBounds) -> EncodedImage:
    """Return the image of a data URL.

    Args:
        url: as the client sent it; the transport bounds its length.
        param: where it stands, for the error.
        bounds: the server's.
    Raises:
        RemoteProtocolError: an address, another kind, not base64, not an image, or too large.
    """
    prefix = _PREFIX.match(url)
    if prefix is None:
        if url[:5].lower() == "data:":
            message = "An image is of type image/png, image/jpeg or image/webp, in base64."
        else:
            message = "An image comes as a data URL; this server fetches nothing from an address."
        raise RemoteProtocolError(errors.UNSUPPORTED, message, param)
    if len(url) - prefix.end() > (bounds.bytes_max + 2) // 3 * 4:
        raise _too_large(f"{bounds.bytes_max} bytes", param)
    try:
        raw = binascii.a2b_base64(url[prefix.end() :], strict_mode=True)
    except ValueError:  # binascii.Error, and text outside ASCII
        raise RemoteProtocolError(errors.INVALID_IMAGE, "The image is not valid base64.", param) from None
    if len(raw) > bounds.bytes_max:
        raise _too_large(f"{bounds.bytes_max} bytes", param)
    head = read_head(raw)
    if head is None:
        raise RemoteProtocolError(errors.INVALID_IMAGE, "The image is not a PNG, JPEG or WebP.", param)
    if head.width * head.height > bounds.px_max:
        raise _too_large(f"{bounds.px_max} pixels", param)
    return EncodedImage(
        format=head.format,
        width=head.width,
        height=head.height,
        size_bytes=len(raw),
        data=raw,
    )


def _too_large(bound: str, param: str) -> RemoteProtocolError:
    return RemoteProtocolError(errors.IMAGE_TOO_LARGE, f"An image has at most {bound}.", param)
