"""Connecting: field cases of kind 1, and offers that are refused or never come to anything."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable

import pytest
from media_harness import Client, Plane, Sink, Talker, opus_packets, pitch, plane, session, sockets, tone, until

from duplex.config import ServerSettings
from duplex.media.sdp import OfferError

pytestmark = pytest.mark.media


def without(pattern: str) -> Callable[[str], str]:
    return lambda sdp: "".join(line for line in sdp.splitlines(True) if not re.match(pattern, line))


def with_candidates(*lines: str) -> Callable[[str], str]:
    def change(sdp: str) -> str:
        head, mark, rest = sdp.partition("a=ice-ufrag")
        return head + "".join(f"a=candidate:{line}\r\n" for line in lines) + mark + rest

    return change


def session_level(sdp: str) -> str:
    moved = [line for line in sdp.splitlines(True) if re.match(r"a=(ice-ufrag|ice-pwd|fingerprint|setup)", line)]
    rest = "".join(line for line in sdp.splitlines(True) if line not in moved)
    head, mark, tail = rest.partition("m=")
    return head + "".join(dict.fromkeys(moved)) + mark + tail


MDNS = "1 1 udp 2122252543 0d9c7e11-0000-4000-8000-0000000{:05d}.local 50111 typ host"


@pytest.mark.parametrize("count", [1, 6])
async def test_c01_mdns_candidates_delay_nothing(plane: Plane, count: int) -> None:
    client, loop = Client(), asyncio.get_running_loop()
    change = with_candidates(*(MDNS.format(i) for i in range(count)))
    peer = plane.peer(Sink())
    offer = change(await client.offer())
    start = loop.time()
    answer = await peer.answer(offer)
    assert loop.time() - start < 0.5
    await client.accept(answer)
    await until(lambda: client.pc.connectionState == "connected", "connected by the client's own checks")
    await client.close()
    await peer.close("server")


@pytest.mark.parametrize(
    "change",
    [
        without("a=setup"),
        without("a=mid"),
        without("a=rtcp-mux"),
        session_level,
        lambda sdp: sdp.replace("\r\n", "\n"),
        without("a=fingerprint:sha-(256|512)"),
        without("a=fingerprint:sha-(256|384)"),
        lambda sdp: sdp.replace("a=fingerprint:sha-256", "a=fingerprint:sha-1 AB:CD\r\na=fingerprint:sha-256"),
        lambda sdp: re.sub(r"m=audio \d+", "m=audio 1", sdp),
        lambda sdp: sdp.replace("a=setup:actpass", "a=setup:active"),  # its channel then takes id 0
        with_candidates("1 1 tcp 1518280447 127.0.0.1 9 typ host tcptype active"),
    ],
    ids=[
        "no setup", "no mid", "no rtcp-mux", "session level", "LF", "sha-384", "sha-512", "sha-1 beside", "port 1", "active", "tcp",
    ],
)  # fmt: skip
async def test_c07_legal_variants_connect(plane: Plane, change: Callable[[str], str]) -> None:
    client = Client()
    async with session(plane, client, change=change) as (_, sink):
        await until(lambda: client.messages, "the session's first event")
        assert sink.events == ["connected", "channel_open"]


async def test_c07_without_a_fingerprint_nothing_is_left(plane: Plane) -> None:
    client = Client()
    offer = without("a=fingerprint")(await client.offer())
    before = sockets()
    sink = Sink()
    with pytest.raises(OfferError) as caught:
        await plane.peer(sink).answer(offer)
    assert caught.value.status == 422
    assert sockets() == before
    assert sink.events == []
    await client.close()


def g711(payload_type: int, *, rtpmap: bool) -> Callable[[str], str]:
    name = {0: "PCMU", 8: "PCMA"}[payload_type]

    def change(sdp: str) -> str:
        sdp = re.sub(r"(m=audio \d+ \S+) [^\r]*", rf"\1 {payload_type}", sdp)
        sdp = without(r"a=rtpmap:(?!webrtc).*(opus|G722|PCM)")(sdp)
        line = f"a=rtpmap:{payload_type} {name}/8000\r\n" if rtpmap else ""
        return sdp.replace("a=rtcp-mux\r\n", "a=rtcp-mux\r\n" + line, 1)

    return change


@pytest.mark.parametrize(("payload_type", "rtpmap"), [(0, False), (8, True), (8, False)])
async def test_c05_phones_are_heard_and_answered_at_their_pitch(plane: Plane, payload_type: int, rtpmap: bool) -> None:
    from duplex.media import g711 as codec  # noqa: PLC0415 - named like the helper above

    law = codec.Law.MU if payload_type == 0 else codec.Law.A
    client, sink = Client(), Sink()
    async with session(plane, client, sink, g711(payload_type, rtpmap=rtpmap)):
        talker = Talker(client, payload_type=payload_type, step=160)
        sink.to_say = list(tone(500, 1.0).reshape(-1, 960))
        said = tone(1000, 1.0, rate=8000).reshape(-1, 160)
        await talker.talk(codec.encode(frame, law) for frame in said)
        await until(lambda: sink.heard_samples - sink.silent_samples >= 16_000, "all is heard")
        assert abs(pitch(sink.audio()[-12_000:-2000], 16_000) - 1000) <= 10
        payloads = [c.packet.payload for c in client.came if c.packet.payload_type == payload_type]
        back = codec.decode(b"".join(payloads), law)
        assert abs(pitch(back[1600:6400], 8000) - 500) <= 5


async def test_c05_no_common_codec_is_refused(plane: Plane) -> None:
    client = Client()
    offer = re.sub(r"(m=audio \d+ \S+) [^\r]*", r"\1 99", await client.offer()) + ""
    offer = without("a=rtpmap:(0|8|9|96)")(offer).replace(
        "a=rtcp-mux\r\n", "a=rtcp-mux\r\na=rtpmap:99 ILBC/8000\r\n", 1
    )
    with pytest.raises(OfferError) as caught:
        await plane.peer(Sink()).answer(offer)
    assert caught.value.status == 422
    assert "audio section 0" in caught.value.message
    await client.close()


@pytest.mark.parametrize(
    "offer",
    ["", "hello", "v=0\r\n", "v=0\r\n" + "a=candidate:1 1 udp 1 10.0.0.1 5 typ host\r\n" * 8000, "\0" * 100_000],
    ids=["empty", "not SDP", "no section", "thousands of candidates", "huge"],
)
async def test_bad_offers_cost_no_time_and_leave_nothing(plane: Plane, offer: str) -> None:
    loop = asyncio.get_running_loop()
    before, start = sockets(), loop.time()
    with pytest.raises(OfferError) as caught:
        await plane.peer(Sink()).answer(offer)
    assert loop.time() - start < 0.25
    assert 400 <= caught.value.status < 500
    assert sockets() == before


async def test_many_candidates_within_the_limits_are_refused_too(plane: Plane) -> None:
    client = Client()
    offer = with_candidates(*(f"{i} 1 udp 1 10.0.{i}.1 5 typ host" for i in range(65)))(await client.offer())
    with pytest.raises(OfferError) as caught:
        await plane.peer(Sink()).answer(offer)
    assert caught.value.status == 400
    await client.close()


async def test_an_offer_of_something_else_is_refused_and_the_session_goes_on(plane: Plane) -> None:
    client, other = Client(), Client()
    async with session(plane, client) as (peer, sink):
        with pytest.raises(OfferError) as caught:
            await peer.answer(await other.offer())
        await other.close()
        assert caught.value.status == 409
        await Talker(client).talk(opus_packets(tone(440, 0.3)))
        await until(lambda: sink.heard_samples - sink.silent_samples > 3200, "still heard")


@pytest.mark.parametrize("direction", ["recvonly", "inactive", "sendrecv"])
async def test_c11_without_a_microphone_the_session_speaks_and_time_passes(plane: Plane, direction: str) -> None:
    client, sink = Client(direction=direction), Sink()
    async with session(plane, client, sink):
        sink.to_say = list(tone(440, 1.0).reshape(-1, 960))
        await until(lambda: not sink.to_say, "all is said, or passes at real time")
        await until(lambda: sink.silent_samples >= 16_000, "silence is declared")
        assert sink.silent_samples == sink.heard_samples
        if direction == "inactive":
            assert client.came == []
        else:
            await until(lambda: len(client.came) >= 50, "it arrives")


async def test_c11_a_microphone_that_begins_late_is_heard(plane: Plane) -> None:
    client, sink = Client(), Sink()
    async with session(plane, client, sink):
        await until(lambda: sink.silent_samples >= 8000, "half a second of silence")
        await Talker(client).talk(opus_packets(tone(440, 0.5)))
        await until(lambda: sink.heard_samples - sink.silent_samples >= 7000, "heard")
        assert abs(pitch(sink.audio()[-6400:], 16_000) - 440) <= 5


async def test_sendonly_clients_are_heard_and_sent_nothing(plane: Plane) -> None:
    client, sink = Client(direction="sendonly"), Sink()
    async with session(plane, client, sink):
        sink.to_say = list(tone(440, 0.2).reshape(-1, 960))
        await Talker(client).talk(opus_packets(tone(440, 0.4)))
        await until(lambda: sink.heard_samples - sink.silent_samples >= 5000, "heard")
        assert client.came == []
        assert sink.to_say == []  # what is said passes at real time


class Listener(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.packets = 0

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.packets += 1


async def test_c68_candidates_are_not_a_way_into_the_network() -> None:
    """A server that is not bound to loopback sends nothing there, nor to names, whatever an offer says."""
    loop = asyncio.get_running_loop()
    transport, listener = await loop.create_datagram_endpoint(Listener, local_addr=("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    resolved: list[str] = []
    original = socket.getaddrinfo
    socket.getaddrinfo = lambda host, *rest, **kwargs: (resolved.append(str(host)), original(host, *rest, **kwargs))[1]
    try:
        async with plane(ServerSettings(host="0.0.0.0", connect_timeout_s=1.5)) as on:
            change = with_candidates(
                f"1 1 udp 2122252543 127.0.0.1 {port} typ host",
                f"2 1 udp 2122252543 ::ffff:127.0.0.1 {port} typ host",
                "3 1 udp 2122252543 169.254.169.254 80 typ host",
                "4 1 udp 2122252543 224.0.0.251 5353 typ host",
                "5 1 udp 2122252543 internal.example.com 53999 typ host",
            )
            client, sink = Client(), Sink()
            peer = on.peer(sink)
            await peer.answer(change(await client.offer()))
            await until(lambda: sink.events, "the peer gives up")
            assert sink.events == ["closed:connect_timeout"]
            await client.close()
            await peer.close("server")
    finally:
        socket.getaddrinfo = original
        transport.close()
    assert listener.packets == 0
    assert "internal.example.com" not in resolved


async def test_a_client_that_never_connects_is_gone_in_time() -> None:
    assert ServerSettings().connect_timeout_s <= 15
    async with plane(ServerSettings(connect_timeout_s=1.0)) as on:
        client, sink, loop = Client(), Sink(), asyncio.get_running_loop()
        before = (sockets(), len(asyncio.all_tasks()))
        offer = await client.offer()
        client_sockets = sockets() - before[0]
        start = loop.time()
        peer = on.peer(sink)
        await peer.answer(offer)
        await until(lambda: sink.events, "the peer gives up")
        assert 1.0 <= loop.time() - start < 2.5
        assert sink.events == ["closed:connect_timeout"]
        await until(lambda: sockets() == before[0] + client_sockets, "its sockets are closed")
        await client.close()
        await until(lambda: len(asyncio.all_tasks()) <= before[1], "its tasks are over")
        await peer.close("server")
        assert sink.events == ["closed:connect_timeout"]


async def test_a_client_that_vanishes_is_gone_in_time_and_others_live() -> None:
    assert ServerSettings().vanish_timeout_s + 1 <= 10
    async with plane(ServerSettings(vanish_timeout_s=1.5)) as on:
        staying, stayed = Client(), Sink()
        leaving, left = Client(), Sink()
        loop = asyncio.get_running_loop()
        async with session(on, staying, stayed):
            peer = on.peer(left)
            await leaving.connect(peer)
            await until(lambda: "connected" in left.events, "connected")
            sending = asyncio.ensure_future(Talker(staying).talk(opus_packets(tone(440, 1.0))))
            leaving.vanish()
            start = loop.time()
            await until(lambda: left.events[-1].startswith("closed"), "the peer is missed")
            assert left.events[-1] == "closed:vanished"
            assert loop.time() - start < 3.0
            await sending
            assert stayed.events[-1] != "closed:vanished"
            await leaving.close()
            await peer.close("server")
            assert left.events.count("closed:vanished") == 1
        await until(lambda: on.ticker.stats().members == 0, "the ticker serves nobody")


async def test_a_silent_client_that_answers_consent_is_not_missed() -> None:
    async with plane(ServerSettings(vanish_timeout_s=1.0)) as on:
        client, sink = Client(direction="recvonly"), Sink()
        async with session(on, client, sink):
            await asyncio.sleep(2.5)  # two and a half times the timeout without a packet of media
            assert not any(e.startswith("closed") for e in sink.events)


@pytest.mark.parametrize("who", ["client", "server"])
async def test_either_side_may_close_once(plane: Plane, who: str) -> None:
    client, sink = Client(), Sink()
    peer = plane.peer(sink)
    await client.connect(peer)
    await until(lambda: "connected" in sink.events, "connected")
    if who == "client":
        await client.close()
        await until(lambda: sink.events[-1].startswith("closed"), "noticed")
    else:
        await asyncio.gather(peer.close("server"), peer.close("server"))
    await peer.close("server")
    await client.close()
    assert [e for e in sink.events if e.startswith("closed")] == [f"closed:{who}"]


async def test_forty_calls_leave_nothing(plane: Plane) -> None:
    before = (sockets(), len(asyncio.all_tasks()))
    for _ in range(4):

        async def call() -> None:
            async with session(plane, Client()):
                pass

        await asyncio.gather(*(call() for _ in range(10)))
    await until(lambda: sockets() <= before[0], "sockets are given back")
    await until(lambda: len(asyncio.all_tasks()) <= before[1], "tasks are over")
