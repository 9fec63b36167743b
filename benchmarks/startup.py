"""How long until one can talk, and how much memory does it take?

`--fresh` clones the repository into an empty folder and times `make run` from nothing (what pip and npm have cached on this
machine is used). Always measured: a second start of `local` until `ready`, its memory idle, and per WebRTC session (`sim`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from aiohttp import ClientSession
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import AudioStreamTrack

from benchmarks.browser_call import server_process
from benchmarks.report import write

ROOT = Path(__file__).parents[1]
SESSIONS = 10


def rss_mb(pid: int) -> float:
    """Return a process's resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return round(int(line.split()[1]) / 1024, 1)
    raise RuntimeError("no VmRSS")


def until_ready(command: list[str], cwd: Path, timeout_s: float) -> tuple[float, float]:
    """Start a command; return seconds until its `ready` line and the memory of the process that printed it."""
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    try:
        while time.perf_counter() - began < timeout_s:
            line = process.stdout.readline()
            if line.startswith("ready "):
                taken = time.perf_counter() - began
                time.sleep(2)
                return taken, max(rss_mb(pid) for pid in _group(process.pid))
        raise RuntimeError(f"not ready within {timeout_s} s")
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _group(leader: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (entry / "stat").exists():
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[2]) == leader:
                found.append(int(entry.name))
    return found


def fresh() -> float:
    """Time `make run` in a fresh clone with nothing installed."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "duplex")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        return until_ready(["make", "run", "ARGS=--port 0"], clone, 900)[0]


async def per_session() -> dict[str, Any]:
    """Memory of the server with 0 and with SESSIONS connected WebRTC sessions."""
    async with server_process("--model", "sim", "--set", "server.sessions_max=50") as url, ClientSession() as http:
        await asyncio.sleep(2)
        pid = _server_pid()
        before = rss_mb(pid)
        peers = [await _connect(http, url) for _ in range(SESSIONS)]
        await asyncio.sleep(5)
        after = rss_mb(pid)
        for peer in peers:
            await peer.close()
    return {"sim_idle_mb": before, "per_webrtc_session_mb": round((after - before) / SESSIONS, 2)}


def _server_pid() -> int:
    me = os.getpid()
    children = Path(f"/proc/{me}/task/{me}/children").read_text().split()
    return next(int(pid) for pid in children if "duplex.cli" in Path(f"/proc/{pid}/cmdline").read_text())


async def _connect(http: ClientSession, url: str) -> RTCPeerConnection:
    peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    peer.addTrack(AudioStreamTrack())
    peer.createDataChannel("oai-events")
    await peer.setLocalDescription(await peer.createOffer())
    headers = {"Content-Type": "application/sdp"}
    async with http.post(f"{url}/v1/realtime/calls", data=peer.localDescription.sdp, headers=headers) as answer:
        answer.raise_for_status()
        await peer.setRemoteDescription(RTCSessionDescription(sdp=await answer.text(), type="answer"))
    return peer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    if options.fresh:
        figures["make_run_from_nothing_s"] = round(fresh(), 1)
    starts = [until_ready(["make", "--silent", "run", "ARGS=--port 0"], ROOT, 120) for _ in range(3)]
    figures["make_run_second_start_s"] = sorted(round(seconds, 1) for seconds, _ in starts)
    figures["local_idle_mb"] = starts[-1][1]
    figures |= asyncio.run(per_session())
    write("startup", figures)


if __name__ == "__main__":
    main()
