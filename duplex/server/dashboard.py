"""What the dashboard and `duplex trace` ask for: the server live, and a session's timeline as a Perfetto file.

GET /v1/duplex/live                       Server-Sent Events, a snapshot each; ?once=1: one as JSON
GET /v1/duplex/sessions                   the sessions that have a trace; for callers on this machine only
GET /v1/duplex/sessions/{id}/trace        the trace; whoever knows a session's id may have it

A session's id gives access to it (hang-up, trace), so it stands in no snapshot, no trace and no span. Snapshots are made for
all watchers together, no more often than `telemetry.live_per_s` allows, and not at all when nobody watches; a watcher that
reads slowly gets fewer of them, and one that reads nothing is dropped.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web

from duplex.config import ServerSettings
from duplex.media.candidates import is_loopback
from duplex.server.answers import ApiError
from duplex.server.host_contract import SessionHost
from duplex.server.middleware import SECURITY_HEADERS
from duplex.telemetry.hub import Telemetry
from duplex.telemetry.layout import lay_out
from duplex.telemetry.live import Live
from duplex.telemetry.snapshot import to_json
from duplex.telemetry.timeline import Timeline
from duplex.units import MonoNs, ns_from_seconds

_SESSION_ID: Final = re.compile(r"(?:rtc|sess)_[0-9A-Za-z_-]{1,64}")
_STREAM_HEADERS: Final = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # a proxy that collects what is streamed would show the past
}
_PROXIED: Final = ("Forwarded", "X-Forwarded-For", "Via")
"""Headers that say that the caller is not who is connected."""
_TRACE_TYPE: Final = "application/vnd.perfetto.trace"


class Dashboard:
    """The routes for those who look at sessions and stages.

    Args:
        host: holds the sessions.
        telemetry: has observed them.
        server: where the server listens.
    """

    def __init__(self, host: SessionHost, telemetry: Telemetry, server: ServerSettings) -> None:
        self._telemetry = telemetry
        self._settings = telemetry.settings
        self._server = server
        self._host = host
        self._live: Live = telemetry.live(host)
        self._watchers = 0
        self._frame = ""
        """The newest snapshot as JSON …"""
        self._stale_at = MonoNs(0)
        """… and until when it is good enough."""
        self._next_look: asyncio.TimerHandle | None = None
        self._stopping = asyncio.Event()

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_get("/v1/duplex/live", self._watch)
        app.router.add_get("/v1/duplex/sessions", self._sessions)
        app.router.add_get("/v1/duplex/sessions/{session_id}/trace", self._trace)
        app.on_startup.append(self._start)
        app.on_shutdown.append(self._stop)

    # The server live. -----------------------------------------------------------------------------------------------

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("once", "0") not in ("0", ""):
            return web.Response(
                text=self._newest(), content_type="application/json", headers={"Cache-Control": "no-store"}
            )
        if self._watchers >= self._settings.live_watchers_max:
            raise ApiError(503, "watchers_max", "Nobody more can watch: telemetry.live_watchers_max.", retry_after_s=5)
        self._watchers += 1
        try:
            return await self._stream(request)
        finally:
            self._watchers -= 1

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={**SECURITY_HEADERS, **_STREAM_HEADERS})
        await response.prepare(request)
        period_s = 1 / self._settings.live_per_s
        try:
            await response.write(b"retry: 2000\n\n")
            told = ""
            while not self._stopping.is_set():
                frame = self._newest()
                if frame is not told:
                    async with asyncio.timeout(self._settings.live_stall_s):
                        await response.write(f"data: {frame}\n\n".encode())
                    told = frame
                await self._pause(period_s)
        except ConnectionError:
            pass  # the watcher is gone, and that is the end of it
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _pause(self, seconds: float) -> None:
        """Wait, but not past the end of the server."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _newest(self) -> str:
        """Return a snapshot that is younger than a period; a costly one is kept for longer."""
        clock = self._telemetry.clock
        now = clock.now()
        if now >= self._stale_at:
            self._frame = to_json(self._live.snapshot(now, clock.unix_ns(now) / 1e9))
            took_ns = clock.now() - now
            fresh_ns = max(
                ns_from_seconds(0.9 / self._settings.live_per_s), int(took_ns / self._settings.live_share_max)
            )
            self._stale_at = MonoNs(now + fresh_ns)
        return self._frame

    async def _start(self, app: web.Application) -> None:
        self._look()

    def _look(self) -> None:
        """Note what a first watcher will want to know of the past, now and every few seconds."""
        self._live.look(self._telemetry.clock.now())
        self._next_look = asyncio.get_running_loop().call_later(self._settings.bucket_s, self._look)

    async def _stop(self, app: web.Application) -> None:
        self._stopping.set()
        if self._next_look is not None:
            self._next_look.cancel()

    # One session's timeline. ----------------------------------------------------------------------------------------

    async def _sessions(self, request: web.Request) -> web.Response:
        if not self._settings.list_sessions or not self._is_local(request):
            raise ApiError(403, "local_only", "Sessions are listed to callers on the server's own machine only.")
        now = self._telemetry.clock.now()
        return web.json_response(
            {"sessions": [self._about(timeline) for timeline in self._telemetry.timelines.all(now)]}
        )

    async def _trace(self, request: web.Request) -> web.Response:
        session_id = request.match_info["session_id"]
        now = self._telemetry.clock.now()
        timeline = self._telemetry.timelines.find(session_id, now) if _SESSION_ID.fullmatch(session_id) else None
        if timeline is None:
            message = "There is no trace of a session of this id: it never was, ended too long ago, or none is kept."
            raise ApiError(404, "trace_not_found", message, "session_id")
        trace = await asyncio.to_thread(_render, timeline.copy(), now)
        name = f"duplex-{timeline.about.conversation_id}.pftrace"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        return web.Response(body=trace, content_type=_TRACE_TYPE, headers=headers)

    def _about(self, timeline: Timeline) -> dict[str, Any]:
        unix_ns = self._telemetry.clock.unix_ns
        about = timeline.about
        return {
            "id": about.session_id,
            "transport": about.transport,
            "began_at_s": round(unix_ns(about.opened_at) / 1e9, 3),
            "ended_at_s": None if timeline.ended_at is None else round(unix_ns(timeline.ended_at) / 1e9, 3),
            "events": timeline.size,
        }

    def _is_local(self, request: web.Request) -> bool:
        """Return whether the caller is on this machine, and no page that was led here by its name server, and no proxy."""
        asked = urlsplit(f"//{request.host}").hostname or ""
        names = (self._server.host, request.remote or "", asked)
        return all(map(is_loopback, names)) and not any(name in request.headers for name in _PROXIED)


def _render(timeline: Timeline, now: MonoNs) -> bytes:
    """Make the trace; runs on a thread of its own, over a copy."""
    from duplex.telemetry.perfetto import to_perfetto  # noqa: PLC0415 - 12 MB that most servers never need

    return to_perfetto(lay_out(timeline, now), timeline.about)
