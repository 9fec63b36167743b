"""The packets of one connected peer: SRTP both ways, RTCP, and the audio and video paths behind them.

Runs in two places, both on the loop: `receive` for each datagram, `tick` every 20 ms.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from duplex.config import MediaSettings
from duplex.media import rtcp, rtp
from duplex.media.audio_path import AudioIn, AudioOut
from duplex.media.contract import MediaSink, ReceiverReport
from duplex.media.jitter import JitterStats
from duplex.media.rtc import Link, SrtpError
from duplex.media.sdp import Offer
from duplex.media.ticker import Ticker
from duplex.media.video import VideoIn, VideoStats, video_rate
from duplex.media.warm import video_executor
from duplex.units import MonoNs, WallNs, ns_from_ms, seconds_from_ns

_VIDEO_CLOCK = 90_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerStats:
    """A peer's counts since it connected."""

    audio: JitterStats
    video: VideoStats | None
    undecodable: int
    """Audio payloads that were none."""
    unauthentic: int
    """Datagrams that SRTP refused, or that held no RTP."""
    fec: bool
    """What is sent carries FEC."""


class PacketPath:
    """One peer's packets, from the moment DTLS is up.

    Args:
        link: connected.
        now: when it connected.
        failed: called once if serving this peer raises; the peer ends.
    """

    def __init__(
        self,
        *,
        sink: MediaSink,
        ticker: Ticker,
        settings: MediaSettings,
        link: Link,
        offer: Offer,
        now: MonoNs,
        failed: Callable[[], None],
    ) -> None:
        self._sink = sink
        self._ticker = ticker
        self._link = link
        self._audio = offer.audio
        self._video_type = offer.video.payload_type if offer.video is not None else None
        self._failed = failed
        self._unprotect, self._protect = link.srtp()
        self._sent = rtcp.SentStream(ssrc=link.ssrc, cname=secrets.token_hex(8))
        self._received: dict[int, rtcp.ReceivedStream] = {}
        self._report_every = ns_from_ms(settings.rtcp_interval_ms)
        self._reported_at = now
        self._number = 0
        self._unauthentic = 0
        self.heard_at = now
        """When something authentic last came."""
        self._in = AudioIn(sink=sink, codec=offer.audio.codec, settings=settings, now=now)
        self._out = _speaker(sink, settings, link, offer) if offer.audio.receives else None
        self._video: VideoIn | None = None
        if offer.video is not None:
            self._video = VideoIn(
                sink=sink,
                codec=offer.video.codec,
                settings=settings,
                executor=video_executor(),
                ask_keyframe=self._ask_keyframe,
                rate=video_rate(),
            )
        ticker.add(self)

    def receive(self, data: bytes) -> None:
        """Take a datagram that looks like SRTP or SRTCP; what is not the peer's is counted and dropped."""
        now = self._ticker.now()
        try:
            if rtp.is_rtcp(data):
                reports = self._unprotect.unprotect_rtcp(data)
                self.heard_at = now
                for packet in rtcp.parse(reports):
                    self._rtcp(packet, now)
            else:
                plain = self._unprotect.unprotect(data)
                self.heard_at = now
                self._rtp(rtp.parse(plain), now)
        except (*SrtpError, rtp.RtpError):
            self._unauthentic += 1

    def tick(self, number: int, now: MonoNs) -> None:
        """Do what is due every 20 ms: hear, speak, sample, report."""
        self._number = number
        self._in.advance(now)
        if self._out is None:
            self._sink.next_packet(now)  # nobody listens: what is said passes at real time
        elif (out := self._out.tick(number, now)) is not None:
            self._link.send(self._protect.protect(out.data))
            self._sent.add(out.payload_bytes)
        if self._video is not None:
            self._video.tick(now)
        if now - self._reported_at >= self._report_every:
            self._reported_at = now
            self._report(now)

    def tick_failed(self) -> None:
        """End the peer; see `Ticked`."""
        self._failed()

    def stop(self) -> None:
        """Say goodbye and take no further part; safe to call twice."""
        self._ticker.remove(self)
        if self._video is not None:
            self._video.close()
        self._link.send(self._protect.protect_rtcp(rtcp.bye(self._sent.ssrc)))

    def stats(self) -> PeerStats:
        """Return the counts."""
        return PeerStats(
            audio=self._in.stats(),
            video=self._video.stats() if self._video is not None else None,
            undecodable=self._in.undecodable,
            unauthentic=self._unauthentic,
            fec=self._out is not None and self._out.protected,
        )

    def _rtp(self, packet: rtp.RtpPacket, now: MonoNs) -> None:
        codec = self._audio.codec
        if packet.payload_type == codec.payload_type and self._audio.sends:
            self._count(packet, codec.clock_rate, now)
            self._in.receive(packet, now)
        elif packet.payload_type == self._video_type and self._video is not None:
            self._count(packet, _VIDEO_CLOCK, now)
            self._video.receive(packet, now)

    def _count(self, packet: rtp.RtpPacket, clock_rate: int, now: MonoNs) -> None:
        stream = self._received.get(packet.ssrc)
        if stream is None:  # one stream of a kind: a new one takes the place of the last
            self._received = {s: r for s, r in self._received.items() if r.clock_rate != clock_rate}
            stream = self._received[packet.ssrc] = rtcp.ReceivedStream(ssrc=packet.ssrc, clock_rate=clock_rate)
        stream.add(packet.rtp_seq, packet.rtp_ts, now)

    def _rtcp(self, packet: rtcp.Packet, now: MonoNs) -> None:
        if not isinstance(packet, rtcp.Reports):
            return  # a goodbye, an extended report, a request for a keyframe of ours: nothing depends on them
        if (stream := self._received.get(packet.ssrc)) is not None:
            stream.heard_report(packet, now)
        for block in packet.blocks:
            if block.ssrc == self._sent.ssrc:
                self._heard_of_us(block, now)

    def _heard_of_us(self, block: rtcp.ReportBlock, now: MonoNs) -> None:
        rtt = self._sent.rtt_ns(block, now)
        if self._out is not None:
            self._out.report(block.fraction_lost, now)
        self._sink.report(
            ReceiverReport(
                at=now,
                rtp_seq_ext=block.rtp_seq_ext,
                packets_lost=block.packets_lost,
                fraction_lost=block.fraction_lost,
                jitter_ms=1000 * block.jitter / self._audio.codec.clock_rate,
                rtt_ms=None if rtt is None else 1000 * seconds_from_ns(rtt),
            )
        )

    def _report(self, now: MonoNs) -> None:
        blocks = [stream.block(now) for stream in self._received.values()]
        rtp_ts = self._out.rtp_ts(self._number) if self._out is not None else 0
        wall = WallNs(time.time_ns())
        packet = self._sent.report(now=now, wall=wall, rtp_ts=rtp_ts, blocks=blocks)
        self._link.send(self._protect.protect_rtcp(packet))

    def _ask_keyframe(self, ssrc: int) -> None:
        self._link.send(self._protect.protect_rtcp(rtcp.picture_loss(self._sent.ssrc, ssrc)))


def _speaker(sink: MediaSink, settings: MediaSettings, link: Link, offer: Offer) -> AudioOut:
    audio = offer.audio
    writer = rtp.RtpWriter(
        ssrc=link.ssrc,
        payload_type=audio.codec.payload_type,
        rtp_seq=secrets.randbelow(1 << 15),  # RFC 3711 §3.3.1: the lower half, so that no early loss hides a wrap
        mid=audio.mid,
        mid_id=audio.mid_id,
        level_id=audio.level_id,
    )
    return AudioOut(
        sink=sink,
        codec=audio.codec,
        writer=writer,
        settings=settings,
        rtp_ts=secrets.randbits(32),
        measure_level=audio.level_id is not None,
    )
