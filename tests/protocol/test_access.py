"""Keys, client secrets and limits at the door: who may use which route, and that nothing is done before (C66)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from aiohttp import ClientSession, WSServerHandshakeError
from fake_host import ANSWER, FakeHost, FakeSession, served, url_of
from openai import AsyncOpenAI, AuthenticationError, PermissionDeniedError

from duplex.config import ConfigError, ServerSettings
from duplex.media.contract import Transport
from duplex.server.app import create_app
from duplex.server.serve import listening
from duplex.telemetry import Observer

pytestmark = pytest.mark.protocol

KEY = "key-0123456789abcdef"
OTHER_KEY = "key-fedcba9876543210"
KEYS = {"app": KEY, "other": OTHER_KEY}
WRONG = "key-0000000000000000"
CALLS = "/v1/realtime/calls"
SECRETS = "/v1/realtime/client_secrets"
SOCKET = "/v1/realtime"
OFFER = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\n"
SDP = {"Content-Type": "application/sdp"}
OPERATOR_ROUTES = [
    "/metrics",
    "/v1/duplex/live",
    "/v1/duplex/sessions",
    "/v1/duplex/sessions/rtc_1/trace",
    "/v1/nothing",
]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@asynccontextmanager
async def guarded(host: FakeHost | None = None, **settings: Any) -> AsyncIterator[ClientSession]:
    async with served(host or FakeHost(), api_keys=KEYS, **settings) as client:
        yield client


async def new_secret(client: ClientSession, key: str = KEY, **body: Any) -> str:
    async with client.post(SECRETS, json=body, headers=bearer(key)) as response:
        assert response.status == 200
        secret: str = (await response.json())["value"]
        return secret


async def code_of(response: Any) -> str:
    code: str = (await response.json())["error"]["code"]
    return code


# Keys. --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers", [{}, bearer(WRONG), bearer(""), {"Authorization": f"Basic {KEY}"}, bearer("ek_nothing")]
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", CALLS), ("POST", f"{CALLS}/rtc_1/hangup"), ("GET", SOCKET), ("POST", SECRETS),
        ("POST", "/api/offer"), ("PATCH", "/api/offer"), ("POST", "/whip"), ("PATCH", "/whip/rtc_1"),
        ("DELETE", "/whip/rtc_1"), ("GET", "/v1/duplex/info"), *(("GET", path) for path in OPERATOR_ROUTES),
    ],
)  # fmt: skip
async def test_without_a_key_nothing_is_done(method: str, path: str, headers: dict[str, str]) -> None:
    host = FakeHost()
    async with (
        guarded(host) as client,
        client.request(method, path, data=OFFER, headers={**SDP, **headers}) as response,
    ):
        assert response.status == 401
        error = (await response.json())["error"]
        assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
        assert response.headers["WWW-Authenticate"] == "Bearer"
    assert (host.offers, host.websockets) == ([], [])


async def test_a_body_is_not_awaited_from_who_has_no_key() -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"v=0"
        await asyncio.Event().wait()

    async with guarded() as client, client.post(CALLS, data=endless(), headers=SDP) as response:
        assert response.status == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/"])
async def test_what_everybody_may_see(path: str) -> None:
    async with guarded() as client:
        for headers in ({}, bearer(WRONG), bearer(KEY)):
            async with client.get(path, headers=headers) as response:
                assert response.status in ((200, 503) if path == "/" else (200,))


async def test_only_a_key_is_told_why_the_server_is_not_ready() -> None:
    host = FakeHost()
    host.ready, host.not_ready_reasons = False, ["loading the model"]
    async with guarded(host) as client:
        secret = await new_secret(client)
        assert await (await client.get("/readyz")).json() == {"status": "not_ready"}
        assert await (await client.get("/readyz", headers=bearer(secret))).json() == {"status": "not_ready"}
        shown = await (await client.get("/readyz", headers=bearer(KEY))).json()
        assert shown["reasons"] == ["loading the model"]


async def test_a_key_opens_every_route_and_its_name_is_the_tenant() -> None:
    host = FakeHost()
    async with guarded(host) as client:
        for key in (KEY, OTHER_KEY):
            async with client.post(CALLS, data=OFFER, headers={**SDP, **bearer(key)}) as response:
                assert (response.status, await response.text()) == (201, ANSWER)
        async with client.ws_connect(SOCKET, headers=bearer(KEY)) as ws:
            assert (await ws.receive_json())["type"] == "session.created"
        async with client.get("/metrics", headers=bearer(KEY)) as response:
            assert response.status == 200
        async with client.get("/v1/nothing", headers=bearer(KEY)) as response:
            assert response.status == 404
    assert host.tenants == ["app", "other", "app"]


async def test_a_browser_brings_its_key_as_a_subprotocol_and_gets_back_only_ours() -> None:
    async with guarded() as client:
        protocols = ("realtime", f"openai-insecure-api-key.{KEY}", "openai-agents-sdk.0.20.0")
        async with client.ws_connect(SOCKET, protocols=protocols) as ws:
            assert ws.protocol == "realtime"
            assert KEY not in str(ws._response.headers)


@pytest.mark.parametrize(
    "how", [{"protocols": ("realtime", f"openai-insecure-api-key.{WRONG}")}, {"params": {"token": KEY, "api_key": KEY}}]
)
async def test_a_socket_without_a_key_is_refused_before_the_upgrade(how: dict[str, Any]) -> None:
    host = FakeHost()
    async with guarded(host) as client:
        with pytest.raises(WSServerHandshakeError) as refused:
            await client.ws_connect(SOCKET, **how)
        assert refused.value.status == 401
    assert host.websockets == []


async def test_the_openai_client_knows_the_refusal() -> None:
    async with guarded() as client:
        openai = AsyncOpenAI(api_key=WRONG, base_url=url_of(client, "/v1"), max_retries=0)
        with pytest.raises(AuthenticationError) as refused:
            await openai.realtime.calls.create(sdp=OFFER)
        assert refused.value.code == "invalid_api_key"
        await openai.close()


async def test_an_app_that_others_reach_is_not_made_without_keys() -> None:
    with pytest.raises(ConfigError, match=r"server\.api_keys"):
        create_app(FakeHost(), ServerSettings(host="0.0.0.0"), Observer())
    assert create_app(FakeHost(), ServerSettings(host="0.0.0.0", insecure=True), Observer())


async def test_a_server_that_others_reach_is_not_started_without_keys() -> None:
    host = FakeHost()
    with pytest.raises(ConfigError, match=r"server\.api_keys"):
        async with listening(host, ServerSettings(host="0.0.0.0", port=0), Observer()):
            pytest.fail("it listens")


# Client secrets. ----------------------------------------------------------------------------------------------------


async def test_the_openai_client_makes_a_secret_and_calls_with_it() -> None:
    host = FakeHost()
    async with guarded(host) as client:
        openai = AsyncOpenAI(api_key=KEY, base_url=url_of(client, "/v1"), max_retries=0)
        session = {"type": "realtime", "instructions": "Be brief."}
        made = await openai.realtime.client_secrets.create(
            expires_after={"anchor": "created_at", "seconds": 30}, session=session
        )
        assert re.fullmatch(r"ek_[0-9A-Za-z_-]{40,}", made.value)
        assert made.session.instructions == "Be brief."
        browser = AsyncOpenAI(api_key=made.value, base_url=url_of(client, "/v1"), max_retries=0)
        await browser.realtime.calls.create(sdp=OFFER)
        await browser.realtime.calls.create(
            sdp=OFFER, session={"type": "realtime", "instructions": "Theirs.", "tools": []}
        )
        await browser.realtime.calls.hangup("rtc_1")
        with pytest.raises(PermissionDeniedError):
            await browser.realtime.client_secrets.create()
        await openai.close()
        await browser.close()
    assert host.offers == [(OFFER, session), (OFFER, {**session, "tools": []})]
    assert host.tenants == ["app", "app"]


async def test_a_secret_opens_a_socket_with_its_session() -> None:
    asked: list[Any] = []

    class Host(FakeHost):
        def open_websocket(
            self, transport: Transport, session: dict[str, Any] | None, *args: Any, **named: Any
        ) -> FakeSession:
            asked.append(session)
            return super().open_websocket(transport, session, *args, **named)

    async with guarded(Host()) as client:
        secret = await new_secret(client, session={"type": "realtime", "instructions": "Ours."})
        async with client.ws_connect(SOCKET, protocols=("realtime", f"openai-insecure-api-key.{secret}")) as ws:
            await ws.receive_json()
    assert asked == [{"type": "realtime", "instructions": "Ours."}]


@pytest.mark.parametrize("path", OPERATOR_ROUTES)
async def test_a_secret_is_no_key(path: str) -> None:
    async with guarded() as client:
        secret = await new_secret(client)
        async with client.get(path, headers=bearer(secret)) as response:
            assert (response.status, await code_of(response)) == (403, "api_key_required")
        async with client.get("/v1/duplex/info", headers=bearer(secret)) as response:
            assert response.status == 200


async def test_a_secret_lives_ten_minutes_by_default_and_is_not_cached() -> None:
    async with guarded() as client:
        for body in (None, {}):
            async with client.post(SECRETS, headers=bearer(KEY), json=body) as response:
                made = await response.json()
                now_s = parsedate_to_datetime(response.headers["Date"]).timestamp()
                assert response.headers["Cache-Control"] == "no-store"
            assert (made["session"]["object"], made["session"]["type"]) == ("realtime.session", "realtime")
            assert made["expires_at"] == pytest.approx(now_s + 600, abs=5)


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        (b"{", 400, "invalid_json", None),
        (b"[]", 400, "invalid_type", None),
        (b"\xff", 400, "invalid_utf8", "body"),
        (b" " * 2000, 413, "too_large", "body"),
        (b'{"expires_after": {"anchor": "created_at", "seconds": 9}}', 400, "invalid_value", "expires_after.seconds"),
        (
            b'{"expires_after": {"anchor": "created_at", "seconds": 7201}}',
            400,
            "invalid_value",
            "expires_after.seconds",
        ),
        (b'{"expires_after": {"anchor": "birth"}}', 400, "invalid_value", "expires_after.anchor"),
        (b'{"session": {"type": "weird"}}', 400, "invalid_value", "session.type"),
        (b'{"session": 5}', 400, "invalid_type", "session"),
        (b'{"expires_after": null}', 400, "invalid_type", "expires_after"),
    ],
)
async def test_bad_wishes_for_a_secret(body: bytes, status: int, code: str, param: str | None) -> None:
    async with guarded(client_secret_session_bytes_max=1024) as client:
        async with client.post(SECRETS, data=body, headers=bearer(KEY)) as response:
            error = (await response.json())["error"]
        assert (response.status, error["code"], error["param"]) == (status, code, param)
        assert "instance of" not in error["message"], "words of this server's own language"


async def test_a_key_has_so_many_live_secrets() -> None:
    async with guarded(client_secrets_max=1) as client:
        await new_secret(client)
        async with client.post(SECRETS, headers=bearer(KEY)) as response:
            assert (response.status, await code_of(response)) == (429, "too_many_secrets")
            assert response.headers["Retry-After"]
        await new_secret(client, OTHER_KEY)


async def test_without_keys_there_are_no_secrets() -> None:
    async with served(FakeHost()) as client, client.post(SECRETS) as response:
        assert (response.status, await code_of(response)) == (501, "unsupported")


# Limits. ------------------------------------------------------------------------------------------------------------

PROXY = {"trusted_proxies": ("127.0.0.1",)}


async def offers(client: ClientSession, count: int, **headers: str) -> dict[int, int]:
    """Make offers one after the other and return how many got each status; each 429 says when to come back."""
    statuses: dict[int, int] = {}
    for _ in range(count):
        async with client.post(CALLS, data=OFFER, headers={**SDP, **headers}) as response:
            statuses[response.status] = statuses.get(response.status, 0) + 1
            if response.status == 429:
                assert await code_of(response) == "rate_limit_exceeded"
                assert 1 <= int(response.headers["Retry-After"]) <= 60
    return statuses


async def test_a_loop_of_offers_from_one_address_is_stopped_and_others_are_not() -> None:
    host = FakeHost()
    async with served(host, sessions_per_min=5, **PROXY) as client:
        assert await offers(client, 20, **{"X-Forwarded-For": "203.0.113.9"}) == {201: 5, 429: 15}
        assert await offers(client, 1, **{"X-Forwarded-For": "203.0.113.10"}) == {201: 1}
    assert len(host.offers) == 6


async def test_a_caller_cannot_choose_the_address_that_is_counted() -> None:
    async with served(FakeHost(), sessions_per_min=1, **PROXY) as client:
        assert await offers(client, 1, **{"X-Forwarded-For": "6.6.6.6, 203.0.113.9"}) == {201: 1}
        assert await offers(client, 1, **{"X-Forwarded-For": "7.7.7.7, 203.0.113.9"}) == {429: 1}
    async with served(FakeHost(), sessions_per_min=1) as client:
        assert await offers(client, 3, **{"X-Forwarded-For": "203.0.113.9"}) == {201: 3}, "no proxy is trusted"


async def test_sockets_count_as_sessions() -> None:
    host = FakeHost()
    async with served(host, sessions_per_min=1, **PROXY) as client:
        far = {"X-Forwarded-For": "203.0.113.9"}
        async with client.ws_connect(SOCKET, headers=far) as ws:
            await ws.receive_json()
        with pytest.raises(WSServerHandshakeError) as refused:
            await client.ws_connect(SOCKET, headers=far)
        assert refused.value.status == 429
    assert len(host.websockets) == 1


async def test_guessing_keys_is_stopped_before_they_are_looked_at() -> None:
    async with guarded(requests_per_min=10, **PROXY) as client:
        far = {"X-Forwarded-For": "203.0.113.9"}
        assert await offers(client, 15, **far, **bearer(WRONG)) == {401: 10, 429: 5}
        assert await offers(client, 1, **far, **bearer(KEY)) == {429: 1}
        assert await offers(client, 1, **bearer(KEY)) == {201: 1}


async def test_one_secret_opens_so_many_sessions_and_another_of_the_same_key_its_own() -> None:
    async with guarded(sessions_per_min=5, key_sessions_per_min=8) as client:
        first, second = await new_secret(client), await new_secret(client)
        assert await offers(client, 50, **bearer(first)) == {201: 5, 429: 45}
        assert await offers(client, 5, **bearer(second)) == {201: 3, 429: 2}, "together no more than their key"
        assert await offers(client, 1, **bearer(OTHER_KEY)) == {201: 1}


async def test_one_key_asks_so_often() -> None:
    async with guarded(key_requests_per_min=3) as client:
        assert await offers(client, 5, **bearer(KEY)) == {201: 3, 429: 2}
        assert await offers(client, 1, **bearer(OTHER_KEY)) == {201: 1}


# Pages of other origins. --------------------------------------------------------------------------------------------


async def test_a_listed_page_may_send_its_key_and_read_the_refusal() -> None:
    page = {"Origin": "https://app.example"}
    async with guarded(cors_origins=("https://app.example",)) as client:
        asked = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        }
        async with client.options(CALLS, headers={**page, **asked}) as preflight:
            assert preflight.status == 204
            assert "Authorization" in preflight.headers["Access-Control-Allow-Headers"]
        for key, status in ((WRONG, 401), (KEY, 201)):
            async with client.post(CALLS, data=OFFER, headers={**SDP, **page, **bearer(key)}) as response:
                assert response.status == status
                assert response.headers["Access-Control-Allow-Origin"] == "https://app.example"
                assert "Retry-After" in response.headers["Access-Control-Expose-Headers"]
                assert "Access-Control-Allow-Credentials" not in response.headers
        async with client.ws_connect(SOCKET, headers={**page, **bearer(KEY)}) as ws:
            assert json.loads(await ws.receive_str())["type"] == "session.created"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "192.0.2.1", "[", "localhost.evil.example"])
async def test_a_name_that_points_here_is_not_the_servers_own(host: str) -> None:
    """A page of evil.example, whose name server says 127.0.0.1, is of one origin with what it then reaches."""
    page = {"Host": host, "Origin": f"http://{host}"}
    fake = FakeHost()
    async with served(fake) as client:
        async with client.post(CALLS, data=OFFER, headers={**SDP, **page}) as response:
            assert response.status == 403
        with pytest.raises(WSServerHandshakeError) as refused:
            await client.ws_connect(SOCKET, headers=page)
        assert refused.value.status == 403
        async with client.get("/healthz", headers={"Host": host}) as response:
            assert response.status == 200
    assert (fake.offers, fake.websockets) == ([], [])
    for settings in ({"api_keys": KEYS}, {"insecure": True}):
        async with served(FakeHost(), **settings) as client:
            async with client.get("/v1/duplex/info", headers={"Host": "voice.example", **bearer(KEY)}) as response:
                assert response.status == 200


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1", "[::1]:8080"])
async def test_the_names_of_loopback_are(host: str) -> None:
    async with served(FakeHost()) as client, client.get("/v1/duplex/info", headers={"Host": host}) as response:
        assert response.status == 200


async def test_a_key_does_not_excuse_a_page_that_is_not_listed() -> None:
    host = FakeHost()
    async with guarded(host) as client:
        with pytest.raises(WSServerHandshakeError) as refused:
            await client.ws_connect(SOCKET, headers={"Origin": "https://evil.example", **bearer(KEY)})
        assert refused.value.status == 403
    assert host.websockets == []
