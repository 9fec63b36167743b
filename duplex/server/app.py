"""The app: every route of the server in one place.

POST /v1/realtime/calls                        WebRTC offer → 201, answer, Location          calls
POST /v1/realtime/calls/{id}/hangup            end a call                                    calls
POST /v1/realtime/calls/{id}/accept|…          400: SIP only                                 calls
POST, PATCH /api/offer                         Pipecat's browser clients: RTVI               pipecat
POST /whip; PATCH, DELETE /whip/{id}           plain publishers                              whip
GET  /v1/realtime                              WebSocket session                             websocket
POST /v1/realtime/client_secrets               short-lived secrets for browsers              issue
GET  /v1/duplex/info                           model, version                                health
GET  /v1/duplex/live                           snapshots of the server                       dashboard
GET  /v1/duplex/sessions, …/{id}/trace         sessions, and what happened in one            dashboard
GET  /healthz, /readyz, /metrics                                                             health
GET  /, /dashboard                             the pages                                     page
"""

from __future__ import annotations

from aiohttp import web

from duplex.config import ServerSettings
from duplex.server.access import Access
from duplex.server.calls import Calls
from duplex.server.client_secrets import ClientSecrets
from duplex.server.dashboard import Dashboard
from duplex.server.health import Health
from duplex.server.host_contract import SessionHost
from duplex.server.issue import IssueSecrets
from duplex.server.keys import load_keys
from duplex.server.middleware import make_middleware
from duplex.server.page import add_page, page_dir
from duplex.server.pipecat import PipecatCalls
from duplex.server.websocket import WebSocketRoute
from duplex.server.whip import Whip
from duplex.telemetry import Observer, measure_load
from duplex.telemetry.hub import Telemetry
from duplex.telemetry.setup import ProcessClock


def create_app(
    host: SessionHost, settings: ServerSettings, observer: Observer, telemetry: Telemetry | None = None
) -> web.Application:
    """Return the app over `host`; it owns nothing that has to be closed.

    Args:
        observer: the measures that are shown.
        telemetry: what has looked at the host; without it there is nothing to show live, and no traces.
    Raises:
        ConfigError: the API keys are no good, or others can reach the server and there are none.
    """
    clock = ProcessClock()
    keys = load_keys(settings)
    secrets = ClientSecrets(per_key_max=settings.client_secrets_max)
    access = Access(settings, keys, secrets, clock, host.lives)
    hsts = settings.tls_certificate is not None
    app = web.Application(middlewares=[make_middleware(settings.cors_origins, access, hsts=hsts)])
    Calls(host, settings, access).add_to(app)
    PipecatCalls(host, settings, access).add_to(app)
    Whip(host, settings, access).add_to(app)
    WebSocketRoute(host, settings, access).add_to(app)
    IssueSecrets(host, secrets, settings, clock, issues=bool(keys)).add_to(app)
    if telemetry is not None:
        Dashboard(host, telemetry, settings).add_to(app)
        observer.before_showing(lambda: _measure(host, observer, telemetry))
    Health(host, observer, access).add_to(app)
    add_page(app, page_dir(settings.page_dir))
    return app


def _measure(host: SessionHost, observer: Observer, telemetry: Telemetry) -> None:
    """Bring up to date what is looked up, not told."""
    telemetry.measure_stages(host)
    measure_load(observer)
