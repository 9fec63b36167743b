"""The live snapshot, sessions' traces and `duplex trace`, over the real host with the test double as its model."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from aiohttp import ClientResponse, ClientSession, ClientWebSocketResponse
from duplex_models.sim import SimOptions, make
from fake_host import until
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from duplex.actor.host import SessionHost
from duplex.cli import FAILED, main
from duplex.config import Settings, load
from duplex.server.dashboard import Dashboard
from duplex.server.serve import listening
from duplex.telemetry import Observer
from duplex.telemetry.hub import Telemetry
from duplex.telemetry.live import Live
from duplex.telemetry.setup import ProcessClock
from duplex.telemetry.snapshot import Snapshot

pytestmark = pytest.mark.protocol

CEILING_S = 30.0
ANSWER = "Marmalade is an answer that nobody else may read."
QUESTION = "Is it marmalade?"


@dataclass
class Served:
    """A server that is being looked at."""

    url: str
    client: ClientSession
    telemetry: Telemetry

    async def live(self) -> dict[str, Any]:
        """Return one snapshot."""
        async with self.client.get("/v1/duplex/live", params={"once": "1"}) as response:
            assert response.status == 200
            assert response.content_type == "application/json"
            snapshot: dict[str, Any] = await response.json()
            return snapshot


@asynccontextmanager
async def served(**telemetry: Any) -> AsyncIterator[Served]:
    settings: Settings = load(server={"port": 0, "close_timeout_s": 1.0}, telemetry={"live_per_s": 30} | telemetry)
    observer = Observer()
    looks = Telemetry(settings.telemetry, observer, ProcessClock())
    host = SessionHost(settings, make(SimOptions(script=(ANSWER,))), observer.record, looks)
    async with (
        asyncio.timeout(CEILING_S),
        listening(host, settings.server, observer, looks) as url,
        ClientSession(url) as client,
    ):
        await host.start(lambda line: None)
        yield Served(url, client, looks)


async def receive(ws: ClientWebSocketResponse, kind: str) -> dict[str, Any]:
    """Receive events up to the first of a type."""
    while True:
        event: dict[str, Any] = await ws.receive_json()
        if event["type"] == kind:
            return event


async def ask(ws: ClientWebSocketResponse) -> str:
    """Type a question, wait for the whole answer, and return the session's id."""
    created = await receive(ws, "session.created")
    content = [{"type": "input_text", "text": QUESTION}]
    item = {"type": "message", "role": "user", "content": content}
    await ws.send_str(json.dumps({"type": "conversation.item.create", "item": item}))
    await ws.send_str(json.dumps({"type": "response.create"}))
    await receive(ws, "response.done")
    session_id: str = created["session"]["id"]
    return session_id


async def frames(response: ClientResponse, n: int) -> list[dict[str, Any]]:
    """Read the next snapshots of a stream."""
    found: list[dict[str, Any]] = []
    while len(found) < n:
        line = await response.content.readline()
        assert line, "the stream ended"
        if line.startswith(b"data: "):
            found.append(json.loads(line.removeprefix(b"data: ")))
    return found


def outline(kind: Any, value: Any, path: str = "snapshot") -> None:
    """Check that a decoded snapshot has exactly the fields of its types."""
    if is_dataclass(kind) and isinstance(kind, type):
        assert list(value) == [field.name for field in fields(kind)], path
        for name, member in get_type_hints(kind).items():
            outline(member, value[name], f"{path}.{name}")
    elif isinstance(value, list):
        for number, member in enumerate(value):
            outline(get_args(kind)[0], member, f"{path}[{number}]")


async def test_one_snapshot_shows_the_sessions_and_what_they_did() -> None:
    async with served() as server, server.client.ws_connect("/v1/realtime") as ws:
        session_id = await ask(ws)
        shown = await server.live()
        outline(Snapshot, shown)
        assert shown["model"] == {"name": "sim", "test_double": True}
        assert shown["sessions"]["live"] == 1
        assert shown["admission"]["admitted"] == 1
        (lane,) = shown["lanes"]
        assert lane["transport"] == "websocket"
        assert lane["mode"] in ("speaking", "listening")
        assert lane["target_ms"] == 5000
        stages = {stage["name"]: stage for stage in shown["stages"]}
        assert {"think", "talk", "vocode"} <= set(stages)
        assert stages["vocode"]["queue_p95_s"] is not None
        assert shown["history"][-1]["sessions"] == 1
        assert (shown["invariants_broken"], shown["stale_packets"]) == (0, 0)
        for secret in (session_id, "Marmalade", "marmalade"):
            assert secret not in json.dumps(shown)


async def test_the_stream_sends_growing_snapshots() -> None:
    async with served() as server, server.client.get("/v1/duplex/live") as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        numbers = [shown["seq"] for shown in await frames(response, 4)]
        assert numbers == sorted(set(numbers))


async def test_watchers_share_their_snapshots() -> None:
    async with (
        served(live_per_s=5) as server,
        server.client.get("/v1/duplex/live") as one,
        server.client.get("/v1/duplex/live") as other,
    ):
        seen = [await frames(one, 3), await frames(other, 3)]
        assert max(shown["seq"] for shown in (*seen[0], *seen[1])) <= 5


async def test_nothing_is_computed_while_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    snapshot = Live.snapshot

    def counted(live: Live, *when: Any) -> Snapshot:
        made.append(1)
        return snapshot(live, *when)

    monkeypatch.setattr(Live, "snapshot", counted)
    async with served() as server, server.client.ws_connect("/v1/realtime") as ws:
        await ask(ws)
        assert made == []
        await server.live()
        assert made == [1]


async def test_one_watcher_too_many_is_refused_until_another_leaves() -> None:
    async with served(live_watchers_max=1) as server:
        async with server.client.get("/v1/duplex/live") as first:
            await frames(first, 1)
            refused = await server.client.get("/v1/duplex/live")
            assert refused.status == 503
            assert refused.headers["Retry-After"] == "5"
            assert (await refused.json())["error"]["code"] == "watchers_max"
            assert (await server.live())["seq"] >= 1
        while True:
            async with server.client.get("/v1/duplex/live") as again:
                if again.status == 200:
                    break


async def test_a_watcher_that_reads_nothing_is_dropped_and_nothing_piles_up(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def large(dashboard: Dashboard) -> str:
        made.append(1)
        return "x" * 4_000_000

    monkeypatch.setattr(Dashboard, "_newest", large)
    async with served(live_stall_s=0.3, live_watchers_max=1) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]), limit=1024)
        writer.write(b"GET /v1/duplex/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await until(lambda: made)
        while True:
            async with server.client.get("/v1/duplex/live") as other:
                if other.status == 200:
                    break
            await asyncio.sleep(0.05)
        assert len(made) < 20
        writer.close()
        del reader


async def test_a_server_that_ends_ends_its_streams() -> None:
    async with ClientSession() as client:
        async with served() as server:
            response = await client.get(f"{server.url}/v1/duplex/live")
            await frames(response, 1)
        await response.content.read()
        assert response.content.at_eof()


# Traces. ------------------------------------------------------------------------------------------------------------


async def test_a_trace_is_there_while_the_session_lives_and_for_a_while_after() -> None:
    async with served() as server:
        async with server.client.ws_connect("/v1/realtime") as ws:
            session_id = await ask(ws)
            alive = await trace_of(server, session_id)
        await until(lambda: server.telemetry.observer.value("duplex_sessions") == 0)
        ended = await trace_of(server, session_id)
    for trace in (alive, ended):
        names = {packet.track_event.name for packet in trace.packet}
        assert {"reply completed", "clause 0", "sent", "vocode"} <= names
        assert "Marmalade" not in str(trace)
        assert session_id not in str(trace)


async def trace_of(server: Served, session_id: str) -> Any:
    async with server.client.get(f"/v1/duplex/sessions/{session_id}/trace") as response:
        assert response.status == 200
        assert response.headers["Content-Disposition"].startswith('attachment; filename="duplex-conv_')
        trace = Trace()
        trace.ParseFromString(await response.read())
        return trace


@pytest.mark.parametrize("name", ["sess_0", "rtc_0", "..", "%00", "x" * 200])
async def test_there_is_no_trace_of_an_unknown_session(name: str) -> None:
    async with served() as server, server.client.get(f"/v1/duplex/sessions/{name}/trace") as response:
        assert response.status == 404


async def test_sessions_are_listed_to_this_machine_only() -> None:
    async with served() as server, server.client.ws_connect("/v1/realtime") as ws:
        session_id = await ask(ws)
        response = await server.client.get("/v1/duplex/sessions")
        (listed,) = (await response.json())["sessions"]
        assert (listed["id"], listed["transport"], listed["ended_at_s"]) == (session_id, "websocket", None)
        for headers in ({"Host": "rebound.example"}, {"X-Forwarded-For": "192.0.2.1"}, {"Forwarded": "for=192.0.2.1"}):
            refused = await server.client.get("/v1/duplex/sessions", headers=headers)
            assert refused.status == 403
            assert session_id not in await refused.text()


async def test_sessions_are_not_listed_where_a_setting_says_so() -> None:
    async with served(list_sessions=False) as server, server.client.get("/v1/duplex/sessions") as response:
        assert response.status == 403


async def test_the_command_lists_sessions_and_writes_a_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with served() as server, server.client.ws_connect("/v1/realtime") as ws:
        session_id = await ask(ws)
        assert await asyncio.to_thread(main, ["trace", "--url", server.url]) == 0
        assert f"{session_id}  websocket" in capsys.readouterr().out
        assert await asyncio.to_thread(main, ["trace", session_id, "--url", server.url]) == 0
        out = tmp_path / "mine.pftrace"
        assert await asyncio.to_thread(main, ["trace", session_id, "--url", server.url, "--out", str(out)]) == 0
        for wrong, says in (("sess_none", "no trace"), ("no/id", "no session's id")):
            assert await asyncio.to_thread(main, ["trace", wrong, "--url", server.url]) == FAILED
            assert says in capsys.readouterr().err
    sizes = sizes_in(tmp_path)
    assert len(sizes) == 2
    assert min(sizes.values()) > 1000
    assert any(re.fullmatch(r"duplex-conv_\w+\.pftrace", name) for name in sizes)


def sizes_in(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.iterdir()}


def test_the_command_says_that_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "--url", "http://127.0.0.1:9"]) == FAILED
    assert "cannot reach" in capsys.readouterr().err


# Measures. ----------------------------------------------------------------------------------------------------------


async def test_stages_are_measured_when_somebody_asks() -> None:
    async with served() as server, server.client.ws_connect("/v1/realtime") as ws:
        await ask(ws)
        shown = await (await server.client.get("/metrics")).text()
    for line in ('duplex_stage_queued_jobs{stage="think"} 0.0', 'duplex_stage_running_jobs{stage="talk"} 0.0'):
        assert line in shown
    assert 'duplex_stage_busy_seconds_total{stage="vocode"} ' in shown
    assert "duplex_sessions_max " in shown
