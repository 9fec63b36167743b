"""The model speaks first: a text or words of its own, once, interruptible, and never into what has begun already."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.config import Settings
from duplex.payloads import Message
from duplex.session.effects import Submit
from duplex.session.messages import Connected
from duplex.units import ns_from_ms
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
HELLO = "Hello, this is the front desk, how can I help you today?"


def wire(greeting: Any, **more: Any) -> dict[str, Any]:
    return {"type": "realtime", "duplex": {"greeting": greeting}, **more}


def thought(session: Session) -> int:
    """Return how many jobs the thinker got."""
    return sum(isinstance(effect, Submit) and effect.job.stage == "think" for _, effect in session.effects)


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
def test_a_text_is_spoken_as_a_reply_of_its_own_and_stands_in_the_history(transport: Any) -> None:
    server = Server()
    session = server.connect(transport, wire({"text": HELLO}, instructions="be kind"))
    server.advance(6000)
    assert session.client.types()[0] == "session.created"
    (done,) = session.client.of("response.done")
    assert done["response"]["status"] == "completed"
    assert done["response"]["output"][0]["content"] == [{"type": "output_audio", "transcript": HELLO}]
    assert thought(session) == 0
    session.type_text("I lost my key")
    server.advance(4000)
    assert server.stage("think").prompts[-1].messages == (
        Message(role="system", text="be kind"),
        Message(role="assistant", text=HELLO),
        Message(role="user", text="I lost my key"),
    )
    server.check()


def test_it_comes_at_once_and_its_sound_soon() -> None:
    server = Server()
    session = server.connect(wire=wire({"text": HELLO}))
    server.advance(3000)
    delay = ns_from_ms(server.settings.session.greeting_delay_ms)
    assert session.client.at("response.created") == delay
    assert session.sounding()[0] <= delay + ns_from_ms(100)


def test_the_model_greets_in_its_own_words_and_the_asking_is_kept_nowhere() -> None:
    server = Server(SimOptions(vad="level", script=("Welcome to the shop.", "Of course.")))
    asked = wire({"instructions": "Greet the user and ask for the name."}, instructions="be kind")
    session = server.connect(wire=asked)
    server.advance(4000)
    assert server.stage("think").prompts[-1].messages == (
        Message(role="system", text="be kind"),
        Message(role="user", text="Greet the user and ask for the name."),
    )
    session.type_text("hi")
    server.advance(1000)
    assert server.stage("think").prompts[-1].messages == (
        Message(role="system", text="be kind"),
        Message(role="assistant", text="Welcome to the shop."),
        Message(role="user", text="hi"),
    )


def test_a_text_session_is_greeted_in_text() -> None:
    server = Server()
    session = server.connect(wire=wire({"text": HELLO}, output_modalities=["text"]))
    server.advance(1000)
    assert session.client.of("response.output_text.done")[0]["text"] == HELLO
    assert not session.sounding()


def test_it_is_interrupted_like_any_reply_and_the_history_holds_what_was_heard() -> None:
    server = Server(SimOptions(vad="level", transcripts=("stop please",)))
    session = server.connect(wire=wire({"text": HELLO}))
    server.advance(1500)
    session.say(800)
    server.advance(3000)
    assert session.client.of("response.done")[0]["response"]["status"] == "cancelled"
    said, answered = server.stage("think").prompts[-1].messages
    assert said.role == "assistant"
    assert HELLO.startswith(said.text)
    assert 10 < len(said.text) < len(HELLO)
    assert answered == Message(role="user", text="stop please")
    server.check()


def test_who_speaks_first_is_answered_and_not_greeted() -> None:
    server = Server(SimOptions(vad="level", transcripts=("good morning",)))
    session = server.connect(wire=wire({"text": HELLO}))
    session.say(1200)
    server.advance(9000)
    (prompt,) = {prompt.messages for prompt in server.stage("think").prompts}
    assert prompt == (Message(role="user", text="good morning"),)
    assert len(session.client.of("response.created")) == 1


def test_a_sound_that_is_no_speech_does_not_take_the_greeting_away() -> None:
    server = Server(SimOptions(vad="level", transcripts=("",)))
    session = server.connect(wire=wire({"text": HELLO}))
    session.say(400)
    server.advance(9000)
    (done,) = session.client.of("response.done")
    assert done["response"]["output"][0]["content"][0]["transcript"] == HELLO


def test_noise_over_its_first_moment_only_delays_it() -> None:
    server = Server(SimOptions(vad="level", transcripts=("",), vocode_s=1.5))
    session = server.connect(wire=wire({"text": HELLO}))
    server.advance(300)
    session.say(700)
    server.advance(40_000)
    statuses = [event["response"]["status"] for event in session.client.of("response.done")]
    assert statuses == ["cancelled", "completed"]
    assert not server.stage("think").prompts, "it asks for no answer to nothing"


def test_a_session_that_comes_back_is_not_greeted_again() -> None:
    server = Server()
    session = server.connect(wire=wire({"text": HELLO}))
    server.advance(1000)
    session.actor.post(Connected())
    server.advance(9000)
    session.actor.post(Connected())
    session.event(type="session.update", session=wire({"text": "Hello again."}))
    server.advance(3000)
    assert len(session.client.of("response.created")) == 1


def test_a_clients_first_update_is_obeyed_and_not_waited_for_longer() -> None:
    server = Server(settings=Settings.model_validate({"session": {"greeting_delay_ms": 2000}}))
    session = server.connect(wire=wire({"text": HELLO}))
    server.advance(100)
    session.event(type="session.update", session=wire({"text": "Good evening."}))
    server.advance(3000)
    assert session.client.at("response.created") == ns_from_ms(100)
    (done,) = session.client.of("response.done")
    assert done["response"]["output"][0]["content"][0]["transcript"] == "Good evening."


def test_an_update_brings_a_greeting_as_long_as_nothing_was_said_and_none_takes_it_away() -> None:
    server = Server()
    late, early, told = server.connect(), server.connect(wire=wire({"text": HELLO})), server.connect()
    early.event(type="session.update", session=wire("none"))
    told.type_text("hello")
    server.advance(12_000)
    assert late.client.of("response.created") == early.client.of("response.created") == []
    for item in told.client.of("conversation.item.done"):
        told.event(type="conversation.item.delete", item_id=item["item"]["id"])
    for session in (late, told):
        session.event(type="session.update", session=wire({"text": HELLO}))
    server.advance(6000)
    assert len(late.client.of("response.created")) == 1
    assert len(told.client.of("response.created")) == 1  # the answer


def test_a_model_in_lock_step_says_that_it_gives_none() -> None:
    server = Server(SimOptions(vad="level", form="tick"))
    session = server.connect(wire=wire({"text": HELLO}))
    server.advance(2000)
    (error,) = session.client.of("error")
    assert (error["error"]["code"], error["error"]["param"]) == ("unsupported_in_tick_mode", "session.duplex.greeting")
