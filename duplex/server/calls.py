"""WebRTC calls: an offer comes as the body or as a form's part, the answer goes back as SDP.

Source: protocol.md, "HTTP"; the openai client sends `application/sdp` without a session object and a form with one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import BodyPartReader, web

from duplex.config import ServerSettings
from duplex.media.sdp import OfferError
from duplex.protocol import (
    CallNotFound,
    RemoteProtocolError,
    ResumeRefused,
    ServerBusy,
    SessionRejected,
    TooManySideChannels,
)
from duplex.protocol.strict_json import JsonBounds, bounds_of, read_object
from duplex.server.access import Access, Caller, caller_of
from duplex.server.answers import ApiError
from duplex.server.body import bounded, in_time, read_body, text_of
from duplex.server.client_secrets import merge
from duplex.server.host_contract import SessionHost
from duplex.server.resume import last_event_id_of, not_resumable, owner_of, token_of
from duplex.server.seats import Seat

CALL_ID = re.compile(r"rtc_[0-9A-Za-z_-]{1,64}")


def check_room(host: SessionHost) -> None:
    """Refuse a session that the host could not take, before anything of its request is read.

    Raises:
        ApiError: 503 with when to come back.
    """
    with refusals(host):
        host.check_room()


def opening(caller: Caller, asked: dict[str, Any] | None) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return what a session opens with: its session object, and that of the lock it is under.

    Raises:
        ApiError: 400: the client secret is for another type of session.
    """
    if caller.session is None:
        return asked, None
    kind = caller.session.get("type")
    if asked is not None and kind is not None and asked.get("type", kind) != kind:
        raise ApiError(400, "invalid_value", f"The client secret is for sessions of type '{kind}'.", "session.type")
    return (asked, caller.session) if caller.locked else (merge(caller.session, asked), None)


def call_not_found() -> ApiError:
    """Return the answer to an id that names no call of who asks."""
    return ApiError(404, "call_not_found", "There is no live call of this id.", "call_id")


@contextmanager
def refusals(host: SessionHost) -> Iterator[None]:
    """Turn the host's reasons for taking no session into answers.

    Raises:
        ApiError: there was one.
    """
    try:
        yield
    except OfferError as error:
        raise ApiError(error.status, "invalid_offer", error.message, "sdp") from None
    except SessionRejected as error:
        raise ApiError(400, error.code, error.message, error.param) from None
    except ResumeRefused:
        raise not_resumable() from None
    except CallNotFound:
        raise call_not_found() from None
    except TooManySideChannels:
        message = "The call has as many side channels as it may: server.side_channels_max."
        raise ApiError(429, "too_many_side_channels", message, "call_id") from None
    except ServerBusy as error:
        raise _busy(host, error) from None


class Calls:
    """The routes under /v1/realtime/calls.

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
        app.router.add_post("/v1/realtime/calls", self._create)
        app.router.add_post("/v1/realtime/calls/{call_id}/hangup", self._hangup)
        app.router.add_post("/v1/realtime/calls/{call_id}/{verb:accept|refer|reject}", self._sip_only)

    async def _create(self, request: web.Request) -> web.Response:
        token = token_of(request)
        with self._access.seat(request, counts=token is None) as seat:
            if token is None:  # a session that is resumed has kept its place
                check_room(self._host)
            return await self._open(request, seat, token)

    async def _open(self, request: web.Request, seat: Seat, token: str | None) -> web.Response:
        async with in_time(self._settings.request_timeout_s):
            offer, session = await self._read(request)
        session, locked = opening(caller_of(request), session)
        owner = owner_of(request, self._settings)
        with refusals(self._host):
            call_id, answer = await self._host.open_call(
                offer, session, owner, token, locked=locked, last_event_id=last_event_id_of(request)
            )
        seat.session_id = call_id
        headers = {"Location": f"/v1/realtime/calls/{call_id}", "Access-Control-Expose-Headers": "Location"}
        return web.Response(status=201, text=answer, content_type="application/sdp", headers=headers)

    async def _hangup(self, request: web.Request) -> web.Response:
        call_id = request.match_info["call_id"]
        owner = owner_of(request, self._settings)
        if not CALL_ID.fullmatch(call_id) or not await self._host.hangup(call_id, owner):
            raise call_not_found()
        return web.Response(status=200)

    async def _sip_only(self, request: web.Request) -> web.Response:
        verb = request.match_info["verb"]
        raise ApiError(400, "sip_only", f"'{verb}' is for SIP calls, which this server does not take.")

    async def _read(self, request: web.Request) -> tuple[str, dict[str, Any] | None]:
        if request.content_type == "application/sdp":
            return text_of(await read_body(request, self._settings.sdp_bytes_max, "sdp"), "sdp"), None
        if request.content_type != "multipart/form-data":
            raise ApiError(
                415, "unsupported_media_type", "Send application/sdp, or multipart/form-data with sdp and session."
            )
        try:
            parts = await self._read_form(request)
        except ValueError:
            raise ApiError(400, "invalid_form", "The multipart form cannot be read.") from None
        if "sdp" not in parts:
            raise ApiError(400, "missing_required_parameter", "The form has no part 'sdp'.", "sdp")
        session = parts.get("session")
        return text_of(parts["sdp"], "sdp"), None if session is None else _session(
            text_of(session, "session"), bounds_of(self._settings)
        )

    async def _read_form(self, request: web.Request) -> dict[str, bytes]:
        limits = {"sdp": self._settings.sdp_bytes_max, "session": self._settings.session_bytes_max}
        parts: dict[str, bytes] = {}
        form = await request.multipart()
        while (part := await form.next()) is not None:
            if not isinstance(part, BodyPartReader) or part.name not in limits or part.name in parts:
                raise ApiError(400, "invalid_form", "The form has one part 'sdp' and at most one 'session'.")
            parts[part.name] = await bounded(part.read_chunk, limits[part.name], part.name)
        return parts


def _busy(host: SessionHost, error: ServerBusy) -> ApiError:
    if not host.ready:
        reasons = "; ".join(host.not_ready_reasons) or "starting"
        return ApiError(503, "not_ready", f"The server is not ready: {reasons}.", retry_after_s=error.retry_after_s)
    message = f"The server has no room for one more session. Try again in {error.retry_after_s} s."
    return ApiError(503, "server_busy", message, retry_after_s=error.retry_after_s)


def _session(text: str, bounds: JsonBounds) -> dict[str, Any]:
    try:
        return read_object(text, bounds)
    except RemoteProtocolError as error:
        message = error.message.replace("The event", "The session object").replace("An event", "A session object")
        raise ApiError(400, error.code, message, "session") from None
