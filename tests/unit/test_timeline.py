"""Watermarks, the egress ledger and the playback estimators: fronts never move back, generated ≥ sent ≥ played."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex.timeline.ledger import EgressLedger, Kind, SentRange, rtp_start
from duplex.timeline.playback import WallClockPlayer, WebRtcDelay
from duplex.timeline.watermark import VideoWatermark, Watermark
from duplex.units import MonoNs, RtpTicks, Samples, ns_from_samples, samples_from_ms

pytestmark = pytest.mark.unit


@given(st.lists(st.integers(0, 10_000)))
def test_a_watermark_never_moves_back(positions: list[int]) -> None:
    watermark = Watermark()
    for position in positions:
        before = watermark.position
        assert watermark.advance(Samples(position)) == (position > before)
        assert watermark.position == max(before, position)


def test_a_stalled_camera_holds_readers_back_by_its_lag_only() -> None:
    video = VideoWatermark(samples_from_ms(200))
    video.sampled(samples_from_ms(100))
    assert video.position(samples_from_ms(150)) == samples_from_ms(100)
    assert video.position(samples_from_ms(1000)) == samples_from_ms(800)
    video.sampled(samples_from_ms(90))
    assert video.position(samples_from_ms(1000)) == samples_from_ms(800)


ranges = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 5000), st.integers(0, 8000)), min_size=1, max_size=60
)


@given(ranges, st.data())
def test_fronts_are_monotone_and_played_never_passes_sent(
    sent: list[tuple[str | None, int, int]], data: st.DataObject
) -> None:
    ledger = EgressLedger(Samples(3000))
    ends: dict[str, int] = {}
    fronts: dict[str, int] = {"a": 0, "b": 0}
    for reply, length, advance in sent:
        start = ends.get(reply, 0) if reply is not None else 0
        if reply is not None and start and data.draw(st.booleans()):
            start -= min(start, 700)  # a hold's resume sends a word again
        kind = Kind.SILENCE if reply is None else Kind.CONTENT
        ledger.append(SentRange(kind=kind, length=Samples(length), reply=reply, content_start=Samples(start)))
        if reply is not None:
            ends[reply] = max(ends.get(reply, 0), start + length)
            assert ledger.sent(reply) == ends[reply]
        ledger.advance_played(ledger.sent_out - advance)
        for name in fronts:
            assert fronts[name] <= ledger.played(name) <= ledger.sent(name)
            fronts[name] = ledger.played(name)


def test_the_played_front_of_each_reply_is_found_in_the_ledger() -> None:
    ledger = EgressLedger(Samples(100_000))
    ledger.append(SentRange(kind=Kind.SILENCE, length=Samples(960)))
    ledger.append(SentRange(kind=Kind.CONTENT, length=Samples(4800), reply="a"))
    ledger.append(SentRange(kind=Kind.CONTENT, length=Samples(4800), reply="b"))
    ledger.advance_played(960 + 4800 + 100)
    assert (ledger.played("a"), ledger.played("b")) == (4800, 100)


def test_a_client_that_drops_its_buffer_rewinds_the_output_but_no_front() -> None:
    ledger = EgressLedger(Samples(100_000))
    ledger.append(SentRange(kind=Kind.CONTENT, length=Samples(48_000), reply="a"))
    ledger.advance_played(10_000)
    ledger.rewind()
    assert (ledger.sent("a"), ledger.played("a"), ledger.sent_out) == (48_000, 10_000, 10_000)
    ledger.append(SentRange(kind=Kind.CONTENT, length=Samples(960), reply="b"))
    ledger.advance_played(10_960)
    assert (ledger.played("a"), ledger.played("b")) == (10_000, 960)


def test_the_rtp_timestamp_of_a_reply_is_counted_back_from_where_its_range_ends() -> None:
    def content(reply: str, length: int, start: int = 0) -> SentRange:
        return SentRange(kind=Kind.CONTENT, length=Samples(length), reply=reply, content_start=Samples(start))

    fade = SentRange(kind=Kind.FADE, length=Samples(100), reply="b")
    silence = SentRange(kind=Kind.SILENCE, length=Samples(260))
    ranges = (content("a", 600), fade, content("b", 480), silence, content("b", 480, 480))
    assert rtp_start(ranges, RtpTicks(5000), "b") == 5000 - 480 - 260 - 480
    assert rtp_start(ranges, RtpTicks(720), "b") == 2**32 - 500
    assert rtp_start(ranges, RtpTicks(720), "c") is None
    assert rtp_start(ranges, None, "b") is None


def test_an_sdk_report_is_capped_at_what_was_sent_and_never_goes_back() -> None:
    ledger = EgressLedger(Samples(100_000))
    ledger.append(SentRange(kind=Kind.CONTENT, length=Samples(5000), reply="a"))
    ledger.set_played("a", Samples(9999))
    assert ledger.played("a") == 5000
    ledger.set_played("a", Samples(10))
    assert ledger.played("a") == 5000


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 48_000)), max_size=50))
def test_a_websocket_player_plays_at_real_time_and_never_past_what_it_got(steps: list[tuple[int, int]]) -> None:
    player = WallClockPlayer()
    now, sent, front = 0, 0, 0
    for wait_ms, more in steps:
        now += wait_ms * 1_000_000
        if more:
            sent += more
            player.sent(sent, MonoNs(now))
        position = player.position(MonoNs(now))
        assert front <= position <= sent
        assert position - front <= samples_from_ms(wait_ms) + 1
        front = position
    if sent:
        assert player.position(MonoNs(player.dry_at(MonoNs(now)) + ns_from_samples(2))) == sent


def test_the_webrtc_delay_follows_the_round_trip_and_says_how_sure_it_is() -> None:
    delay = WebRtcDelay(buffer_ms=60, jitter_ms=40)
    unsure = delay.estimate()
    delay.measured(rtt_ms=80, jitter_ms=5)
    measured = delay.estimate()
    assert unsure.delay == samples_from_ms(60)
    assert measured.delay == samples_from_ms(100)
    assert measured.error < unsure.error
