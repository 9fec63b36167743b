"""Request bodies, read under a bound of bytes and of time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from duplex.protocol import RemoteProtocolError
from duplex.protocol.strict_json import JsonBounds, read_object
from duplex.protocol.wire_session import wire_error
from duplex.server.answers import ApiError

_Model = TypeVar("_Model", bound=BaseModel)


class Chunks(Protocol):
    """Reads on, up to `size` bytes; nothing at the end."""

    async def __call__(self, size: int, /) -> bytes: ...


@asynccontextmanager
async def in_time(timeout_s: float) -> AsyncIterator[None]:
    """Bound what a client may take for its body.

    Raises:
        ApiError: 408, it took longer.
    """
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError:
        raise ApiError(408, "request_timeout", "The body did not arrive in time.") from None


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


def object_of(raw: bytes, model: type[_Model], bounds: JsonBounds) -> _Model:
    """Return a body of JSON as a model's object.

    Raises:
        ApiError: 400, it is none, with the field that is wrong.
    """
    try:
        body = read_object(text_of(raw, "body"), bounds)
    except RemoteProtocolError as error:
        message = error.message.replace("The event", "The body").replace("An event", "A body")
        raise ApiError(400, error.code, message) from None
    try:
        return model.model_validate(body)
    except ValidationError as error:
        wrong = wire_error(error, body)
        raise ApiError(400, wrong.code, wrong.message, wrong.param) from None
