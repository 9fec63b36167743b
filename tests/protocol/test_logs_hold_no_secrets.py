"""A key in every place where a client may put one: none of them reaches a log, a measure or an answer (C70); nor does what is said."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import structlog
from aiohttp import ClientSession, WSServerHandshakeError
from duplex_models.sim import SimOptions, make
from fake_host import FakeHost, served, url_of
from openai import APIStatusError, AsyncOpenAI

from duplex.actor.host import SessionHost
from duplex.config import load
from duplex.server.serve import listening
from duplex.telemetry import Observer, configure_logging

pytestmark = pytest.mark.protocol

CEILING_S = 30.0
SECRET = "SECRET123"
BEARER = {"Authorization": f"Bearer {SECRET}"}


@contextmanager
def logging_to(stream: io.StringIO) -> Iterator[None]:
    """Log everything to `stream`, as a process at debug level does."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    configure_logging("debug", stream)
    try:
        yield
    finally:
        structlog.reset_defaults()
        logging.captureWarnings(False)
        root.handlers[:], root.level = before


async def test_no_key_is_logged_measured_or_echoed() -> None:
    written = io.StringIO()
    answers: list[str] = []
    host = FakeHost()
    with logging_to(written):
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
    log = written.getvalue()
    assert "request_failed" in log
    assert "session_failed" in log
    assert "/v1/realtime/calls" in log
    assert SECRET not in log
    assert not [answer for answer in answers if SECRET in answer]


UNREADABLE = [
    f"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {SECRET}{'a' * 100_000}",
    f"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nBearer {SECRET}: a\r\n\r\n",
    f"GET /?token={SECRET}{'a' * 100_000} HTTP/1.1\r\n\r\n",
    f"{SECRET} / HTTP/9.9\r\n\r\n",
]


@pytest.mark.parametrize("head", UNREADABLE)
async def test_what_is_no_request_is_not_quoted(head: str) -> None:
    """The HTTP library's own words repeat what it could not read, which may be a key."""
    written = io.StringIO()
    with logging_to(written):
        async with served(FakeHost()) as client, asyncio.timeout(CEILING_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url_of(client).rsplit(":", 1)[1]))
            writer.write(head.encode())
            answer = (await reader.read()).decode()
            writer.close()
    assert answer.split()[1] == "400"
    assert "bad_request" in answer and "Server: duplex" in answer
    assert SECRET not in answer
    assert "request_unreadable" in written.getvalue()
    assert SECRET not in written.getvalue()
    assert '"level": "error"' not in written.getvalue(), "anybody can send it, without end"


async def test_nothing_of_a_session_with_a_key_is_logged() -> None:
    key, said, answer, prompt = "key-SECRET123-SECRET123", "Zanzibar calling", "Wombat replying", "Quokka instructions"
    written = io.StringIO()
    with logging_to(written):
        settings = load(server={"port": 0, "close_timeout_s": 1.0, "api_keys": {"app": key}}, log_level="debug")
        observer = Observer()
        host = SessionHost(settings, make(SimOptions(script=(answer,))), observer.record)
        async with listening(host, settings.server, observer) as url, asyncio.timeout(CEILING_S):
            await host.start(lambda line: None)
            openai = AsyncOpenAI(api_key=key, base_url=f"{url}/v1", max_retries=0)
            session = {"type": "realtime", "instructions": prompt, "output_modalities": ["text"]}
            made = await openai.realtime.client_secrets.create(session=session)
            browser = AsyncOpenAI(api_key=made.value, base_url=f"{url}/v1", max_retries=0)
            async with browser.realtime.connect(model="any") as connection:
                created = await connection.recv()
                assert created.session.instructions == prompt
                await connection.conversation.item.create(
                    item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": said}]}
                )
                await connection.response.create()
                await connection.input_audio_buffer.append(audio="!" + said)
                async for event in connection:
                    if event.type == "response.done":
                        break
                assert answer.split()[0] in event.model_dump_json()
            with pytest.raises(APIStatusError):
                await browser.realtime.calls.create(sdp=said)
            async with AsyncOpenAI(api_key=said * 2, base_url=f"{url}/v1", max_retries=0) as stranger:
                with pytest.raises(APIStatusError):
                    await stranger.realtime.calls.create(sdp=said)
            async with ClientSession(url, headers={"Authorization": f"Bearer {key}"}) as operator:
                measures = await (await operator.get("/metrics")).text()
            await openai.close()
            await browser.close()
    secrets = [key, made.value, *said.split(), *answer.split(), *prompt.split()]
    log = written.getvalue()
    assert '"websocket_closed"' in log and '"status": 401' in log
    assert [secret for secret in secrets if secret in log] == []
    assert [secret for secret in secrets if secret in measures] == []
