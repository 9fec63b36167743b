"""What is held before the camera reaches the thinker with the turn, with its age, and never costs the answer more than the wait."""

from __future__ import annotations

import numpy as np
import pytest
from duplex_models.sim import SimOptions

from duplex.config import load
from duplex.media.contract import VideoFrame
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
WORDS = "blorptic 7431"


def server(**options: object) -> Server:
    return Server(SimOptions(vad="level", script=("Yes.",), **({"reads": (WORDS,)} | options)))  # type: ignore[arg-type]


def show(session: Session) -> None:
    session.actor.see(VideoFrame(rgb=np.zeros((48, 64, 3), np.uint8), at=session.server.world.now()))


def film(session: Session, ms: int) -> None:
    """Let time pass with two frames a second."""
    for _ in range(ms // 500):
        show(session)
        session.server.advance(500)


def talk(session: Session, camera: bool) -> str:
    """Speak for a second, wait for the answer to start, and return the last message of its prompt."""
    session.say(1000)
    film(session, 2500) if camera else session.server.advance(2500)
    return str(session.server.stage("think").prompts[-1].messages[-1].text)


def test_the_thinker_is_told_what_the_camera_shows_with_its_age() -> None:
    world = server()
    told = talk(world.connect(), camera=True)
    assert "seconds of speech" in told
    assert WORDS in told
    age = float(told.split("Text visible on camera (")[1].split(" s ago")[0])
    assert 0 <= age <= 1.0
    world.check()


def test_nothing_is_told_while_the_camera_is_off() -> None:
    world = server()
    session = world.connect()
    assert "camera" not in talk(session, camera=False)
    assert world.stage("read").pictures == 0


def test_a_camera_that_was_switched_off_is_forgotten_after_the_bound() -> None:
    world = server()
    session = world.connect()
    assert WORDS in talk(session, camera=True)
    world.advance(6000)
    assert WORDS not in talk(session, camera=False)
    assert not any(WORDS in message.text for message in world.stage("think").prompts[-1].messages)
    assert len(world.stage("think").shown) == 1, "nor is its last frame shown"


def test_later_prompts_do_not_repeat_an_old_reading() -> None:
    world = server(reads=("first", "second", "third", "fourth", "fifth", "sixth"))
    session = world.connect()
    talk(session, camera=True)
    talk(session, camera=True)
    texts = [m.text for m in world.stage("think").prompts[-1].messages if "Text visible" in m.text]
    assert len(texts) == 1
    assert texts[0].count("Text visible") == 1


def test_a_picture_without_text_is_not_mentioned() -> None:
    world = server(reads=("",))
    assert "camera" not in talk(world.connect(), camera=True)
    assert world.total("duplex_camera_readings_total", outcome="nothing") > 0


def test_a_slow_reader_delays_the_answer_by_the_bound_at_most_and_its_result_is_dropped() -> None:
    fast, slow = server(read_s=0.0), server(read_s=5.0)
    at = {}
    for world in (fast, slow):
        session = world.connect()
        told = talk(session, camera=True)
        at[world] = session.client.at("response.created"), session.sounding()[0]
        assert (WORDS in told) == (world is fast)
        world.advance(6000)
        world.check()
    assert at[slow][1] - at[fast][1] <= slow.settings.camera.wait_ms_max * 1_000_000
    assert slow.total("duplex_camera_readings_total", outcome="late") >= 1
    assert slow.total("duplex_camera_readings_total", outcome="read") == 0


def test_a_reader_that_fails_costs_the_answer_nothing_but_the_reading() -> None:
    world = server()

    def fail(job: object) -> None:
        raise RuntimeError("broken")

    world.stage("read").compute = fail
    session = world.connect()
    assert "camera" not in talk(session, camera=True)
    assert session.client.of("response.done")[-1]["response"]["status"] == "completed"
    assert world.total("duplex_camera_readings_total", outcome="failed") >= 1
    world.check()


def test_a_frame_is_read_once_and_a_turn_reads_a_few() -> None:
    world = server()
    session = world.connect()
    show(session)
    world.advance(100)
    for _ in range(3):
        session.type_text("again")
        world.advance(1000)
    assert world.stage("read").pictures == 1


def test_reading_can_be_switched_off() -> None:
    options = SimOptions(vad="level", script=("Yes.",), reads=(WORDS,))
    world = Server(options, load(camera={"read": False}))
    assert WORDS not in talk(world.connect(), camera=True)
    assert world.stage("read").pictures == 0
