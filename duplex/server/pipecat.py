"""POST and PATCH /api/offer: sessions of Pipecat's browser clients, which speak RTVI on a data channel called `chat`.

    POST  {sdp, type, pc_id: null, requestData?}        a session  → {sdp, type, pc_id}
    POST  {…, pc_id, restart_pc: true}                  its client comes back by a new connection: the same session, and pc_id
    POST  {…, pc_id, restart_pc: false}                 the same connection, more candidates: the same answer
    PATCH {pc_id, candidates: [{candidate, …}]}         trickle, in batches

`pc_id` is a secret of its client's: whoever opened the session comes back with it, within `server.resume_window_s`. One that
names no session any more gives a new one, which says so (`duplex.session.lost`). `requestData.session` is the session object.

Source: `@pipecat-ai/small-webrtc-transport` 1.10.8; pipecat-ai 1.14.0, `transports/smallwebrtc/request_handler.py`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from aiohttp import web
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from duplex.config import ServerSettings
from duplex.protocol.strict_json import bounds_of
from duplex.server.access import Access, caller_of
from duplex.server.answers import ApiError
from duplex.server.body import in_time, object_of, read_body
from duplex.server.calls import check_room, opening, refusals
from duplex.server.host_contract import SessionHost
from duplex.server.resume import owner_of

_PcId = Annotated[str, Field(max_length=128)]
_PREFIX = "candidate:"


class _Body(BaseModel):
    """Fields that we do not know are ignored, as everywhere on the wire."""

    model_config = ConfigDict(strict=True)


class _Offer(_Body):
    sdp: str
    type: Literal["offer"] = "offer"
    pc_id: _PcId | None = None
    restart_pc: bool | None = None
    request_data: Any = Field(None, validation_alias=AliasChoices("requestData", "request_data"))
    """The app's own; its field `session`, if there is one, is ours."""

    @property
    def session(self) -> dict[str, Any] | None:
        """The session object.

        Raises:
            ApiError: it is no object.
        """
        session = self.request_data.get("session") if isinstance(self.request_data, dict) else None
        if session is not None and not isinstance(session, dict):
            raise ApiError(400, "invalid_type", "A session object is a JSON object.", "requestData.session")
        return session


class _Candidate(_Body):
    candidate: Annotated[str, Field(max_length=1024)] = ""
    """Empty: there are no more."""


class _Candidates(_Body):
    pc_id: _PcId
    candidates: list[_Candidate]


_Read = TypeVar("_Read", bound=_Body)


class PipecatCalls:
    """The route.

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
        """Register the route."""
        app.router.add_post("/api/offer", self._offer)
        app.router.add_patch("/api/offer", self._trickle)

    async def _offer(self, request: web.Request) -> web.Response:
        offer = await self._read(request, _Offer)
        owner = owner_of(request, self._settings)
        known = self._host.call_of(offer.pc_id, owner) if offer.pc_id is not None else None
        if known is not None and not offer.restart_pc:
            with refusals(self._host):
                again = await self._host.answer_again(known, owner, offer.sdp)
            if again is None:
                raise ApiError(409, "connection_lost", "The connection is gone: begin a new one (restart_pc).", "pc_id")
            return _answer(again, offer.pc_id)
        token = offer.pc_id if known is not None else None
        with self._access.seat(request, counts=token is None) as seat:
            if token is None:  # a session that is resumed has kept its place
                check_room(self._host)
            session, locked = opening(caller_of(request), offer.session)
            lost = offer.pc_id is not None and token is None
            with refusals(self._host):
                call_id, answer = await self._host.open_call(
                    offer.sdp, session, owner, token, locked=locked, rtvi=True, lost=lost
                )
                pc_id = self._host.keep_token(call_id, token)
            seat.session_id = call_id
        return _answer(answer, pc_id)

    async def _trickle(self, request: web.Request) -> web.Response:
        asked = await self._read(request, _Candidates)
        owner = owner_of(request, self._settings)
        lines = [found.candidate.removeprefix(_PREFIX) for found in asked.candidates if found.candidate]
        call_id = self._host.call_of(asked.pc_id, owner)
        with refusals(self._host):
            taken = call_id is not None and await self._host.add_candidates(call_id, owner, lines)
        if not taken:
            raise ApiError(404, "call_not_found", "There is no live connection of this pc_id.", "pc_id")
        return web.json_response({"status": "success"})

    async def _read(self, request: web.Request, model: type[_Read]) -> _Read:
        settings = self._settings
        async with in_time(settings.request_timeout_s):
            raw = await read_body(request, settings.sdp_bytes_max + settings.session_bytes_max)
        return object_of(raw, model, bounds_of(settings))


def _answer(sdp: str, pc_id: str | None) -> web.Response:
    """Return the answer; no cache may keep it, for it holds the client's secret."""
    return web.json_response({"sdp": sdp, "type": "answer", "pc_id": pc_id}, headers={"Cache-Control": "no-store"})
