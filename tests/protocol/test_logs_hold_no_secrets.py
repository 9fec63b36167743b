"""A key in every place where a client may put one: none of them reaches a log, a measure or an answer (C70)."""

from __future__ import annotations

import io
import logging

import pytest
import structlog
from aiohttp import WSServerHandshakeError
from fake_host import FakeHost, served

from duplex.telemetry import configure_logging

pytestmark = pytest.mark.protocol

SECRET = "SECRET123"
BEARER = {"Authorization": f"Bearer {SECRET}"}


async def test_no_key_is_logged_measured_or_echoed() -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    written = io.StringIO()
    configure_logging("debug", written)
    answers: list[str] = []
    host = FakeHost()
    try:
        async with served(host) as client:
            for path in ("/v1/realtime/calls", f"/v1/realtime/calls?token={SECRET}", f"/v1/{SECRET}"):
                for headers in (BEARER, {"Content-Type": "application/sdp", **BEARER}):
                    response = await client.post(path, data=f"v=0\r\na={SECRET}\r\n", headers=headers)
                    answers += [await response.text(), str(response.headers)]
            host.refusal = ValueError(SECRET)
            response = await client.post(
                "/v1/realtime/calls", data=SECRET, headers={"Content-Type": "application/sdp", **BEARER}
            )
            answers += [await response.text(), str(response.headers)]
            host.refusal = None
            protocols = ("realtime", f"openai-insecure-api-key.{SECRET}")
            async with client.ws_connect(f"/v1/realtime?token={SECRET}", protocols=protocols, headers=BEARER) as ws:
                answers += [str(ws._response.headers), (await ws.receive_str())]
                host.websockets[0].on_receive = lambda event: (_ for _ in ()).throw(ValueError(event))
                await ws.send_str(f'{{"type":"{SECRET}"}}')
                await ws.receive()
            with pytest.raises(WSServerHandshakeError):
                await client.ws_connect(f"/v1/realtime?call_id={SECRET}")
            answers.append(await (await client.get("/metrics")).text())
    finally:
        structlog.reset_defaults()
        logging.captureWarnings(False)
        root.handlers[:], root.level = before
    log = written.getvalue()
    assert "request_failed" in log
    assert "session_failed" in log
    assert "/v1/realtime/calls" in log
    assert SECRET not in log
    assert not [answer for answer in answers if SECRET in answer]
