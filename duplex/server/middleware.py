"""What every request passes: origin rules, keys and limits, security headers, errors as JSON, one log line.

A browser tells where a page comes from. A page of another origin than the server's may use the API only where
`server.cors_origins` says so; this holds for WebSockets too, which browsers open across origins without asking. Clients
that are no browsers send no origin and are not affected. Source: field cases C66, C70, C72.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from duplex.server.access import Access
from duplex.server.answers import ApiError, from_http_exception
from duplex.telemetry import log_failure

Next = Callable[[web.Request], Awaitable[web.StreamResponse]]
SECURITY_HEADERS: Final = {
    "Server": "duplex",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "media-src 'self' blob:; worker-src 'self'; manifest-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "microphone=(self), camera=(self), geolocation=()",
}
_HSTS: Final = {"Strict-Transport-Security": "max-age=31536000"}
_CORS = {
    "Access-Control-Allow-Methods": "GET, POST, PATCH, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": (
        "Authorization, Content-Type, Duplex-Resume, If-Match, X-OpenAI-Agents-SDK, X-Stainless-Arch, X-Stainless-Lang, "
        "X-Stainless-OS, X-Stainless-Package-Version, X-Stainless-Retry-Count, X-Stainless-Runtime, "
        "X-Stainless-Runtime-Version, X-Stainless-Timeout"
    ),
    "Access-Control-Expose-Headers": "Location, Retry-After, ETag, Accept-Patch, Accept-Post",
    "Access-Control-Max-Age": "600",
}
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked every few seconds by machines: logged at debug level."""
_API = ("/v1/", "/api/", "/whip")


def make_middleware(cors_origins: tuple[str, ...], access: Access, *, hsts: bool) -> Middleware:
    """Return the app's one middleware.

    Args:
        cors_origins: pages of other origins that may use the API; `*`: of all.
        access: asked before any handler.
        hsts: tell browsers to come by TLS only; never with a self-signed certificate, for which they then take no exception.
    """
    headers = {**SECURITY_HEADERS, **(_HSTS if hsts else {})}

    @web.middleware
    async def around(request: web.Request, handler: Next) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        began = loop.time()
        allowed = _allowed_origin(request, cors_origins)
        response = await _answer(request, handler, allowed, access)
        if not response.prepared:
            response.headers.update(headers)
            if allowed:
                response.headers.update({**_CORS, "Access-Control-Allow-Origin": allowed, "Vary": "Origin"})
        _log(request, response.status, loop.time() - began)
        return response

    return around


async def _answer(request: web.Request, handler: Next, allowed: str | None, access: Access) -> web.StreamResponse:
    try:
        if allowed is None and request.path.startswith(_API):
            raise ApiError(403, "origin_not_allowed", "Pages of this origin may not use the API: server.cors_origins.")
        if request.method == "OPTIONS":
            if request.match_info.http_exception is None:  # the route says what it takes, to anybody
                return await handler(request)
            if allowed:
                return web.Response(status=204)
        access.enter(request)
        return await handler(request)
    except ApiError as error:
        return error.response()
    except web.HTTPException as error:
        return from_http_exception(error)
    except Exception as error:  # noqa: BLE001 - a request's root: it ends here, with a log line
        log_failure("request_failed", error, route=_route(request))
        return ApiError(500, "internal_error", "The server failed; its log says where.").response()


def _allowed_origin(request: web.Request, cors_origins: tuple[str, ...]) -> str | None:
    """Return the origin to allow, "" where no rule is needed (no browser, or our own page), None to refuse."""
    origin = request.headers.get("Origin")
    if origin is None or _host_of(origin) == request.host:
        return ""
    if "*" in cors_origins:
        return "*"
    return origin if origin in cors_origins else None


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # no browser sends it: brackets around what is no address
        return None


def _route(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "unmatched"


def _log(request: web.Request, status: int, seconds: float) -> None:
    """Log the route's pattern: paths and queries are the client's words and may hold keys."""
    log = structlog.get_logger()
    route = _route(request)
    write = log.debug if route in _QUIET else log.info
    write("request", method=request.method, route=route, status=status, seconds=round(seconds, 4))
