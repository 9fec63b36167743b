"""Request bodies, read under a bound."""

from __future__ import annotations

from typing import Protocol

from aiohttp import web

from duplex.server.answers import ApiError


class Chunks(Protocol):
    """Reads on, up to `size` bytes; nothing at the end."""

    async def __call__(self, size: int, /) -> bytes: ...


async def read_body(request: web.Request, limit: int, name: str = "body") -> bytes:
    """Return the whole body.

    Raises:
        ApiError: 413, it is larger than `limit` bytes; `name` is what it is called.
    """

    async def read(size: int, /) -> bytes:
        return await request.content.read(size)

    return await bounded(read, limit, name)


async def bounded(read: Chunks, limit: int, name: str) -> bytes:
    """Read to the end; more than `limit` bytes are never held, but for the last chunk.

    Raises:
        ApiError: as `read_body`.
    """
    held = bytearray()
    while chunk := await read(64 * 1024):
        held += chunk
        if len(held) > limit:
            raise ApiError(413, "too_large", f"'{name}' is larger than {limit} bytes.", name)
    return bytes(held)


def text_of(raw: bytes, name: str) -> str:
    """Return bytes as text.

    Raises:
        ApiError: 400, they are not UTF-8.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ApiError(400, "invalid_utf8", f"'{name}' is not UTF-8.", name) from None
