"""Live sessions that are recorded, and run again from their files by the command."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr
from aiohttp import ClientSession, ClientWebSocketResponse
from aiortc import RTCPeerConnection, RTCSessionDescription
from duplex_models.sim import SimOptions, make

from duplex.actor.host import SessionHost
from duplex.cli import FAILED, USAGE, main
from duplex.config import Settings, load
from duplex.replay import replay
from duplex.server.serve import listening
from duplex.stages.contract import ModelPack
from duplex.talk import read_recording
from duplex.telemetry import Observer
from duplex.telemetry.recording import Tape, open_recorder

pytestmark = pytest.mark.protocol

SPEECH = Path(__file__).parents[1] / "data" / "speech" / "s00.flac"
LONG = " ".join(f"word{i}" for i in range(60))
Event = dict[str, Any]


@asynccontextmanager
async def recorded(folder: Path, adapt: Callable[[ModelPack], object] = lambda pack: None) -> AsyncIterator[str]:
    """Serve sessions of the test double under record; the recordings are whole when it is left."""
    settings: Settings = load(
        server={"port": 0, "close_timeout_s": 1.0}, recording={"directory": str(folder), "close_timeout_s": 60}
    )
    pack = make(SimOptions(script=(LONG,), transcripts=("first words", "and more")))
    adapt(pack)
    observer = Observer()
    recorder = open_recorder(settings, pack, observer.record)
    assert recorder is not None
    host = SessionHost(settings, pack, observer.record, recorder=recorder)
    try:
        async with listening(host, settings.server, observer) as url, asyncio.timeout(60):
            await host.start(lambda line: None)
            yield url
            while observer.value("duplex_sessions"):  # noqa: ASYNC110 - under the ceiling above
                await asyncio.sleep(0.01)
    finally:
        recorder.close()
    assert observer.value("duplex_recordings_total", outcome="ended") == 1


async def until(ws: ClientWebSocketResponse, kind: str) -> list[Event]:
    """Receive events up to the first of a type."""
    seen: list[Event] = []
    while not seen or seen[-1]["type"] != kind:
        seen.append(await ws.receive_json())
    return seen


async def speak(ws: ClientWebSocketResponse) -> None:
    """Append a sentence and the silence after it, faster than real time."""
    pcm = soxr.resample(read_recording(SPEECH), 48_000, 24_000)
    pcm = np.concatenate([pcm, np.zeros(36_000, np.int16)]).astype("<i2")
    for start in range(0, len(pcm), 4800):
        audio = base64.b64encode(pcm[start : start + 4800].tobytes()).decode()
        await ws.send_json({"type": "input_audio_buffer.append", "audio": audio})


def the_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


async def test_a_live_interruption_runs_again_in_another_process(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    asked = {"type": "realtime", "duplex": {"recorded": False, "lead_ms": 2000}}
    async with recorded(folder) as url, ClientSession(url) as client, client.ws_connect("/v1/realtime") as ws:
        created = (await until(ws, "session.created"))[-1]
        assert created["session"]["duplex"]["recorded"] is True
        await ws.send_json({"type": "session.update", "session": asked})
        updated = (await until(ws, "session.updated"))[-1]
        duplex = updated["session"]["duplex"]
        assert (duplex["lead_ms"], duplex["recorded"]) == (2000, True)
        await speak(ws)
        await until(ws, "response.output_audio.delta")
        await speak(ws)
        done = (await until(ws, "response.done"))[-1]["response"]
        assert done["status_details"]["reason"] == "turn_detected"
    file = the_file(folder)
    command = [sys.executable, "-m", "duplex.cli", "replay", str(file), "--json"]
    ran = await asyncio.to_thread(
        subprocess.run,
        command,
        env=os.environ | {"PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=False,
    )
    result = json.loads(ran.stdout)
    assert (ran.returncode, result["same"], result["end"], result["warnings"]) == (0, True, "ended", [])
    assert result["effects"] > 50


async def test_a_live_session_with_a_failing_stage_runs_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(pack: ModelPack) -> None:
        vocode: Any = next(stage for stage in pack.stages if stage.spec.name == "vocode")
        vocode.compute = lambda job: 1 / 0

    folder = tmp_path / "kept"
    async with recorded(folder, broken) as url, ClientSession(url) as client, client.ws_connect("/v1/realtime") as ws:
        await ws.send_json({"type": "response.create"})
        assert (await until(ws, "response.done"))[-1]["response"]["status"] == "failed"
    capsys.readouterr()
    assert main(["replay", str(the_file(folder))]) == 0
    assert capsys.readouterr().out.startswith("the same: sess_")


async def test_a_live_call_runs_again(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    async with recorded(folder) as url, ClientSession(url) as client:
        peer = RTCPeerConnection()
        channel = peer.createDataChannel("oai-events")
        events: asyncio.Queue[Event] = asyncio.Queue(maxsize=1000)
        channel.on("message", lambda text: events.put_nowait(json.loads(text)))
        peer.addTransceiver("audio", direction="recvonly")
        await peer.setLocalDescription(await peer.createOffer())
        async with client.post(
            "/v1/realtime/calls", data=peer.localDescription.sdp, headers={"Content-Type": "application/sdp"}
        ) as answer:
            assert answer.status == 201
            await peer.setRemoteDescription(RTCSessionDescription(sdp=await answer.text(), type="answer"))
        seen: list[Event] = []

        async def heard(kind: str) -> None:
            while not seen or seen[-1]["type"] != kind:
                seen.append(await events.get())

        await heard("session.created")
        channel.send(json.dumps({"type": "response.create"}))
        await heard("output_audio_buffer.started")
        channel.send(json.dumps({"type": "response.cancel"}))
        await heard("response.done")
        assert seen[-1]["response"]["status"] == "cancelled"
        await peer.close()
    result = replay(the_file(folder))
    assert (result.same, result.end) == (True, "ended")


def ended_replies(file: Path) -> int:
    """Return how many replies have ended in a recording, as far as it can be read."""
    effects = [effect for step in Tape(file).steps() for effect in step.effects if effect["$"] == "Send"]
    return sum(effect["event"]["$"] == "ReplyDone" for effect in effects)


async def test_a_server_that_is_killed_leaves_what_it_has_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    flags = (
        "--port",
        "0",
        "--model",
        "sim",
        "--set",
        f"recording.directory={folder}",
        "--set",
        "recording.flush_s=0.05",
    )
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "duplex.cli", "serve", *flags,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        async with asyncio.timeout(90):
            url = (await server.stdout.readline()).decode().split()[1]
            async with ClientSession(url) as client, client.ws_connect("/v1/realtime") as ws:
                await ws.send_json({"type": "response.create"})
                await until(ws, "response.done")
                while not ended_replies(the_file(folder)):  # noqa: ASYNC110 - under the ceiling above
                    await asyncio.sleep(0.02)
                server.kill()
                await server.wait()
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()
    result = replay(the_file(folder))
    assert (result.same, result.end) == (True, None)
    assert "breaks off" in result.warnings[0]
    assert result.effects > 10


def test_the_command_says_what_cannot_be_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "noise").write_bytes(b"noise" * 100)
    for path, says in ((tmp_path / "noise", "no gzip"), (tmp_path / "none", "No such file"), (tmp_path, "directory")):
        assert main(["replay", str(path)]) == USAGE
        assert says in capsys.readouterr().err


async def test_the_command_ends_with_1_at_a_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kept"
    async with recorded(folder) as url, ClientSession(url) as client, client.ws_connect("/v1/realtime") as ws:
        await until(ws, "session.created")
        await ws.send_json({"type": "response.cancel"})
        await until(ws, "error")
    monkeypatch.setattr("duplex.session.replies.Replies.cancel", lambda replies, msg: False)
    capsys.readouterr()
    assert main(["replay", str(the_file(folder)), "--json"]) == FAILED
    difference = json.loads(capsys.readouterr().out)["difference"]
    assert difference["expected"]["event"]["code"] == "response_cancel_not_active"
    assert difference["got"] is None
