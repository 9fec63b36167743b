"""Clients and sinks for the media tests: real ICE, DTLS and SRTP over loopback, with packets of the test's own making."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from aiortc import RTCDataChannel, RTCSessionDescription

from duplex.config import MediaSettings, ServerSettings
from duplex.media import opus, rtc, rtcp, rtp
from duplex.media.contract import OutputPacket, ReceiverReport, VideoFrame
from duplex.media.peer import WebRtcPeer
from duplex.media.ticker import Ticker
from duplex.media.warm import certificate, warm_media
from duplex.payloads import Int16Array
from duplex.units import MonoNs, RtpTicks

CEILING_S = 10.0
"""No wait in these tests is longer; none is expected to come near."""


class Sink:
    """A session that records, and speaks what it is given (or echoes)."""

    def __init__(self, *, echo: bool = False) -> None:
        self.echo = echo
        self.heard: list[Int16Array] = []
        """In order; declared silence as zeros."""
        self.heard_samples = 0
        self.silent_samples = 0
        self.to_say: list[Int16Array | None] = []
        self.asked = 0
        self.reports: list[ReceiverReport] = []
        self.frames: list[VideoFrame] = []
        self.events: list[str] = []
        """connected, channel_open, closed:<reason>, in order."""
        self.last_seen: list[str | None] = []
        """What each `channel_open` said of it."""
        self.received: list[str | bytes] = []
        self.peer: WebRtcPeer | None = None
        self.first_event = '{"type":"session.created"}'
        self.raise_on_hear = False

    def hear(self, pcm: Int16Array, arrived: MonoNs | None = None) -> None:
        if self.raise_on_hear:
            raise RuntimeError("a defect of the session")
        assert pcm.dtype == np.int16 and pcm.ndim == 1 and len(pcm) > 0
        self.heard.append(pcm)
        self.heard_samples += len(pcm)
        if self.echo:
            self.to_say += list(np.repeat(pcm, 3).astype(np.int16).reshape(-1, 960)) if len(pcm) == 320 else []

    def hear_silence(self, n: int) -> None:
        assert n > 0
        self.heard.append(np.zeros(n, np.int16))
        self.heard_samples += n
        self.silent_samples += n

    def next_packet(self, now: MonoNs, rtp_ts: RtpTicks | None = None) -> OutputPacket | None:
        self.asked += 1
        pcm = self.to_say.pop(0) if self.to_say else None
        return None if pcm is None else OutputPacket(pcm=pcm, epoch=0)

    def report(self, report: ReceiverReport) -> None:
        self.reports.append(report)

    def see(self, frame: VideoFrame) -> None:
        self.frames.append(frame)

    def connected(self) -> None:
        self.events.append("connected")

    def channel_open(self, last_event_id: str | None = None) -> None:
        self.events.append("channel_open")
        self.last_seen.append(last_event_id)
        assert self.peer is not None
        self.peer.send(self.first_event)

    def channel_lost(self) -> None:
        self.events.append("channel_lost")

    def receive(self, text: str | bytes) -> None:
        self.received.append(text)
        if self.peer is not None:
            self.peer.send(f'{{"echo":{len(text)}}}')

    def closed(self, reason: str) -> None:
        self.events.append(f"closed:{reason}")

    def audio(self) -> Int16Array:
        """Everything heard so far, 16 kHz."""
        return np.concatenate(self.heard) if self.heard else np.zeros(0, np.int16)


async def until(condition: Callable[[], object], what: str, ceiling_s: float = CEILING_S) -> None:
    """Wait for `condition`, looking at every turn of the loop's 5 ms."""
    deadline = asyncio.get_running_loop().time() + ceiling_s
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not within {ceiling_s} s: {what}")
        await asyncio.sleep(0.005)


class BadNetwork:
    """Delays and drops what a client sends and receives, by a seed."""

    def __init__(self, seed: int, *, one_way_s: float, loss: float) -> None:
        self._dice = random.Random(seed)
        self._delay = one_way_s
        self._loss = loss
        self._loop = asyncio.get_running_loop()

    def under(self, protocol: Any) -> None:
        """Put it between a client's socket and its ICE."""
        received, transport = protocol.datagram_received, protocol.transport
        protocol.datagram_received = lambda data, address: self._later(received, data, address)
        protocol.transport = _Impaired(transport, self)

    def _later(self, call: Callable[[bytes, Any], None], data: bytes, address: Any) -> None:
        if self._dice.random() >= self._loss:
            self._loop.call_later(self._delay, call, data, address)


class _Impaired:
    def __init__(self, transport: Any, network: BadNetwork) -> None:
        self._transport = transport
        self._network = network

    def sendto(self, data: bytes, address: Any) -> None:
        self._network._later(self._send, data, address)

    def _send(self, data: bytes, address: Any) -> None:
        if not self._transport.is_closing():
            self._transport.sendto(data, address)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """A packet that reached the client."""

    at: float
    packet: rtp.RtpPacket


@dataclass
class Client:
    """An aiortc peer whose RTP is the test's own."""

    video: bool = False
    channel: str | None = "oai-events"
    negotiated: bool = False
    direction: str = "sendrecv"
    network: BadNetwork | None = None
    came: list[Came] = field(default_factory=list)
    reports: list[rtcp.Packet] = field(default_factory=list)
    messages: list[str | bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pc = rtc.connection(certificate())
        transceiver = self.pc.getTransceivers()[0]
        transceiver.direction = self.direction
        if self.video:
            self.pc.addTransceiver("video", direction="sendonly")
        self.data: RTCDataChannel | None = None
        if self.channel is not None:
            self.data = self.open(self.channel)
        self.ssrc = random.Random(1).getrandbits(32)
        self._link: rtc.Link | None = None
        self._loop = asyncio.get_running_loop()

    def open(self, label: str, protocol: str = "") -> RTCDataChannel:
        options: dict[str, object] = {"negotiated": True, "id": 0} if self.negotiated else {}
        channel = self.pc.createDataChannel(label, protocol=protocol, **options)
        channel.on("message", self.messages.append)
        return channel

    async def offer(self) -> str:
        """Return a stock offer: without candidates, as browsers send it."""
        await self.pc.setLocalDescription(await self._described())
        sdp = self.pc.localDescription.sdp
        return "".join(line for line in sdp.splitlines(True) if "candidate" not in line.split(":")[0])

    async def _described(self) -> RTCSessionDescription:
        offer = await self.pc.createOffer()
        self._link = rtc.Link(self.pc, ["127.0.0.1"])
        return offer

    async def accept(self, answer: str) -> None:
        assert self._link is not None
        self._link.tap(self._on_datagram)
        if self.network is not None:
            for protocol in self._link._ice._protocols:
                self.network.under(protocol)
        await self.pc.setRemoteDescription(RTCSessionDescription(sdp=answer, type="answer"))

    async def connect(
        self, peer: WebRtcPeer, change: Callable[[str], str] = lambda sdp: sdp, ceiling_s: float = CEILING_S
    ) -> str:
        answer = await peer.answer(change(await self.offer()))
        await self.accept(answer)
        await until(lambda: self.pc.connectionState == "connected", "the client connects", ceiling_s)
        return answer

    def _on_datagram(self, data: bytes) -> None:
        assert self._link is not None
        unprotect, _ = self._link.srtp()
        if unprotect is None:
            return
        if rtp.is_rtcp(data):
            self.reports += rtcp.parse(unprotect.unprotect_rtcp(data))
        else:
            packet = rtp.parse(unprotect.unprotect(data), level_id=2)
            self.came.append(Came(at=self._loop.time(), packet=packet))

    def send_rtp(self, plain: bytes) -> None:
        assert self._link is not None
        self._link.send(self._link.srtp()[1].protect(plain))

    def send_rtcp(self, plain: bytes) -> None:
        assert self._link is not None
        self._link.send(self._link.srtp()[1].protect_rtcp(plain))

    def send_raw(self, datagram: bytes) -> None:
        assert self._link is not None
        self._link.send(datagram)

    def vanish(self) -> None:
        """Fall silent without a goodbye: the sockets close as those of a killed process do."""
        assert self._link is not None
        self._link.abort()

    async def close(self) -> None:
        await self.pc.close()


@dataclass
class Talker:
    """Sends payloads as one RTP stream in real time."""

    client: Client
    payload_type: int = 96
    rtp_seq: int = 1000
    rtp_ts: int = 5000
    ssrc: int = 7
    step: int = 960

    def packet(self, payload: bytes, *, marker: bool = False) -> bytes:
        writer = rtp.RtpWriter(ssrc=self.ssrc, payload_type=self.payload_type, rtp_seq=self.rtp_seq & 0xFFFF)
        return writer.write(payload, rtp_ts=self.rtp_ts & 0xFFFFFFFF, marker=marker)

    def send(self, payload: bytes | None, step: int | None = None) -> None:
        """Send one packet and advance; None loses it."""
        if payload is not None:
            self.client.send_rtp(self.packet(payload))
        self.rtp_seq += 1
        self.rtp_ts += self.step if step is None else step

    async def talk(self, payloads: Iterable[bytes | None], ptime_s: float = 0.02) -> None:
        """Send at absolute times `ptime_s` apart."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        for i, payload in enumerate(payloads):
            await asyncio.sleep(max(0.0, start + i * ptime_s - loop.time()))
            self.send(payload)


def tone(hz: float, seconds: float, rate: int = 48_000, peak: float = 8000.0) -> Int16Array:
    return np.asarray(peak * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate)) / rate), dtype=np.int16)


def opus_packets(pcm: Int16Array) -> list[bytes]:
    encoder = opus.Encoder(bitrate=32_000, complexity=5)
    return [encoder.encode(frame) for frame in pcm[: len(pcm) // 960 * 960].reshape(-1, 960)]


def pitch(pcm: Int16Array, rate: int) -> float:
    """Return the strongest frequency in Hz."""
    spectrum = np.abs(np.fft.rfft(pcm.astype(float) * np.hanning(len(pcm))))
    return float(np.argmax(spectrum) * rate / len(pcm))


def sockets() -> int:
    """Return how many sockets this process has open."""
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
        except FileNotFoundError:
            continue
    return count


class Plane:
    """What a server shares between its peers."""

    def __init__(self, server: ServerSettings, media: MediaSettings) -> None:
        self.server = server
        self.media = media
        self.ticker = Ticker(phases=media.tick_phases, late_drop_ms=media.late_drop_ms)

    def peer(self, sink: Sink) -> WebRtcPeer:
        sink.peer = WebRtcPeer(sink=sink, ticker=self.ticker, media=self.media, server=self.server)
        return sink.peer


@asynccontextmanager
async def plane(server: ServerSettings | None = None, media: MediaSettings | None = None) -> AsyncIterator[Plane]:
    on = Plane(server or ServerSettings(), media or MediaSettings())
    await warm_media(on.media)
    try:
        yield on
    finally:
        on.ticker.close()


@asynccontextmanager
async def session(
    on: Plane, client: Client, sink: Sink | None = None, change: Callable[[str], str] = lambda sdp: sdp
) -> AsyncIterator[tuple[WebRtcPeer, Sink]]:
    """A connected pair, closed afterwards."""
    sink = sink or Sink()
    peer = on.peer(sink)
    try:
        await client.connect(peer, change)
        await until(lambda: "connected" in sink.events, "the server connects")
        yield peer, sink
    finally:
        await client.close()
        await peer.close("server")
