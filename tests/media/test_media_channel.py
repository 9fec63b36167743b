"""The data channel: C12, and what clients may throw at it."""

from __future__ import annotations

import asyncio
import json
import os

import pytest
from aiortc import RTCDataChannel, RTCDataChannelParameters
from aiortc.rtcsctptransport import WEBRTC_DCEP, WEBRTC_STRING, InitAckChunk, RTCSctpTransport
from media_harness import BadNetwork, Client, Plane, Sink, Talker, opus_packets, plane, session, tone, until

from duplex.config import ServerSettings
from duplex.media.contract import TooLarge

pytestmark = pytest.mark.media


async def first_messages(on: Plane, mode: str, seed: int) -> list[str | bytes]:
    """Connect over a bad link, send one event, and return all that came on the channel."""
    client = Client(
        channel=None if mode == "late" else "oai-events",
        negotiated=mode == "negotiated",
        network=BadNetwork(seed, one_way_s=0.15, loss=0.05),
    )
    if mode == "late":
        client.pc.createDataChannel("telemetry")  # an offer without any channel has no section for one
    sink = Sink()
    peer = on.peer(sink)
    try:
        await client.connect(peer, ceiling_s=40)
        if mode == "late":
            await asyncio.sleep(1.5)
            client.data = client.open("oai-events")
        await until(lambda: client.messages, f"the first event ({mode}, {seed})", ceiling_s=40)
        assert client.data is not None
        client.data.send("question")
        await until(lambda: len(client.messages) >= 2, f"an answer ({mode}, {seed})", ceiling_s=40)
        assert sink.events.count("channel_open") == 1
        return client.messages
    finally:
        await client.close()
        await peer.close("server")


async def test_c12_the_first_message_is_the_sessions_first_event_once() -> None:
    """Fifteen connects of each kind over 300 ms and 5 % loss."""
    async with plane(ServerSettings(connect_timeout_s=45, vanish_timeout_s=45)) as on:
        kinds = ((mode, seed) for mode in ("in band", "negotiated", "late") for seed in range(15))
        for messages in await asyncio.gather(*(first_messages(on, *kind) for kind in kinds)):
            assert messages == [Sink().first_event, '{"echo":8}']


async def test_an_association_comes_up_although_both_first_answers_are_lost(plane: Plane) -> None:
    """Against a stock aiortc client, whose own second INIT is one that nobody takes."""
    client, sink = Client(), Sink()
    peer = plane.peer(sink)
    answer = await peer.answer(await client.offer())
    assert client.pc.sctp is not None and peer._pc is not None and peer._pc.sctp is not None
    del client.pc.sctp._send_chunk  # our guard is not on the client's side
    lost = [losing_first_init_ack(client.pc.sctp), losing_first_init_ack(peer._pc.sctp)]
    await client.accept(answer)
    await until(lambda: client.messages, "the session's first event")  # after one timeout of three seconds
    assert [len(of_side) for of_side in lost] == [1, 1]
    await client.close()
    await peer.close("server")


def losing_first_init_ack(sctp: RTCSctpTransport) -> list[InitAckChunk]:
    """Drop the first INIT ACK that comes; return where it is noted."""
    lost: list[InitAckChunk] = []
    further = sctp._receive_chunk

    async def receive(chunk: object) -> None:
        if isinstance(chunk, InitAckChunk) and not lost:
            lost.append(chunk)
            return
        await further(chunk)

    sctp._receive_chunk = receive
    return lost


async def test_a_channel_with_another_label_is_closed_and_a_second_one_too(plane: Plane) -> None:
    client = Client()
    async with session(plane, client) as (_, sink):
        await until(lambda: client.messages, "the first event")
        other, second = client.pc.createDataChannel("chat"), client.pc.createDataChannel("oai-events")
        await until(lambda: other.readyState == second.readyState == "closed", "both are closed")
        assert sink.received == []
        assert client.data is not None and client.data.readyState == "open"


async def test_an_id_used_again_before_its_reset_is_over_is_served(plane: Plane) -> None:
    """The client closes a channel and opens the next on the same id while our end of the first still closes."""
    client = Client(channel="other")
    async with session(plane, client) as (peer, sink):
        assert client.data is not None and peer._pc is not None and peer._pc.sctp is not None
        await until(lambda: client.data is not None and client.data.readyState == "closed", "the other label is closed")
        channels = peer._pc.sctp._data_channels
        await until(lambda: set(channels) <= {0}, "closed at our end too")
        held = rtc_channel(peer._pc.sctp, stream_id=1)
        client.data = client.open("oai-events")
        await asyncio.sleep(0.1)
        assert client.messages == []
        peer._pc.sctp._data_channel_closed(1)  # the reset is over
        await until(lambda: client.messages, "the session's first event")
        assert held.readyState == "closed"
        client.data.send("hello")
        await until(lambda: sink.received == ["hello"], "heard")


def rtc_channel(sctp: RTCSctpTransport, *, stream_id: int) -> RTCDataChannel:
    """Put a channel in the state of closing at our end."""
    channel = RTCDataChannel(sctp, RTCDataChannelParameters(label="old", id=stream_id), False)
    sctp._data_channels[stream_id] = channel
    channel._setReadyState("closing")
    return channel


async def test_a_channel_opened_again_goes_on(plane: Plane) -> None:
    client = Client()
    async with session(plane, client) as (peer, sink):
        await until(lambda: client.messages, "the first event")
        assert client.data is not None
        client.data.close()
        await until(lambda: client.data is not None and client.data.readyState == "closed", "closed")
        peer.send("while nobody listens")
        client.messages.clear()
        await until(lambda: "channel_lost" in sink.events, "noticed")
        client.data = client.open("oai-events", protocol="duplex-last.event_7")
        await until(lambda: len(client.messages) == 2, "what waited, and what the session says on")
        assert client.messages == ["while nobody listens", sink.first_event]
        assert sink.last_seen == [None, "event_7"]


async def test_garbage_reaches_the_session_as_it_is_and_harms_nobody(plane: Plane) -> None:
    client = Client()
    async with session(plane, client) as (_, sink):
        await until(lambda: client.messages, "the first event")
        assert client.data is not None and client.pc.sctp is not None
        sctp, stream = client.pc.sctp, client.data.id
        assert stream is not None
        garbage: list[str | bytes] = ["", "{", "\0" * 1000, b"", b"\xff\xfe", os.urandom(5000), "[" * 20_000]
        for message in garbage:
            client.data.send(message)
        await until(lambda: len(sink.received) == len(garbage), "each arrives")
        await sctp._send(stream, WEBRTC_STRING, b"\xff\xff not UTF-8")
        await sctp._send(stream, WEBRTC_DCEP, b"\x03")  # an open cut short
        await sctp._send(stream, WEBRTC_DCEP, b"\x03" + bytes(11))  # of a channel that is open
        await sctp._send(9, WEBRTC_DCEP, b"\x03\0\0\0\0\0\0\0\0\x05\0\0\xff\xff\xff\xff\xff")  # label not UTF-8
        await sctp._send(11, WEBRTC_DCEP, b"\x02")  # an acknowledgement of nothing
        await sctp._send(13, WEBRTC_STRING, b"to nobody")
        await sctp._send(stream, 99, b"of no kind")
        client.data.send("still there?")
        await until(lambda: "still there?" in sink.received, "a good event after all that")
        assert sink.received == [*garbage, b"\xff\xff not UTF-8", "still there?"]
        await Talker(client).talk(opus_packets(tone(440, 0.2)))
        await until(lambda: sink.heard_samples > sink.silent_samples, "still heard")
        assert not any(e.startswith("closed") for e in sink.events)


async def test_garbage_of_one_client_does_not_touch_another(plane: Plane) -> None:
    good, bad = Client(), Client()
    async with session(plane, good) as (_, good_sink), session(plane, bad) as (_, bad_sink):
        await until(lambda: good.messages and bad.messages, "both are open")
        assert bad.pc.sctp is not None
        await bad.pc.sctp.transport._send_data(os.urandom(200))  # no SCTP at all, under DTLS
        for _ in range(50):
            bad.send_raw(bytes([20 + os.urandom(1)[0] % 40]) + os.urandom(60))  # DTLS-like
            bad.send_raw(os.urandom(30))
            bad.send_raw(bytes([1, 1]) + os.urandom(18))  # STUN-like
            bad.send_raw(b"")
        assert good.data is not None
        good.data.send("hello")
        await until(lambda: good_sink.received == ["hello"], "the other is served")
        assert not any(e.startswith("closed") for e in bad_sink.events)


async def test_a_client_that_does_not_read_is_closed_at_the_bound() -> None:
    async with plane(ServerSettings(outbox_bytes_max=200_000)) as on:
        client = Client()
        async with session(on, client) as (peer, sink):
            await until(lambda: client.messages, "the first event")
            for _ in range(40):
                peer.send("x" * 20_000)  # within one turn of the loop: nothing can leave meanwhile
            await until(lambda: sink.events[-1] == "closed:error", "the session is closed")


async def test_an_event_larger_than_was_agreed_is_refused_by_the_clients_own_stack(plane: Plane) -> None:
    client = Client()
    async with session(plane, client) as (_, sink):
        await until(lambda: client.messages, "the first event")
        assert client.data is not None
        with pytest.raises(ValueError, match="only supports messages"):
            client.data.send("x" * 16 * 2**20)
        client.data.send("small")
        await until(lambda: sink.received == ["small"], "the next event")


async def test_c73_a_client_that_sends_an_event_without_end_is_closed(plane: Plane) -> None:
    """16 MiB past the client's own stack: it is not put together, and the session ends at the bound."""
    client = Client()
    async with session(plane, client) as (_, sink):
        await until(lambda: client.messages, "the first event")
        assert client.data is not None and client.data.id is not None and client.pc.sctp is not None
        await client.pc.sctp._send(client.data.id, WEBRTC_STRING, bytes(16 * 2**20))
        await until(lambda: sink.events[-1] == "closed:error", "the session is closed")
        assert sink.received == []


async def test_an_event_larger_than_the_client_takes_is_refused_alone(plane: Plane) -> None:
    client = Client()
    async with session(plane, client) as (peer, sink):
        await until(lambda: client.messages, "the first event")
        assert peer.send("x" * 262_144) is None
        assert peer.send("x" * 262_145) == TooLarge(size_bytes=262_145, bytes_max=262_144)
        assert peer.send("small") is None
        await until(lambda: "small" in client.messages, "the next event")
        assert [len(message) for message in client.messages[1:]] == [262_144, 5]


@pytest.mark.parametrize("offered", ["400000", "0"])
async def test_a_client_gets_events_as_large_as_it_says_that_it_takes(plane: Plane, offered: str) -> None:
    client, sink = Client(), Sink()
    peer = sink.peer = plane.peer(sink)
    await client.connect(peer, lambda offer: offer.replace("message-size:262144", f"message-size:{offered}"))
    await until(lambda: client.messages, "the first event")
    assert peer.send("x" * 400_000) is None
    assert (peer.send("x" * 400_001) is None) == (offered == "0")
    await until(lambda: "x" * 400_000 in client.messages, "the large one")
    await client.close()
    await peer.close("server")


async def test_letters_outside_ascii_do_not_make_an_event_too_large(plane: Plane) -> None:
    """Escaped as JSON they take six bytes each: a session with long instructions in Russian would have no first event."""
    client = Client()
    instructions = "\u044b" * 60_000
    async with session(plane, client) as (peer, _):
        await until(lambda: client.messages, "the first event")
        peer.send(json.dumps({"type": "session.updated", "instructions": instructions}))
        broken = json.dumps({"type": "session.updated", "instructions": "\ud800" + instructions})
        assert peer.send(broken) == TooLarge(size_bytes=len(broken), bytes_max=262_144)
        peer.send("small")
        await until(lambda: "small" in client.messages, "the next event")
        assert len(client.messages) == 3
        assert json.loads(client.messages[1])["instructions"] == instructions


async def test_a_defect_of_the_session_ends_that_peer_alone(plane: Plane) -> None:
    good, bad = Client(), Client()
    async with session(plane, good) as (_, good_sink), session(plane, bad) as (_, bad_sink):
        bad_sink.raise_on_hear = True
        await Talker(bad).talk(opus_packets(tone(440, 0.2)))
        await until(lambda: bad_sink.events[-1] == "closed:error", "it is closed")
        await Talker(good).talk(opus_packets(tone(440, 0.2)))
        await until(lambda: good_sink.heard_samples > good_sink.silent_samples, "the other is heard")


async def test_without_a_channel_section_events_go_nowhere(plane: Plane) -> None:
    client = Client(channel=None)
    async with session(plane, client) as (peer, sink):
        peer.send("to nobody")
        await Talker(client).talk(opus_packets(tone(440, 0.2)))
        await until(lambda: sink.heard_samples > sink.silent_samples, "heard all the same")
        assert sink.events == ["connected"]
