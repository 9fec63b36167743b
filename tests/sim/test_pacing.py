"""Pacing on simulated time: the lead, the bounds, and urgency order against first come, first served."""

import numpy as np
import pytest
from duplex_models.sim import SimOptions

from duplex.config import ModelSettings, PacingSettings, Settings
from duplex.pacing.policies import Fcfs
from duplex.pacing.policy import Policy
from duplex.stages.contract import Role
from duplex.units import ns_from_ms, samples_from_ms
from tests.sim.world import Server

pytestmark = pytest.mark.sim
LONG = " ".join(f"word{i}," if i % 7 == 6 else f"word{i}" for i in range(80))


def test_the_lead_stays_at_its_target_plus_one_chunk() -> None:
    server = Server(SimOptions(vad="level", script=(LONG,), vocode_s=0.03))
    session = server.connect()
    session.type_text("go")
    server.advance(12_000)
    leads = server.values("duplex_lead_seconds")
    pacing = server.settings.pacing
    target = (pacing.client_buffer_ms + pacing.network_jitter_ms + pacing.stage_jitter_ms + pacing.codec_unit_ms) / 1000
    bound = target + pacing.chunk_ms_max / 1000 + 0.06
    assert len(leads) > 20
    assert max(leads) <= bound
    assert server.total("duplex_underruns_total") == 0


def test_a_cut_wastes_no_more_than_the_lead() -> None:
    server = Server(SimOptions(vad="level", script=(LONG,), vocode_s=0.03))
    session = server.connect()
    session.type_text("go")
    server.advance(6000)
    session.event(type="response.cancel")
    server.advance(100)
    assert 0 < server.total("duplex_unheard_audio_seconds_total") <= 0.75


def test_the_thinker_is_paused_two_clauses_ahead() -> None:
    server = Server(SimOptions(vad="level", script=(LONG,)))
    session = server.connect()
    session.type_text("go")
    server.advance(3000)
    thought = server.stage("think")._running
    left = len(next(iter(thought.values())).steps)
    assert left >= 80 - 7 * 6
    server.advance(30_000)
    assert session.client.of("response.done")[0]["response"]["status"] == "completed"
    assert session.client.of("response.output_audio_transcript.done")[0]["transcript"] == LONG


def test_a_thinker_that_cannot_be_paused_is_bounded_in_text() -> None:
    settings = Settings(pacing=PacingSettings(text_chars_max=200))
    server = Server(SimOptions(vad="level", script=(LONG,), pausable=False), settings)
    session = server.connect()
    session.type_text("go")
    server.advance(25_000)
    response = session.client.of("response.done")[0]["response"]
    assert response["status"] == "incomplete"
    assert 150 < len(session.client.of("response.output_audio_transcript.done")[0]["transcript"]) < 420
    assert server.stage("think").running == 0


def test_a_websocket_runs_ahead_by_its_lead_and_no_further() -> None:
    server = Server(SimOptions(vad="level", script=(LONG,)))
    session = server.connect("websocket", wire={"type": "realtime", "duplex": {"lead_ms": 1500}})
    session.type_text("go")
    server.advance(5000)
    first = session.client.at("response.output_audio.delta")
    sent_s = sum(len(e["delta"]) * 3 / 4 / 48_000 for e in session.client.of("response.output_audio.delta"))
    elapsed_s = (server.world.now() - first) / 1e9
    assert elapsed_s + 1.0 <= sent_s <= elapsed_s + 1.5 + 0.25


def test_a_file_client_gets_all_at_once() -> None:
    server = Server(SimOptions(vad="level", script=(LONG,)))
    session = server.connect("websocket", wire={"type": "realtime", "duplex": {"lead_ms": "unlimited"}})
    session.type_text("go")
    server.advance(5000)
    assert session.client.of("response.done")[0]["response"]["status"] == "completed"


def crowd(policy: Policy | None) -> tuple[float, float, list[float]]:
    """Ten talkers on one vocoder near saturation; return underruns, seconds of gaps and the times to first audio."""
    server = Server(SimOptions(vad="level", script=(LONG,), vocode_s=0.03), policy=policy)
    server.runners.runners[Role.VOCODE].spec = _one_at_a_time(server)
    sessions = [server.connect() for _ in range(10)]
    for session in sessions:
        session.say(600)
        server.advance(230)
    server.advance(14_000)
    return (
        server.total("duplex_underruns_total"),
        server.total("duplex_underrun_seconds_total"),
        server.values("duplex_ttfas_seconds", observed="sent"),
    )


def _one_at_a_time(server: Server):  # type: ignore[no-untyped-def]
    from dataclasses import replace  # noqa: PLC0415

    return replace(server.stage("vocode").spec, batch_max=1)


def test_urgency_order_does_not_underrun_where_first_come_first_served_does() -> None:
    ours, ours_s, ours_ttfas = crowd(None)
    fcfs, fcfs_s, fcfs_ttfas = crowd(Fcfs())
    assert ours == 0 and ours_s == 0
    assert fcfs > 5 and fcfs_s > 0.5
    assert np.percentile(ours_ttfas, 90) < np.percentile(fcfs_ttfas, 90)


def test_the_lead_grows_with_the_stages_own_jitter() -> None:
    server = Server(SimOptions(vad="level", script=(LONG,)))
    calm = server.connect()
    target = calm.actor._core.lane.target()
    slow = iter(range(10**6))
    server.world.costs["vocode"] = lambda: 0.7 if next(slow) % 3 == 2 else 0.01
    calm.type_text("go")
    server.advance(20_000)
    later = calm.actor._core.lane.target()
    assert target is not None and later is not None
    assert later > target + samples_from_ms(10)


def test_settings_name_their_units_and_are_checked() -> None:
    with pytest.raises(ValueError, match="clauses_ahead"):
        PacingSettings(clauses_ahead=0)
    assert ModelSettings().pack == "local"
    assert ns_from_ms(1) == 1_000_000


def test_a_websocket_client_that_ran_dry_inside_a_reply_is_an_underrun() -> None:
    server = Server(SimOptions(vad="level", script=(LONG,), vocode_s=0.6))
    session = server.connect("websocket")
    session.type_text("go")
    server.advance(8000)
    assert server.total("duplex_underruns_total", observed="sent") > 2
    assert server.total("duplex_underrun_seconds_total", observed="sent") > 0.5
    fast = Server(SimOptions(vad="level", script=(LONG,)))
    fast.connect("websocket").type_text("go")
    fast.advance(8000)
    assert fast.total("duplex_underruns_total") == 0
