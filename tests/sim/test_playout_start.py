"""On WebRTC the client is told at which RTP timestamp a reply begins, so that it can tell how far it has been played."""

import numpy as np
import pytest

from tests.sim.world import Server, Session, rtp_of

pytestmark = pytest.mark.sim


def begins(session: Session) -> list[int]:
    """Return the timestamps of the packets in which sound begins after silence."""
    loud = [(now, pcm is not None and bool(np.abs(pcm).max() > 0)) for now, pcm, _ in session.packets]
    return [rtp_of(now) for (_, before), (now, sounds) in zip(loud, loud[1:], strict=False) if sounds and not before]


def test_each_reply_tells_the_timestamp_of_its_first_packet() -> None:
    server = Server()
    session = server.connect()
    for _ in range(2):
        server.advance(500)
        session.say(1500)
        server.advance(9000)
    started = session.client.of("output_audio_buffer.started")
    assert len(started) == 2
    assert {event["duplex"]["rtp_timestamp"] for event in started} <= set(begins(session))
    assert started[0]["duplex"]["rtp_timestamp"] == begins(session)[0]
    server.check()
