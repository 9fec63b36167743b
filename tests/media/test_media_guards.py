"""The private parts of aiortc and aioice that `duplex.media.rtc` uses are there and mean what it thinks.

A new version of either fails here first, by name.
"""

from __future__ import annotations

import inspect
from importlib.metadata import version

import aioice.ice
import pytest
from aiortc import RTCPeerConnection
from aiortc.rtcdtlstransport import RTCDtlsTransport
from aiortc.rtcicetransport import RTCIceTransport
from aiortc.rtcrtpreceiver import RTCRtpReceiver
from aiortc.rtcrtpsender import RTCRtpSender
from aiortc.rtcsctptransport import WEBRTC_BINARY, WEBRTC_DCEP, WEBRTC_STRING, RTCSctpTransport

from duplex.media import rtc
from duplex.media.warm import certificate

pytestmark = pytest.mark.media


def test_the_versions_are_those_that_were_read() -> None:
    assert version("aiortc").startswith("1.16.")
    assert version("aioice").startswith("0.13.")


async def test_the_certificate_of_the_process_is_the_one_used() -> None:
    pc = rtc.connection(certificate())
    fingerprints = pc.getTransceivers()[0].receiver.transport.getLocalParameters().fingerprints
    assert [f.value for f in fingerprints] == [f.value for f in certificate().getFingerprints()]
    assert certificate() is certificate()
    await pc.close()


async def test_the_attributes_reached_into_exist() -> None:
    pc = rtc.connection(certificate())
    pc.createDataChannel("x")
    dtls = pc.getTransceivers()[0].receiver.transport
    ice = dtls.transport._connection
    assert hasattr(pc, "_RTCPeerConnection__certificates")
    assert isinstance(pc.getTransceivers()[0].sender._ssrc, int)
    assert hasattr(dtls, "_rx_srtp") and hasattr(dtls, "_tx_srtp")
    for name in ("_local_candidates_start", "_local_candidates_end", "_local_candidates", "_nominated", "_protocols"):
        assert hasattr(ice, name), name
    assert pc.sctp is not None
    assert isinstance(pc.sctp._data_channels, dict)
    assert isinstance(pc.sctp._advertised_rwnd, int)
    await pc.close()


def test_what_is_replaced_is_called_through_the_instance() -> None:
    assert "self.gather_candidates" not in inspect.getsource(aioice.ice)  # aiortc calls it on the connection
    assert "self._connection.gather_candidates()" in inspect.getsource(inspect.getmodule(RTCIceTransport))
    assert "self.query_consent()" in inspect.getsource(aioice.ice.Connection.connect)
    assert "self._data_channel_receive(" in inspect.getsource(RTCSctpTransport._receive)
    connect = inspect.getsource(RTCPeerConnection._RTCPeerConnection__connect)
    assert "transceiver.sender.send(" in connect and "transceiver.receiver.receive(" in connect


def test_a_media_path_that_never_started_is_not_stopped() -> None:
    assert "if self.__started:" in inspect.getsource(RTCRtpSender.stop)
    assert "if self.__started:" in inspect.getsource(RTCRtpReceiver.stop)


def test_signatures_are_as_called() -> None:
    parameters = inspect.signature(aioice.ice.Connection.get_component_candidates).parameters
    assert list(parameters)[:3] == ["self", "component", "addresses"]
    request = inspect.signature(aioice.ice.StunProtocol.request).parameters
    assert {"integrity_key", "retransmissions"} <= set(request)
    assert list(inspect.signature(RTCSctpTransport._data_channel_receive).parameters) == [
        "self", "stream_id", "pp_id", "data",
    ]  # fmt: skip
    assert list(inspect.signature(RTCSctpTransport._send_chunk).parameters) == ["self", "chunk"]
    assert "self._remote_verification_tag" in inspect.getsource(RTCSctpTransport._send_chunk)
    assert list(inspect.signature(aioice.ice.get_host_addresses).parameters) == ["use_ipv4", "use_ipv6"]


def test_numbers_of_the_wire() -> None:
    assert (WEBRTC_DCEP, WEBRTC_STRING, WEBRTC_BINARY) == (rtc._DCEP, rtc._STRING, rtc._BINARY)


def test_srtp_keys_are_there_when_dtls_says_connected() -> None:
    start = inspect.getsource(RTCDtlsTransport.start)
    assert start.index("self._setup_srtp()") < start.index("State.CONNECTED")
