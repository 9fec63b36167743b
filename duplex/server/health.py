"""Whether the process lives, whether it can serve, what it measures, and which model it runs."""

from __future__ import annotations

from aiohttp import web

import duplex
from duplex.payloads import Role
from duplex.server.access import Access
from duplex.server.host_contract import SessionHost
from duplex.telemetry import Observer


class Health:
    """The routes for those who watch the server.

    Args:
        host: says whether it is ready.
        observer: holds the measures.
        access: says who may know why it is not ready.
    """

    def __init__(self, host: SessionHost, observer: Observer, access: Access) -> None:
        self._access = access
        self._host = host
        self._observer = observer

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/duplex/info", self._info)

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _readyz(self, request: web.Request) -> web.Response:
        if self._host.ready:
            return web.json_response({"status": "ready"})
        reasons = self._host.not_ready_reasons
        status = "draining" if "draining" in reasons else "not_ready"
        shown: dict[str, object] = {"status": status}
        if self._access.shows_details(request):
            shown |= {"reasons": reasons, "sessions": self._host.sessions}
        return web.json_response(shown, status=503)

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._observer.render(), headers={"Content-Type": self._observer.content_type})

    async def _info(self, request: web.Request) -> web.Response:
        pack = self._host.pack
        model = {
            "name": pack.name,
            "test_double": pack.test_double,
            "notice": pack.notice,
            "voices": list(pack.voices),
            "sessions_max": self._host.sessions_max,
            "reads_camera": any(stage.spec.role is Role.READ for stage in pack.stages),
        }
        return web.json_response({"model": model, "version": duplex.__version__})
