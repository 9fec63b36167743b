"""What counts as heard of a reply that is cut: the client's report, and what it holds and will still play."""

from __future__ import annotations

import pytest

from duplex.config import PacingSettings
from duplex.payloads import Address
from duplex.session.lane import Lane, Reply
from duplex.timeline.ledger import Kind, SentRange
from duplex.timeline.playback import WebRtcDelay
from duplex.units import MonoNs, Samples, ns_from_ms, samples_from_ms

pytestmark = pytest.mark.unit

BUFFER_MS = 60
SENT_MS = 2000


def lane(webrtc: WebRtcDelay | None) -> tuple[Lane, Reply]:
    made = Lane(0, webrtc, PacingSettings())
    reply = Reply(
        id="r", address=Address(session="s", lane=0, epoch=0, reply="r"), modality="audio", voice="default", speed=1.0,
        tokens_max=None, metadata=None, instructions="", since=MonoNs(0), generated=samples_from_ms(SENT_MS),
    )  # fmt: skip
    made.add(reply)
    made.sent_ranges((SentRange(kind=Kind.CONTENT, length=samples_from_ms(SENT_MS), reply="r"),), MonoNs(0))
    return made, reply


@pytest.mark.parametrize(
    ("played_ms", "since_ms", "heard_ms"),
    [(1700, 100, 1700 + 100 + BUFFER_MS), (1900, 100, SENT_MS), (200, 0, 200 + BUFFER_MS)],
)
def test_on_webrtc_what_waits_in_the_jitter_buffer_is_still_heard(played_ms: int, since_ms: int, heard_ms: int) -> None:
    made, reply = lane(WebRtcDelay(buffer_ms=BUFFER_MS, jitter_ms=20))
    made.report_played(reply, samples_from_ms(played_ms), MonoNs(0))
    assert made.heard_at_cut(reply, ns_from_ms(since_ms)) == samples_from_ms(heard_ms)


def test_without_a_report_all_that_left_on_webrtc_is_heard() -> None:
    made, reply = lane(WebRtcDelay(buffer_ms=BUFFER_MS, jitter_ms=20))
    assert made.heard_at_cut(reply, ns_from_ms(0)) == samples_from_ms(SENT_MS)


def test_a_websocket_client_drops_what_it_has_not_played() -> None:
    made, reply = lane(None)
    made.report_played(reply, samples_from_ms(500), MonoNs(0))
    assert made.heard_at_cut(reply, ns_from_ms(0)) == Samples(samples_from_ms(500))
