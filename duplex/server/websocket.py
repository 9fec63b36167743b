"""WebSocket sessions: the upgrade, the reading side, and how each way of ending is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import structlog
from aiohttp import WSCloseCode, WSMsgType, web

from duplex.config import ServerSettings
from duplex.server.access import Access, caller_of
from duplex.server.answers import ApiError
from duplex.server.calls import opening, refusals
from duplex.server.host_contract import EventSink, SessionHost
from duplex.server.resume import last_event_id_of, owner_of, token_of
from duplex.server.transport import WebSocketTransport
from duplex.telemetry import log_failure

_SUBPROTOCOL: Final = "realtime"
"""The only one that is ever selected: the others that browsers offer carry keys."""
_NO_GOODBYE: Final = frozenset(
    {
        WSCloseCode.GOING_AWAY,
        WSCloseCode.ABNORMAL_CLOSURE,
        WSCloseCode.INTERNAL_ERROR,
        WSCloseCode.SERVICE_RESTART,
        WSCloseCode.TRY_AGAIN_LATER,
        WSCloseCode.BAD_GATEWAY,
    }
)
"""Close codes of a page that reloads or is left, of a connection that broke, and of what gave up on one: a client whose ping
was not answered in time (websockets for Python says 1011), a proxy that restarts."""


class WebSocketRoute:
    """GET /v1/realtime.

    Args:
        host: opens the sessions.
        settings: limits and times.
        access: counts who opens them.
    """

    def __init__(self, host: SessionHost, settings: ServerSettings, access: Access) -> None:
        self._host = host
        self._settings = settings
        self._access = access

    def add_to(self, app: web.Application) -> None:
        """Register the route."""
        app.router.add_get("/v1/realtime", self._serve)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        # Text frames are taken as bytes: text that is not UTF-8 gets an error event instead of a closed connection.
        socket = web.WebSocketResponse(
            protocols=(_SUBPROTOCOL,),
            max_msg_size=self._settings.event_bytes_max + 1,  # aiohttp refuses what is not smaller
            timeout=self._settings.close_timeout_s,
            autoping=False,
            compress=False,
            decode_text=False,
        )
        if not socket.can_prepare(request):
            raise ApiError(
                426, "upgrade_required", "This is a WebSocket route; WebRTC offers go to /v1/realtime/calls."
            )
        call_id = request.query.get("call_id")
        with self._access.seat(request, counts=call_id is None):
            if call_id is None:
                return await self._hold(request, socket, lambda transport: self._open(transport, request))
            return await self._hold(request, socket, lambda transport: self._join(transport, request, call_id))

    async def _hold(
        self,
        request: web.Request,
        socket: web.WebSocketResponse[bool],
        open_session: Callable[[WebSocketTransport], EventSink],
    ) -> web.StreamResponse:
        """Open the session, or a side channel, and serve it to its end."""
        transport = WebSocketTransport(
            outbox_bytes_max=self._settings.outbox_bytes_max, close_timeout_s=self._settings.close_timeout_s
        )
        session = open_session(transport)
        reason = "error"
        try:
            await socket.prepare(request)
            reason = await self._converse(request, socket, transport, session)
        finally:
            transport.detach()
            session.closed(reason)
            structlog.get_logger().info("websocket_closed", reason=reason, code=socket.close_code)
        return socket

    def _open(self, transport: WebSocketTransport, request: web.Request) -> EventSink:
        session, locked = opening(caller_of(request), _asked_for(request))
        owner, token = owner_of(request, self._settings), token_of(request)
        with refusals(self._host):
            return self._host.open_websocket(transport, session, owner, token, locked=locked)

    def _join(self, transport: WebSocketTransport, request: web.Request, call_id: str) -> EventSink:
        """Open a side channel onto a call: for whoever has the API key that the call was opened with."""
        if caller_of(request).secret is not None:
            raise ApiError(403, "api_key_required", "A side channel takes an API key, not a client secret.")
        with refusals(self._host):
            return self._host.open_side_channel(call_id, transport, owner_of(request, self._settings))

    async def _converse(
        self,
        request: web.Request,
        socket: web.WebSocketResponse[bool],
        transport: WebSocketTransport,
        session: EventSink,
    ) -> str:
        """Run both directions until one ends, and return the reason."""

        def abort() -> None:
            if request.transport is not None:
                request.transport.abort()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(transport.write_to(socket, abort))
            try:
                session.channel_open(last_event_id_of(request))
                reason = await self._read(socket, transport, session)
            except Exception as error:  # noqa: BLE001 - the session's root: it ends here, and nothing else does
                log_failure("session_failed", error)
                reason = "error"
            reason = transport.close_reason or reason
            if reason == "vanished":
                abort()
            await transport.close(reason)
        return reason

    async def _read(
        self, socket: web.WebSocketResponse[bool], transport: WebSocketTransport, session: EventSink
    ) -> str:
        """Hand events to the session until the socket ends; a client that answers no ping has vanished."""
        ping_s = self._settings.websocket_ping_s
        pinged = False
        taken = 0
        while True:
            await self._until_heard(session, transport)
            try:
                message = await socket.receive(timeout=ping_s / 2 if pinged else ping_s)
            except TimeoutError:
                if pinged or not await _ping(socket, ping_s / 2):
                    return "vanished"
                pinged = True
                continue
            pinged = False
            match message.type:
                case WSMsgType.TEXT:
                    session.receive(_text(message.data))
                case WSMsgType.BINARY:
                    session.receive(bytes(message.data))
                case WSMsgType.PING:
                    await socket.pong(message.data)
                case WSMsgType.PONG:
                    pass
                case WSMsgType.ERROR:
                    return "error"
                case _:
                    return "left" if socket.close_code in _NO_GOODBYE else "client"
            taken += 1
            if taken % self._settings.event_burst_max == 0:
                await asyncio.sleep(0)

    async def _until_heard(self, session: EventSink, transport: WebSocketTransport) -> None:
        """Leave the socket unread while the session is behind: its flow control then holds the client back."""
        while (  # noqa: ASYNC110 - the backlog is looked at only here, and only while a client runs ahead
            session.backlog_ms > self._settings.backlog_ms_max and transport.close_reason is None
        ):
            await asyncio.sleep(self._settings.backlog_look_s)


def _asked_for(request: web.Request) -> dict[str, Any] | None:
    """Return the session object that an address asks for by `intent`; None: it says nothing."""
    intent = request.query.get("intent")
    if intent is None:
        return None
    if intent != "transcription":
        raise ApiError(400, "invalid_value", "The one intent is 'transcription'; a conversation needs none.", "intent")
    return {"type": "transcription"}


async def _ping(socket: web.WebSocketResponse[bool], timeout_s: float) -> bool:
    """Send a ping; False when the connection does not take it."""
    try:
        async with asyncio.timeout(timeout_s):
            await socket.ping()
    except (TimeoutError, ConnectionError):
        return False
    return True


def _text(raw: bytes) -> str | bytes:
    """Return a text frame's text; what is not UTF-8 stays bytes, which the protocol layer refuses by name."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
