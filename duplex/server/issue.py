"""POST /v1/realtime/client_secrets: a secret for a browser, good for a few minutes of opening sessions.

Source: protocol.md, "HTTP"; the openai client's `realtime.client_secrets.create`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from duplex.bearer import draw
from duplex.config import ServerSettings
from duplex.protocol.strict_json import bounds_of
from duplex.server.access import Clock, caller_of
from duplex.server.answers import ApiError
from duplex.server.body import in_time, object_of, read_body
from duplex.server.calls import refusals
from duplex.server.client_secrets import PREFIX, ClientSecrets, Grant, Scope, TooManySecretsError
from duplex.server.host_contract import SessionHost


class _ExpiresAfter(BaseModel):
    anchor: Literal["created_at"] = "created_at"
    seconds: Annotated[int, Field(ge=10, le=7200, strict=True)] = 600


class _Session(BaseModel, extra="allow"):
    type: Literal["realtime", "transcription"] = "realtime"


class _Duplex(BaseModel):
    """Our own additions; an unknown one is an error, for one that is ignored would leave open what was to be closed."""

    model_config = ConfigDict(extra="forbid")

    locked: Annotated[bool, Field(strict=True)] = False
    scope: Scope = "sessions"


class _Asked(BaseModel):
    """The body; fields that we do not know are ignored, as everywhere on the wire."""

    expires_after: _ExpiresAfter = _ExpiresAfter()
    session: _Session = _Session()
    duplex: _Duplex = _Duplex()


class IssueSecrets:
    """The route.

    Args:
        host: knows what a session may be.
        known: where the secrets are kept.
        settings: limits.
        issues: False: there are no keys, so there is nothing to make secrets from.
    """

    def __init__(
        self, host: SessionHost, known: ClientSecrets, settings: ServerSettings, clock: Clock, *, issues: bool
    ) -> None:
        self._host = host
        self._known = known
        self._settings = settings
        self._clock = clock
        self._issues = issues

    def add_to(self, app: web.Application) -> None:
        """Register the route."""
        app.router.add_post("/v1/realtime/client_secrets", self._create)

    async def _create(self, request: web.Request) -> web.Response:
        key_name = caller_of(request).key_name
        if not self._issues or key_name is None:
            raise ApiError(501, "unsupported", "This server takes every key, so it issues none: connect without.")
        asked = await self._read(request)
        shown = self._shown(asked)
        now_s = self._clock.unix_ns(self._clock.now()) / 1e9
        secret = draw(PREFIX)
        grant = Grant(
            key_name=key_name,
            expires_at_s=int(now_s) + asked.expires_after.seconds,
            session=asked.session.model_dump(),
            locked=asked.duplex.locked,
            scope=asked.duplex.scope,
        )
        try:
            self._known.add(secret, grant, now_s)
        except TooManySecretsError:
            message = "This API key has as many live secrets as it may: server.client_secrets_max."
            raise ApiError(
                429, "too_many_secrets", message, retry_after_s=self._settings.client_secrets_retry_s
            ) from None
        answer = {"value": secret, "expires_at": grant.expires_at_s, "session": shown}
        return web.json_response(answer, headers={"Cache-Control": "no-store"})

    def _shown(self, asked: _Asked) -> dict[str, Any]:
        """Return the session object of the answer, which is often passed on to the browser as it is."""
        with refusals(self._host):
            return self._host.preview(asked.session.model_dump(), locked=asked.duplex.locked)

    async def _read(self, request: web.Request) -> _Asked:
        async with in_time(self._settings.request_timeout_s):
            raw = await read_body(request, self._settings.client_secret_session_bytes_max)
        return object_of(raw, _Asked, bounds_of(self._settings)) if raw else _Asked()
