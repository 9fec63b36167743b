# ruff: noqa: SLF001 - the one module that reaches into aiortc and aioice; tests/media/test_media_guards.py pins what it uses
"""aiortc 1.16 and aioice 0.13 as we use them: their signalling, ICE, DTLS and SCTP, with our own packets past them.

    UDP socket ──► first byte 128–191 ──► our audio and video path          (`Link.tap`)
               ├─► STUN                ──► aioice
               └─► DTLS                ──► aiortc: handshake, then SCTP

Both libraries keep what is needed here private, so this is the only module that knows their insides.

Source: RFC 7983 (demultiplexing by first byte); RFC 7675 (consent); RFC 8831 §6.7 (an id is free once both directions
are reset).
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable
from typing import Any

import aioice
import aioice.stun
import pylibsrtp
import structlog
from aiortc import RTCCertificate, RTCConfiguration, RTCDataChannel, RTCPeerConnection
from aiortc.rtcsctptransport import InitChunk

SrtpError = (pylibsrtp.Error, ValueError)
"""What unprotecting a datagram raises when it is not the peer's (or too long to be)."""
_DCEP, _STRING, _BINARY = 50, 51, 53
_DCEP_OPEN = 3
_WAITING_MAX = 64
_WRITE_BUFFER_MAX = 256 * 1024
_REASSEMBLY_BYTES_MAX = 2 * 1024 * 1024
_log = structlog.get_logger(__name__)


def certificate() -> RTCCertificate:
    """Make a certificate; one serves all peers of a process."""
    return RTCCertificate.generateCertificate()


def connection(own: RTCCertificate) -> RTCPeerConnection:
    """Return a peer connection with our certificate, no ICE servers and one audio transceiver."""
    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    pc._RTCPeerConnection__certificates = [own]
    pc.addTransceiver("audio", direction="sendrecv")
    return pc


class Link:
    """The one transport under a bundled peer connection, once the offer is set.

    Args:
        pc: after `setRemoteDescription`, before `setLocalDescription`.
        addresses: local addresses to offer.
    """

    def __init__(self, pc: RTCPeerConnection, addresses: list[str]) -> None:
        self._pc = pc
        self._dtls = pc.getTransceivers()[0].receiver.transport
        self._ice = self._dtls.transport._connection
        self._ice.gather_candidates = self._gather
        self._addresses = addresses
        self.send_overflows = 0
        for transceiver in pc.getTransceivers():
            transceiver.sender.send = _nothing
            transceiver.receiver.receive = _nothing
        if pc.sctp is not None:
            _SctpGuard(pc.sctp)

    @property
    def ssrc(self) -> int:
        """Return the SSRC that the answer gives our audio."""
        return int(self._pc.getTransceivers()[0].sender._ssrc)

    async def _gather(self) -> None:
        if not self._ice._local_candidates_start:
            self._ice._local_candidates_start = True
            found = await self._ice.get_component_candidates(component=1, addresses=self._addresses)
            self._ice._local_candidates += found
            self._ice._local_candidates_end = True

    def keep_consent(self, interval_s: float, on_fresh: Callable[[], None]) -> None:
        """Ask for consent about every `interval_s` and say when it is given; whoever hears nothing closes."""
        ice = self._ice

        async def query_consent() -> None:
            while True:
                await asyncio.sleep(interval_s * random.uniform(0.8, 1.2))
                for pair in list(ice._nominated.values()):
                    request = ice.build_request(pair, nominate=False)
                    key = ice.remote_password.encode()
                    try:
                        await pair.protocol.request(request, pair.remote_addr, integrity_key=key, retransmissions=0)
                    except aioice.stun.TransactionError:
                        continue
                    on_fresh()

        ice.query_consent = query_consent

    def tap(self, on_media: Callable[[bytes], None]) -> None:
        """Hand SRTP and SRTCP datagrams to `on_media`; call once candidates are gathered."""
        for protocol in self._ice._protocols:
            protocol.datagram_received = _demultiplexer(protocol, on_media)

    async def add_candidate(self, line: str) -> None:
        """Check one more address of the client's.

        Args:
            line: value of `a=candidate`, with a literal address.
        """
        await self._ice.add_remote_candidate(aioice.Candidate.from_sdp(line))

    def srtp(self) -> tuple[Any, Any]:
        """Return the sessions that unprotect and protect, once DTLS is connected."""
        return self._dtls._rx_srtp, self._dtls._tx_srtp

    def send(self, data: bytes) -> None:
        """Send a datagram on the nominated pair; without one, or with a full socket, it is dropped."""
        pair = self._ice._nominated.get(1)
        if pair is None:
            return
        transport = pair.protocol.transport
        if transport.get_write_buffer_size() > _WRITE_BUFFER_MAX:
            self.send_overflows += 1
            return
        transport.sendto(data, pair.remote_addr)

    def overrun(self) -> bool:
        """Tell whether the client sends data channel fragments without end."""
        sctp = self._pc.sctp
        return sctp is not None and sctp._advertised_rwnd < -_REASSEMBLY_BYTES_MAX

    def abort(self) -> None:
        """Close the sockets at once."""
        for protocol in self._ice._protocols:
            protocol.transport.abort()


async def _nothing(_parameters: object) -> None:
    """Stand in for aiortc's own media path, which is never started."""


def _demultiplexer(protocol: Any, on_media: Callable[[bytes], None]) -> Callable[[bytes, Any], None]:
    further = protocol.datagram_received

    def datagram_received(data: bytes, address: Any) -> None:
        first = data[0] if data else 255
        if 128 <= first < 192:
            on_media(data)
        elif first < 4 or 20 <= first < 64:
            try:
                further(data, address)
            except (struct.error, IndexError, ValueError) as error:
                _log.debug("datagram_malformed", error=repr(error))

    return datagram_received


class _SctpGuard:
    """Keeps aiortc's association and data channels alive through losses and through what it asserts will not come."""

    def __init__(self, sctp: Any) -> None:
        self._sctp = sctp
        self._send = sctp._send_chunk
        sctp._send_chunk = self.send
        self._further = sctp._data_channel_receive
        self._waiting: dict[int, list[tuple[int, bytes]]] = {}
        """Messages on an id that the client uses again, until the reset of the channel before it is over."""
        self._replays: set[asyncio.Future[None]] = set()
        sctp._data_channel_receive = self.receive

    async def send(self, chunk: Any) -> None:
        """Stand before aiortc's `_send_chunk`: an INIT goes out with tag 0, even again after the peer's INIT came.

        aiortc gives the second one the peer's tag, which the peer then drops: where both INIT ACKs are lost, the
        association never comes up. Source: RFC 9260 §8.5.1.
        """
        if type(chunk) is not InitChunk:
            await self._send(chunk)
            return
        tag, self._sctp._remote_verification_tag = self._sctp._remote_verification_tag, 0
        try:
            await self._send(chunk)
        finally:
            self._sctp._remote_verification_tag = tag

    async def receive(self, stream_id: int, protocol: int, data: bytes) -> None:
        """Stand before aiortc's `_data_channel_receive`."""
        if stream_id in self._waiting:
            if len(self._waiting[stream_id]) < _WAITING_MAX:
                self._waiting[stream_id].append((protocol, data))
            return
        if protocol == _DCEP and data[:1] == bytes([_DCEP_OPEN]):
            if not self._may_open(stream_id, data):
                return
        elif protocol == _STRING and not _is_text(data):
            protocol = _BINARY  # the session answers it as any event it cannot read
        try:
            await self._further(stream_id, protocol, data)
        except (AssertionError, UnicodeDecodeError, struct.error) as error:
            _log.info("channel_message_malformed", error=type(error).__name__)

    def _may_open(self, stream_id: int, data: bytes) -> bool:
        present = self._sctp._data_channels.get(stream_id)
        if present is None:
            return True
        if present.negotiated:  # the client opens in band the id kept for a negotiated channel
            self._sctp._data_channels.pop(stream_id)
            return True
        if present.readyState == "closing":  # what we send before the reset is over would not reach the new channel
            self._waiting[stream_id] = [(_DCEP, data)]
            present.once("close", lambda: self._replay(stream_id))
        return False

    def _replay(self, stream_id: int) -> None:
        task = asyncio.ensure_future(self._replayed(stream_id))
        self._replays.add(task)
        task.add_done_callback(self._replays.discard)

    async def _replayed(self, stream_id: int) -> None:
        for protocol, data in self._waiting.pop(stream_id):
            await self.receive(stream_id, protocol, data)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def events_channel(pc: RTCPeerConnection, label: str) -> RTCDataChannel:
    """Return our end of a channel that both sides negotiate without a message: id 0."""
    return pc.createDataChannel(label, negotiated=True, id=0)
