"""RTCP: reports about what we send and what we receive, both ways, as arithmetic on bytes and `now`.

Words: sender report (SR), receiver report (RR), extended report (XR), picture loss indication (PLI), canonical name
(CNAME). Times inside packets are NTP; round trips are measured on the monotonic clock alone.

Source: RFC 3550 §6 and appendix A; RFC 3611 (XR); RFC 4585 §6.3.1 (PLI).
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from duplex.units import NS_PER_S, MonoNs, WallNs

_SR, _RR, _SDES, _BYE, _PSFB, _XR = 200, 201, 202, 203, 206, 207
_NTP_EPOCH_S = 2_208_988_800
_HEAD = struct.Struct("!BBH")
_BLOCK = struct.Struct("!IIIIII")
_SENDER = struct.Struct("!IIIII")
_REPORTS_KEPT = 8
_DROPOUT_MAX = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBlock:
    """What a receiver says of one stream."""

    ssrc: int
    """Of the stream spoken of."""
    fraction_lost: float
    packets_lost: int
    """Cumulative; may be negative after duplicates."""
    rtp_seq_ext: int
    jitter: int
    """In ticks of the stream's clock."""
    lsr: int
    """Middle 32 bits of the NTP time of the last sender report; 0 before one."""
    dlsr: int
    """Delay since then in 1/65536 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """A sender report or a receiver report."""

    ssrc: int
    """Of whoever reports."""
    ntp: int | None
    """64-bit NTP time of a sender report; None in a receiver report."""
    rtp_ts: int | None
    blocks: tuple[ReportBlock, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye:
    """Streams that end."""

    ssrcs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureLoss:
    """A receiver asks for a keyframe."""

    media_ssrc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended:
    """An extended report: the block types it holds; nothing of ours depends on their content."""

    ssrc: int
    block_types: tuple[int, ...]


Packet = Reports | Bye | PictureLoss | Extended


def parse(data: bytes) -> Iterator[Packet]:
    """Yield what a compound packet says, in order. Unknown types are passed over; a malformed one ends it."""
    at = 0
    while at + 4 <= len(data):
        first, kind, words = _HEAD.unpack_from(data, at)
        end = at + 4 + 4 * words
        if first >> 6 != 2 or end > len(data):
            return
        count, body = first & 0x1F, data[at + 4 : end]
        at = end
        if kind in (_SR, _RR):
            packet: Packet | None = _reports(kind, count, body)
        elif kind == _BYE:
            packet = Bye(ssrcs=struct.unpack_from(f"!{count}I", body) if 4 * count <= len(body) else ())
        elif kind == _PSFB and count == 1 and len(body) >= 8:
            packet = PictureLoss(media_ssrc=struct.unpack_from("!I", body, 4)[0])
        elif kind == _XR and len(body) >= 4:
            packet = _extended(body)
        else:
            continue
        if packet is None:
            return
        yield packet


def _reports(kind: int, count: int, body: bytes) -> Reports | None:
    at = 4 + (_SENDER.size if kind == _SR else 0)
    if len(body) < at + count * _BLOCK.size:
        return None
    (ssrc,) = struct.unpack_from("!I", body)
    ntp = rtp_ts = None
    if kind == _SR:
        high, low, rtp_ts, _, _ = _SENDER.unpack_from(body, 4)
        ntp = high << 32 | low
    blocks = []
    for i in range(count):
        of, loss, seq_ext, jitter, lsr, dlsr = _BLOCK.unpack_from(body, at + i * _BLOCK.size)
        lost = loss & 0xFFFFFF
        blocks.append(
            ReportBlock(
                ssrc=of,
                fraction_lost=(loss >> 24) / 256,
                packets_lost=lost - (1 << 24) if lost & 0x800000 else lost,
                rtp_seq_ext=seq_ext,
                jitter=jitter,
                lsr=lsr,
                dlsr=dlsr,
            )
        )
    return Reports(ssrc=ssrc, ntp=ntp, rtp_ts=rtp_ts, blocks=tuple(blocks))


def _extended(body: bytes) -> Extended:
    kinds, at = [], 4
    while at + 4 <= len(body):
        kind, _, words = _HEAD.unpack_from(body, at)
        kinds.append(kind)
        at += 4 + 4 * words
    return Extended(ssrc=struct.unpack_from("!I", body)[0], block_types=tuple(kinds))


def ntp_from_wall(wall: WallNs) -> int:
    """Return the 64-bit NTP time of `wall`."""
    seconds, rest = divmod(wall, NS_PER_S)
    return (seconds + _NTP_EPOCH_S) << 32 | (rest << 32) // NS_PER_S


def bye(ssrc: int) -> bytes:
    """Return a packet that ends our stream."""
    return _packed(_RR, 0, struct.pack("!I", ssrc)) + _packed(_BYE, 1, struct.pack("!I", ssrc))


def picture_loss(ssrc: int, media_ssrc: int) -> bytes:
    """Return our request for a keyframe of `media_ssrc`."""
    return _packed(_RR, 0, struct.pack("!I", ssrc)) + _packed(_PSFB, 1, struct.pack("!II", ssrc, media_ssrc))


def _packed(kind: int, count: int, body: bytes) -> bytes:
    return _HEAD.pack(0x80 | count, kind, len(body) // 4) + body


class SentStream:
    """Our side of one stream we send: what goes into sender reports, and what receiver reports say of it."""

    def __init__(self, *, ssrc: int, cname: str) -> None:
        self.ssrc = ssrc
        self._cname = cname.encode()[:255]
        self._packets = 0
        self._octets = 0
        self._sent: OrderedDict[int, MonoNs] = OrderedDict()

    def add(self, payload_bytes: int) -> None:
        """Count one packet sent."""
        self._packets += 1
        self._octets += payload_bytes

    def report(self, *, now: MonoNs, wall: WallNs, rtp_ts: int, blocks: list[bytes]) -> bytes:
        """Return a compound packet: our report (SR once something was sent, else RR), `blocks` and our name.

        Args:
            rtp_ts: our stream's timestamp at this moment.
            blocks: receiver report blocks from `ReceivedStream.block`, at most 31.
        """
        count, tail = len(blocks), b"".join(blocks)
        head = struct.pack("!I", self.ssrc)
        if self._packets:
            ntp = ntp_from_wall(wall)
            self._sent[ntp >> 16 & 0xFFFFFFFF] = now
            if len(self._sent) > _REPORTS_KEPT:
                self._sent.popitem(last=False)
            counts = (self._packets & 0xFFFFFFFF, self._octets & 0xFFFFFFFF)
            head += _SENDER.pack(ntp >> 32, ntp & 0xFFFFFFFF, rtp_ts & 0xFFFFFFFF, *counts)
        name = struct.pack("!IBB", self.ssrc, 1, len(self._cname)) + self._cname
        name += bytes(4 - len(name) % 4)  # at least one null ends the items
        return _packed(_SR if self._packets else _RR, count, head + tail) + _packed(_SDES, 1, name)

    def rtt_ns(self, block: ReportBlock, now: MonoNs) -> int | None:
        """Return the round trip that `block` closes, or None where it echoes no report of ours."""
        sent = self._sent.get(block.lsr)
        if sent is None or not block.lsr:
            return None
        return max(now - sent - block.dlsr * NS_PER_S // 65536, 0)


@dataclass(slots=True)
class ReceivedStream:
    """One stream we receive: loss and jitter as RFC 3550 counts them."""

    ssrc: int
    clock_rate: int
    received: int = 0
    _base: int = 0
    _highest: int = -1
    _transit: int = 0
    _jitter_q4: int = 0
    _expected_prior: int = 0
    _received_prior: int = 0
    _lsr: int = 0
    _lsr_at: MonoNs = field(default=MonoNs(0))

    def add(self, rtp_seq: int, rtp_ts: int, now: MonoNs) -> None:
        """Count a packet."""
        arrival = now * self.clock_rate // NS_PER_S
        transit = (arrival - rtp_ts) & 0xFFFFFFFF
        if self._highest < 0:
            self._base = self._highest = rtp_seq
        else:
            delta = (rtp_seq - self._highest + 0x8000) % 0x10000 - 0x8000
            if abs(delta) > _DROPOUT_MAX:  # the sender began anew
                self._base = self._highest = rtp_seq
                self.received = self._expected_prior = self._received_prior = 0
            elif delta > 0:
                self._highest += delta
            change = abs((transit - self._transit + 0x80000000) % 0x100000000 - 0x80000000)
            if change < self.clock_rate:  # a jump of the sender's timestamps is not jitter
                self._jitter_q4 += change - ((self._jitter_q4 + 8) >> 4)
        self._transit = transit
        self.received += 1

    def heard_report(self, reports: Reports, now: MonoNs) -> None:
        """Take the sender's own report, which the next block echoes."""
        if reports.ntp is not None:
            self._lsr = reports.ntp >> 16 & 0xFFFFFFFF
            self._lsr_at = now

    @property
    def lost(self) -> int:
        """Packets expected but not received, since the start."""
        return self._highest - self._base + 1 - self.received if self._highest >= 0 else 0

    def block(self, now: MonoNs) -> bytes:
        """Return our report block of this stream; fractions count from the block before."""
        expected = self._highest - self._base + 1
        expected_step, received_step = expected - self._expected_prior, self.received - self._received_prior
        self._expected_prior, self._received_prior = expected, self.received
        lost_step = expected_step - received_step
        fraction = min((lost_step << 8) // expected_step, 255) if expected_step > 0 and lost_step > 0 else 0
        lost = min(max(self.lost, -(1 << 23)), (1 << 23) - 1) & 0xFFFFFF
        dlsr = (now - self._lsr_at) * 65536 // NS_PER_S & 0xFFFFFFFF if self._lsr else 0
        highest = self._highest & 0xFFFFFFFF
        return _BLOCK.pack(self.ssrc, fraction << 24 | lost, highest, self._jitter_q4 >> 4, self._lsr, dlsr)
