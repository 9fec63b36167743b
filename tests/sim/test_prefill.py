"""What a whole session's thinker reads ahead while the user speaks, and that nobody waits for it or is told of it."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.config import Settings, TurnSettings
from duplex.payloads import Message
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
GROWING = ("I want two", "I want to book.", "I want to book a table", "I want to book a table, please.")
ANSWER = "One two three four five six seven eight nine ten."


def serve(prefill: bool = True, every_ms: int = 0, **options: Any) -> Server:
    settings = Settings(turn=TurnSettings(prefill=prefill, partial_every_ms=every_ms))
    defaults: dict[str, Any] = {"vad": "level", "transcribe_s": 0.03, "first_token_s": 0.03, "script": (ANSWER,)}
    return Server(SimOptions(**(defaults | options)), settings)


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages if message.role != "system"]


def read(server: Server) -> list[list[str]]:
    """Return what was read ahead, without instructions."""
    return [texts(prompt.messages) for prompt in server.stage("think").read]


def outcomes(server: Server) -> dict[str, int]:
    found = [labels["outcome"] for name, _, labels in server.measures if name == "duplex_prefill_total"]
    return {outcome: found.count(outcome) for outcome in found}


def settled(server: Server) -> None:
    server.check()
    assert server.runners.idle
    assert server.stage("think").running == 0


def converse(server: Server, session: Session, *spoken_ms: int) -> None:
    for ms in spoken_ms:
        session.say(ms)
        server.advance(ms + 7000)


def test_the_conversation_is_read_as_the_user_begins_to_speak() -> None:
    server = serve(transcripts=("Hello.", "And now?"))
    session = server.connect()
    session.event(type="session.update", session={"type": "realtime", "instructions": "Be brief."})
    converse(server, session, 900, 900)
    first, second = server.stage("think").read
    assert first.messages == (Message(role="system", text="Be brief."),)
    assert second.messages == (
        *first.messages,
        Message(role="user", text="Hello."),
        Message(role="assistant", text=ANSWER),
    )
    assert server.stage("think").prompts[-1].messages[:-1] == second.messages
    assert outcomes(server) == {"read": 2}
    settled(server)


def test_words_are_read_as_they_become_known() -> None:
    server = serve(every_ms=700, partials=GROWING[:3], transcripts=GROWING[3:])
    converse(server, server.connect(), 2500)
    assert read(server)[-3:] == [["I want"], ["I want to"], ["I want to book a"]]
    assert texts(server.stage("think").prompts[-1].messages) == ["I want to book a table, please."]
    settled(server)


def test_after_an_interruption_the_history_is_read_as_it_was_heard() -> None:
    server = serve(transcripts=("Hello.", "Stop it."), script=(" ".join([ANSWER] * 5),))
    session = server.connect()
    session.say(900)
    server.advance(3500)
    session.say(1500)
    server.advance(25_000)
    hello, heard = read(server)[-1]
    assert hello == "Hello." and 0 < len(heard) < len(ANSWER) * 2
    assert texts(server.stage("think").prompts[-1].messages)[:2] == [hello, heard]
    settled(server)


@pytest.mark.parametrize("parallel", [1, 64])
@pytest.mark.parametrize("pausable", [True, False])
def test_it_ends_when_somebody_elses_reply_comes_and_delays_it_by_nothing(parallel: int, pausable: bool) -> None:
    def answered(prefill: bool) -> int:
        server = serve(prefill, parallel=parallel, pausable=pausable, first_token_s=0.3)
        speaker, other = server.connect(), server.connect()
        speaker.event(type="session.update", session={"type": "realtime", "instructions": "Be brief."})
        speaker.say(1500)
        server.advance(300)
        assert server.stage("think").running == int(prefill)
        other.type_text("go")
        assert server.stage("think").running == 1
        server.advance(12_000)
        assert outcomes(server) == ({"preempted": 1} if prefill else {})
        assert len(speaker.client.of("response.done")) == len(other.client.of("response.done")) == 1
        settled(server)
        return other.client.at("output_audio_buffer.started")

    assert answered(True) == answered(False)


def test_a_thinker_that_has_work_is_not_asked_to_read_ahead() -> None:
    server = serve(first_token_s=1.0)
    speaker, other = server.connect(), server.connect()
    speaker.event(type="session.update", session={"type": "realtime", "instructions": "Be brief."})
    other.type_text("go")
    speaker.say(900)
    server.advance(12_000)
    assert outcomes(server) == {"busy": 1}
    assert read(server) == []
    settled(server)


def test_one_that_is_under_way_when_the_reply_begins_is_taken_back() -> None:
    server = serve(first_token_s=1.5)
    session = server.connect()
    session.event(type="session.update", session={"type": "realtime", "instructions": "Be brief."})
    converse(server, session, 600)
    assert outcomes(server) == {"dropped": 1}
    assert len(session.client.of("response.done")) == 1
    settled(server)


def test_what_the_client_is_told_and_when_is_the_same_with_and_without() -> None:
    def told(prefill: bool) -> list[tuple[int, str]]:
        server = serve(prefill, every_ms=700, partials=GROWING[:3], transcripts=GROWING[3:])
        session = server.connect()
        converse(server, session, 1500, 400, 2500)
        settled(server)
        return [(when, event["type"]) for when, event in session.client.events]

    assert told(True) == told(False)


@pytest.mark.parametrize("how", ["setting", "billed", "no answers", "push to talk"])
def test_it_is_off_where_it_is_not_wanted(how: str) -> None:
    server = serve(how != "setting")
    if how == "billed":
        spec = server.stage("think").spec
        object.__setattr__(spec, "prefills", False)
    detection = {"no answers": {"type": "semantic_vad", "create_response": False}, "push to talk": None}
    wire = {"type": "realtime", "instructions": "Be brief."}
    if how in detection:
        wire["audio"] = {"input": {"turn_detection": detection[how]}}  # type: ignore[assignment]
    session = server.connect(wire=wire)
    converse(server, session, 900)
    assert read(server) == [] and outcomes(server) == {}
    settled(server)
