"""At the door, sessions at a time and connections that dawdle (C66)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, WSServerHandshakeError
from fake_host import CEILING_S, FakeHost, served, until, url_of

from duplex.config import ServerSettings
from duplex.server.serve import listening
from duplex.server.tls import open_tls
from duplex.telemetry import Observer

pytestmark = pytest.mark.protocol

KEY = "key-0123456789abcdef"
OTHER_KEY = "key-fedcba9876543210"
CALLS = "/v1/realtime/calls"
SECRETS = "/v1/realtime/client_secrets"
SOCKET = "/v1/realtime"
SDP = {"Content-Type": "application/sdp"}
PROXY = {"trusted_proxies": ("127.0.0.1",)}


class Host(FakeHost):
    """Whose calls live until the test ends them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    def check_room(self) -> None:
        self.asked.set()
        super().check_room()

    async def open_call(self, *args: Any, **named: Any) -> tuple[str, str]:
        _, answer = await super().open_call(*args, **named)
        call_id = f"rtc_{len(self.offers)}"
        self.live.add(call_id)
        return call_id, answer


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def offer(client: ClientSession, headers: dict[str, str]) -> int:
    """Make an offer; a refusal says why and when to come back."""
    async with client.post(CALLS, data="v=0\r\n", headers={**SDP, **headers}) as response:
        if response.status == 429:
            assert (await response.json())["error"]["code"] == "too_many_sessions"
            assert int(response.headers["Retry-After"]) >= 1
        return response.status


async def new_secret(client: ClientSession) -> dict[str, str]:
    async with client.post(SECRETS, headers=bearer(KEY)) as response:
        return bearer((await response.json())["value"])


async def test_one_key_has_so_many_sessions_at_a_time_and_another_its_own() -> None:
    host = Host()
    async with served(host, api_keys={"app": KEY, "other": OTHER_KEY}, key_sessions_max=3) as client:
        assert [await offer(client, bearer(KEY)) for _ in range(5)] == [201, 201, 201, 429, 429]
        assert await offer(client, bearer(OTHER_KEY)) == 201
        assert await offer(client, await new_secret(client)) == 429, "its secrets count too"
        host.live.discard("rtc_2")
        assert [await offer(client, bearer(KEY)) for _ in range(2)] == [201, 429]
    assert len(host.offers) == 5, "nothing is done for who is refused"


async def test_one_secret_that_opens_fifty_sessions_gets_its_share() -> None:
    host = Host()
    async with served(host, api_keys={"app": KEY}, caller_sessions_max=4) as client:
        first, second = await new_secret(client), await new_secret(client)
        statuses = [await offer(client, first) for _ in range(50)]
        assert (statuses.count(201), statuses.count(429)) == (4, 46)
        assert await offer(client, second) == 201
        assert await offer(client, bearer(KEY)) == 201


async def test_one_address_has_so_many_but_not_a_program_with_a_key() -> None:
    far = {"X-Forwarded-For": "203.0.113.9"}
    async with served(Host(), caller_sessions_max=2, **PROXY) as client:
        assert [await offer(client, far) for _ in range(3)] == [201, 201, 429]
        assert await offer(client, {"X-Forwarded-For": "203.0.113.10"}) == 201
        assert [await offer(client, {}) for _ in range(5)] == [201] * 5, "loopback is not counted"
    async with served(Host(), api_keys={"app": KEY}, caller_sessions_max=2, **PROXY) as client:
        assert [await offer(client, far | bearer(KEY)) for _ in range(5)] == [201] * 5
        secrets = [await new_secret(client) for _ in range(3)]
        assert [await offer(client, far | secret) for secret in secrets] == [201, 201, 429]


async def test_a_socket_keeps_its_seat_as_long_as_it_is_open() -> None:
    host = Host()
    async with served(host, api_keys={"app": KEY}, key_sessions_max=1) as client:
        async with client.ws_connect(SOCKET, headers=bearer(KEY)) as ws:
            await ws.receive_json()
            with pytest.raises(WSServerHandshakeError) as refused:
                await client.ws_connect(SOCKET, headers=bearer(KEY))
            assert refused.value.status == 429
            assert await offer(client, bearer(KEY)) == 429
        await until(lambda: host.websockets[0].reasons)
        assert await offer(client, bearer(KEY)) == 201
    assert len(host.websockets) == 1


async def test_an_opening_takes_a_seat_before_its_offer_is_there_and_gives_it_back() -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"v=0"
        await asyncio.Event().wait()

    host = Host()
    async with served(host, api_keys={"app": KEY}, key_sessions_max=1, request_timeout_s=0.5) as client:
        slow = asyncio.ensure_future(client.post(CALLS, data=endless(), headers=SDP | bearer(KEY)))
        async with asyncio.timeout(CEILING_S):
            await host.asked.wait()
            assert await offer(client, bearer(KEY)) == 429
            async with await slow as response:
                assert response.status == 408
            assert await offer(client, bearer(KEY)) == 201


@asynccontextmanager
async def connection(url: str, context: ssl.SSLContext | None = None) -> AsyncIterator[Any]:
    """A bare connection to the server."""
    host, port = url.split("//")[1].split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    try:
        yield reader, writer
    finally:
        writer.close()


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Wait for the server to close."""
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("said", [b"", b"GET /v1/realtime HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nX-A: "])
async def test_a_connection_that_never_asks_is_closed(said: bytes) -> None:
    """No socket is held by saying nothing, or by dripping a head byte by byte."""
    assert ServerSettings().head_timeout_s <= 5
    host = FakeHost()
    async with served(host, head_timeout_s=0.3) as client, connection(url_of(client)) as (reader, writer):
        closed = asyncio.ensure_future(is_closed(reader))
        for byte in said + b"a" * 100_000:
            if closed.done():
                break
            if said:
                writer.write(bytes([byte]))
            await asyncio.sleep(0.02 if said.endswith(bytes([byte])) or byte == ord("a") else 0)
        async with asyncio.timeout(CEILING_S):
            assert await closed
    assert host.websockets == []


async def test_a_second_request_of_a_connection_may_dawdle_no_longer() -> None:
    async with served(FakeHost(), head_timeout_s=0.3) as client, connection(url_of(client)) as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await reader.readuntil(b'{"status": "ok"}')
        writer.write(b"GET /healthz HTTP/1.1\r\n")
        async with asyncio.timeout(CEILING_S):
            assert await is_closed(reader)


async def test_a_session_is_no_idle_connection() -> None:
    host = FakeHost()
    async with served(host, head_timeout_s=0.2) as client, client.ws_connect(SOCKET) as ws:
        await ws.receive_json()
        await asyncio.sleep(0.6)  # three times the bound
        await ws.send_str("still here")
        await until(lambda: host.websockets[0].received)


async def test_a_tls_handshake_that_never_ends_is_closed(tmp_path: Path) -> None:
    settings = ServerSettings(port=0, tls=True, tls_dir=tmp_path, head_timeout_s=0.3)
    tls = open_tls(settings, {}, datetime.now(UTC))
    async with listening(FakeHost(), settings, Observer(), tls=tls) as url, connection(url) as (reader, _):
        async with asyncio.timeout(CEILING_S):
            assert await is_closed(reader)


async def test_a_head_without_end_is_refused() -> None:
    async with served(FakeHost()) as client, connection(url_of(client)) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: " + b"a" * 100_000)
        async with asyncio.timeout(CEILING_S):
            assert (await reader.readline()).split()[1] == b"400"
