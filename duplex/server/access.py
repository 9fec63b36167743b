"""Who asks, whether they may, and how often: what every request passes before anything is done for it.

request ─► its address's bucket ─► key or client secret? ─► the key's bucket ─► may it use this route? ─► handler
              429 Retry-After            401                   429                  403

open     /healthz, /readyz (a key shows the reasons), the pages' files
session  calls, Pipecat's and WHIP's routes, the WebSocket, /v1/duplex/info: an API key or a client secret for sessions
watch    /v1/duplex/live: an API key or a client secret for the dashboard
key      all else: making secrets, metrics, sessions, traces: an API key

Without keys everything is open, only addresses are counted, and a server on loopback is used by the names of loopback only:
a page whose name server points at 127.0.0.1 cannot pass for the server's own, nor a proxy let the world in by mistake.
Source: field cases C66, C70.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from aiohttp import web

from duplex.bearer import digest_of
from duplex.config import ServerSettings
from duplex.media.candidates import is_loopback
from duplex.server.addresses import bucket_name, client_address
from duplex.server.answers import ApiError
from duplex.server.buckets import TokenBuckets
from duplex.server.client_secrets import PREFIX, ClientSecrets, Scope
from duplex.server.keys import ApiKeys
from duplex.server.seats import Seat, Seats, TooManySessionsError
from duplex.units import MonoNs

_BEARER: Final = "bearer "
_SUBPROTOCOL: Final = "openai-insecure-api-key."
_SECOND_NS: Final = 1_000_000_000
_OTHER_HOST: Final = (
    "Without API keys this server is used on its own machine, by a loopback address or localhost only: server.api_keys."
)


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> MonoNs:
        """Monotonic."""

    def unix_ns(self, at: MonoNs) -> int:
        """A moment as Unix time in nanoseconds."""


class Need(Enum):
    """What a route asks of its caller."""

    NOTHING = auto()
    SESSION = auto()
    """An API key or a client secret for sessions."""
    WATCH = auto()
    """An API key or a client secret for the dashboard."""
    KEY = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who made a request."""

    address: str | None
    """What is counted of the address; None: not counted."""
    key_name: str | None = None
    """Name of the API key, also of that which the client secret was made with; None: came with none."""
    secret: str | None = None
    """Digest of the client secret; None: came with an API key, or none."""
    session: dict[str, Any] | None = None
    """Session object that the client secret is bound to."""
    locked: bool = False
    """The secret's sessions are locked: see `duplex.protocol.lock`."""
    scope: Scope | None = None
    """What the client secret is for; None: came with an API key, or none."""


_CALLER: Final = web.RequestKey("caller", Caller)
_SESSION_ROUTES: Final = frozenset({"/v1/realtime", "/v1/duplex/info", "/api/offer", "/whip", "/whip/{call_id}"})
_SCOPE_OF: Final[dict[Need, Scope]] = {Need.SESSION: "sessions", Need.WATCH: "dashboard"}


class Access:
    """The door.

    Args:
        keys: API keys; none: everybody may do everything.
        secrets: the live client secrets.
        clock: for buckets and expiry.
        lives: whether there is a session of an id.
    """

    def __init__(
        self,
        settings: ServerSettings,
        keys: ApiKeys,
        secrets: ClientSecrets,
        clock: Clock,
        lives: Callable[[str], bool],
    ) -> None:
        self._keys = keys
        self._secrets = secrets
        self._clock = clock
        self._trusted = settings.trusted_proxies
        self._any_host = bool(keys) or settings.insecure
        self._requests = _buckets(settings.requests_per_min, settings)
        self._sessions = _buckets(settings.sessions_per_min, settings)
        self._key_requests = _buckets(settings.key_requests_per_min, settings)
        self._key_sessions = _buckets(settings.key_sessions_per_min, settings)
        self._seats = Seats(lives)
        self._caller_seats_max = settings.caller_sessions_max
        self._key_seats_max = settings.key_sessions_max
        self._seat_retry_s = settings.sessions_retry_s

    def enter(self, request: web.Request) -> None:
        """Find out who asks, and let them in or not.

        Raises:
            ApiError: 401, 403 or 429.
        """
        now = self._clock.now()
        address = self._address(request)
        _take(self._requests, address, now)
        request[_CALLER] = Caller(address=address)
        need = need_of(request)
        if not self._any_host and need is not Need.NOTHING and not _asks_for_loopback(request):
            raise ApiError(403, "host_not_allowed", _OTHER_HOST)
        if not self._keys:
            return
        caller = self._caller(address, _credential(request), now)
        if caller is None:
            if need is not Need.NOTHING:
                raise _invalid_key()
            return
        request[_CALLER] = caller
        _take(self._key_requests, caller.key_name, now)
        if need is not Need.NOTHING and caller.scope not in (None, _SCOPE_OF.get(need)):
            raise ApiError(403, "api_key_required", "The client secret is not made for this route: use an API key.")

    @contextmanager
    def seat(self, request: web.Request, *, counts: bool = True) -> Iterator[Seat]:
        """Count one more session to who asks for it, before anything else is done for it.

        The seat is given back at the end of the block, unless a session keeps it: `Seat.session_id`.

        Args:
            counts: False for a session that is resumed and has kept its seat.

        Raises:
            ApiError: 429: they ask too often, or have as many sessions as they may.
        """
        caller = self._begin_session(request)
        try:
            seat = self._seats.take(self._seat_bounds(caller) if counts else {})
        except TooManySessionsError:
            message = "There are as many live sessions of this caller as it may have: end one first."
            raise ApiError(429, "too_many_sessions", message, retry_after_s=self._seat_retry_s) from None
        try:
            yield seat
        finally:
            if seat.session_id is None:
                self._seats.give_back(seat)

    def _seat_bounds(self, caller: Caller) -> dict[str, int]:
        """Return who counts the session. Who brings an API key is a program that may speak for many at one address."""
        bounds = {}
        if caller.key_name is not None:
            bounds[f"key {caller.key_name}"] = self._key_seats_max
        if caller.secret is not None:
            bounds[f"secret {caller.secret}"] = self._caller_seats_max
        if caller.address is not None and (caller.key_name is None or caller.secret is not None):
            bounds[f"address {caller.address}"] = self._caller_seats_max
        return bounds

    def _begin_session(self, request: web.Request) -> Caller:
        caller = caller_of(request)
        now = self._clock.now()
        _take(self._sessions, caller.address, now)
        _take(self._sessions, caller.secret, now)
        _take(self._key_sessions, caller.key_name, now)
        return caller

    def shows_details(self, request: web.Request) -> bool:
        """Whether an open route may show more than that it is there."""
        return not self._keys or (caller_of(request).key_name is not None and caller_of(request).secret is None)

    def _caller(self, address: str | None, credential: str | None, now: MonoNs) -> Caller | None:
        if credential is None:
            return None
        if not credential.startswith(PREFIX):
            name = self._keys.name_of(credential)
            return None if name is None else Caller(address=address, key_name=name)
        grant = self._secrets.find(credential, self._clock.unix_ns(now) / _SECOND_NS)
        if grant is None:
            return None
        return Caller(
            address=address,
            key_name=grant.key_name,
            secret=digest_of(credential),
            session=grant.session,
            locked=grant.locked,
            scope=grant.scope,
        )

    def _address(self, request: web.Request) -> str | None:
        headers = request.headers.getall("X-Forwarded-For", [])
        address = client_address(request.remote, headers, self._trusted)
        if address is not None and address.is_loopback:
            return None
        return bucket_name(address)


def caller_of(request: web.Request) -> Caller:
    """Return who made a request that `Access.enter` let in."""
    return request[_CALLER]


def need_of(request: web.Request) -> Need:
    """Return what the route of a request asks; a route that is not there asks for a key, and tells nobody else so."""
    resource = request.match_info.route.resource
    route = "" if resource is None else resource.canonical
    if route in _SESSION_ROUTES or route.startswith("/v1/realtime/calls"):
        return Need.SESSION
    if route == "/v1/duplex/live":
        return Need.WATCH
    if resource is None or route.startswith("/v1/") or route == "/metrics":
        return Need.KEY
    return Need.NOTHING


def _asks_for_loopback(request: web.Request) -> bool:
    try:
        return is_loopback(urlsplit(f"//{request.host}").hostname or "")
    except ValueError:  # brackets around what is no address
        return False


def _credential(request: web.Request) -> str | None:
    """Return the key or secret of a request. One in the address is none: addresses are logged by everybody on the way."""
    authorization = request.headers.get("Authorization", "")
    if authorization[: len(_BEARER)].lower() == _BEARER:
        return authorization[len(_BEARER) :].strip()
    for header in request.headers.getall("Sec-WebSocket-Protocol", []):
        for protocol in map(str.strip, header.split(",")):
            if protocol.startswith(_SUBPROTOCOL):
                return protocol.removeprefix(_SUBPROTOCOL)
    return None


def _invalid_key() -> ApiError:
    message = "The request has no valid API key: send one as `Authorization: Bearer`."
    return ApiError(401, "invalid_api_key", message, headers={"WWW-Authenticate": "Bearer"})


def _buckets(per_min: int, settings: ServerSettings) -> TokenBuckets:
    return TokenBuckets(per_min=per_min, callers_max=settings.callers_max)


def _take(buckets: TokenBuckets, caller: str | None, now: MonoNs) -> None:
    """Take a token; None is not counted."""
    if caller is None:
        return
    wait_ns = buckets.take(caller, now)
    if wait_ns:
        wait_s = -(-wait_ns // _SECOND_NS)
        raise ApiError(429, "rate_limit_exceeded", f"Too many requests. Try again in {wait_s} s.", retry_after_s=wait_s)
