"""Frames, bodies and offers without measure, over real sockets: refused, and nothing is kept of them (C66, C68, C73)."""

from __future__ import annotations

import asyncio
import json
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, WSMsgType
from duplex_models.sim import SimOptions, make
from fake_host import FakeHost, served, url_of
from live_server import live
from test_live_call import Caller

from duplex.actor.host import SessionHost
from duplex.config import load
from duplex.media import rtc
from duplex.server.serve import listening
from duplex.telemetry import Observer

pytestmark = pytest.mark.protocol

CEILING_S = 60.0
KEY = "key-0123456789abcdef"
CALLS = "/v1/realtime/calls"
SDP = {"Content-Type": "application/sdp"}
BOMB_MIB = 256
GROWTH_MIB_MAX = 96
"""Generous: a bomb, or a frame that is kept whole, would be more."""


def resident_mib() -> float:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def bomb() -> bytes:
    """Zeros, squeezed to a thousandth: blocks that end in a full flush can be repeated."""
    squeezed = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (squeezed.compress(bytes(2**20)) + squeezed.flush(zlib.Z_FULL_FLUSH)) * BOMB_MIB


async def test_c73_an_append_of_32_mib_is_not_taken_in() -> None:
    async with live() as (url, observer), ClientSession(url) as client:
        async with client.ws_connect("/v1/realtime", max_msg_size=0) as ws:
            assert (await ws.receive_json())["type"] == "session.created"
            text = json.dumps({"type": "input_audio_buffer.append", "audio": "A" * 32 * 2**20})
            before = resident_mib()
            try:
                await ws.send_str(text)
            except ConnectionError:
                pass  # the server does not read to the end of it
            while (last := await ws.receive()).type == WSMsgType.TEXT:
                continue
            assert resident_mib() - before < GROWTH_MIB_MAX
            assert last.type in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.ERROR)
            assert ws.close_code in (1009, 1006)
        while observer.value("duplex_sessions"):  # noqa: ASYNC110 - under the ceiling of `live`
            await asyncio.sleep(0.01)


async def closed_with(reader: asyncio.StreamReader) -> int | None:
    """Read to the end and return the close frame's code; None: it was lost in a reset."""
    frames = b""
    try:
        while more := await reader.read(4096):
            frames += more
    except ConnectionResetError:
        pass  # what was not read of us
    close = frames.find(b"\x88")
    return None if close < 0 else int.from_bytes(frames[close + 2 : close + 4], "big")


async def test_c73_a_frame_that_says_it_is_compressed_is_not_inflated() -> None:
    host = FakeHost()
    async with served(host) as client, asyncio.timeout(CEILING_S):
        port = int(url_of(client).rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"GET /v1/realtime HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 101 " in head and b"Extensions" not in head
        squeezed = bomb()
        before = resident_mib()
        # FIN, RSV1 (compressed) and text; masked with zeros, which changes nothing.
        writer.write(struct.pack("!BBQI", 0xC1, 0xFF, len(squeezed), 0) + squeezed)
        assert await closed_with(reader) in (1002, None), "closed as a protocol error"
        assert resident_mib() - before < GROWTH_MIB_MAX
        writer.close()
    assert host.websockets[0].received == []


@pytest.mark.parametrize("encoding", ["deflate", "gzip", "br", "zstd"])
async def test_c73_a_compressed_body_is_not_inflated(encoding: str) -> None:
    host = FakeHost()
    async with served(host, sdp_bytes_max=2**20) as client:
        squeezed = bomb()
        assert len(squeezed) < 2**20
        before = resident_mib()
        headers = SDP | {"Content-Encoding": encoding}
        async with client.post(CALLS, data=squeezed, headers=headers) as response:
            assert response.status == 400
        assert resident_mib() - before < GROWTH_MIB_MAX
    assert host.offers == []


async def refused_items(caller: Caller) -> list[Any]:
    """Send images that are to be fetched from elsewhere, and return what each is answered."""
    answers = []
    for url in ("http://127.0.0.1:1/x.png", "http://169.254.169.254/latest", "file:///etc/passwd"):
        content = [{"type": "input_image", "image_url": url}]
        caller.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        answers.append((await caller.until("error"))[-1]["error"]["code"])
    return answers


@asynccontextmanager
async def spied(monkeypatch: pytest.MonkeyPatch, **server: Any) -> AsyncIterator[tuple[str, list[object]]]:
    """Serve with the real host; yields the URL and the peer connections that were built."""
    built: list[object] = []
    make_connection = rtc.connection
    monkeypatch.setattr(rtc, "connection", lambda own: (built.append(own), make_connection(own))[1])
    settings = load(server={"port": 0, "close_timeout_s": 1.0, **server})
    observer = Observer()
    host = SessionHost(settings, make(SimOptions(script=("One two.",))), observer.record)
    async with listening(host, settings.server, observer) as url, asyncio.timeout(CEILING_S):
        await host.start(lambda line: None)
        built.clear()  # the media path was warmed with one
        yield url, built


async def test_c68_servers_and_pictures_that_the_client_names_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """`iceServers` in the session object, and images by address."""
    asked: list[object] = []

    class Asked(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: object) -> None:
            asked.append(addr)

    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(Asked, local_addr=("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    async with spied(monkeypatch) as (url, _), ClientSession(url) as client:
        caller = Caller()
        servers = [
            {"urls": f"{scheme}:127.0.0.1:{port}", "username": "u", "credential": "p"} for scheme in ("stun", "turn")
        ]
        session = json.dumps({"type": "realtime", "iceServers": servers})
        boundary = "b0undary"
        form = "".join(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\nContent-Type: {kind}\r\n\r\n{text}\r\n'
            for name, kind, text in (
                ("sdp", "application/sdp", await caller.offer()),
                ("session", "application/json", session),
            )  # fmt: skip
        )
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        async with client.post(CALLS, data=f"{form}--{boundary}--\r\n", headers=headers) as response:
            assert response.status == 201
            call = response.headers["Location"]
            await caller.connect(await response.text())
        await caller.until("conversation.created")
        assert await refused_items(caller) == ["unsupported"] * 3
        async with client.post(f"{call}/hangup") as response:
            assert response.status == 200
        await caller.peer.close()
    transport.close()
    assert asked == []


async def test_c66_five_hundred_offers_without_a_key_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No peer connection is built before the key is known, and who has one is served meanwhile."""
    async with spied(monkeypatch, api_keys={"app": KEY}) as (url, built), ClientSession(url) as client:

        async def offer() -> int:
            async with client.post(CALLS, data="v=0\r\n", headers=SDP) as response:
                return response.status

        flood = asyncio.gather(*(offer() for _ in range(500)))
        async with client.ws_connect("/v1/realtime", headers={"Authorization": f"Bearer {KEY}"}) as ws:
            await ws.send_str(json.dumps({"type": "response.create", "response": {"output_modalities": ["text"]}}))
            while (event := await ws.receive_json())["type"] != "response.done":
                continue
            assert event["response"]["status"] == "completed"
        assert await flood == [401] * 500
        assert built == []
        caller = Caller()
        headers = SDP | {"Authorization": f"Bearer {KEY}"}
        async with client.post(CALLS, data=await caller.offer(), headers=headers) as response:
            assert response.status == 201
        assert len(built) == 1
        await caller.peer.close()
