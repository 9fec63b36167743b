"""Replies that are begun before the turn has ended and thrown away: nothing of them is seen or heard, and nothing is left of them."""

from __future__ import annotations

from typing import Any

import pytest

from duplex.payloads import StageError
from duplex.stages.contract import Role
from tests.sim.drafts import ANSWERED, CHANGES, DROPS, TEXT, draft_of, outcomes, serve, settled, speak

pytestmark = pytest.mark.sim
MOMENTS: dict[str, dict[str, Any]] = {
    "think": {"first_token_s": 0.5},
    "talk": {"talk_s": 0.5},
    "vocode": {"vocode_s": 0.5},
    "made": {},
}
"""Where the draft is when it is thrown away."""
moments = pytest.mark.parametrize("moment", MOMENTS)


@moments
def test_speech_that_goes_on_throws_it_away_unheard(moment: str) -> None:
    server = serve(end_probability=0.1, **MOMENTS[moment])
    session = server.connect()
    speak(server, session)
    server.advance(100)
    draft_of(session)
    session.say(800)
    server.advance(300)
    assert outcomes(server) == {"resumed": 1}
    assert server.stage("think").running == 0
    assert session.client.types()[2:] == ["input_audio_buffer.speech_started"]
    server.advance(20_000)
    assert outcomes(server) == {"resumed": 1, "adopted": 1}
    assert len(session.client.of("response.created")) == len(session.client.of("response.done")) == 1
    heard = session.client.of("conversation.item.input_audio_transcription.completed")[0]["transcript"]
    assert server.stage("think").prompts[-1].messages[-1].text == heard
    assert "".join(e["delta"] for e in session.client.of("response.output_audio_transcript.delta")) == TEXT
    settled(server)


def test_the_test_double_says_to_the_turn_what_it_would_have_said_to_the_half_of_it() -> None:
    server = serve(end_probability=0.1, script=("One two three.", "Four five six."))
    session = server.connect()
    for _ in range(2):
        speak(server, session)
        server.advance(100)
        session.say(800)
        server.advance(12_000)
    assert outcomes(server) == {"resumed": 2, "adopted": 2}
    done = session.client.of("response.output_audio_transcript.done")
    assert [event["transcript"] for event in done] == ["One two three.", "Four five six."]


@moments
@pytest.mark.parametrize("change", CHANGES)
def test_a_prompt_that_becomes_another_one_is_answered_anew(change: str, moment: str) -> None:
    server = serve(**MOMENTS[moment])
    session = server.connect()
    first = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
    session.event(type="conversation.item.create", item={"id": "item_first", **first})
    speak(server, session)
    thrown = draft_of(session)
    CHANGES[change](session)
    assert outcomes(server) == {"differed": 1}
    assert server.stage("think").running == 0
    server.advance(12_000)
    assert outcomes(server) == {"differed": 1}
    assert session.client.of("response.created")[0]["response"]["id"] != thrown.reply.id
    assert session.client.of("response.done")[0]["response"]["status"] == "completed"
    prompt = server.stage("think").prompts[-1]
    assert (prompt.messages == thrown.ask.messages) == (change == "speed")
    assert "".join(e["delta"] for e in session.client.of("response.output_audio_transcript.delta")) == TEXT
    settled(server)


def test_a_change_that_leaves_the_prompt_as_it_is_throws_nothing_away() -> None:
    server = serve()
    session = server.connect()
    speak(server, session)
    session.event(type="session.update", session={"type": "realtime", "duplex": {"on_onset": "none"}})
    session.event(type="conversation.item.delete", item_id="item_none")
    server.advance(1000)
    assert outcomes(server) == {"adopted": 1}


@moments
@pytest.mark.parametrize("drop", DROPS)
def test_whoever_takes_the_turn_into_their_own_hands_gets_no_draft(drop: str, moment: str) -> None:
    server = serve(**MOMENTS[moment])
    session = server.connect()
    speak(server, session)
    thrown = draft_of(session)
    DROPS[drop](session)
    server.advance(12_000)
    assert outcomes(server) == {"dropped": 1}
    created = [event["response"]["id"] for event in session.client.of("response.created")]
    assert thrown.reply.id not in created
    assert len(created) == len(session.client.of("response.done")) == (1 if drop in ANSWERED else 0)
    settled(server)


@moments
def test_a_disconnect_gives_a_draft_back_at_every_stage(moment: str) -> None:
    server = serve(**MOMENTS[moment])
    session = server.connect()
    speak(server, session)
    draft_of(session)
    session.leave()
    assert outcomes(server) == {"dropped": 1}
    assert server.stage("think").running == 0
    server.advance(1000)
    assert session.ended and "response.created" not in session.client.types()
    settled(server)


@pytest.mark.parametrize("stage", ["think", "talk", "vocode"])
def test_a_stage_that_fails_a_draft_costs_nothing_but_the_head_start(stage: str) -> None:
    server = serve(end_probability=0.1)
    session = server.connect()
    broken = server.stage(stage)
    if stage == "think":
        submit = broken.submit
        broken.submit = lambda job, emit: emit(StageError(reason="broken"))
    else:
        step = broken.step
        broken.step = lambda jobs: [StageError(reason="broken") for _ in jobs]
    speak(server, session)
    server.advance(200)
    assert outcomes(server) == {"failed": 1}
    assert server.stage("think").running == 0
    if stage == "think":
        broken.submit = submit
    else:
        broken.step = step
    server.advance(12_000)
    assert "error" not in session.client.types()
    assert outcomes(server) == {"failed": 1}
    assert session.client.of("response.done")[0]["response"]["status"] == "completed"
    settled(server)


def test_results_of_a_dropped_draft_are_ignored_when_they_come() -> None:
    server = serve(talk_s=0.4)
    session = server.connect()
    speak(server, session)
    server.advance(60)
    assert server.runners.runners[Role.TALK].load().running == 1
    session.event(type="response.cancel")
    server.advance(12_000)
    assert "".join(e["delta"] for e in session.client.of("response.output_audio_transcript.delta")) == TEXT
    settled(server)
