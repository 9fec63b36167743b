"""Whose session a request asks for."""

from __future__ import annotations

from aiohttp import web

from duplex.config import ServerSettings
from duplex.server.access import caller_of
from duplex.server.answers import ApiError


def tenant_of(request: web.Request, settings: ServerSettings) -> str:
    """Return the tenant that a trusted proxy names in the configured header, else the API key's name.

    Without a header and without keys all sessions are one's.

    Raises:
        ApiError: the header is there, and empty or too long.
    """
    own = caller_of(request).key_name or "default"
    if settings.tenant_header is None:
        return own
    tenant = request.headers.get(settings.tenant_header, own)
    most = settings.tenant_chars_max
    if not 0 < len(tenant) <= most:
        raise ApiError(400, "invalid_tenant", f"The header has 1 to {most} characters.", settings.tenant_header)
    return tenant
