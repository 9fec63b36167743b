"""The HTTP routes over a fake host: calls, health, the page, origins, and errors of one shape."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from fake_host import ANSWER, FakeHost, served, url_of
from openai import AsyncOpenAI, NotFoundError

from duplex.media.sdp import OfferError
from duplex.protocol import ServerBusy, SessionRejected
from duplex.server.middleware import SECURITY_HEADERS

pytestmark = pytest.mark.protocol

CALLS = "/v1/realtime/calls"
SDP = {"Content-Type": "application/sdp"}
OFFER = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\n"


async def error_of(response: aiohttp.ClientResponse) -> dict[str, Any]:
    body = await response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"type", "code", "message", "param"}
    assert body["error"]["type"] == ("server_error" if response.status >= 500 else "invalid_request_error")
    error: dict[str, Any] = body["error"]
    return error


def form(**parts: str) -> aiohttp.FormData:
    types = {"sdp": "application/sdp", "session": "application/json"}
    body = aiohttp.FormData(default_to_multipart=True)
    for name, text in parts.items():
        body.add_field(name, text, content_type=types.get(name, "text/plain"))
    return body


async def test_an_offer_as_the_body_opens_a_call() -> None:
    host = FakeHost()
    async with served(host) as client, client.post(CALLS, data=OFFER, headers=SDP) as response:
        assert response.status == 201
        assert await response.text() == ANSWER
        assert response.content_type == "application/sdp"
        assert response.headers["Location"] == f"{CALLS}/rtc_1"
        assert "Location" in response.headers["Access-Control-Expose-Headers"]
    assert host.offers == [(OFFER, None)]


async def test_a_trusted_header_names_the_tenant() -> None:
    host = FakeHost()
    async with served(host, tenant_header="X-Tenant") as client:
        await client.post(CALLS, data=OFFER, headers={**SDP, "X-Tenant": "gold"})
        await client.post(CALLS, data=OFFER, headers=SDP)
        refused = await client.post(CALLS, data=OFFER, headers={**SDP, "X-Tenant": "x" * 65})
        assert refused.status == 400 and (await error_of(refused))["code"] == "invalid_tenant"
    async with served(host) as client:
        await client.post(CALLS, data=OFFER, headers={**SDP, "X-Tenant": "gold"})
    assert host.tenants == ["gold", "default", "default"]


async def test_an_offer_in_a_form_brings_its_session() -> None:
    host = FakeHost()
    session = {"type": "realtime", "instructions": "Be brief."}
    async with served(host) as client:
        response = await client.post(CALLS, data=form(sdp=OFFER, session=json.dumps(session)))
        assert response.status == 201
    assert host.offers == [(OFFER, session)]


async def test_the_openai_client_makes_and_ends_calls() -> None:
    host = FakeHost()
    async with served(host) as client:
        openai = AsyncOpenAI(api_key="none", base_url=url_of(client, "/v1"), max_retries=0)
        plain = await openai.realtime.calls.create(sdp=OFFER)
        assert plain.text == ANSWER
        created = await openai.realtime.calls.create(sdp=OFFER, session={"type": "realtime", "instructions": "Hi."})
        assert created.response.headers["Location"] == f"{CALLS}/rtc_1"
        await openai.realtime.calls.hangup("rtc_1")
        with pytest.raises(NotFoundError):
            await openai.realtime.calls.hangup("rtc_2")
        await openai.close()
    assert host.offers == [(OFFER, None), (OFFER, {"type": "realtime", "instructions": "Hi."})]


@pytest.mark.parametrize(
    ("refusal", "status", "code", "param", "retry"),
    [
        (OfferError(422, "no audio codec in common"), 422, "invalid_offer", "sdp", None),
        (SessionRejected("invalid_value", "No.", "session.type"), 400, "invalid_value", "session.type", None),
        (ServerBusy(7), 503, "server_busy", None, "7"),
    ],
)
async def test_refusals_of_the_host(
    refusal: Exception, status: int, code: str, param: str | None, retry: str | None
) -> None:
    host = FakeHost()
    host.refusal = refusal
    async with served(host) as client:
        response = await client.post(CALLS, data=OFFER, headers=SDP)
        error = await error_of(response)
    assert (response.status, error["code"], error["param"]) == (status, code, param)
    assert response.headers.get("Retry-After") == retry


async def test_a_broken_host_is_an_error_without_details() -> None:
    host = FakeHost()
    host.refusal = RuntimeError("SECRET123")
    async with served(host) as client:
        response = await client.post(CALLS, data=OFFER, headers=SDP)
        assert response.status == 500
        assert "SECRET123" not in str(await error_of(response))


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        ({"data": b"x" * 2000, "headers": SDP}, 413, "too_large"),
        ({"data": form(sdp="x" * 2000)}, 413, "too_large"),
        ({"data": form(sdp=OFFER, session="[" + " " * 2000 + "]")}, 413, "too_large"),
        ({"data": b"\xff\xfe", "headers": SDP}, 400, "invalid_utf8"),
        ({"data": b"{}", "headers": {"Content-Type": "application/json"}}, 415, "unsupported_media_type"),
        ({"data": form(session="{}")}, 400, "missing_required_parameter"),
        ({"data": form(sdp=OFFER, session="{")}, 400, "invalid_json"),
        ({"data": form(sdp=OFFER, session="[]")}, 400, "invalid_type"),
        ({"data": form(sdp=OFFER, other="x")}, 400, "invalid_form"),
        ({"data": b"rubbish", "headers": {"Content-Type": "multipart/form-data"}}, 400, "invalid_form"),
        ({"data": b"rubbish", "headers": {"Content-Type": "multipart/form-data; boundary=b"}}, 400, "invalid_form"),
    ],
)
async def test_bad_bodies_never_reach_the_host(request_: dict[str, Any], status: int, code: str) -> None:
    host = FakeHost()
    async with served(host, sdp_bytes_max=1024, session_bytes_max=1024) as client:
        response = await client.post(CALLS, **request_)
        assert (response.status, (await error_of(response))["code"]) == (status, code)
    assert host.offers == []


async def test_a_body_that_never_ends_is_given_up() -> None:
    host = FakeHost()

    async def endless() -> Any:
        yield b"v=0"
        await asyncio.Event().wait()

    async with served(host, request_timeout_s=0.05) as client:
        response = await client.post(CALLS, data=endless(), headers=SDP)
        assert (response.status, (await error_of(response))["code"]) == (408, "request_timeout")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("POST", f"{CALLS}/rtc_1/accept", 400, "sip_only"),
        ("POST", f"{CALLS}/rtc_1/refer", 400, "sip_only"),
        ("POST", f"{CALLS}/rtc_1/reject", 400, "sip_only"),
        ("POST", f"{CALLS}/rtc_9/hangup", 404, "call_not_found"),
        ("POST", f"{CALLS}/%00/hangup", 404, "call_not_found"),
        ("POST", "/v1/realtime/client_secrets", 501, "unsupported"),
        ("GET", "/v1/realtime", 426, "upgrade_required"),
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", CALLS, 405, "method_not_allowed"),
    ],
)
async def test_what_there_is_not(method: str, path: str, status: int, code: str) -> None:
    async with served(FakeHost()) as client, client.request(method, path) as response:
        assert (response.status, (await error_of(response))["code"]) == (status, code)


async def test_health_and_readiness_follow_the_host() -> None:
    host = FakeHost()
    host.ready, host.not_ready_reasons = False, ["loading the model"]
    async with served(host) as client:
        assert (await client.get("/healthz")).status == 200
        waiting = await client.get("/readyz")
        assert waiting.status == 503
        assert (await waiting.json())["reasons"] == ["loading the model"]
        refused = await client.post(CALLS, data=OFFER, headers=SDP)
        assert refused.status == 503
        assert "loading the model" in (await error_of(refused))["message"]
        assert refused.headers["Retry-After"] == "2"
        host.ready = True
        assert (await client.get("/readyz")).status == 200


async def test_info_names_the_model_and_says_that_it_is_none() -> None:
    async with served(FakeHost()) as client:
        shown = await (await client.get("/v1/duplex/info")).json()
    assert shown["model"] == {
        "name": "fake", "test_double": True, "notice": "Not a model.", "voices": ["low"], "sessions_max": 3,
        "reads_camera": False,
    }  # fmt: skip
    assert shown["version"]


async def test_metrics_are_served() -> None:
    async with served(FakeHost()) as client:
        response = await client.get("/metrics")
        assert response.content_type == "text/plain"
        assert "duplex_stale_packets_total 0.0" in await response.text()


async def test_the_page_is_served_with_its_headers(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>page")
    (tmp_path / "assets" / "page.js").write_text("1")
    (tmp_path.parent / "outside.txt").write_text("secret")
    async with served(FakeHost(), page_dir=tmp_path) as client:
        page = await client.get("/")
        assert await page.text() == "<!doctype html>page"
        policy = page.headers["Content-Security-Policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert page.headers["X-Content-Type-Options"] == "nosniff"
        assert (await client.get("/assets/page.js")).content_type.endswith("javascript")
        assert (await client.get("/%2e%2e/outside.txt")).status in (403, 404)


async def test_a_page_that_was_not_built_says_how(tmp_path: Path) -> None:
    async with served(FakeHost(), page_dir=tmp_path) as client:
        response = await client.get("/")
        assert response.status == 503
        assert "npm run build" in await response.text()


def cors(origin: str) -> dict[str, str]:
    return {"Origin": origin, **SDP}


async def test_pages_of_other_origins_are_refused_unless_listed() -> None:
    host = FakeHost()
    async with served(host, cors_origins=("https://app.example",)) as client:
        foreign = await client.post(CALLS, data=OFFER, headers=cors("https://evil.example"))
        assert (foreign.status, (await error_of(foreign))["code"]) == (403, "origin_not_allowed")
        assert "Access-Control-Allow-Origin" not in foreign.headers
        assert host.offers == []
        own = await client.post(CALLS, data=OFFER, headers=cors(url_of(client)))
        assert own.status == 201
        listed = await client.post(CALLS, data=OFFER, headers=cors("https://app.example"))
        assert listed.status == 201
        assert listed.headers["Access-Control-Allow-Origin"] == "https://app.example"
        assert listed.headers["Vary"] == "Origin"


@pytest.mark.parametrize("origin", ["http://[", "null", ""])
async def test_an_origin_that_is_none_is_refused(origin: str) -> None:
    async with served(FakeHost()) as client, client.post(CALLS, data=OFFER, headers=cors(origin)) as response:
        assert (response.status, (await error_of(response))["code"]) == (403, "origin_not_allowed")
        assert response.headers["Server"] == "duplex"


async def test_a_preflight_allows_what_stock_browser_clients_send() -> None:
    async with served(FakeHost(), cors_origins=("*",)) as client:
        response = await client.options(CALLS, headers={"Origin": "https://any.example"})
        assert response.status == 204
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        allowed = {name.strip() for name in response.headers["Access-Control-Allow-Headers"].split(",")}
        assert {"Authorization", "Content-Type", "X-OpenAI-Agents-SDK"} <= allowed
        stainless = ("Arch", "Lang", "OS", "Package-Version", "Retry-Count", "Runtime", "Runtime-Version", "Timeout")
        assert {f"X-Stainless-{name}" for name in stainless} <= allowed  # the openai package of npm in a page
        assert "Location" in response.headers["Access-Control-Expose-Headers"]


async def test_a_preflight_of_a_foreign_page_is_refused() -> None:
    async with served(FakeHost()) as client:
        assert (await client.options(CALLS, headers={"Origin": "https://any.example"})).status == 403


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 200), ("GET", "/healthz", 200), ("GET", "/v1/nothing", 404), ("POST", CALLS, 415)],
)
async def test_every_answer_has_the_security_headers(method: str, path: str, status: int, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>page")
    async with served(FakeHost(), page_dir=tmp_path) as client, client.request(method, path) as response:
        assert response.status == status
        assert {name: response.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    for part in (
        "default-src 'none'",
        "script-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ):
        assert f"{part};" in f"{policy};"
    assert "unsafe" not in policy and "*" not in policy and "http" not in policy
