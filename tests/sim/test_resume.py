"""A session whose client goes away and comes back: what it keeps, what it says, and what it does not do meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.payloads import Prompt, Role
from duplex.session.effects import Submit
from duplex.units import MonoNs, ns_from_ms

from .world import Client, Server, Session

pytestmark = pytest.mark.sim

ASKS = {"type": "realtime", "duplex": {"resume": True}}
STORY = "One two three four five six seven eight nine ten."


def leave(session: Session, quiet_ms: float = 0) -> None:
    """Lose the connection; the microphone falls silent with it."""
    session.mute()
    session.actor.detach(MonoNs(ns_from_ms(quiet_ms)))


def come_back(session: Session) -> Client:
    """Connect anew; returns what the client gets from then on."""
    session.client = Client(world=session.server.world)
    session.actor.attach(session.client)
    session._mic_on = True
    session.actor.channel_open()
    return session.client


def prompts(session: Session) -> list[list[str]]:
    jobs = [
        effect.job for _, effect in session.effects if isinstance(effect, Submit) and effect.job.stage is Role.THINK
    ]
    return [[message.text for message in job.payload.messages] for job in jobs if isinstance(job.payload, Prompt)]


def texts(client: Client) -> list[str]:
    items = [event for event in client.of("conversation.item.done") if event.get("duplex", {}).get("restored")]
    return [_words(event["item"]["content"][0]) for event in items]


def _words(content: dict[str, Any]) -> str:
    return str(content.get("transcript") or content.get("text") or "")


def test_what_was_heard_is_kept_and_what_was_not_is_not_said_again() -> None:
    server = Server(SimOptions(vad="level", script=(STORY, "Understood.")))
    session = server.connect(wire=ASKS)
    session.type_text("Count for me.")
    server.advance(1500)
    assert session.sounding()
    leave(session)
    left_at = server.world.now()
    server.advance(5000)
    assert [when for when in session.sounding() if when > left_at] == [], "nothing is said to nobody"
    client = come_back(session)
    assert client.types()[:3] == ["session.created", "conversation.created", "duplex.session.resumed"]
    assert client.of("duplex.session.resumed")[0]["items"] == 2
    asked, heard = texts(client)
    assert asked == "Count for me."
    assert heard
    assert STORY.startswith(heard)
    assert heard != STORY
    server.advance(3000)
    assert "response.created" not in client.types(), "an answer that was begun to be heard is not given again"
    session.type_text("Go on.")
    server.advance(3000)
    assert prompts(session)[-1] == ["Count for me.", heard, "Go on."]
    server.check()


def test_what_left_for_a_client_that_was_gone_was_not_heard() -> None:
    def heard(quiet_ms: float) -> str:
        server = Server(SimOptions(vad="level", script=(STORY,)))
        session = server.connect(wire=ASKS)
        session.type_text("Count.")
        server.advance(2500)
        leave(session, quiet_ms)
        return texts(come_back(session))[1]

    assert len(heard(1500)) < len(heard(0))
    assert heard(10_000) == ""


def test_a_turn_cut_off_by_the_loss_is_kept_and_not_answered_by_itself() -> None:
    server = Server(SimOptions(vad="level", transcripts=("What is the capital of",)))
    session = server.connect(wire=ASKS)
    session.say(5000)
    server.advance(1500)
    assert "input_audio_buffer.speech_started" in session.client.types()
    leave(session)
    session.say(0)
    server.advance(3000)
    client = come_back(session)
    server.advance(3000)
    assert texts(client) == ["What is the capital of"]
    assert prompts(session) == []
    assert "response.created" not in client.types()
    server.check()


def test_a_turn_that_was_over_is_answered_on_return() -> None:
    server = Server(SimOptions(vad="level", transcripts=("Are you there?",), first_token_s=2.0, script=("Yes.",)))
    session = server.connect(wire=ASKS)
    session.say(1000)
    server.advance(2000)
    assert "input_audio_buffer.committed" in session.client.types()
    assert session.sounding() == []
    leave(session)
    server.advance(10_000)
    assert session.sounding() == []
    client = come_back(session)
    server.advance(6000)
    assert session.sounding()
    assert [done["response"]["status"] for done in client.of("response.done")] == ["completed"]
    assert prompts(session)[-1] == ["Are you there?"]
    server.check()


def test_no_stage_works_for_a_session_that_waits() -> None:
    server = Server(SimOptions(vad="level", script=(STORY,)))
    session = server.connect(wire=ASKS)
    session.type_text("Count.")
    server.advance(1500)
    leave(session)
    server.advance(100)
    before = len(server.spans)
    server.advance(30_000)
    assert len(server.spans) == before
    assert server.runners.idle
    session.actor.closed("expired")
    assert session.ended == [session.actor.session_id]
    server.check()


def test_a_return_before_the_loss_is_noticed_cuts_as_well() -> None:
    server = Server(SimOptions(vad="level", script=(STORY,)))
    session = server.connect(wire=ASKS)
    session.type_text("Count.")
    server.advance(1500)
    leave(session)
    returned_at = server.world.now()
    client = come_back(session)
    server.advance(2000)
    assert [when for when in session.sounding() if when > returned_at] == []
    assert client.of("duplex.session.resumed")
    numbers = [event["event_id"] for _, event in client.events]
    assert numbers == sorted(numbers)
    server.check()


def test_what_was_asked_for_behind_a_call_is_made_as_it_was_asked_for() -> None:
    server = Server(SimOptions(vad="level"))
    tool = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
    session = server.connect(wire=ASKS | {"tools": [tool]})
    session.mute()
    session.type_text("say and call get_weather {}")
    while not (calls := session.client.of("response.function_call_arguments.done")):
        server.advance(20)
    output = {"type": "function_call_output", "call_id": calls[0]["call_id"], "output": "18 degrees"}
    session.event(type="conversation.item.create", item=output)
    session.event(type="response.create", response={"metadata": {"of": "the result"}})
    leave(session)
    server.advance(2000)
    client = come_back(session)
    server.advance(4000)
    (done,) = client.of("response.done")
    assert (done["response"]["status"], done["response"]["metadata"]) == ("completed", {"of": "the result"})
    server.check()
