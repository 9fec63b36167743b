"""A client's connection, as aiohttp keeps it, with bounds of our own.

- A connection is idle, and is closed when it is so for too long, until a request's head is complete: saying nothing or
  dripping a head byte by byte holds no socket.
- So is one whose TLS handshake takes as long.
- A body is taken as it comes: none is inflated, so none is larger than it was on the wire.
- What cannot be read as HTTP is answered without being quoted: it may hold a key, and it is logged at debug level, for anybody
  can send it without end.

Source: field cases C66, C70, C73.
"""

from __future__ import annotations

import asyncio

import structlog
from aiohttp import web

from duplex.config import ServerSettings
from duplex.server.answers import ApiError
from duplex.server.middleware import SECURITY_HEADERS
from duplex.server.tls import Tls
from duplex.telemetry import log_failure

"""Connections that may wait to be accepted."""


class Connection(web.RequestHandler):
    """One connection; answers what never became a request, or failed outside every route."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer; the connection ends with it.

        Raises:
            ConnectionError: an answer has begun already.
        """
        if status < 500:
            structlog.get_logger().debug("request_unreadable", status=status, error=type(exc).__name__)
            error = ApiError(status, "bad_request", "The request is not valid HTTP, or its head is too long.")
        else:
            log_failure("connection_failed", exc or TimeoutError())
            error = ApiError(status, "internal_error", "The server failed; its log says where.")
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun")
        response = error.response()
        response.headers.update(SECURITY_HEADERS)
        response.force_close()
        return response


async def listen(runner: web.AppRunner, settings: ServerSettings, tls: Tls | None) -> asyncio.Server:
    """Accept connections.

    Args:
        runner: set up.
        tls: the certificate; None: plain HTTP.
    Raises:
        OSError: the address cannot be bound.
    """
    loop, server = asyncio.get_running_loop(), runner.server
    assert server is not None, "the runner is set up"

    def connection() -> Connection:
        return Connection(
            server,
            loop=loop,
            keepalive_timeout=settings.head_timeout_s,
            access_log=None,  # type: ignore[arg-type] # aiohttp takes it for no log, and does not say so in its types
            auto_decompress=False,
        )

    if tls is None:
        return await loop.create_server(connection, settings.host, settings.port, backlog=settings.listen_backlog)
    return await loop.create_server(
        connection,
        settings.host,
        settings.port,
        backlog=settings.listen_backlog,
        ssl=tls.context,
        ssl_handshake_timeout=settings.head_timeout_s,
    )
