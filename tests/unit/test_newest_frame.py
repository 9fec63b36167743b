"""Which jobs are given the camera's newest frame."""

from __future__ import annotations

import numpy as np
import pytest

from duplex.actor.newest_frame import NewestFrame
from duplex.media.contract import VideoFrame
from duplex.payloads import Clause, Message, Payload, Prompt
from duplex.units import MonoNs, ns_from_ms
from loadgen.jobs import job

pytestmark = pytest.mark.unit
HELLO = (Message(role="user", text="Hello."),)
SEEN_MS = 1000


def frame(value: int, at_ms: int = SEEN_MS) -> VideoFrame:
    return VideoFrame(rgb=np.full((2, 2, 3), value, np.uint8), at=MonoNs(ns_from_ms(at_ms)))


@pytest.mark.parametrize(
    ("payload", "at_ms", "shown"),
    [
        (Prompt(messages=HELLO, sees=True), SEEN_MS, True),
        (Prompt(messages=HELLO, sees=True), SEEN_MS + 500, True),
        (Prompt(messages=HELLO, sees=True), SEEN_MS + 501, False),
        (Prompt(messages=HELLO, sees=False), SEEN_MS, False),
        (Clause(index=0, text="Hello.", voice="a"), SEEN_MS, False),
    ],
)
def test_a_thinker_that_sees_gets_it_while_the_camera_is_on(payload: Payload, at_ms: int, shown: bool) -> None:
    newest = NewestFrame(age_ms_max=500)
    asked, now = job(payload), MonoNs(ns_from_ms(at_ms))
    assert newest.shown_to(asked, now) is asked, "no camera yet"
    newest.take(frame(1))
    newest.take(frame(2))
    given = newest.shown_to(asked, now)
    if not shown:
        assert given is asked
        return
    assert isinstance(given.payload, Prompt)
    (rgb,) = given.payload.frames
    assert (rgb == 2).all() and given.id == asked.id


def test_the_reader_gets_the_newest_with_its_time() -> None:
    newest = NewestFrame(age_ms_max=500)
    newest.take(frame(1))
    newest.take(frame(2, at_ms=1500))
    picture = newest.picture()
    assert (picture.rgb == 2).all() and picture.at == ns_from_ms(1500)
