"""What telemetry keeps of whole conversations: a timeline that becomes a Perfetto file, a record per turn, and live lanes."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import Any

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from duplex.config import TelemetrySettings
from duplex.session.effects import Effect
from duplex.telemetry.layout import Layout, Slice, lay_out
from duplex.telemetry.perfetto import to_perfetto
from duplex.units import MonoNs, ns_from_ms
from tests.sim.watched import UNIX_NS, SimHost, WatchedServer
from tests.sim.world import Session

pytestmark = pytest.mark.sim

SECRET = "Marmalade is what the answer speaks of, clause by clause, and nobody else may know. " * 2
HEARD = "Velocipedes are what the question speaks of."


def converse(server: WatchedServer, transport: Any = "webrtc") -> Session:
    """A question, an answer that is interrupted, its answer heard to the end, and a cough over it."""
    session = server.connect(transport)
    server.advance(500)
    session.say(1500)
    server.advance(4000)
    session.say(1000)
    server.advance(4000)
    session.say(200)
    server.advance(14_000)
    return session


def watched(settings: TelemetrySettings | None = None) -> WatchedServer:
    return WatchedServer(settings, script=(SECRET,), transcripts=(HEARD,))


def laid_out(server: WatchedServer, session: Session) -> Layout:
    return lay_out(server.timeline(session), server.world.now())


def on(layout: Layout, track: str) -> list[Slice]:
    return [piece for piece in layout.slices if piece.track == track]


def parsed(trace: bytes) -> Any:
    read = Trace()
    read.ParseFromString(trace)
    return read


def test_the_trace_tells_the_conversation() -> None:
    server = watched()
    session = converse(server)
    layout = laid_out(server, session)
    assert [piece.name for piece in on(layout, "reply")] == ["reply cancelled", "reply completed"]
    assert len(on(layout, "speech")) == 2
    assert len(on(layout, "voice")) == 3
    assert [piece.args["db"] for piece in on(layout, "output")] == [12.0, 12.0]
    cuts = [instant for instant in layout.instants if instant.name == "cut"]
    assert [instant.args for instant in cuts] == [{"lane": 0, "epoch": 1}]
    cancelled, completed = on(layout, "played")
    assert cancelled.end <= cuts[0].at < completed.start
    assert int(completed.args["to_ms"]) == sum(
        int(piece.args["audio_ms"]) for piece in on(layout, "said") if piece.args["reply"] == completed.args["reply"]
    )
    assert completed.end - completed.start >= ns_from_ms(int(completed.args["to_ms"]))
    for track in ("think compute", "talk compute", "vocode compute", "vocode queue", "transcribe compute"):
        assert on(layout, track), track


def test_the_parts_of_a_turn_lie_between_the_end_of_speech_and_the_first_audio() -> None:
    server = watched()
    session = converse(server)
    layout = laid_out(server, session)
    for speech, reply in zip(on(layout, "speech"), on(layout, "reply"), strict=True):
        parts = [piece for piece in on(layout, "turn") if piece.args["reply"] == reply.args["reply"]]
        assert parts[0].start == pytest.approx(speech.end, abs=ns_from_ms(1))
        assert all(one.end == following.start for one, following in zip(parts, parts[1:], strict=False))
        sent = next(piece for piece in on(layout, "sent") if piece.args["reply"] == reply.args["reply"])
        assert sent.start <= parts[-1].end <= sent.end


def test_the_file_reads_back_with_every_track_slice_and_flow() -> None:
    server = watched()
    session = converse(server)
    timeline, layout = server.timeline(session), laid_out(server, session)
    trace = parsed(to_perfetto(layout, timeline.about))
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")}
    assert tracks[1].name == f"{timeline.about.conversation_id} (webrtc)"
    assert {"voice", "speech", "turn", "reply", "said", "sent", "played", "output", "lead", "vocode queue"} <= {
        track.name for track in tracks.values()
    }
    events = [packet for packet in trace.packet if packet.HasField("track_event")]
    assert all(packet.track_event.track_uuid in tracks for packet in events)
    begun = Counter(
        (tracks[p.track_event.track_uuid].name, p.track_event.name, p.timestamp)
        for p in events
        if p.track_event.type == TrackEvent.TYPE_SLICE_BEGIN
    )
    assert begun == Counter((piece.track, piece.name, piece.start) for piece in layout.slices)
    flows = Counter(flow for packet in events for flow in packet.track_event.flow_ids)
    assert max(flows.values()) >= 2
    clocks = next(p.clock_snapshot.clocks for p in trace.packet if p.HasField("clock_snapshot"))
    assert clocks[1].timestamp - clocks[0].timestamp == UNIX_NS


def test_slices_of_one_row_never_overlap() -> None:
    server = watched()
    session = converse(server)
    trace = parsed(to_perfetto(laid_out(server, session), server.timeline(session).about))
    open_until: dict[int, int] = {}
    depth: Counter[int] = Counter()
    for packet in trace.packet:
        event = packet.track_event
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert packet.timestamp >= open_until.get(event.track_uuid, 0)
            depth[event.track_uuid] += 1
        elif event.type == TrackEvent.TYPE_SLICE_END:
            open_until[event.track_uuid] = packet.timestamp
            depth[event.track_uuid] -= 1
    assert set(depth.values()) == {0}


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
def test_nothing_that_was_said_or_gives_access_is_in_the_file(transport: Any) -> None:
    server = watched()
    session = converse(server, transport)
    trace = to_perfetto(laid_out(server, session), server.timeline(session).about)
    for words in ("Marmalade", "Velocipedes"):
        assert words.encode() not in trace
    assert f"{session.actor.session_id} ".encode() not in trace
    assert not any("Marmalade" in str(asdict(turn)) for turn in server.turns)


def test_text_is_kept_where_a_setting_says_so() -> None:
    server = watched(TelemetrySettings(timeline_text=True))
    session = converse(server)
    trace = to_perfetto(laid_out(server, session), server.timeline(session).about)
    assert b"Marmalade" in trace
    assert b"Velocipedes" in trace


def test_a_websocket_is_played_ahead_of_by_the_clients_own_clock() -> None:
    server = watched()
    session = converse(server, "websocket")
    layout = laid_out(server, session)
    sent, played = on(layout, "sent")[-1], on(layout, "played")[-1]
    assert sent.args["reply"] == played.args["reply"]
    assert sent.args["to_ms"] == played.args["to_ms"]
    assert sent.end < played.end


def test_the_record_is_bounded_and_what_it_lost_does_not_confuse_the_trace() -> None:
    server = watched(TelemetrySettings(timeline_events_max=16))
    session = converse(server)
    timeline = server.timeline(session)
    assert len(timeline.events) <= 17  # and what has left since the last note
    assert len(timeline.work) <= 16
    assert to_perfetto(laid_out(server, session), timeline.about)


def test_no_record_is_kept_where_none_is_wanted() -> None:
    server = watched(TelemetrySettings(timeline_events_max=0))
    session = converse(server)
    assert server.telemetry.timelines.find(session.actor.session_id, server.world.now()) is None


def test_ended_sessions_are_kept_for_a_while_and_only_so_many() -> None:
    server = watched(TelemetrySettings(timeline_ended_max=2, timeline_keep_s=60))
    sessions = [server.connect() for _ in range(4)]
    server.advance(1000)
    for session in sessions[:3]:
        session.leave()
        server.advance(1000)

    def kept() -> list[str]:
        return [timeline.about.session_id for timeline in server.telemetry.timelines.all(server.world.now())]

    assert kept() == ["sess_1", "sess_2", "sess_3"]
    server.advance(58_500)
    assert kept() == ["sess_2", "sess_3"]
    server.advance(1000)
    assert kept() == ["sess_3"]


def test_an_observer_that_breaks_ends_no_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    server = watched()
    session = server.connect()
    timeline = server.telemetry.timelines.find("sess_0", server.world.now())

    def broken(effect: Effect, now: MonoNs) -> None:
        raise RuntimeError("an observer's mistake")

    monkeypatch.setattr(timeline, "gave", broken)
    session.say(1000)
    server.advance(6000)
    assert session.client.of("response.created")
    assert not session.ended
    session.leave()
    server.advance(10)
    assert [turn.reply.status for turn in server.turns] == ["cancelled"]


def test_telemetry_changes_nothing_that_the_client_sees() -> None:
    plain, looked_at = watched(), watched()
    plain.context = plain.context.__class__(**{**_fields(plain.context), "watch": None})
    assert converse(plain).client.events == converse(looked_at).client.events


def _fields(context: Any) -> dict[str, Any]:
    return {name: getattr(context, name) for name in context.__dataclass_fields__}


# Turns. -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
def test_every_turn_is_told_once_with_its_stages_and_its_interruption(transport: Any) -> None:
    server = watched()
    converse(server, transport)
    cancelled, completed = server.turns
    assert (cancelled.reply.status, completed.reply.status) == ("cancelled", "completed")
    assert [name for name, _, _ in cancelled.events][-1] == "cut"
    assert (cancelled.epoch, completed.epoch) == (1, 1)
    for turn in server.turns:
        roles = Counter(span.role.value for span in turn.stages)
        assert roles["think"] == 1 and roles["transcribe"] > 1  # partial transcripts are its work too
        assert roles["vocode"] > 1
        assert turn.split["ttfas"] == pytest.approx(0.3, abs=0.2)
        assert turn.started_at <= min(span.queued_at for span in turn.stages)
        assert all(turn.started_at <= at <= turn.ended_at for _, at, _ in turn.events)
        assert turn.reply.output_text_tokens > 0
    played = completed.ended_at - completed.started_at
    assert played >= ns_from_ms(completed.reply.output_audio // 48)


def test_a_turn_that_is_cut_after_its_reply_was_done_still_has_the_cut() -> None:
    server = watched()
    session = server.connect("websocket")
    session.say(1000)
    server.advance(8000)
    assert session.client.of("response.done")
    assert server.turns == []
    session.say(600)
    server.advance(1000)
    (turn,) = server.turns
    assert turn.reply.status == "completed"
    assert [name for name, _, _ in turn.events] == ["cut"]


def test_a_session_that_ends_ends_its_turn() -> None:
    server = watched()
    session = server.connect()
    session.say(1000)
    server.advance(3000)
    session.leave()
    server.advance(10)
    (turn,) = server.turns
    assert (turn.reply.status, turn.reply.reason) == ("cancelled", "disconnected")


# The live snapshot. -------------------------------------------------------------------------------------------------


def test_lanes_tell_what_a_session_does() -> None:
    server = watched()
    session = server.connect("webrtc")
    seen: list[str] = []

    def look() -> None:
        state = session.actor.lane_state()
        if not seen or seen[-1] != state.mode:
            seen.append(state.mode)
        if state.slack_ns is not None:
            assert state.slack_ns <= ns_from_ms(5000)
        assert 0 <= state.lead <= 48 * 5000

    session.say(1000)
    for step in range(900):
        if step == 200:
            session.say(150)
        look()
        server.advance(20)
    assert seen[:4] == ["listening", "hearing", "thinking", "speaking"]
    assert "ducked" in seen
    assert seen[-1] == "listening"
    assert session.actor.lane_state().slack_ns is None


def test_looking_at_a_lane_changes_nothing() -> None:
    plain, looked_at = watched(), watched()
    quiet = converse(plain)
    session = looked_at.connect()
    for wait, ms in ((500, 1500), (4000, 1000), (4000, 200), (14_000, 0)):
        for _ in range(wait // 20):
            looked_at.advance(20)
            assert session.actor.lane_state().epoch >= 0
        if ms:
            session.say(ms)
    assert [event["type"] for _, event in session.client.events] == quiet.client.types()
    assert json.dumps(session.client.events) == json.dumps(quiet.client.events)


def test_the_snapshot_adds_up() -> None:
    server = watched()
    live = server.telemetry.live(SimHost(server))
    live.look(server.world.now())
    server.connect("websocket", opens=False)
    converse(server)
    now = server.world.now()
    shown = live.snapshot(now, 1000.0)
    assert (shown.seq, shown.at_s, shown.uptime_s) == (1, 1000.0, 22.5)
    assert (shown.sessions.live, shown.sessions.max, shown.model.test_double) == (2, 10, True)
    assert shown.ttfas.sent.n == shown.ttfas.heard.n == shown.ttfas.split.think.n == 2
    assert shown.ttfas.sent.p50 is not None and shown.ttfas.heard.p50 is not None
    assert shown.ttfas.heard.p50 > shown.ttfas.sent.p50
    split = shown.ttfas.split
    parts = [split.endpointing, split.transcribe, split.think, split.talk, split.vocode, split.send]
    assert sum(part.p50 or 0 for part in parts) == pytest.approx(shown.ttfas.sent.p50, abs=0.002)
    assert shown.barge_in.outcomes == {"confirmed": 1, "refused": 1}
    assert (shown.barge_in.detect.n, shown.barge_in.confirm.n, shown.barge_in.egress.n) == (2, 1, 1)
    assert [lane.mode for lane in shown.lanes] == ["connecting", "listening"]
    assert shown.lanes[1].epoch == 1
    assert sum(bucket.barge_ins for bucket in shown.history) == 1
    assert [(limit.name, limit.load, limit.limit) for limit in shown.admission.limits] == [("loop", 0.25, 0.8)]
    think = next(stage for stage in shown.stages if stage.name == "think")
    assert 0 < think.busy < 1
    assert think.batch_mean == 1
    assert server.observer.value("duplex_ttfas_part_seconds", part="think") == 2


def test_what_is_looked_up_becomes_a_measure() -> None:
    server = watched()
    host = SimHost(server)
    for _ in range(2):
        converse(server)
        server.telemetry.measure_stages(host)
    busy = sum(load.busy_s for load in host.stage_loads() if load.name == "think")
    assert server.observer.value("duplex_stage_busy_seconds_total", stage="think") == pytest.approx(busy)
    assert server.observer.value("duplex_sessions_max") == 10


def test_work_before_the_turns_end_is_shown_with_its_reply_and_what_was_thrown_away_is_no_part_of_it() -> None:
    server = watched()
    session = server.connect()
    session.say(800)
    server.advance(960)  # a draft has been made, and is thrown away
    session.say(800)
    server.advance(12_000)
    measures = server.observer.render().decode()
    for outcome in ("resumed", "adopted"):
        assert f'duplex_speculation_total{{outcome="{outcome}"}} 1.0' in measures
    (created,) = [event["response"]["id"] for event in session.client.of("response.created")]
    layout = laid_out(server, session)
    said = on(layout, "said")
    assert {piece.args["reply"] for piece in said} == {created}
    assert said[0].start < on(layout, "reply")[0].start
    assert not any("open" in piece.args for piece in said)
    session.leave()
    (turn,) = server.turns
    assert {span.address.reply for span in turn.stages if span.address.lane == 0} == {created}
    assert min(span.queued_at for span in turn.stages if span.address.lane == 0) < on(layout, "reply")[0].start
