"""WHIP: plain publishers of audio and video, which know an address and a bearer token.

    POST    /whip           offer  → 201, answer, Location, ETag
    PATCH   /whip/{id}      trickle, If-Match with the ETag  → 204; an ICE restart (If-Match: *) → 422
    DELETE  /whip/{id}      the end  → 200
    OPTIONS                 what is taken

A publisher is a session like any other; its configuration comes with its client secret. One that offers to receive hears the
replies on the same connection. One that only sends has nobody listening: its replies are made as text and never voiced.

Source: RFC 9725; RFC 8840 (trickle-ice-sdpfrag).
"""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from duplex.bearer import digest_of
from duplex.config import ServerSettings
from duplex.media.candidates import lines_in
from duplex.media.peer import read_offer
from duplex.server.access import Access, caller_of
from duplex.server.answers import ApiError
from duplex.server.body import in_time, read_body, text_of
from duplex.server.calls import CALL_ID, call_not_found, check_room, opening, refusals
from duplex.server.host_contract import SessionHost
from duplex.server.resume import owner_of

_SDP: Final = "application/sdp"
_FRAGMENT: Final = "application/trickle-ice-sdpfrag"
_ANY: Final = "*"
_SILENT: Final = {"output_modalities": ["text"]}
"""How a session answers whom it cannot speak to."""


class Whip:
    """The routes.

    Args:
        host: opens and ends calls.
        settings: limits.
        access: counts who opens them.
    """

    def __init__(self, host: SessionHost, settings: ServerSettings, access: Access) -> None:
        self._host = host
        self._settings = settings
        self._access = access

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_post("/whip", self._publish)
        app.router.add_options("/whip", _options)
        app.router.add_patch("/whip/{call_id}", self._trickle)
        app.router.add_delete("/whip/{call_id}", self._end)
        app.router.add_options("/whip/{call_id}", _options)

    async def _publish(self, request: web.Request) -> web.Response:
        with self._access.seat(request) as seat:
            check_room(self._host)
            offer = await self._read(request, _SDP)
            session, locked = opening(caller_of(request), None)
            with refusals(self._host):
                if not read_offer(offer, self._settings).audio.receives:
                    session, locked = _silenced(session, locked)
                owner = owner_of(request, self._settings)
                call_id, answer = await self._host.open_call(offer, session, owner, locked=locked)
            seat.session_id = call_id
        headers = {"Location": f"/whip/{call_id}", "ETag": _tag(call_id), "Accept-Patch": _FRAGMENT}
        return web.Response(status=201, text=answer, content_type=_SDP, headers=headers)

    async def _trickle(self, request: web.Request) -> web.Response:
        call_id = _call_id(request)
        fragment = await self._read(request, _FRAGMENT)
        match = request.headers.get("If-Match")
        if match is None:
            raise ApiError(428, "precondition_required", "Send the ETag of the answer as If-Match.")
        if match == _ANY:
            raise ApiError(422, "unsupported", "ICE restarts are not supported: publish anew.")
        if match != _tag(call_id):
            raise ApiError(412, "precondition_failed", "If-Match is not the ETag of this connection.")
        with refusals(self._host):
            taken = await self._host.add_candidates(call_id, owner_of(request, self._settings), lines_in(fragment))
        if not taken:
            raise call_not_found()
        return web.Response(status=204)

    async def _end(self, request: web.Request) -> web.Response:
        if not await self._host.hangup(_call_id(request), owner_of(request, self._settings)):
            raise call_not_found()
        return web.Response(status=200)

    async def _read(self, request: web.Request, content_type: str) -> str:
        if request.content_type != content_type:
            raise ApiError(415, "unsupported_media_type", f"Send {content_type}.")
        async with in_time(self._settings.request_timeout_s):
            return text_of(await read_body(request, self._settings.sdp_bytes_max, "sdp"), "sdp")


async def _options(request: web.Request) -> web.Response:
    return web.Response(status=204, headers={"Accept-Post": _SDP, "Accept-Patch": _FRAGMENT})


def _silenced(
    session: dict[str, Any] | None, locked: dict[str, Any] | None
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return what a session opens with that answers without a voice."""
    if locked is not None:
        return session, locked | _SILENT
    return (session or {}) | _SILENT, None


def _tag(call_id: str) -> str:
    """Return the ETag of a call's ICE session; it has one as long as it lives."""
    return f'"{digest_of(call_id)[:32]}"'


def _call_id(request: web.Request) -> str:
    call_id = request.match_info["call_id"]
    if not CALL_ID.fullmatch(call_id):
        raise call_not_found()
    return call_id
