"""Nothing goes on for ever: a turn of continuous sound, a session, the thinker's context (field cases C11, C29, C58)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.config import Settings
from duplex.payloads import Message
from duplex.session.context import estimate_tokens
from duplex.units import ns_from_ms, ns_from_seconds
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim


# Turns. -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interrupts", [True, False])
def test_c29_sound_that_does_not_end_is_committed_at_the_limit_and_the_client_told(interrupts: bool) -> None:
    server = Server()
    detection = {"type": "server_vad", "interrupt_response": interrupts}
    session = server.connect(wire={"type": "realtime", "audio": {"input": {"turn_detection": detection}}})
    ring = session.actor._microphone._ingress._ring.nbytes
    session.say(95_000)
    server.advance(110_000)
    committed = [when for when, event in session.client.events if event["type"] == "input_audio_buffer.committed"]
    assert len(committed) == 4
    for n, when in enumerate(committed[:3], 1):
        assert when <= ns_from_seconds(n * 30 + 1)
    limited = session.client.of("duplex.turn.limited")
    assert [event["item_id"] for event in limited] == [
        event["item_id"] for event in session.client.of("input_audio_buffer.committed")[:3]
    ]
    assert all(30_000 <= event["audio_ms"] <= 30_400 for event in limited)
    assert server.total("duplex_limits_total", limit="turn") == 3
    assert session.actor._microphone._ingress._ring.nbytes == ring
    assert session.actor.backlog_ms == 0
    if interrupts:  # one answer, and only when it is quiet at last
        assert len(session.client.of("response.created")) == 1
        assert session.sounding()[0] > ns_from_ms(95_000)
    assert session.client.types()[-1] == "output_audio_buffer.stopped"
    server.check()


def test_c29_what_was_said_before_the_sound_began_is_not_lost_and_nothing_is_heard_twice() -> None:
    server = Server(settings=Settings.model_validate({"turn": {"turn_ms_max": 5000}}))
    session = server.connect()
    session.say(12_000)
    server.advance(20_000)
    heard = [
        float(event["transcript"].split()[0])
        for event in session.client.of("conversation.item.input_audio_transcription.completed")
    ]
    assert len(heard) == 3
    assert sum(heard) == pytest.approx(12, abs=0.5)


# Sessions. ----------------------------------------------------------------------------------------------------------


def ending(length_s: int = 100, **more: Any) -> Settings:
    return Settings.model_validate({"session": {"length_s_max": length_s, "ending_warning_s": 20, **more}})


def test_a_session_is_warned_and_then_ended_with_a_reason() -> None:
    server = Server(settings=ending())
    session = server.connect()
    server.advance(99_000)
    (warning,) = session.client.of("duplex.session.ending")
    assert (warning["reason"], warning["seconds_left"]) == ("max_length", 20.0)
    assert session.client.at("duplex.session.ending") == ns_from_seconds(80)
    assert session.client.closed is None
    server.advance(1100)
    assert session.client.of("error")[-1]["error"]["code"] == "session_expired"
    assert session.client.closed == "expired"
    assert session.ended == [session.actor.session_id]
    assert server.total("duplex_limits_total", limit="session") == 1
    server.check()


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
def test_the_reply_that_plays_at_the_end_is_heard_to_its_end_and_no_other_begins(transport: Any) -> None:
    server = Server(settings=ending())
    session = server.connect(transport)
    server.advance(98_500)
    session.type_text("say something")
    server.advance(2000)
    session.event(type="response.cancel", response_id="none")  # the session is still served
    assert session.client.of("error")[-1]["error"]["code"] == "response_cancel_not_active"
    assert session.client.closed is None
    server.advance(8000)
    (done,) = session.client.of("response.done")
    assert done["response"]["status"] == "completed"
    assert session.client.closed == "expired"
    if transport == "webrtc":
        assert session.client.types()[-2:] == ["output_audio_buffer.stopped", "error"]
    server.check()


def test_a_reply_that_is_longer_than_the_grace_is_cut_to_what_was_heard() -> None:
    server = Server(SimOptions(vad="level", script=("word " * 100,)), settings=ending(ending_grace_s=3))
    session = server.connect()
    server.advance(98_500)
    session.type_text("tell me a story")
    server.advance(4600)
    (done,) = session.client.of("response.done")
    assert done["response"]["status"] == "cancelled"
    heard = done["response"]["output"][0]["content"][0]["transcript"].split()
    assert 12 <= len(heard) <= 16
    assert session.client.at("response.done") == ns_from_seconds(103)
    assert session.client.closed == "expired"
    server.check()


def test_behind_the_limit_nothing_new_is_answered() -> None:
    server = Server(SimOptions(vad="level", script=("word " * 30,)), settings=ending())
    session = server.connect(wire={"type": "realtime", "audio": {"input": {"turn_detection": {
        "type": "semantic_vad", "interrupt_response": False}}}})  # fmt: skip
    server.advance(97_000)
    session.type_text("tell me a story")
    server.advance(3100)
    session.say(800)
    server.advance(3000)
    session.event(type="response.cancel")
    session.event(type="response.create")
    assert session.client.of("error")[-1]["error"]["code"] == "session_expired"
    server.advance(1000)
    assert len(session.client.of("response.created")) == 1
    assert session.client.closed == "expired"


def test_without_a_greatest_length_nothing_is_waited_for() -> None:
    server = Server(settings=ending(0))
    session = server.connect()
    server.advance(5000)
    assert session.actor._core.next_deadline() is None
    assert session.client.closed is None


# The context. -------------------------------------------------------------------------------------------------------

ROOM = 400


def talk(server: Server, session: Session, turns: int) -> list[tuple[Message, ...]]:
    """Type turns; return the prompt of each."""
    prompts = []
    for n in range(turns):
        session.type_text(f"question {n}: " + "and so on " * 6)
        server.advance(1500)
        prompts.append(server.stage("think").prompts[-1].messages)
    return prompts


def test_c58_a_conversation_that_outgrows_the_context_is_answered_to_its_end() -> None:
    server = Server(SimOptions(vad="level", history_tokens=ROOM, script=("It is so.",)))
    session = server.connect(wire={"type": "realtime", "instructions": "The code word is heron."})
    prompts = talk(server, session, 60)
    assert len(session.client.of("response.done")) == 60
    assert {event["response"]["status"] for event in session.client.of("response.done")} == {"completed"}
    assert all(prompt[0].text == "The code word is heron." for prompt in prompts)
    assert all(
        prompt[1].role == "user" and prompt[-1].text.startswith(f"question {n}:") for n, prompt in enumerate(prompts)
    )
    assert max(sum(estimate_tokens(m.text) + 8 for m in prompt[1:]) for prompt in prompts) <= ROOM
    steps = session.client.of("duplex.context.trimmed")
    assert len(steps) == server.total("duplex_limits_total", limit="context")
    changes = sum(a[1] != b[1] for a, b in itertools.pairwise(prompts))
    assert 5 <= changes == len(steps) <= 12
    session.event(
        type="conversation.item.retrieve", item_id=session.client.of("conversation.item.added")[0]["item"]["id"]
    )
    assert session.client.of("conversation.item.retrieved")[0]["item"]["content"][0]["text"].startswith("question 0:")
    assert session.client.of("error") == []
    server.check()


def test_c58_silence_is_never_given_to_the_thinker() -> None:
    server = Server(SimOptions(vad="level", history_tokens=ROOM, transcripts=("short turn",), script=("Yes.",)))
    session = server.connect()
    for _ in range(12):
        session.say(600)
        server.advance(20_000)
    assert len(session.client.of("response.done")) == 12
    assert all(
        message.text in ("short turn", "Yes.")
        for prompt in server.stage("think").prompts
        for message in prompt.messages
    )


def test_c58_a_monologue_longer_than_the_context_is_answered_once_and_from_its_end() -> None:
    words = " ".join(f"word{n}" for n in range(60))
    options = SimOptions(vad="level", history_tokens=ROOM, transcripts=tuple(f"part {n} {words}" for n in range(10)))
    server = Server(options, Settings.model_validate({"turn": {"turn_ms_max": 5000}}))
    session = server.connect()
    session.say(48_000)
    server.advance(56_000)
    (done,) = session.client.of("response.done")
    assert done["response"]["status"] == "completed"
    assert len(session.client.of("input_audio_buffer.committed")) == 10
    (message,) = server.stage("think").prompts[-1].messages
    assert message.text.endswith(f"part 9 {words}")
    assert "part 0" not in message.text
    assert estimate_tokens(message.text) <= ROOM


def test_a_draft_is_made_from_the_same_trimmed_prompt_as_its_turn_and_is_adopted() -> None:
    words = "and so on " * 30
    server = Server(
        SimOptions(vad="level", history_tokens=ROOM, transcripts=tuple(f"turn {n} {words}" for n in range(12)))
    )
    session = server.connect()
    for _ in range(12):
        session.say(800)
        server.advance(8000)
    assert len(session.client.of("response.done")) == 12
    assert server.total("duplex_speculation_total", outcome="adopted") == 12
    assert server.total("duplex_speculation_total") == 12
    assert len(server.stage("think").prompts) == 12
    assert len(session.client.of("duplex.context.trimmed")) >= 2
    server.check()


def test_the_operator_may_give_the_thinker_less() -> None:
    settings = Settings.model_validate({"conversation": {"history_tokens_max": 100, "history_kept_share": 0.9}})
    server = Server(SimOptions(vad="level", history_tokens=ROOM, script=("It is so.",)), settings=settings)
    assert {len(prompt) for prompt in talk(server, server.connect(), 6)} == {1, 3}


# No microphone. -----------------------------------------------------------------------------------------------------


def test_c11_who_joins_without_a_microphone_types_and_is_heard_when_it_is_switched_on() -> None:
    server = Server(SimOptions(vad="level", transcripts=("can you hear me",)))
    session = server.connect()
    session.mute()
    for _ in range(2):
        session.type_text("hello")
        server.advance(10_000)
    assert [event["response"]["status"] for event in session.client.of("response.done")] == ["completed"] * 2
    assert len(session.sounding()) > 400
    began = server.world.now()
    session._mic_on = True
    session.say(1000)
    server.advance(9000)
    (started,) = session.client.of("input_audio_buffer.speech_started")
    assert session.client.at("input_audio_buffer.speech_started") <= began + ns_from_ms(300)
    assert started["item_id"] == session.client.of("input_audio_buffer.committed")[0]["item_id"]
    assert server.stage("think").prompts[-1].messages[-1].text == "can you hear me"
    assert len(session.client.of("response.done")) == 3
    assert session.client.of("error") == []
    server.check()
