"""Stages that hang, crash or run out of memory are replaced: what they held fails, what waits is served by the next one."""

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from duplex_models.sim import SimOptions
from duplex_models.sim.stages import SimTalk

from duplex.config import Settings, StageSettings, TurnSettings
from duplex.payloads import Alive, Role, StageError
from duplex.stages.contract import Lost, StageGoneError
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
SCRIPT = ("One two three. Four five six. Seven eight nine. Ten eleven twelve. " * 3,)


def serve(turn: dict[str, Any] | None = None, **stages: Any) -> Server:
    settings = Settings(
        stages=StageSettings(**({"step_timeout_s": 2} | stages)),
        # Without partial transcripts: a stage that breaks breaks under the work that the test counts.
        turn=TurnSettings(**({"partial_every_ms": 0} | (turn or {}))),
    )
    return Server(SimOptions(vad="level", script=SCRIPT, token_s=0.05), settings)


def status(session: Session, number: int = -1) -> str:
    return str(session.client.of("response.done")[number]["response"]["status"])


def asks(server: Server, session: Session, ms: float = 25_000) -> str:
    before = len(session.client.of("response.done"))
    session.type_text("go")
    server.advance(ms)
    assert len(session.client.of("response.done")) == before + 1
    return status(session)


def out_of_memory(*arguments: Any) -> Any:
    raise MemoryError


def stop_after_three(server: Server) -> None:
    """Let the thinker emit three words, and then nothing."""
    think = server.stage("think")
    submit = think.submit

    def stalling(job: Any, emit: Callable[[Any], None]) -> None:
        words = iter(range(3))
        submit(job, lambda out: emit(out) if next(words, None) is not None else None)

    think.submit = stalling


def hang_on_second(server: Server, stage: str) -> None:
    """Let a stage's second step take forever."""
    costs = iter((0.0, 1000.0))
    server.world.costs[stage] = lambda: next(costs, 0.0)


@pytest.mark.parametrize("stage", ["think", "talk", "vocode"])
def test_a_stage_that_hangs_is_replaced_and_the_next_turn_works(stage: str) -> None:
    server = serve()
    session, idle = server.connect(), server.connect()
    stop_after_three(server) if stage == "think" else hang_on_second(server, stage)
    first = server.runners.runners[Role(stage)]._watchdog.stage
    session.type_text("go")
    while not session.client.of("response.done"):
        server.advance(50)
    assert status(session) == "failed"
    error = session.client.of("error")[0]["error"]
    assert (error["code"], error["message"]) == ("stage_failed", f"{stage} made no progress")
    assert server.runners.troubles() == [f"stage {stage} made no progress, and is being started again"]
    server.advance(600)
    assert not server.runners.troubles()
    assert server.runners.runners[Role(stage)]._watchdog.stage is not first
    assert asks(server, session) == asks(server, idle) == "completed"
    assert server.total("duplex_stage_restarts_total", stage=stage, reason="hang") == 1
    assert server.values("duplex_stage_up", stage=stage) == [1, 0, 1]
    server.check()


def read_slowly(server: Server, signs: int) -> None:
    """Let the thinker read each prompt for 5 s, and say so many times that it does, every 0.8 s."""
    think = server.stage("think")
    submit = think.submit

    def reading(job: Any, emit: Callable[[Any], None]) -> None:
        for sign in range(signs):
            think._after(0.8 * (sign + 1), lambda: emit(Alive()))
        think._after(5.0, lambda: submit(job, emit))

    think.submit = reading


def test_an_engine_that_reads_for_long_and_says_so_does_not_hang() -> None:
    server = serve()
    session, other = server.connect(), server.connect()
    read_slowly(server, 6)
    unit = server.runners.runners[Role.THINK]._unit_ns
    session.type_text("go")
    server.advance(2500)
    other.type_text("go")  # has had no sign of its own when the first one ends
    server.advance(40_000)
    assert status(session) == status(other) == "completed"
    assert server.runners.runners[Role.THINK]._unit_ns < 2 * unit, "a sign of life is no step"
    assert not server.total("duplex_stage_restarts_total")
    server.check()


def test_an_engine_that_says_no_more_that_it_reads_hangs() -> None:
    server = serve()
    session = server.connect()
    read_slowly(server, 2)
    session.type_text("go")
    server.advance(3500)
    assert not server.runners.troubles()
    server.advance(400)
    assert status(session) == "failed"
    server.advance(600)
    assert server.total("duplex_stage_restarts_total", stage="think", reason="hang") == 1
    server.check()


@pytest.mark.parametrize("stage", ["talk", "vocode"])
def test_a_stage_that_runs_out_of_memory_is_replaced_at_once(stage: str) -> None:
    server = serve()
    session = server.connect()
    server.stage(stage).step = out_of_memory
    session.type_text("go")
    server.advance(400)
    assert status(session) == "failed"
    assert server.runners.troubles() == [f"stage {stage} ran out of memory, and is being started again"]
    assert asks(server, session) == "completed"
    assert server.total("duplex_stage_restarts_total", stage=stage, reason="memory") == 1
    server.check()


def test_an_engine_that_says_it_has_no_memory_loses_all_that_it_held() -> None:
    server = serve()
    session, other = server.connect(), server.connect()
    other.type_text("go")
    server.advance(500)
    server.stage("think").submit = lambda job, emit: emit(StageError(kind="memory", reason="think: no memory"))
    session.type_text("go")
    server.advance(100)
    assert status(session) == status(other) == "failed"
    assert asks(server, session) == asks(server, other) == "completed"
    assert server.total("duplex_stage_restarts_total", stage="think", reason="memory") == 1
    server.check()


def test_one_bad_input_is_no_crash_but_raising_again_is() -> None:
    server = serve()
    session = server.connect()
    server.stage("talk").step = lambda jobs: 1 / 0
    assert asks(server, session, 300) == "failed"
    assert not server.runners.troubles()
    assert asks(server, session, 300) == "failed"
    assert server.runners.troubles() == ["stage talk crashed, and is being started again"]
    assert asks(server, session) == "completed"
    assert server.total("duplex_stage_restarts_total", stage="talk", reason="crash") == 1
    server.check()


def test_an_engine_that_raises_fails_that_reply_and_no_session() -> None:
    server = serve()
    session, other = server.connect(), server.connect()
    server.stage("think").submit = lambda job, emit: 1 / 0
    assert asks(server, session, 100) == "failed"
    assert not session.ended
    assert asks(server, other, 100) == "failed"
    assert asks(server, session) == "completed"
    assert server.total("duplex_stage_restarts_total", stage="think", reason="crash") == 1
    server.check()


def test_what_others_have_waiting_is_served_by_the_next_stage() -> None:
    server = serve()
    sessions = [server.connect() for _ in range(5)]
    server.stage("talk").step = out_of_memory
    sessions[0].type_text("go")
    server.advance(250)
    assert server.runners.troubles()
    for session in sessions[1:]:
        session.type_text("go")
    server.advance(25_000)
    assert [status(session) for session in sessions] == ["failed", *["completed"] * 4]
    server.check()


@pytest.mark.parametrize(("why", "words"), [("exit", "lost its process"), ("hang", "made no progress")])
def test_a_step_that_finds_its_process_gone_is_told_as_the_end_of_the_process_is(why: Lost, words: str) -> None:
    """The step comes back first: nothing else is begun, and what others have waiting is not lost."""
    server = serve()
    sessions = [server.connect() for _ in range(3)]

    def gone(*arguments: Any) -> Any:
        raise StageGoneError(why)

    server.stage("talk").step = gone
    server.world.costs["talk"] = lambda: 0.2
    for session in sessions:
        session.type_text("go")
        server.advance(100)
    server.advance(100)
    assert server.runners.troubles() == [f"stage talk {words}, and is being started again"]
    assert sessions[0].client.of("error")[0]["error"]["message"] == f"talk {words}"
    server.advance(25_000)
    assert [status(session) for session in sessions] == ["failed", "completed", "completed"]
    assert server.total("duplex_stage_restarts_total") == 1
    server.check()


def test_a_stage_that_stays_away_refuses_what_would_wait_longer_than_a_step_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = serve(restarts_max=2, restart_slow_s=30)
    session = server.connect()
    monkeypatch.setattr(SimTalk, "load", out_of_memory)
    server.stage("talk").step = out_of_memory
    session.type_text("go")
    server.advance(400)
    session.type_text("go")
    server.advance(1000)
    assert len(session.client.of("response.done")) == 1
    server.advance(1000)
    assert status(session) == "failed"
    assert session.client.of("error")[-1]["error"]["message"] == "talk is down"
    assert server.runners.troubles() == ["stage talk cannot start, and is given up, and tried now and then"]
    assert asks(server, session, 300) == "failed"
    monkeypatch.undo()
    server.advance(30_000)
    assert not server.runners.troubles()
    assert asks(server, session) == "completed"
    assert server.total("duplex_stage_restarts_total", stage="talk", reason="start") == 2
    server.check()


def test_a_start_that_takes_too_long_has_failed_and_the_next_may_do() -> None:
    server = serve(start_timeout_s=5)
    session = server.connect()
    costs = iter([1000.0] * 3)  # the step, the closing behind it, the start
    server.world.costs["talk"] = lambda: next(costs, 0.0)
    session.type_text("go")
    server.advance(4000)
    assert server.runners.troubles() == ["stage talk made no progress, and is being started again"]
    server.advance(5000)
    assert server.total("duplex_stage_restarts_total", stage="talk", reason="start") == 1
    assert asks(server, session) == "completed"


def test_hung_threads_are_not_left_behind_without_bound() -> None:
    server = serve(abandoned_max=2, start_timeout_s=5)
    session = server.connect()
    hung = iter([1000.0] * 4)  # a step, the closing behind it, a start, the closing behind it
    server.world.costs["talk"] = lambda: next(hung, 0.0)
    session.type_text("go")
    server.advance(900_000)
    assert server.total("duplex_stage_restarts_total") == 1
    assert server.runners.troubles() == ["stage talk cannot start, and is given up, and tried now and then"]
    server.advance(200_000)
    assert not server.runners.troubles()
    assert asks(server, session) == "completed"


def test_other_conversations_go_on_while_a_stage_is_down() -> None:
    server = serve()
    listener, other = server.connect(), server.connect()
    listener.type_text("go")
    server.advance(4000)
    server.stage("transcribe").step = out_of_memory
    other.say(800)
    server.advance(2000)
    assert other.client.of("conversation.item.input_audio_transcription.failed")
    other.say(800)
    server.advance(24_000)
    assert status(listener) == status(other) == "completed"
    server.check()


def test_a_session_that_leaves_while_a_stage_is_down_is_given_back() -> None:
    server = serve()
    session, other = server.connect(), server.connect()
    server.stage("vocode").step = out_of_memory
    session.type_text("go")
    server.advance(400)
    assert server.runners.troubles()
    other.type_text("go")
    server.advance(100)
    session.leave()
    other.leave()
    server.advance(3000)
    assert server.runners.idle
    assert not server.runners.troubles()


@pytest.mark.parametrize("how", ["hang", "memory"])
def test_what_a_voice_activity_that_breaks_held_is_asked_of_the_next_one(how: str) -> None:
    """A whole turn, appended in one burst, is in its hands; and other sessions speak meanwhile."""
    server = serve()
    burst, other = server.connect("websocket"), server.connect()
    burst.mute()
    server.advance(200)
    if how == "hang":
        costs = iter((1000.0,))
        server.world.costs["vad"] = lambda: next(costs, 0.0)
    else:
        server.stage("vad").step = out_of_memory
    loud = 8000 * np.sin(2 * np.pi * 300 * np.arange(24 * 700) / 24_000)
    pcm = base64.b64encode(np.concatenate([loud, np.zeros(24 * 900)]).astype("<i2").tobytes()).decode()
    burst.event(type="input_audio_buffer.append", audio=pcm)
    other.say(800)
    server.advance(25_000)
    for session in (burst, other):
        assert session.client.types().count("input_audio_buffer.committed") == 1
        assert status(session) == "completed"
    assert server.total("duplex_stage_restarts_total", stage="vad", reason=how) == 1
    server.check()


@pytest.mark.parametrize("input_stall_ms", [500, 1000])
def test_a_voice_activity_that_hangs_in_the_middle_of_a_turn_does_not_end_it(input_stall_ms: int) -> None:
    """What the user says meanwhile is late, and not missing, however long it takes."""
    server = serve(turn={"input_stall_ms": input_stall_ms})
    session = server.connect()
    session.say(1500)
    server.advance(500)
    assert session.client.of("input_audio_buffer.speech_started")
    hang = iter((1000.0,))
    server.world.costs["vad"] = lambda: next(hang, 0.0)
    server.advance(25_000)
    assert server.total("duplex_stage_restarts_total", stage="vad", reason="hang") == 1
    assert session.client.types().count("input_audio_buffer.committed") == 1
    (words,) = session.client.of("conversation.item.input_audio_transcription.completed")
    assert words["transcript"].startswith("1.6 ")
    assert status(session) == "completed"
    server.check()


def test_a_microphone_that_stops_in_the_middle_of_a_turn_ends_it() -> None:
    server = serve()
    session = server.connect()
    session.say(5000)
    server.advance(500)
    session.mute()
    server.advance(900)
    assert not session.client.of("input_audio_buffer.speech_stopped")
    server.advance(200)
    assert session.client.of("input_audio_buffer.speech_stopped")


def test_windows_that_break_every_voice_activity_count_as_silence() -> None:
    server = serve()
    session = server.connect()
    server.advance(200)
    costs = iter((1000.0, 0.0, 0.0, 1000.0))  # a step, the end of the stage, the load of the next one, its first step
    server.world.costs["vad"] = lambda: next(costs, 0.0)
    server.advance(8000)
    assert server.total("duplex_stage_restarts_total", stage="vad", reason="hang") == 2
    session.say(800)
    server.advance(25_000)
    assert status(session) == "completed"
    server.check()


def test_a_model_in_lock_step_begins_anew() -> None:
    settings = Settings(stages=StageSettings(step_timeout_s=2))
    server = Server(SimOptions(vad="level", form="tick"), settings)
    session = server.connect()
    server.stage("tick").step = out_of_memory
    server.advance(2000)
    session.say(800)
    server.advance(6000)
    assert status(session) == "completed"
    assert server.total("duplex_stage_restarts_total", stage="tick", reason="memory") == 1
    server.check()
