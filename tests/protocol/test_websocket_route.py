"""WebSocket sessions over a fake host: the upgrade, both directions, and every way of ending."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest
from aiohttp import WSMsgType, WSServerHandshakeError
from fake_host import FakeHost, FakeSession, served, until, url_of
from openai import AsyncOpenAI

from duplex.protocol import ServerBusy
from duplex.server.transport import WebSocketTransport

pytestmark = pytest.mark.protocol

PATH = "/v1/realtime"
CEILING_S = 10.0


async def test_events_cross_in_both_directions() -> None:
    host = FakeHost()
    async with served(host) as client, client.ws_connect(f"{PATH}?model=any") as ws:
        assert (await ws.receive_json())["type"] == "session.created"
        session = host.websockets[0]
        session.on_receive = lambda event: session.transport.send('{"type":"answer"}')
        await ws.send_str('{"type":"x"}')
        assert (await ws.receive_json())["type"] == "answer"
        assert session.received == ['{"type":"x"}']
        assert session.opened == 1
    await until(lambda: session.reasons)
    assert session.reasons == ["client"]


async def test_frames_arrive_as_what_they_were() -> None:
    host = FakeHost()
    async with served(host) as client, client.ws_connect(PATH) as ws:
        await ws.send_str("text é")
        await ws.send_bytes(b"binary")
        await ws.send_frame(b"\xff\xfe", WSMsgType.TEXT)
        await ws.send_str("after")
        await until(lambda: len(host.websockets[0].received) == 4)
        assert host.websockets[0].received == ["text é", b"binary", b"\xff\xfe", "after"]


async def test_only_the_subprotocol_realtime_is_selected() -> None:
    offered = ("openai-insecure-api-key.SECRET123", "realtime", "openai-agents-sdk.0.20.0")
    async with served(FakeHost()) as client, client.ws_connect(PATH, protocols=offered) as ws:
        assert ws.protocol == "realtime"
        assert "SECRET123" not in str(ws._response.headers)


async def test_the_openai_client_connects() -> None:
    host = FakeHost()
    async with served(host) as client:
        openai = AsyncOpenAI(api_key="none", base_url=url_of(client, "/v1"))
        async with openai.realtime.connect(model="any") as connection:
            session = {"type": "realtime", "id": "sess_1"}
            await until(lambda: host.websockets)
            host.websockets[0].transport.send(
                json.dumps({"type": "session.updated", "event_id": "e", "session": session})
            )
            assert (await connection.recv()).type == "session.created"
            updated = await connection.recv()
            assert updated.type == "session.updated"
            await connection.input_audio_buffer.append(audio="AAAA")
            await until(lambda: host.websockets[0].received)
        await openai.close()


@pytest.mark.parametrize(
    ("prepare", "status"),
    [
        (lambda host: setattr(host, "refusal", ServerBusy(7)), 503),
        (lambda host: setattr(host, "ready", False), 503),
    ],
)
async def test_no_room_is_told_before_the_upgrade(prepare: Any, status: int) -> None:
    host = FakeHost()
    prepare(host)
    async with served(host) as client:
        with pytest.raises(WSServerHandshakeError) as refused:
            await client.ws_connect(PATH)
        assert refused.value.status == status
        assert refused.value.headers is not None
        assert "Retry-After" in refused.value.headers


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (f"{PATH}?call_id=rtc_9", {}, 404),
        (f"{PATH}?intent=x", {}, 400),
        (PATH, {"Origin": "https://evil.example"}, 403),
    ],
)
async def test_upgrades_that_are_refused(path: str, headers: dict[str, str], status: int) -> None:
    host = FakeHost()
    async with served(host) as client:
        with pytest.raises(WSServerHandshakeError) as refused:
            await client.ws_connect(path, headers=headers)
        assert refused.value.status == status
    assert host.websockets == []


async def test_a_huge_event_closes_with_1009() -> None:
    host = FakeHost()
    async with served(host, event_bytes_max=2048) as client, client.ws_connect(PATH) as ws:
        await ws.receive_json()
        await ws.send_str("x" * 4096)
        message = await ws.receive()
        assert message.type == WSMsgType.CLOSE
        assert ws.close_code == 1009
        await until(lambda: host.websockets[0].reasons)
        assert host.websockets[0].reasons == ["error"]
        assert host.websockets[0].received == []


async def test_nothing_is_ever_inflated() -> None:
    """A compressed bomb needs the extension, which is never agreed on (C73)."""
    async with served(FakeHost()) as client, client.ws_connect(PATH, compress=15) as ws:
        assert "Sec-WebSocket-Extensions" not in ws._response.headers


async def test_a_session_that_fails_ends_alone() -> None:
    host = FakeHost()

    def fail(event: object) -> None:
        raise ValueError("broken")

    async with served(host) as client, client.ws_connect(PATH) as ws, client.ws_connect(PATH) as other:
        await ws.receive_json()
        host.websockets[0].on_receive = fail
        await ws.send_str("x")
        assert (await ws.receive()).type == WSMsgType.CLOSE
        assert ws.close_code == 1011
        await until(lambda: host.websockets[0].reasons)
        assert host.websockets[0].reasons == ["error"]
        assert (await other.receive_json())["type"] == "session.created"
        assert host.websockets[1].reasons == []


async def test_the_server_sends_what_waits_and_closes() -> None:
    host = FakeHost()
    async with served(host) as client, client.ws_connect(PATH) as ws:
        await ws.receive_json()
        session = host.websockets[0]
        for n in range(100):
            session.transport.send(json.dumps({"n": n}))
        closing = asyncio.ensure_future(session.transport.close("server"))
        await asyncio.sleep(0)
        session.transport.send('{"n": "dropped"}')
        assert [(await ws.receive_json())["n"] for _ in range(100)] == list(range(100))
        assert (await ws.receive()).type == WSMsgType.CLOSE
        assert ws.close_code == 1001
        async with asyncio.timeout(CEILING_S):
            await closing
            await session.transport.close("server")
        await until(lambda: session.reasons)
        assert session.reasons == ["server"]


async def test_a_client_that_answers_no_ping_has_vanished() -> None:
    host = FakeHost()
    async with served(host, websocket_ping_s=0.1) as client, client.ws_connect(PATH, autoping=False) as ws:
        await ws.receive_json()
        await until(lambda: host.websockets[0].reasons)
        assert host.websockets[0].reasons == ["vanished"]


async def test_a_client_that_answers_pings_stays() -> None:
    host = FakeHost()
    async with served(host, websocket_ping_s=0.02) as client, client.ws_connect(PATH, autoping=False) as ws:
        await ws.receive_json()
        for _ in range(5):
            ping = await ws.receive(timeout=CEILING_S)
            assert ping.type == WSMsgType.PING
            await ws.pong(ping.data)
        assert host.websockets[0].reasons == []


async def test_a_session_that_is_behind_is_not_fed() -> None:
    host = FakeHost()
    async with served(host, backlog_ms_max=100) as client, client.ws_connect(PATH) as ws:
        await ws.receive_json()
        session = host.websockets[0]

        def fall_behind(event: object) -> None:
            session.backlog_ms = 1000 if len(session.received) == 1 else 0

        session.on_receive = fall_behind
        await ws.send_str("1")
        await ws.send_str("2")
        await until(lambda: session.received)
        await asyncio.sleep(0.05)
        assert session.received == ["1"]
        session.backlog_ms = 0
        await until(lambda: len(session.received) == 2)


async def raw_client(port: int) -> socket.socket:
    """Upgrade by hand and read nothing more."""
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await loop.sock_connect(sock, ("127.0.0.1", port))
    upgrade = (
        f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    await loop.sock_sendall(sock, upgrade.encode())
    return sock


async def test_a_client_that_reads_nothing_is_cut() -> None:
    host = FakeHost()
    async with served(host, outbox_bytes_max=1_000_000, close_timeout_s=0.2) as client:
        sock = await raw_client(int(url_of(client).rsplit(":", 1)[1]))
        try:
            await fill_until_cut(host)
        finally:
            sock.close()


async def fill_until_cut(host: FakeHost) -> None:
    """Send to a client that reads nothing until the server gives up on it."""
    await until(lambda: host.websockets and host.websockets[0].opened)
    session = host.websockets[0]
    transport = session.transport
    assert isinstance(transport, WebSocketTransport)
    event = json.dumps({"type": "x", "padding": "y" * 100_000})

    def fill() -> bool:
        transport.send(event)
        assert transport.stats().bytes <= 1_000_000
        return bool(session.reasons)

    await until(fill)
    assert session.reasons == ["outbox_overflow"]
    assert transport.stats().events == 0


async def test_a_transport_that_was_never_connected_can_be_closed() -> None:
    transport = WebSocketTransport(outbox_bytes_max=10, close_timeout_s=0.01)
    session = FakeSession(transport)
    session.transport.send("x" * 20)
    assert transport.close_reason == "outbox_overflow"
    transport.detach()
    async with asyncio.timeout(CEILING_S):
        await transport.close("server")
    assert transport.stats().bytes == 0
