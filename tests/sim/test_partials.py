"""Partial transcripts of whole sessions: what the client reads along, and that the answer never waits for them."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.config import Settings, TurnSettings
from duplex.session.effects import Drop, SubmitUtterance
from duplex.stages.contract import Role
from duplex.units import samples_from_ms
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
KIND = "conversation.item.input_audio_transcription"
GROWING = ("I want two", "I want to book.", "I want to book a table", "I want to book a table, please.")


def serve(every_ms: int = 700, **options: Any) -> Server:
    settings = Settings(turn=TurnSettings(partial_every_ms=every_ms))
    return Server(SimOptions(**({"vad": "level", "transcribe_s": 0.03} | options)), settings)


def partials_of(session: Session) -> list[SubmitUtterance]:
    """Return the partial transcriptions that were asked for."""
    return [
        effect
        for _, effect in session.effects
        if isinstance(effect, SubmitUtterance) and effect.role is Role.TRANSCRIBE and effect.pace.speculative
    ]


def test_the_client_reads_along_and_gets_the_rest_with_the_final_transcript() -> None:
    server = serve(partials=GROWING[:3], transcripts=GROWING[3:])
    session = server.connect()
    session.say(2500)
    server.advance(4000)
    told = session.client.of(f"{KIND}.delta")
    assert [event["delta"] for event in told] == ["I want", " to", " book a table, please."]
    (completed,) = session.client.of(f"{KIND}.completed")
    assert completed["transcript"] == "".join(event["delta"] for event in told)
    assert {event["item_id"] for event in told} == {completed["item_id"]}
    ends = [effect.span.end for effect in partials_of(session)]
    assert len(ends) == 3
    assert all(later - earlier >= samples_from_ms(700) for earlier, later in zip(ends, ends[1:], strict=False))
    server.check()


def test_a_final_transcript_that_says_otherwise_is_told_whole_and_stands() -> None:
    server = serve(partials=("Eye want", "Eye want two"), transcripts=("I want to.",))
    session = server.connect()
    session.say(1800)
    server.advance(3500)
    assert [event["delta"] for event in session.client.of(f"{KIND}.delta")] == ["Eye want"]
    assert session.client.of(f"{KIND}.completed")[0]["transcript"] == "I want to."
    assert server.stage("think").prompts[-1].messages[-1].text == "I want to."
    server.check()


@pytest.mark.parametrize("spoken_ms", [1500, 2150, 3000])
def test_the_final_transcript_and_the_answer_come_no_later(spoken_ms: int) -> None:
    def times(every_ms: int) -> list[int]:
        server = serve(every_ms, transcribe_s=0.05)
        session = server.connect()
        session.say(spoken_ms)
        server.advance(spoken_ms + 2000)
        return [session.client.at(kind) for kind in (f"{KIND}.completed", "output_audio_buffer.started")]

    assert times(700) == times(0)


def test_none_waits_for_a_stage_that_is_busy() -> None:
    server = serve(partials=GROWING[:3], transcripts=GROWING[3:])
    blocked = [1.2]  # somebody else's transcription takes its time
    session, other = server.connect(), server.connect()
    server.world.costs["transcribe"] = lambda: blocked.pop(0) if blocked else 0.01
    other.say(600)
    session.say(1700)
    server.advance(1000)
    assert len(partials_of(session)) == 1
    assert server.runners.runners[Role.TRANSCRIBE].load().queued == 0
    server.advance(3000)
    assert len(partials_of(session)) == 2  # the next one in its turn, and it is no repetition of the first
    asked = [effect for _, effect in session.effects if getattr(effect, "role", None) is Role.TRANSCRIBE]
    assert not any(isinstance(effect, Drop) for effect in asked)
    server.advance(8000)
    server.check()
    assert server.runners.idle


@pytest.mark.parametrize("how", ["off", "not wanted"])
def test_there_are_none_where_nobody_asked_for_them(how: str) -> None:
    server = serve(0 if how == "off" else 700)
    wire = {"type": "realtime", "audio": {"input": {"transcription": None}}} if how == "not wanted" else None
    session = server.connect(wire=wire)
    session.say(3000)
    server.advance(5000)
    assert partials_of(session) == []
    assert session.client.of("response.created")


def test_one_that_fails_is_followed_by_the_next_and_nobody_is_told() -> None:
    server = serve(partials=GROWING[:3], transcripts=GROWING[3:])
    step, failing = server.stage("transcribe").step, [True]
    server.stage("transcribe").step = lambda jobs: 1 / 0 if failing.pop() else step(jobs)
    failing[:0] = [False] * 20
    session = server.connect()
    session.say(2500)
    server.advance(4000)
    assert len(partials_of(session)) == 3
    assert not session.client.of(f"{KIND}.failed")
    assert session.client.of(f"{KIND}.completed")[0]["transcript"] == GROWING[3]
    server.check()
