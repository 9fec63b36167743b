"""A talker's WebRTC call: aiortc for ICE, DTLS and the data channel, our own RTP past them.

tick (20 ms, one timer for all) ─► microphone ─► talker.say ─► RTP ─► SRTP ─► path out ─► socket
datagram ─► path in ─► SRTP ─► Opus ─► ear ─► tick ─► talker.heard, talker.advance
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket as sockets
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiortc import RTCSessionDescription

from duplex.media import opus, rtc, rtcp, rtp
from duplex.media.warm import certificate
from duplex.units import MonoNs, WallNs, ns_from_seconds
from loadgen.live.call import Call, CallFailed, CallRefused, Lateness
from loadgen.live.clock import now_ns
from loadgen.live.ear import Ear
from loadgen.live.impaired_socket import impair
from loadgen.live.metronome import Metronome
from loadgen.live.options import Network
from loadgen.live.rows import SessionRow
from loadgen.live.sound import SILENCE_PEAK, SILENT, Level, level_of
from loadgen.live.speech import Bank, Packet
from loadgen.live.talker import Talker

CONNECT_S = 15.0
_CLOSE_S = 3.0
_REPORT_EVERY = ns_from_seconds(1)
_SILENT_LINK = ns_from_seconds(12)
"""Nothing from the server for this long: the call is lost."""
_DTX_BYTES_MAX = 2
_TICKS_PER_PACKET = 960


class WebRtcCall(Call):
    """One call; made by `dial`."""

    def __init__(
        self, *, talker: Talker, bank: Bank, metronome: Metronome, lateness: Lateness, pc: Any, link: rtc.Link
    ) -> None:
        self._ear = Ear()
        super().__init__(talker, bank, metronome, lateness, self._ear)
        self._pc = pc
        self._link = link
        self._decoder = opus.Decoder()
        self._payload_type = 0
        self._level_id: int | None = None
        self._unprotect: Any = None
        self._protect: Any = None
        self._writer: rtp.RtpWriter | None = None
        self._sent = rtcp.SentStream(ssrc=link.ssrc, cname="talker")
        self._received: rtcp.ReceivedStream | None = None
        self._reported_at = self._heard_at = now_ns()

    # Coming and going. --------------------------------------------------------------------------------------------------

    def begin(self, answer_sdp: str) -> None:
        """Open the microphone: the call is connected."""
        found = re.search(r"^a=rtpmap:(\d+) opus/48000", answer_sdp, re.MULTILINE | re.IGNORECASE)
        if found is None:
            raise CallFailed("the server's answer has no Opus")
        self._payload_type = int(found[1])
        levels = re.search(
            r"^a=extmap:(\d+)(?:/\w+)? urn:ietf:params:rtp-hdrext:ssrc-audio-level", answer_sdp, re.MULTILINE
        )
        self._level_id = int(levels[1]) if levels is not None else None
        self._unprotect, self._protect = self._link.srtp()
        self._writer = rtp.RtpWriter(ssrc=self._link.ssrc, payload_type=self._payload_type, rtp_seq=0)
        self._heard_at = now_ns()
        self._metronome.add(self)

    def state_changed(self) -> None:
        """Take the peer connection's news."""
        if self._pc.connectionState in ("failed", "closed"):
            self.lose("the media connection failed")

    async def close(self) -> None:
        """Hang up. Cancel: the sockets are closed."""
        self._metronome.remove(self)
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._pc.close()
        except TimeoutError:
            self._link.abort()

    def note(self, row: SessionRow) -> None:
        """Write down what the ear counted."""
        stats = self._ear.stats()
        row.lost, row.late, row.depth_ms = stats.lost, stats.late, stats.depth_ms
        row.levels = self._level_id is not None

    # The clock. ---------------------------------------------------------------------------------------------------------

    def say(self, packet: Packet, number: int, now: MonoNs) -> None:
        """Send 20 ms of the microphone."""
        assert self._writer is not None
        data = self._writer.write(packet.opus, rtp_ts=number * _TICKS_PER_PACKET, marker=False)
        self._sent.add(len(packet.opus))
        self._link.send(self._protect.protect(data))

    def check(self, now: MonoNs) -> None:
        """Report to the server once a second, and notice when it falls silent."""
        if now - self._reported_at >= _REPORT_EVERY:
            self._reported_at = now
            self._report(now)
        if now - self._heard_at > _SILENT_LINK:
            self.lose("the server fell silent")

    def _report(self, now: MonoNs) -> None:
        blocks = [self._received.block(now)] if self._received is not None else []
        ticks = (now - self._base) * 48_000 // 1_000_000_000
        report = self._sent.report(now=now, wall=WallNs(now), rtp_ts=ticks, blocks=blocks)
        self._link.send(self._protect.protect_rtcp(report))

    # What arrives. --------------------------------------------------------------------------------------------------------

    def datagram(self, data: bytes) -> None:
        """Take an SRTP or SRTCP datagram."""
        if self._unprotect is None or self.over.is_set():
            return
        now = now_ns()
        try:
            if rtp.is_rtcp(data):
                for report in rtcp.parse(self._unprotect.unprotect_rtcp(data)):
                    if isinstance(report, rtcp.Reports) and self._received is not None:
                        self._received.heard_report(report, now)
            else:
                self._hear(rtp.parse(self._unprotect.unprotect(data), level_id=self._level_id), now)
        except (*rtc.SrtpError, rtp.RtpError, opus.OpusError):
            return  # as a browser does with what is not the peer's
        self._heard_at = now

    def _hear(self, packet: rtp.RtpPacket, now: MonoNs) -> None:
        if packet.payload_type != self._payload_type or not packet.payload:
            return
        if self._received is None:
            self._received = rtcp.ReceivedStream(ssrc=packet.ssrc, clock_rate=48_000)
        self._received.add(packet.rtp_seq, packet.rtp_ts, now)
        level = SILENT
        if len(packet.payload) > _DTX_BYTES_MAX:
            level = level_of(self._decoder.decode(packet.payload), opus.HEAR_RATE, SILENCE_PEAK)
            if packet.level is not None and level.audible is None:
                level = Level(None, packet.level < rtp.LEVEL_SILENT)
        self._ear.arrive(packet.rtp_seq, packet.rtp_ts, level, self._talker.tag(now), now)

    def event(self, text: str | bytes) -> None:
        """Take a message of the data channel."""
        if not self.over.is_set():
            self._talker.event(json.loads(text), now_ns())


async def dial(
    http: aiohttp.ClientSession, url: str, *, talker: Talker, bank: Bank, metronome: Metronome, lateness: Lateness,
    network: Network, rng: random.Random,
) -> WebRtcCall:  # fmt: skip
    """Make a call and wait until media can flow.

    Raises:
        CallRefused: the server takes no session.
        CallFailed: it cannot be reached or does not connect.
    Cancel: gives everything back.
    """
    pc = rtc.connection(certificate())
    try:
        channel = pc.createDataChannel("oai-events")
        offer = await pc.createOffer()
        link = rtc.Link(pc, [_own_address(url)])
        call = WebRtcCall(talker=talker, bank=bank, metronome=metronome, lateness=lateness, pc=pc, link=link)
        channel.on("message", call.event)
        await pc.setLocalDescription(offer)
        answer = await _offer(http, url, pc.localDescription.sdp)
        link.tap(call.datagram)
        if not network.ideal:
            impair(link, network, rng)
        connected = asyncio.Event()
        pc.on("connectionstatechange", connected.set)
        await pc.setRemoteDescription(RTCSessionDescription(sdp=answer, type="answer"))
        await _until_connected(pc, connected)
        pc.on("connectionstatechange", call.state_changed)
        call.begin(answer)
    except BaseException:
        await pc.close()
        raise
    return call


async def _until_connected(pc: Any, changed: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(CONNECT_S):
            while pc.connectionState != "connected":
                if pc.connectionState in ("failed", "closed"):
                    raise CallFailed("the media connection failed")
                changed.clear()
                await changed.wait()
    except TimeoutError:
        raise CallFailed(f"no media connection within {CONNECT_S:g} s") from None


async def _offer(http: aiohttp.ClientSession, url: str, sdp: str) -> str:
    began = now_ns()
    try:
        headers = {"Content-Type": "application/sdp"}
        limit = aiohttp.ClientTimeout(total=CONNECT_S)
        async with http.post(f"{url}/v1/realtime/calls", data=sdp, headers=headers, timeout=limit) as response:
            text = await response.text()
            if response.status == 201:
                return text
            took = (now_ns() - began) / 1e9
            raise CallRefused(response.status, reason_of(text), took, retry_after(response.headers.get("Retry-After")))
    except (aiohttp.ClientError, TimeoutError) as error:
        raise CallFailed(f"cannot reach the server: {error or 'no answer in time'}") from error


def reason_of(body: str) -> str:
    """Return the code of an error answer, or its beginning where it has none."""
    try:
        return str(json.loads(body)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return body[:80] or "no reason given"


def retry_after(header: str | None) -> float | None:
    """Return the seconds of a Retry-After header; dates are not read."""
    return float(header) if header is not None and header.isdigit() else None


def _own_address(url: str) -> str:
    """Return the address of this machine from which the server is reached (nothing is sent)."""
    parts = urlsplit(url)
    family, kind, _, _, address = sockets.getaddrinfo(parts.hostname, parts.port or 80, type=sockets.SOCK_DGRAM)[0]
    with sockets.socket(family, kind) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])
