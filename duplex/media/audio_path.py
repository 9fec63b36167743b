"""One peer's audio between datagrams and a session, without a thread hop: `AudioIn` hears, `AudioOut` speaks.

    datagram → SRTP → `AudioIn.receive` → jitter buffer → decoder → sink.hear
    tick → `AudioOut.tick` → sink.next_packet → encoder → RTP → SRTP → datagram

Both are shells without clocks: `now` and the number of the tick come in. SRTP and sockets belong to the peer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duplex.config import MediaSettings
from duplex.media.codec import AudioCodec, CodecError, Hearing, hearing, is_dtx, speaking
from duplex.media.contract import MediaSink
from duplex.media.jitter import Arrival, Conceal, JitterBuffer, JitterStats, Play, Quiet, Recover, Silence, Step
from duplex.media.loss import LossPolicy
from duplex.media.rtp import LEVEL_SILENT, RtpPacket, RtpWriter, level_of
from duplex.payloads import Int16Array
from duplex.units import POSITION_RATE, MonoNs, rtp_ticks

PTIME = 960
_PER_HEARD = 3
"""48 kHz samples per heard sample."""
_QUIET_PEAK = 400
"""Loudest sample of audio that may be left out or lengthened unheard (−38 dBFS)."""
_FLUSH_PACKETS = 5
"""Encoded silence after speech, so that a browser's buffer ends in silence and not in a smear."""
_DTX_EVERY = 20
"""Ticks between packets that keep the stream alive while nothing is said (RFC 7587 §3.1.3: 400 ms)."""
_SILENT = np.zeros(PTIME, np.int16)


class AudioIn:
    """What the client says: RTP packets in, `sink.hear` and `sink.hear_silence` out.

    Args:
        now: when hearing begins; time from then on is silent until packets come.
    """

    def __init__(self, *, sink: MediaSink, codec: AudioCodec, settings: MediaSettings, now: MonoNs) -> None:
        self._sink = sink
        self._codec = codec
        self._decoder: Hearing = hearing(codec)
        self._jitter = JitterBuffer(
            now=now,
            clock_rate=codec.clock_rate,
            depth_ms_min=settings.jitter_ms_min,
            depth_ms_max=settings.jitter_ms_max,
            late_ms=settings.late_ms,
            conceal_ms_max=settings.conceal_ms_max,
        )
        self.undecodable = 0

    def receive(self, packet: RtpPacket, now: MonoNs) -> None:
        """Take an unprotected packet of our payload type; a payload that is none is counted and passed over."""
        try:
            duration = self._decoder.duration(packet.payload)
        except CodecError:
            self.undecodable += 1
            return
        arrival = Arrival(
            rtp_seq=packet.rtp_seq,
            rtp_ts=packet.rtp_ts,
            ssrc=packet.ssrc,
            payload=packet.payload,
            duration=duration,
            dtx=is_dtx(self._codec, packet.payload),
            received=now,
        )
        self._jitter.push(arrival, now)
        self.advance(now)

    def advance(self, now: MonoNs) -> None:
        """Give the session what is decided by `now`; call at least every 20 ms."""
        for step in self._jitter.poll(now):
            self._give(step)

    def stats(self) -> JitterStats:
        """Return the jitter buffer's counts."""
        return self._jitter.stats()

    def _give(self, step: Step) -> None:
        match step:
            case Play():
                self._play(step)
            case Recover():
                self._decoded(step)
            case Conceal():
                self._sink.hear(self._decoder.conceal(step.duration))
            case Silence():
                self._sink.hear_silence(step.duration // _PER_HEARD)

    def _play(self, step: Play) -> None:
        duration = step.packet.duration
        pcm = self._decoded(step, hear=step.quiet is not Quiet.SKIP)
        if step.quiet is Quiet.KEEP or pcm is None:
            return
        quiet = int(np.abs(pcm).max()) <= _QUIET_PEAK
        if step.quiet is Quiet.SKIP:
            if quiet:
                self._jitter.skipped(duration)
            else:
                self._sink.hear(pcm, step.packet.received)
        elif quiet:
            self._sink.hear_silence(duration // _PER_HEARD)
            self._jitter.doubled(duration)

    def _decoded(self, step: Play | Recover, *, hear: bool = True) -> Int16Array | None:
        """Decode and, unless told otherwise, hear; a corrupt payload is concealed."""
        duration = step.packet.duration if isinstance(step, Play) else step.duration
        try:
            if isinstance(step, Play):
                pcm = self._decoder.decode(step.packet.payload)
            else:
                pcm = self._decoder.recover(step.packet.payload, duration)
        except CodecError:
            self.undecodable += 1
            self._sink.hear(self._decoder.conceal(duration))
            return None
        if hear:
            self._sink.hear(pcm, step.packet.received if isinstance(step, Play) else None)
        return pcm


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One packet to protect and send."""

    data: bytes
    payload_bytes: int


class AudioOut:
    """What the session says, one packet a tick while it speaks.

    RTP timestamps follow ticks, thus real time, whether packets are sent or not; the packet that begins a talk spurt
    carries the marker. While nothing is said: five packets of encoded silence, then DTX (Opus) or silence (G.711).

    Args:
        rtp_ts: timestamp of tick 0, in ticks of the codec's clock.
        measure_level: whether the audio level extension was negotiated.
    """

    def __init__(
        self,
        *,
        sink: MediaSink,
        codec: AudioCodec,
        writer: RtpWriter,
        settings: MediaSettings,
        rtp_ts: int,
        measure_level: bool,
    ) -> None:
        self._sink = sink
        self._writer = writer
        self._encoder = speaking(codec, settings)
        self._loss = LossPolicy(fec_loss_on=settings.fec_loss_on)
        self._rtp_ts = rtp_ts
        self._step = PTIME * codec.clock_rate // POSITION_RATE
        self._at_position_rate = codec.clock_rate == POSITION_RATE
        self._measure_level = measure_level
        self._silent_for = 0
        self._protected = False

    @property
    def protected(self) -> bool:
        """Whether what is sent carries FEC."""
        return self._protected

    def rtp_ts(self, number: int) -> int:
        """Return the timestamp of tick `number`, not yet wrapped."""
        return self._rtp_ts + number * self._step

    def tick(self, number: int, now: MonoNs) -> Outgoing | None:
        """Return the packet of tick `number`, or None where none is due."""
        said = self._sink.next_packet(now, rtp_ticks(self.rtp_ts(number)) if self._at_position_rate else None)
        if said is not None:
            begins = self._silent_for > _FLUSH_PACKETS
            self._silent_for = 0
            level = level_of(said.pcm) if self._measure_level else LEVEL_SILENT
            return self._packet(self._encoder.encode(said.pcm), number, marker=begins, level=level)
        self._silent_for += 1
        flushed = self._silent_for - _FLUSH_PACKETS
        nothing = self._encoder.nothing() if flushed > 0 else None
        if nothing is None:
            return self._packet(self._encoder.encode(_SILENT), number, marker=False)
        return self._packet(nothing, number, marker=False) if flushed % _DTX_EVERY == 1 else None

    def _packet(self, payload: bytes, number: int, *, marker: bool, level: int = LEVEL_SILENT) -> Outgoing:
        data = self._writer.write(payload, rtp_ts=self.rtp_ts(number), marker=marker, level=level)
        return Outgoing(data=data, payload_bytes=len(payload))

    def report(self, fraction_lost: float, now: MonoNs) -> None:
        """Take the client's loss of our audio; adds or removes FEC."""
        loss = self._loss.report(fraction_lost, now)
        if loss is not None or self._protected:
            self._encoder.protect(loss)
        self._protected = loss is not None
