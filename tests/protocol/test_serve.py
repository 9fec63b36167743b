"""The server's life: bound before it is ready, ended in order; and the two commands against each other."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from fake_host import FakeHost, until

from duplex.config import ServerSettings
from duplex.server.serve import listening, serve
from duplex.server.tls import make_certificate, open_tls
from duplex.stages.contract import PackError, Progress
from duplex.talk import end_of_energy, first_audible, read_recording
from duplex.telemetry import Observer

pytestmark = pytest.mark.protocol

CEILING_S = 30.0
SPEECH = Path(__file__).parents[1] / "data" / "speech" / "s00.flac"


async def test_a_server_loads_serves_drains_and_closes() -> None:
    host, observer = FakeHost(), Observer()
    said: list[str] = []
    ready = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(
        serve(lambda: host, ServerSettings(port=0), observer, progress=said.append, ready=ready.set_result)
    )
    async with asyncio.timeout(CEILING_S):
        url = await ready
        assert said == ["the fake model"]
        async with aiohttp.ClientSession(url) as client:
            assert (await client.get("/readyz")).status == 200
        await until(lambda: observer.value("duplex_event_loop_lag_seconds"))
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
    assert host.log == ["start", "drain", "close"]


async def test_the_port_is_bound_while_the_model_loads() -> None:
    class Loading(FakeHost):
        async def start(self, progress: Progress) -> None:
            self.ready = False
            progress("loading")
            await asyncio.Event().wait()

    host = Loading()
    said: list[str] = []
    port = _free_port()
    serving = asyncio.ensure_future(
        serve(lambda: host, ServerSettings(port=port), Observer(), progress=said.append, ready=said.append)
    )
    async with asyncio.timeout(CEILING_S), aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
        await until(lambda: said)
        assert (await client.get("/readyz")).status == 503
        assert (await client.get("/healthz")).status == 200
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
    assert said == ["loading"]
    assert host.log == ["close"]


async def test_a_model_that_cannot_be_loaded_ends_the_server() -> None:
    class Broken(FakeHost):
        async def start(self, progress: Progress) -> None:
            raise PackError("a weight is missing")

    host = Broken()
    with pytest.raises(PackError, match="a weight is missing"):
        await serve(lambda: host, ServerSettings(port=0), Observer(), progress=print, ready=print)
    assert host.log == ["close"]


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def test_a_taken_port_is_told() -> None:
    host = FakeHost()
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(OSError, match="in use"):
            await serve(lambda: host, ServerSettings(port=port), Observer(), progress=print, ready=print)
    assert host.log == ["close"]


@asynccontextmanager
async def command(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `duplex` with its output piped; killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "duplex.cli", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_talk_speaks_to_serve(tmp_path: Path) -> None:
    answer = tmp_path / "answer.wav"
    script = 'model.options.script=["One two three."]'
    async with (
        asyncio.timeout(3 * CEILING_S),
        command("serve", "--port", "0", "--model", "sim", "--set", script) as server,
    ):
        assert server.stdout is not None
        line = (await server.stdout.readline()).decode().split()
        assert line[0] == "ready"
        async with (
            command("talk", str(SPEECH), "--url", line[1], "--out", str(answer), "--json") as talk,
            command("talk", str(SPEECH), "--url", line[1], "--timeout", "0.1") as impatient,
        ):
            printed, complaints = await talk.communicate()
            assert talk.returncode == 0, complaints.decode()
            _, complaints = await impatient.communicate()
            assert impatient.returncode == 1
            assert complaints.decode().startswith("duplex: the answer had not ended 0.1 s after the recording")
        server.terminate()
        _, log = await server.communicate()
        assert server.returncode == 0, log.decode()
    told = json.loads(printed)
    assert told["status"] == "completed"
    assert told["answer"]
    assert told["you"]
    assert told["errors"] == []
    assert 0.1 < told["ttfas_heard_s"] < 5
    assert "ttfas" in told["split"]
    heard, end = read_recording(answer), end_of_energy(read_recording(SPEECH))
    first = first_audible(heard, end)
    assert first is not None
    assert (first - end) / 48_000 == pytest.approx(told["ttfas_heard_s"])
    assert told["answer"].strip() not in log.decode()


async def test_talk_says_why_it_cannot() -> None:
    async with asyncio.timeout(CEILING_S), command("talk", str(SPEECH), "--url", "http://127.0.0.1:9") as talk:
        _, complaints = await talk.communicate()
    assert talk.returncode == 1
    assert "cannot reach http://127.0.0.1:9" in complaints.decode()


async def test_serve_makes_a_certificate_and_says_which(tmp_path: Path) -> None:
    arguments = ("serve", "--port", "0", "--model", "sim", "--tls", "--set", f"server.tls_dir={tmp_path}")
    async with asyncio.timeout(CEILING_S), command(*arguments) as server:
        assert server.stdout is not None
        ready, url = (await server.stdout.readline()).decode().split()
        assert (ready, url.partition(":")[0]) == ("ready", "https")
        trusted = ssl.create_default_context(cafile=tmp_path / "self-signed.pem")
        async with aiohttp.ClientSession(url) as client, client.get("/healthz", ssl=trusted) as response:
            assert response.status == 200
            assert "Strict-Transport-Security" not in response.headers
        server.terminate()
        _, log = await server.communicate()
    shown = x509.load_pem_x509_certificate((tmp_path / "self-signed.pem").read_bytes()).fingerprint(hashes.SHA256())
    assert f"certificate SHA-256 {shown.hex(':').upper()}" in log.decode()


async def test_an_own_certificate_is_for_good(tmp_path: Path) -> None:
    own = tmp_path / "own.pem"
    now = datetime.now(UTC)
    own.write_bytes(make_certificate(["127.0.0.1"], now, 1))
    settings = ServerSettings(port=0, tls_certificate=own, tls_key=own)
    trusted = ssl.create_default_context(cafile=own)
    async with asyncio.timeout(CEILING_S):
        async with (
            listening(FakeHost(), settings, Observer(), tls=open_tls(settings, {}, now)) as url,
            aiohttp.ClientSession(url) as client,
        ):
            async with client.get("/healthz", ssl=trusted) as response:
                assert response.headers["Strict-Transport-Security"] == "max-age=31536000"
            page = {"Origin": url}
            async with client.ws_connect("/v1/realtime", headers=page, ssl=trusted) as ws:
                assert (await ws.receive_json())["type"] == "session.created"


async def test_serve_says_that_keys_travel_in_the_clear(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("app=key-SECRET123-SECRET123\n")
    arguments = ("serve", "--host", "0.0.0.0", "--port", "0", "--model", "sim", "--set", f"server.api_keys_file={keys}")
    async with asyncio.timeout(CEILING_S), command(*arguments) as server:
        assert server.stdout is not None
        url = (await server.stdout.readline()).decode().split()[1]
        async with aiohttp.ClientSession(url) as client, client.get("/v1/duplex/info") as response:
            assert response.status == 401
        server.terminate()
        _, log = await server.communicate()
    assert "keys travel in the clear" in log.decode()
    assert "SECRET123" not in log.decode()


async def test_serve_refuses_to_be_reached_by_others_without_a_key() -> None:
    async with asyncio.timeout(CEILING_S), command("serve", "--host", "0.0.0.0", "--model", "sim") as server:
        printed, complaints = await server.communicate()
    assert (server.returncode, printed) == (2, b"")
    assert "server.host 0.0.0.0 is reachable by others, and no API key is set" in complaints.decode()
