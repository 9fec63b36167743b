"""Offers: what is taken, repaired and refused; answers: every section in its place; candidates: which get a check."""

from __future__ import annotations

import contextlib
import ipaddress
import random
import time

import pytest
from aiortc.sdp import SessionDescription
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex.config import ServerSettings
from duplex.media import candidates
from duplex.media.sdp import Offer, OfferError, finish, read

pytestmark = pytest.mark.unit

SHA256 = "sha-256 " + ":".join(["AB"] * 32)
SHA384 = "sha-384 " + ":".join(["CD"] * 48)
HEAD = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"
TRANSPORT = f"a=ice-ufrag:abcd\r\na=ice-pwd:{'p' * 22}\r\na=fingerprint:{SHA256}\r\na=setup:actpass\r\n"
AUDIO = (
    "m=audio 9 UDP/TLS/RTP/SAVPF 111 63 9 0 8 13\r\nc=IN IP4 0.0.0.0\r\na=mid:0\r\na=sendrecv\r\na=rtcp-mux\r\n"
    + TRANSPORT
    + "a=extmap:1 urn:ietf:params:rtp-hdrext:ssrc-audio-level\r\n"
    + "a=extmap:2 http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time\r\n"
    + "a=extmap:4 urn:ietf:params:rtp-hdrext:sdes:mid\r\n"
    + "a=rtpmap:111 opus/48000/2\r\na=fmtp:111 minptime=10;useinbandfec=1\r\na=rtpmap:63 red/48000/2\r\n"
)
VIDEO = (
    "m=video 9 UDP/TLS/RTP/SAVPF 96 97 102\r\na=mid:1\r\na=sendonly\r\na=rtcp-mux\r\n"
    + TRANSPORT
    + "a=extmap:13 urn:3gpp:video-orientation\r\na=extmap:4 urn:ietf:params:rtp-hdrext:sdes:mid\r\n"
    + "a=rtpmap:96 VP8/90000\r\na=rtcp-fb:96 nack pli\r\na=rtpmap:97 rtx/90000\r\na=fmtp:97 apt=96\r\n"
    + "a=rtpmap:102 H264/90000\r\na=fmtp:102 packetization-mode=1;profile-level-id=42e01f\r\n"
)
CHANNEL = (
    "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=mid:2\r\n"
    + TRANSPORT
    + "a=sctp-port:5000\r\na=max-message-size:262144\r\n"
)
FULL = HEAD + "a=group:BUNDLE 0 1 2\r\n" + AUDIO + VIDEO + CHANNEL
ANSWER = (
    "v=0\r\no=- 3 3 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0 1 2\r\n"
    "m=audio 5 UDP/TLS/RTP/SAVPF 111\r\na=mid:0\r\na=rtpmap:111 opus/48000/2\r\n"
    "m=video 5 UDP/TLS/RTP/SAVPF 96\r\na=mid:1\r\n"
    "m=application 5 UDP/DTLS/SCTP webrtc-datachannel\r\na=mid:2\r\n"
)


def taken(text: str, *, loopback: bool = True) -> Offer:
    return read(text, bytes_max=65_536, candidates_max=64, loopback=loopback)


def refused(text: str) -> OfferError:
    with pytest.raises(OfferError) as caught:
        taken(text)
    return caught.value


def test_a_browsers_offer_is_taken_whole() -> None:
    offer = taken(FULL)
    assert (offer.audio.codec.name, offer.audio.codec.payload_type) == ("opus", 111)
    assert (offer.audio.level_id, offer.audio.mid_id, offer.audio.mid) == (1, 4, "0")
    assert offer.audio.sends and offer.audio.receives
    assert offer.video is not None
    assert (offer.video.codec, offer.video.payload_type) == ("VP8", 96)
    assert offer.channel
    assert offer.taken == (True, True, True)


@pytest.mark.parametrize(
    ("line", "bytes_max"),
    [
        ("a=max-message-size:262144\r\n", 262_144),
        ("a=max-message-size:0\r\n", 0),
        ("", 65_536),
        ("a=max-message-size:many\r\n", 65_536),
        ("a=max-message-size:99999999999\r\n", 65_536),
    ],
)
def test_how_large_a_message_the_client_takes(line: str, bytes_max: int) -> None:
    offer = taken(FULL.replace("a=max-message-size:262144\r\n", line))
    assert offer.message_bytes_max == bytes_max
    assert f"a=max-message-size:{bytes_max}\r\n" in offer.sdp


def test_c52_the_camera_is_to_turn_pictures_itself() -> None:
    assert "3gpp" not in taken(FULL).sdp


def test_what_aiortc_gets_it_can_parse() -> None:
    parsed = SessionDescription.parse(taken(FULL).sdp)
    assert [m.kind for m in parsed.media] == ["audio", "video", "application"]
    assert [len(m.rtp.codecs) for m in parsed.media] == [1, 1, 0]
    assert parsed.media[0].dtls is not None and len(parsed.media[0].dtls.fingerprints) == 1


@pytest.mark.parametrize(
    ("change", "payload_type", "name"),
    [
        (("m=audio 9 UDP/TLS/RTP/SAVPF 111 63 9 0 8 13", "m=audio 9 UDP/TLS/RTP/SAVPF 0"), 0, "PCMU"),
        (("m=audio 9 UDP/TLS/RTP/SAVPF 111 63 9 0 8 13", "m=audio 9 UDP/TLS/RTP/SAVPF 8 0"), 0, "PCMU"),
        (("m=audio 9 UDP/TLS/RTP/SAVPF 111 63 9 0 8 13", "m=audio 9 UDP/TLS/RTP/SAVPF 8"), 8, "PCMA"),
        (("a=rtpmap:111 opus/48000/2", "a=rtpmap:111 OPUS/48000/2"), 111, "opus"),
    ],
)
def test_c05_static_types_need_no_rtpmap(change: tuple[str, str], payload_type: int, name: str) -> None:
    codec = taken(FULL.replace(*change)).audio.codec
    assert (codec.payload_type, codec.name) == (payload_type, name)
    assert codec.clock_rate == (48_000 if name == "opus" else 8_000)


def test_c05_no_codec_in_common_names_the_section() -> None:
    error = refused(
        HEAD + AUDIO.replace("111 63 9 0 8 13", "99").replace("rtpmap:111 opus/48000/2", "rtpmap:99 ILBC/8000")
    )
    assert error.status == 422
    assert "section 0" in error.message and "mid '0'" in error.message


SESSION_LEVEL = HEAD + TRANSPORT + "a=group:BUNDLE 0 1 2\r\n" + (AUDIO + VIDEO + CHANNEL).replace(TRANSPORT, "")


@pytest.mark.parametrize(
    "text",
    [
        FULL.replace("a=setup:actpass\r\n", ""),
        FULL.replace("a=rtcp-mux\r\n", ""),
        "".join(line for line in FULL.splitlines(True) if not line.startswith("a=mid:")),
        FULL.replace("\r\n", "\n"),
        FULL.replace(SHA256, SHA384),
        FULL.replace(SHA256, SHA256.lower()),
        FULL.replace(f"a=fingerprint:{SHA256}\r\n", f"a=fingerprint:{SHA256}\r\na=fingerprint:{SHA256}\r\n"),
        FULL.replace(f"a=fingerprint:{SHA256}\r\n", f"a=fingerprint:sha-1 AB:CD\r\na=fingerprint:{SHA384}\r\n"),
        FULL.replace("m=audio 9 ", "m=audio 1 "),
        FULL.replace("a=setup:actpass", "a=setup:active"),
        SESSION_LEVEL,
        FULL.replace("m=video 9", "m=video 0").replace("a=mid:1", "a=mid:1\r\na=bundle-only"),
    ],
    ids=[
        "no setup", "no rtcp-mux", "no mid", "bare LF", "sha-384", "lower case", "twice", "sha-1 beside", "port 1",
        "active", "session level", "bundle-only",
    ],
)  # fmt: skip
def test_c07_legal_variants_come_to_the_same(text: str) -> None:
    offer = taken(text)
    parsed = SessionDescription.parse(offer.sdp)
    assert [m.rtp.muxId for m in parsed.media] == ["0", "1", "2"]
    for media in parsed.media:
        assert media.ice is not None and media.ice.usernameFragment == "abcd"
        assert media.dtls is not None and media.dtls.fingerprints and media.dtls.role in ("auto", "client")
        assert media.kind == "application" or media.rtcp_mux


@pytest.mark.parametrize(
    ("text", "status", "word"),
    [
        ("", 400, "v=0"),
        ('{"type":"offer"}', 400, "v=0"),
        (HEAD, 400, "no media"),
        (HEAD + CHANNEL, 422, "no audio"),
        (FULL.replace(f"a=fingerprint:{SHA256}\r\n", ""), 422, "fingerprint"),
        (FULL.replace(SHA256, "sha-1 AB:CD"), 422, "fingerprint"),
        (FULL.replace(SHA256, "sha-256 AB:CD"), 422, "fingerprint"),
        (FULL.replace("a=ice-ufrag:abcd\r\n", ""), 400, "ICE"),
        (FULL.replace("p" * 22, "short"), 400, "ICE"),
        (FULL.replace("a=setup:actpass", "a=setup:holdconn"), 400, "setup"),
        (FULL.replace("m=audio 9 UDP", "m=audio nine UDP"), 400, "malformed"),
        (FULL.replace("a=mid:2", "a=mid:0"), 400, "same mid"),
        (FULL.replace("a=mid:2", "a=mid:<script>"), 400, "mid is malformed"),
        (FULL.replace("a=group:BUNDLE 0 1 2\r\n", ""), 422, "BUNDLE"),
        (FULL.replace("UDP/TLS/RTP/SAVPF 111", "RTP/AVP 111"), 422, "DTLS-SRTP"),
        (FULL.replace("m=audio 9", "m=audio 0"), 422, "no audio"),
        (FULL.replace("a=sctp-port:5000", "a=sctp-port:many"), 400, "SCTP port"),
        (HEAD + AUDIO * 17, 400, "more than 16"),
        (FULL + "a=x:" + "y" * 70_000, 413, "larger"),
        (FULL + "a=x:" + "é" * 40_000, 413, "larger"),
        (FULL + "a=candidate:1 1 udp 1 10.0.0.1 5 typ host\r\n" * 65, 400, "65 ICE candidates"),
    ],
)
def test_bad_offers_are_refused_with_a_reason(text: str, status: int, word: str) -> None:
    error = refused(text)
    assert error.status == status
    assert word in error.message


def test_hostile_offers_cost_milliseconds() -> None:
    junk = [
        FULL + "a=candidate:" + "1 " * 32_000,
        FULL + "a=fingerprint:sha-256 " + "AB:" * 20_000 + "\r\n",
        FULL + "a=rtpmap:1 x\r\n" * 4_500,
        FULL + "a=candidate:1 1 udp 1 10.0.0.1 5 typ host\r\n" * 1_400,
        HEAD + "m=audio 9 UDP/TLS/RTP/SAVPF " + "111 " * 16_000 + "\r\n",
        FULL.replace("a=mid:0", "a=mid:" + "0" * 60_000),
        "v=0\n" * 16_000,
    ]
    for text in junk:
        start = time.perf_counter()
        with contextlib.suppress(OfferError):
            taken(text)
        assert time.perf_counter() - start < 0.25  # a generous ceiling: each takes about 5 ms


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_mangled_offers_are_taken_or_refused(seed: int) -> None:
    dice = random.Random(seed)
    lines = FULL.splitlines(True)
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(lines))
        match dice.randrange(4):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, dice.choice(lines))
            case 2:
                lines[at] = lines[at][: dice.randrange(len(lines[at]) + 1)]
            case _:
                cut = dice.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:cut] + chr(dice.randrange(1, 300)) + lines[at][cut:]
    try:
        offer = taken("".join(lines))
    except OfferError as error:
        assert 400 <= error.status < 500
        return
    SessionDescription.parse(offer.sdp)


def test_sections_that_are_not_taken_are_answered_in_place() -> None:
    second = VIDEO.replace("a=mid:1", "a=mid:9")
    text = FULL.replace("BUNDLE 0 1 2", "BUNDLE 0 1 9 2").replace(CHANNEL, second + CHANNEL)
    offer = taken(text)
    assert offer.taken == (True, True, False, True)
    answer = finish(ANSWER, offer)
    assert [line for line in answer.split("\r\n") if line.startswith("m=")] == [
        "m=audio 5 UDP/TLS/RTP/SAVPF 111",
        "m=video 5 UDP/TLS/RTP/SAVPF 96",
        "m=video 0 UDP/TLS/RTP/SAVPF 96 97 102",
        "m=application 5 UDP/DTLS/SCTP webrtc-datachannel",
    ]
    assert "a=fmtp:111 minptime=10;useinbandfec=1" in answer
    assert "\n\n" not in answer.replace("\r\n", "\n")


def test_a_camera_nobody_can_decode_does_not_spoil_the_call() -> None:
    offer = taken(FULL.replace("VP8/90000", "AV1/90000").replace("packetization-mode=1", "packetization-mode=0"))
    assert offer.video is None
    assert offer.taken == (True, False, True)


def test_h264_is_taken_where_vp8_is_not_offered() -> None:
    offer = taken(FULL.replace("VP8/90000", "AV1/90000"))
    assert offer.video is not None
    assert (offer.video.codec, offer.video.payload_type, offer.video.profile) == ("H264", 102, "42e01f")


def test_a_lone_section_needs_no_bundle_and_gets_none() -> None:
    offer = taken(HEAD + AUDIO)
    assert not offer.channel
    answer = finish(ANSWER.split("m=video")[0], offer)
    assert "BUNDLE" not in answer


@pytest.mark.parametrize(
    ("direction", "sends", "receives"),
    [("sendrecv", True, True), ("sendonly", True, False), ("recvonly", False, True), ("inactive", False, False)],
)
def test_c11_directions(direction: str, sends: bool, receives: bool) -> None:
    audio = taken(FULL.replace("a=sendrecv", f"a={direction}")).audio
    assert (audio.sends, audio.receives) == (sends, receives)


@pytest.mark.parametrize(
    ("address", "loopback", "checked"),
    [
        ("10.0.0.1", False, True),
        ("2001:db8::1", False, True),
        ("127.0.0.1", False, False),
        ("127.0.0.1", True, True),
        ("::1", False, False),
        ("::1", True, True),
        ("169.254.169.254", True, False),
        ("fe80::1", True, False),
        ("224.0.0.251", True, False),
        ("ff02::1", True, False),
        ("0.0.0.0", True, False),
        ("::", True, False),
        ("255.255.255.255", True, False),
        ("::ffff:127.0.0.1", True, False),
        ("::ffff:169.254.169.254", True, False),
        ("64:ff9b::a9fe:a9fe", True, False),
        ("10.0.0.1", False, True),
        ("fd00:ec2::254", False, True),
        ("example.com", True, False),
        ("0d9c7e11-0000-4000-8000-00000000beef.local", True, False),
        ("010.0.0.1", True, False),
    ],
)
def test_c68_which_addresses_get_a_check(address: str, loopback: bool, checked: bool) -> None:
    line = f"1 1 udp 2122252543 {address} 53999 typ host generation 0"
    assert len(candidates.usable([line], loopback=loopback)) == checked


def test_c68_an_operator_may_deny_more() -> None:
    denied = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fc00::/7"))
    lines = [f"{i} 1 udp 1 {host} 5 typ host" for i, host in enumerate(("10.1.2.3", "fd00::1", "192.0.2.1"))]
    assert [line.split()[4] for line in candidates.usable(lines, loopback=False, denied=denied)] == ["192.0.2.1"]
    assert ServerSettings.model_validate({"ice_denied": ["10.0.0.0/8", "fc00::/7"]}).ice_denied == denied


@pytest.mark.parametrize(
    "line",
    [
        "1 1 tcp 1 10.0.0.1 9 typ host tcptype active",
        "1 2 udp 1 10.0.0.1 5 typ host",
        "1 1 udp 1 10.0.0.1 0 typ host",
        "1 1 udp 1 10.0.0.1 70000 typ host",
        "1 1 udp 1 10.0.0.1 5 typ prflx",
        "",
        "1 1 udp",
    ],
)
def test_candidates_without_use_are_passed_over(line: str) -> None:
    assert candidates.usable([line], loopback=True) == []


def test_candidates_are_few_and_distinct() -> None:
    lines = [f"{i} 1 UDP 1 10.0.0.{i // 2} 5 typ host" for i in range(60)]
    kept = candidates.usable(lines, loopback=False)
    assert len(kept) == candidates.CHECKED_MAX
    assert len({line.split()[4] for line in kept}) == candidates.CHECKED_MAX


def test_addresses_offered_follow_the_address_bound() -> None:
    assert candidates.host_addresses("127.0.0.1")[0] == "127.0.0.1"
    assert candidates.host_addresses("::1")[0] == "::1"
    assert candidates.host_addresses("10.1.2.3") == ["10.1.2.3"]
    assert candidates.host_addresses("0.0.0.0")
    assert candidates.is_loopback("localhost") and not candidates.is_loopback("10.0.0.1")
