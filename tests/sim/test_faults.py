"""Stages that fail, hang or refuse: the replies they held fail with a reason, the sessions live on."""

import pytest
from duplex_models.sim import SimOptions

from duplex.config import Settings, StageSettings
from duplex.payloads import StageError
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim


def ask(server: Server, session: Session, ms: float = 8000) -> str:
    before = len(session.client.of("response.done"))
    session.type_text("go")
    server.advance(ms)
    done = session.client.of("response.done")[before:]
    assert len(done) == 1
    return str(done[0]["response"]["status"])


@pytest.mark.parametrize("stage", ["talk", "vocode"])
def test_a_stage_that_raises_fails_its_reply_and_the_next_one_works(stage: str) -> None:
    server = Server()
    session, other = server.connect(), server.connect()
    broken = server.stage(stage)
    step = broken.step
    broken.step = lambda jobs: 1 / 0
    assert ask(server, session) == "failed"
    error = session.client.of("error")[0]["error"]
    assert (error["type"], error["code"]) == ("server_error", "stage_failed")
    assert "ZeroDivisionError" in error["message"]
    broken.step = step
    assert ask(server, session) == "completed"
    assert ask(server, other) == "completed"
    server.check()


@pytest.mark.parametrize("stage", ["think", "talk", "vocode"])
def test_a_stage_that_hangs_fails_its_reply_after_its_timeout(stage: str) -> None:
    server = Server(settings=Settings(stages=StageSettings(step_timeout_s=2)))
    session = server.connect()
    if stage == "think":
        server.stage(stage).submit = lambda job, emit: None
    else:
        server.world.costs[stage] = lambda: 60.0
    session.type_text("go")
    server.advance(1500)
    assert "response.done" not in session.client.types()
    server.advance(2000)
    assert session.client.of("response.done")[0]["response"]["status"] == "failed"
    server.check()


def test_a_failing_transcription_is_told_and_the_next_turn_works() -> None:
    server = Server()
    session = server.connect()
    step = server.stage("transcribe").step
    server.stage("transcribe").step = lambda jobs: [StageError(reason="no words") for _ in jobs]
    session.say(800)
    server.advance(2500)
    assert session.client.of("conversation.item.input_audio_transcription.failed")
    assert "response.created" not in session.client.types()
    server.stage("transcribe").step = step
    session.say(800)
    server.advance(3000)
    assert "response.created" in session.client.types()


def test_a_failing_end_of_turn_model_ends_turns_by_silence() -> None:
    server = Server()
    session = server.connect()
    server.stage("end_of_turn").step = lambda jobs: 1 / 0
    session.say(800)
    server.advance(3000)
    assert "response.created" in session.client.types()


def test_a_disconnect_stops_every_stage_and_gives_everything_back() -> None:
    server = Server(SimOptions(vad="level", script=("word " * 200,), token_s=0.05))
    sessions = [server.connect() for _ in range(8)]
    for session in sessions:
        session.type_text("go")
    server.advance(2000)
    assert server.stage("think").running == 8
    for session in sessions:
        session.leave()
    assert server.stage("think").running == 0
    server.advance(1000)
    assert server.runners.idle
    assert not server.stage("vocode")._state
    assert not server.runners.lanes._epochs


def test_a_broken_core_ends_its_session_alone() -> None:
    server = Server()
    session, other = server.connect(), server.connect()
    session.actor._core._ear.heard = None  # type: ignore[assignment]
    server.advance(400)
    assert session.ended == [session.actor.session_id]
    assert session.client.closed == "error"
    assert ask(server, other) == "completed"


def test_a_hung_step_fails_what_was_in_it_alone_and_its_late_result_is_not_wanted() -> None:
    server = Server(settings=Settings(stages=StageSettings(step_timeout_s=2)))
    sessions = [server.connect() for _ in range(12)]
    server.world.costs["vocode"] = lambda: 5.0
    for session in sessions:
        session.type_text("go")
    server.advance(1900)
    assert not sessions[0].client.of("response.done")
    server.world.costs["vocode"] = lambda: 0.0
    server.advance(800)
    first, *waiting = sessions
    assert first.client.of("response.done")[0]["response"]["status"] == "failed"
    server.advance(5000)
    assert all(s.client.of("response.done")[0]["response"]["status"] == "completed" for s in waiting)
    assert ask(server, first) == "completed"
    assert all(len(s.client.of("response.done")) == 1 for s in waiting)
    server.check()


def test_a_hung_vad_counts_each_window_once() -> None:
    server = Server(settings=Settings(stages=StageSettings(step_timeout_s=1)))
    session = server.connect()
    server.world.costs["vad"] = lambda: 3.0
    server.advance(4000)
    server.world.costs["vad"] = lambda: 0.0
    server.advance(4000)
    assert not session.actor._microphone._asked
    session.say(900)
    server.advance(3000)
    assert "response.created" in session.client.types()


def test_a_failed_reply_keeps_of_its_clause_only_what_was_spoken() -> None:
    server = Server(SimOptions(vad="level", script=("one two three four five six seven eight nine ten eleven twelve",)))
    session = server.connect()
    session.type_text("go")
    server.advance(1000)
    server.stage("vocode").step = lambda jobs: 1 / 0
    server.advance(4000)
    item = session.client.of("response.output_item.added")[0]["item"]["id"]
    session.event(type="conversation.item.retrieve", item_id=item)
    text = session.client.of("conversation.item.retrieved")[0]["item"]["content"][0]["transcript"]
    assert len(text.split()) == 20 * len(session.sounding()) // 300
    server.check()
