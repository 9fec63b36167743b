"""What a request says of resuming: the token that it brings, and whose it has to be.

The token comes in the header `Duplex-Resume`, or, from a browser's WebSocket, which cannot set headers, as the subprotocol
`duplex-resume.…`. One in an address is never looked at. The id of the last event that the client saw is no secret: it stands
in the address, as `last_event_id`. Source: field case C70.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from duplex.actor.detached import Owner
from duplex.config import ServerSettings
from duplex.server.access import caller_of
from duplex.server.answers import ApiError
from duplex.server.tenant import tenant_of

HEADER: Final = "Duplex-Resume"
_SUBPROTOCOL: Final = "duplex-resume."
_LAST_EVENT_ID: Final = "last_event_id"


def owner_of(request: web.Request, settings: ServerSettings) -> Owner:
    """Return who asks, as the owner of a session.

    Raises:
        ApiError: as `tenant_of`.
    """
    return Owner(tenant=tenant_of(request, settings), key=caller_of(request).key_name)


def token_of(request: web.Request) -> str | None:
    """Return the token of a session to resume; None: a new one is asked for."""
    token = request.headers.get(HEADER)
    if token is not None:
        return token.strip()
    for header in request.headers.getall("Sec-WebSocket-Protocol", []):
        for protocol in map(str.strip, header.split(",")):
            if protocol.startswith(_SUBPROTOCOL):
                return protocol.removeprefix(_SUBPROTOCOL)
    return None


def last_event_id_of(request: web.Request) -> str | None:
    """Return the id of the last event that the client saw, as it says."""
    return request.query.get(_LAST_EVENT_ID)


def not_resumable() -> ApiError:
    """Return the answer to a token that resumes nothing."""
    message = "The token resumes no session: it was used, its time is over, or it is not yours. Begin a new session."
    return ApiError(404, "session_not_resumable", message)
