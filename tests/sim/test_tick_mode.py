"""A model in lock-step with its input: its speaking ticks become replies; it is never held back."""

import pytest
from duplex_models.sim import SimOptions

from tests.sim.world import Server, check_lifecycle

pytestmark = pytest.mark.sim


def tick_server() -> Server:
    return Server(SimOptions(form="tick", vad="level", tick_words=10, word_ms=320))


def test_a_run_of_speaking_ticks_is_one_reply() -> None:
    server = tick_server()
    session = server.connect()
    session.say(1000)
    server.advance(7000)
    kinds = session.client.types()
    assert kinds.count("response.created") == kinds.count("response.done") == 1
    assert session.client.of("response.done")[0]["response"]["status"] == "completed"
    assert session.client.of("response.output_audio_transcript.done")[0]["transcript"].split()[:2] == ["word", "1"]
    assert 20 * len(session.sounding()) == pytest.approx(10 * 320, abs=40)
    assert server.total("duplex_underruns_total") == 0
    server.check()


def test_the_model_itself_stops_when_it_hears_the_user() -> None:
    server = tick_server()
    session = server.connect(wire={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
    session.say(1000)
    server.advance(2500)
    spoke_until = server.world.now()
    session.say(800)
    server.advance(5000)
    assert [e["response"]["status"] for e in session.client.of("response.done")] == ["completed", "completed"]
    gap = [when for when in session.sounding() if spoke_until + 200_000_000 < when < spoke_until + 900_000_000]
    assert not gap
    server.check()


def test_a_cancel_mutes_the_model_until_it_falls_silent_by_itself() -> None:
    server = tick_server()
    session = server.connect()
    session.say(1000)
    server.advance(2500)
    cut_at = server.world.now()
    session.event(type="response.cancel")
    server.advance(4000)
    assert session.client.of("response.done")[0]["response"]["status"] == "cancelled"
    assert all(when <= cut_at + 40_000_000 for when in session.sounding())
    session.say(500)
    server.advance(6000)
    assert session.client.types().count("response.created") == 2
    server.check()
    check_lifecycle(session.client.types(), session.client)


def test_asking_for_a_reply_is_refused_in_words() -> None:
    server = tick_server()
    session = server.connect()
    session.event(type="response.create", event_id="e1")
    error = session.client.of("error")[0]["error"]
    assert (error["code"], error["event_id"]) == ("unsupported_in_tick_mode", "e1")
