"""Whose session a request asks for.

A header says it where a proxy is believed. Whoever reaches the server past the proxy could name somebody else, hang up their
calls and spend their share, so from anybody else the header is not looked at. Source: public reports of the same with addresses,
ruhex/BGPLite#256, NeoLabs-Systems/NeoAgent#31.
"""

from __future__ import annotations

from aiohttp import web

from duplex.config import ServerSettings
from duplex.server.access import caller_of
from duplex.server.addresses import speaks_for_others
from duplex.server.answers import ApiError


def tenant_of(request: web.Request, settings: ServerSettings) -> str:
    """Return the tenant that a trusted proxy names in the configured header, else the API key's name.

    Without a header and without keys all sessions are one's.

    Raises:
        ApiError: the header is there, and empty, too long, or no text.
    """
    own = caller_of(request).key_name or "default"
    if settings.tenant_header is None or not speaks_for_others(request.remote, settings.trusted_proxies):
        return own
    tenant = request.headers.get(settings.tenant_header, own)
    most = settings.tenant_chars_max
    if not 0 < len(tenant) <= most or not tenant.isprintable():
        message = f"The header has 1 to {most} printable characters."
        raise ApiError(400, "invalid_tenant", message, settings.tenant_header)
    return tenant
