"""How many echo sessions does one core carry: our audio path beside plain aiortc, same client, same run.

A server process pinned to one core echoes what it hears; a light client on the other core sends pre-encoded packets and
times what comes back. Sessions are added step by step. A step passes while at the client

- p95 of arrival lateness ≤ 20 ms (arrival minus RTP time, against the quickest packet of the same session in the step),
- at least 98 % of the packets sent come back as sound (a server that drops time would otherwise look punctual).

A step that fails is measured twice more before the ramp ends; the result is the last step that passed. Both processes
ask for real-time scheduling, so that what else runs on the machine is not what is measured (the kernel keeps 5 % of the
core for the others). Both servers run on uvloop, as `duplex serve` does.

    python -m benchmarks.echo [--json OUT]      (without OUT: benchmarks/results/echo.json)

Modes: `duplex` sends Opus CELT (AUDIO, complexity 5, 32 kbit/s mono), `duplex-fec` is told of 10 % loss and sends
SILK/hybrid with in-band FEC, `aiortc` sends what its own encoder does (stereo, 96 kbit/s). All hear Opus CELT 32 kbit/s.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import struct
import subprocess
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aioice.ice
import numpy as np
import uvloop
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

from benchmarks.report import write
from duplex.config import MediaSettings, ServerSettings
from duplex.media import opus, rtc, rtcp, rtp
from duplex.media.contract import OutputPacket
from duplex.media.peer import WebRtcPeer
from duplex.media.ticker import Ticker
from duplex.media.warm import certificate, warm_media
from duplex.payloads import Int16Array
from duplex.units import MonoNs, RtpTicks, WallNs

LATENESS_MS_MAX = 20.0
DELIVERED_MIN = 0.98
_TRIES = 3
_SLOTS = 10
"""The client's sends are spread over this many slots of a tick."""
_RAMPS = {"duplex": (70, 10, 250), "duplex-fec": (40, 10, 150), "aiortc": (12, 3, 60)}
"""First step, increment, bound."""


# The server. ----------------------------------------------------------------------------------------------------------


class EchoSink:
    """Says what it hears, one packet behind."""

    def __init__(self) -> None:
        self._frames: deque[Int16Array] = deque(maxlen=10)
        self._flowing = False

    def hear(self, pcm: Int16Array, arrived: MonoNs | None = None) -> None:
        if len(pcm) == 320:
            self._frames.append(np.repeat(pcm, 3))

    def next_packet(self, now: MonoNs, rtp_ts: RtpTicks | None = None) -> OutputPacket | None:
        self._flowing = bool(self._frames) and (self._flowing or len(self._frames) > 1)
        return OutputPacket(pcm=self._frames.popleft(), epoch=0) if self._flowing else None

    def hear_silence(self, n: int) -> None: ...
    def report(self, report: object) -> None: ...
    def see(self, frame: object) -> None: ...
    def connected(self) -> None: ...
    def channel_open(self) -> None: ...
    def receive(self, text: str | bytes) -> None: ...
    def closed(self, reason: str) -> None: ...


async def serve(kind: str) -> None:
    """Answer offers, one JSON string a line, on a port printed first."""
    answer = await _plain_aiortc() if kind == "aiortc" else await _duplex()

    async def signal(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(json.dumps(await answer(json.loads(line))).encode() + b"\n")

    server = await asyncio.start_server(signal, "127.0.0.1", 0, limit=2**20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _duplex() -> Any:
    media, settings = MediaSettings(), ServerSettings()
    await warm_media(media)
    ticker = Ticker(phases=media.tick_phases, late_drop_ms=media.late_drop_ms)
    peers: list[WebRtcPeer] = []

    async def answer(offer: str) -> str:
        peers.append(WebRtcPeer(sink=EchoSink(), ticker=ticker, media=media, server=settings))
        return await peers[-1].answer(offer)

    return answer


async def _plain_aiortc() -> Any:
    aioice.ice.get_host_addresses = lambda use_ipv4, use_ipv6: ["127.0.0.1"]
    peers: list[RTCPeerConnection] = []

    async def answer(offer: str) -> str:
        pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        peers.append(pc)
        pc.on("track", pc.addTrack)
        await pc.setRemoteDescription(RTCSessionDescription(sdp=offer, type="offer"))
        await pc.setLocalDescription(await pc.createAnswer())
        return str(pc.localDescription.sdp)

    return answer


# The client. ----------------------------------------------------------------------------------------------------------


@dataclass
class Caller:
    """One session of the client: sends prepared packets, notes when each echo came and its RTP time."""

    link: rtc.Link
    pc: RTCPeerConnection
    lossy: bool
    sent: int = 0
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    _writer: rtp.RtpWriter = field(default_factory=lambda: rtp.RtpWriter(ssrc=7, payload_type=96, rtp_seq=0))

    def send(self, payloads: list[bytes]) -> None:
        packet = self._writer.write(payloads[self.sent % len(payloads)], rtp_ts=960 * self.sent, marker=False)
        self.sent += 1
        self.link.send(self.link.srtp()[1].protect(packet))

    def take(self, data: bytes) -> None:
        if rtp.is_rtcp(data):
            return
        plain = self.link.srtp()[0].unprotect(data)
        if len(plain) <= 40:  # header and extensions of a DTX packet
            return
        if self.lossy and not self.arrivals:
            self._complain(struct.unpack_from("!I", plain, 8)[0])
        self.arrivals.append((time.perf_counter(), struct.unpack_from("!I", plain, 4)[0]))

    def _complain(self, ssrc: int) -> None:
        block = struct.pack("!IIIIII", ssrc, 26 << 24 | 10, 100, 0, 0, 0)  # a tenth lost
        report = rtcp.SentStream(ssrc=7, cname="c").report(now=MonoNs(0), wall=WallNs(0), rtp_ts=0, blocks=[block])
        self.link.send(self.link.srtp()[1].protect_rtcp(report))


async def _call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lossy: bool) -> Caller:
    pc = rtc.connection(certificate())
    offer = await pc.createOffer()
    link = rtc.Link(pc, ["127.0.0.1"])
    await pc.setLocalDescription(offer)
    writer.write(json.dumps(pc.localDescription.sdp).encode() + b"\n")
    answer = json.loads(await reader.readline())
    connected = asyncio.Event()
    pc.on("connectionstatechange", lambda: pc.connectionState == "connected" and connected.set())
    caller = Caller(link=link, pc=pc, lossy=lossy)
    link.tap(caller.take)
    await pc.setRemoteDescription(RTCSessionDescription(sdp=answer, type="answer"))
    await asyncio.wait_for(connected.wait(), 30)
    return caller


async def _drive(callers: list[Caller], payloads: list[bytes], late: list[float]) -> None:
    """Send for every caller each 20 ms, spread over slots, at absolute times."""
    loop, slot = asyncio.get_running_loop(), 0
    start = loop.time()
    while True:
        due = start + slot * 0.02 / _SLOTS
        await asyncio.sleep(max(0.0, due - loop.time()))
        late.append(loop.time() - due)
        for caller in callers[slot % _SLOTS :: _SLOTS]:
            caller.send(payloads)
        slot += 1


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def _lateness_ms(arrivals: list[tuple[float, int]]) -> list[float]:
    first = arrivals[0][1]
    delays = [at - (((ts - first + 2**31) % 2**32) - 2**31) / 48_000 for at, ts in arrivals]
    quickest = min(delays)
    return [1000 * (d - quickest) for d in delays]


@dataclass(frozen=True, kw_only=True)
class Step:
    sessions: int
    lateness_ms_p50: float
    lateness_ms_p95: float
    delivered: float
    server_cpu: float
    client_cpu: float
    client_send_late_ms_p95: float
    server_rss_mb: float

    @property
    def passed(self) -> bool:
        return self.lateness_ms_p95 <= LATENESS_MS_MAX and self.delivered >= DELIVERED_MIN


async def _measure(callers: list[Caller], late: list[float], server: int, seconds: float) -> Step:
    await asyncio.sleep(1.0)
    for caller in callers:
        caller.arrivals.clear()
    late.clear()
    sent, cpu, own, start = sum(c.sent for c in callers), _cpu_s(server), time.process_time(), time.perf_counter()
    await asyncio.sleep(seconds)
    took = time.perf_counter() - start
    every = [ms for c in callers if c.arrivals for ms in _lateness_ms(c.arrivals)] or [1e6]
    return Step(
        sessions=len(callers),
        lateness_ms_p50=round(float(np.percentile(every, 50)), 2),
        lateness_ms_p95=round(float(np.percentile(every, 95)), 2),
        delivered=round(sum(len(c.arrivals) for c in callers) / max(sum(c.sent for c in callers) - sent, 1), 4),
        server_cpu=round((_cpu_s(server) - cpu) / took, 3),
        client_cpu=round((time.process_time() - own) / took, 3),
        client_send_late_ms_p95=round(1000 * float(np.percentile(late, 95)), 2),
        server_rss_mb=_rss_mb(server),
    )


async def _ramp(kind: str, port: int, server: int, seconds: float) -> list[Step]:
    payloads = _speech_like()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    callers: list[Caller] = []
    late: list[float] = []
    steps: list[Step] = []
    sending = asyncio.ensure_future(_drive(callers, payloads, late))
    first, increment, bound = _RAMPS[kind]
    for wanted in range(first, bound + 1, increment):
        while len(callers) < wanted:
            callers.append(await _call(reader, writer, kind == "duplex-fec"))
        for _ in range(_TRIES):
            steps.append(await _measure(callers, late, server, seconds))
            print(f"  {kind}: {steps[-1]}", file=sys.stderr, flush=True)
            if steps[-1].passed:
                break
        else:
            break
    sending.cancel()
    writer.close()
    return steps


def _speech_like() -> list[bytes]:
    """Two seconds of a buzz whose level moves as speech does, encoded."""
    t = np.arange(96_000) / 48_000
    pulses = sum(np.sin(2 * np.pi * 120 * k * t) / k for k in range(1, 30))
    pcm = np.asarray(4000 * pulses * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * t)), dtype=np.int16)
    encoder = opus.Encoder(bitrate=32_000, complexity=5)
    return [encoder.encode(frame) for frame in pcm.reshape(-1, 960)]


def _favoured() -> bool:
    """Run before whatever else runs here; return whether that was permitted."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return False
    return True


def _run(kind: str, server_core: int, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.echo", "--serve", kind, "--core", str(server_core)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            idle = _rss_mb(server.pid)
            steps = asyncio.run(_ramp(kind, port, server.pid, seconds))
        finally:
            server.kill()
    passed = [s for s in steps if s.passed]
    return {
        "sessions_per_core": max((s.sessions for s in passed), default=0),
        "idle_rss_mb": idle,
        "steps": [asdict(s) | {"passed": s.passed} for s in steps],
    }


def main() -> None:
    """Run the ramps and print (or write) the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--seconds", type=float, default=3.0, help="measured time of a step")
    parser.add_argument("--kinds", nargs="+", choices=sorted(_RAMPS), default=["aiortc", "duplex", "duplex-fec"])
    parser.add_argument("--serve", choices=sorted(_RAMPS), help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        os.sched_setaffinity(0, {arguments.core})
        _favoured()
        uvloop.run(serve(arguments.serve))
        return
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        parser.error("two cores are needed: one for the server, one for the client")
    os.sched_setaffinity(0, {cores[1]})
    favoured = _favoured()
    figures = {
        "opus": opus.version(),
        "real_time_scheduling": favoured,
        "limits": {"lateness_ms_p95": LATENESS_MS_MAX, "delivered": DELIVERED_MIN, "step_s": arguments.seconds},
        "kinds": {kind: _run(kind, cores[0], arguments.seconds) for kind in arguments.kinds},
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    else:
        write("echo", figures)
    for kind, of_kind in figures["kinds"].items():
        print(f"{kind}: {of_kind['sessions_per_core']} echo sessions on one core")


if __name__ == "__main__":
    main()
