"""What people report of turns and interruptions on servers like this one, beyond the field cases (kind 3).

report                                            what goes wrong there
aplisay/llm-agent#74                              a noise at the call's beginning ends the greeting, and nobody speaks any more
livekit/agents#4039, vellum-assistant#41801       a noise ends a reply, and it is never taken up again
livekit/agents#4615                               … or is taken up although the user has spoken
pipecat-ai/pipecat#2147, #4579                    "are you still there?" while a function runs
pipecat-ai/pipecat#2741, CrestApps.Core#193       … or while what was made ahead still plays
pipecat-ai/pipecat#4967                           a turn that the client has ended ends once more, over the answer
openai-realtime-agents#19, esp-webrtc-solution#20 a typed message does not interrupt what is said
openai/openai-agents-python#1168, #3405           of two calls at once the second's result is never said
pipecat-ai/pipecat#3960, #2179                    … nor one that comes while the user is answered
openai/openai-agents-python#1912                  the safe words after a guardrail's cut are not said
"""

from __future__ import annotations

from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.config import BargeInSettings, Settings
from duplex.payloads import StageError
from duplex.protocol import TransportName
from duplex.units import ns_from_ms
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
LONG = " ".join(f"word{i}" for i in range(34))
"""Ten seconds."""
HELLO = "Hello, how can I help you on this day?"
WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
PARIS = 'call get_weather {"city": "Paris"}'
TIMEOUT = "input_audio_buffer.timeout_triggered"


def statuses(session: Session) -> list[str]:
    return [event["response"]["status"] for event in session.client.of("response.done")]


def said(session: Session) -> list[str]:
    """Return what each response said, as the conversation holds it."""
    items = [event["response"]["output"][0] for event in session.client.of("response.done")]
    return [item["content"][0]["transcript"] for item in items if item["type"] == "message"]


def detection(**fields: Any) -> dict[str, Any]:
    return {"type": "realtime", "audio": {"input": {"turn_detection": fields}}}


def noisy(*script: str, transcripts: tuple[str, ...] = ("",), **barge_in: Any) -> Server:
    """Return a server that hears sound, and these words in it."""
    settings = Settings(barge_in=BargeInSettings(**barge_in)) if barge_in else None
    return Server(SimOptions(vad="level", script=script, transcripts=transcripts), settings)


# A sound without words. ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
def test_a_reply_that_a_noise_has_cut_goes_on(transport: TransportName) -> None:
    server = noisy(LONG, "And so on.")
    session = server.connect(transport)
    session.type_text("go")
    server.advance(3000)
    session.say(900)
    server.advance(9000)
    assert statuses(session) == ["cancelled", "completed"]
    heard, rest = said(session)
    assert LONG.startswith(heard) and heard and rest == "And so on."
    *history, asked = server.stage("think").prompts[-1].messages
    assert [message.text for message in history] == ["go", heard]
    assert (asked.role, asked.text) == ("user", server.settings.barge_in.go_on_instructions)
    session.type_text("thanks")
    server.advance(3000)
    assert asked not in server.stage("think").prompts[-1].messages, "kept in no history"
    assert server.total("duplex_barge_in_total", outcome="noise") == 1
    server.check()


def test_it_does_not_go_on_where_it_is_not_known_that_there_were_no_words() -> None:
    server = noisy(LONG)
    session = server.connect()
    session.type_text("go")
    server.advance(3000)
    broken = [StageError(reason="it broke")]
    transcribe = server.stage("transcribe")
    transcribe.step = lambda jobs: broken * len(jobs)
    session.say(900)
    server.advance(9000)
    assert session.client.of("conversation.item.input_audio_transcription.failed")
    assert statuses(session) == ["cancelled"]
    assert not server.total("duplex_barge_in_total", outcome="noise")
    server.check()


def test_it_goes_on_once_for_the_noise_may_go_on_as_well() -> None:
    server = noisy(LONG, transcripts=("", "", "wait"))
    session = server.connect()
    session.type_text("go")
    for _ in range(2):
        server.advance(3000)
        session.say(900)
        server.advance(900)
    server.advance(6000)
    assert statuses(session) == ["cancelled", "cancelled"]
    session.say(900)
    server.advance(2500)
    assert len(session.client.of("response.created")) == 3, "words are answered as ever"
    server.check()


@pytest.mark.parametrize("noise_at_ms", [250, 500, 1200])
def test_a_greeting_that_a_noise_has_cut_is_given_again(noise_at_ms: int) -> None:
    server = noisy("Fine.")
    session = server.connect(wire={"type": "realtime", "duplex": {"greeting": {"text": HELLO}}})
    server.advance(noise_at_ms)
    session.say(500)
    server.advance(9000)
    assert statuses(session) == ["cancelled", "completed"]
    assert said(session)[1] == HELLO
    assert not server.stage("think").prompts
    server.check()


@pytest.mark.parametrize(
    "why", ["words", "the client answers", "it was said to its end", "it waits for a result", "set so"]
)
def test_it_does_not_go_on_where_nobody_wants_it(why: str) -> None:
    script = "Yes." if why == "it was said to its end" else LONG
    words = ("stop",) if why == "words" else ("",)
    server = noisy(script, "Well.", transcripts=words, go_on_instructions="" if why == "set so" else "Go on.")
    answers = why != "the client answers"
    session = server.connect(wire=detection(type="server_vad", create_response=answers) | {"tools": [WEATHER]})
    session.type_text(f"say and {PARIS}" if why == "it waits for a result" else "go")
    while not session.sounding():
        server.advance(20)
    server.advance(250 if why == "it was said to its end" else 1500)
    session.say(900)
    server.advance(9000)
    assert len(session.client.of("response.created")) == (2 if why == "words" else 1)
    assert all(message.text != "Go on." for prompt in server.stage("think").prompts for message in prompt.messages)
    server.check()


def test_it_does_not_go_on_when_words_follow_the_noise() -> None:
    """The words are spoken while it is not known yet that the noise had none."""
    server = Server(SimOptions(vad="level", script=(LONG, "Tea."), transcripts=("", "tea please"), transcribe_s=1.0))
    session = server.connect()
    session.type_text("go")
    server.advance(3000)
    session.say(900)
    while not session.client.of("input_audio_buffer.committed"):
        server.advance(10)
    session.say(1500)
    server.advance(9000)
    assert statuses(session) == ["cancelled", "completed"]
    assert server.stage("think").prompts[-1].messages[-1].text == "tea please"
    assert said(session)[1] == "Tea."
    server.check()


# Nobody speaks. ------------------------------------------------------------------------------------------------------


def test_while_a_function_runs_nobody_is_asked_whether_they_are_there() -> None:
    server = noisy("Are you there?")
    wire = detection(type="server_vad", idle_timeout_ms=5000) | {"tools": [WEATHER]}
    session = server.connect(wire=wire)
    session.type_text(PARIS)
    server.advance(12_000)
    session.say(300)  # a sound without words, as on any telephone line
    server.advance(12_000)
    assert not session.client.of(TIMEOUT)
    call = session.client.of("response.function_call_arguments.done")[0]["call_id"]
    session.event(
        type="conversation.item.create", item={"type": "function_call_output", "call_id": call, "output": "18"}
    )
    server.advance(5200)
    assert len(session.client.of(TIMEOUT)) == 1, "the client has its result and asks for nothing"
    server.check()


def test_a_call_that_the_user_has_spoken_past_holds_nobody_back() -> None:
    server = Server(SimOptions(vad="level", script=("Fine.",), transcripts=("never mind",)))
    wire = detection(type="server_vad", idle_timeout_ms=5000) | {"tools": [WEATHER]}
    session = server.connect(wire=wire)
    session.type_text(PARIS)
    server.advance(1500)
    session.say(900)
    server.advance(900 + 500 + 2000 + 5200)
    assert len(session.client.of(TIMEOUT)) == 1


def test_the_time_of_silence_begins_when_the_last_sound_has_played_out_however_early_it_was_made() -> None:
    server = Server(SimOptions(vad="level", script=(LONG, "Are you there?")))
    wire = detection(type="server_vad", idle_timeout_ms=5000) | {"duplex": {"lead_ms": "unlimited"}}
    session = server.connect("websocket", wire=wire)
    session.type_text("go")
    server.advance(3000)
    assert statuses(session) == ["completed"], "all of it was sent at once"
    first = session.client.at("response.output_audio.delta")
    server.advance(14_000)
    assert session.client.at(TIMEOUT) - first >= ns_from_ms(34 * 300 + 5000 - 100)


# A turn that something else has ended. -------------------------------------------------------------------------------


@pytest.mark.parametrize("at_ms", [300, 700, 1100])
def test_a_turn_that_the_client_has_ended_does_not_end_again(at_ms: int) -> None:
    """The client commits in the middle of a word and mutes: no second end comes while the answer is said."""
    server = Server(SimOptions(vad="level", script=(LONG,)))
    session = server.connect("websocket", wire=detection(type="server_vad"))
    session.say(2000)
    server.advance(at_ms)
    session.event(type="input_audio_buffer.commit")
    session._voice_until = 0  # muted: silence goes on
    session.event(type="response.create")
    server.advance(14_000)
    for kind in ("speech_started", "speech_stopped", "committed"):
        assert len(session.client.of(f"input_audio_buffer.{kind}")) == 1, kind
    assert statuses(session) == ["completed"]
    assert not session.client.of("error")
    server.check()


# Typed words. --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
@pytest.mark.parametrize("at_ms", [80, 1500, 9500])
def test_a_typed_message_interrupts_what_is_said(transport: TransportName, at_ms: int) -> None:
    """Cancel, clear, message, create in one write: also in the last second, when the response is done and still plays."""
    server = Server(SimOptions(script=(LONG, "Very well.")))
    session = server.connect(transport, wire={"type": "realtime", "duplex": {"lead_ms": 3000}})
    session.mute()
    session.type_text("go")
    server.advance(at_ms)
    session.event(type="response.cancel")
    if transport == "webrtc":
        session.event(type="output_audio_buffer.clear")
    session.type_text("stop")
    server.advance(9000)
    over = at_ms == 9500 and transport == "websocket"  # its end is sent ahead of the ear
    assert statuses(session) == ["completed" if over else "cancelled", "completed"]
    assert said(session)[1] == "Very well."
    refused = {event["error"]["code"] for event in session.client.of("error")}
    assert refused <= {"response_cancel_not_active"}
    server.check()


def test_a_guardrails_words_are_said_in_place_of_what_it_has_cut() -> None:
    server = Server(SimOptions(script=(LONG, "Let us talk of something else.")))
    session = server.connect("websocket")
    session.type_text("go")
    server.advance(1200)
    for force in ("response.cancel", "response.create"):
        session.event(type=force)
    server.advance(9000)
    assert statuses(session) == ["cancelled", "completed"]
    assert said(session)[1] == "Let us talk of something else."
    assert not session.client.of("error")


# What functions gave. ------------------------------------------------------------------------------------------------


def give(session: Session, call_id: str, output: str) -> None:
    """Tell a call's result and ask for a response, as each of several tools does by itself."""
    item = {"type": "function_call_output", "call_id": call_id, "output": output}
    session.event(type="conversation.item.create", item=item)
    session.event(type="response.create", event_id=output)


@pytest.mark.parametrize("apart_ms", [0, 30, 800])
def test_each_result_of_several_calls_is_said_though_each_asks_for_a_response(apart_ms: int) -> None:
    server = Server(SimOptions(script=("Fine.",)))
    session = server.connect("websocket", wire={"type": "realtime", "tools": [WEATHER]})
    session.mute()
    session.type_text(" ".join([PARIS] * 3))
    server.advance(2000)
    calls = [event["call_id"] for event in session.client.of("response.function_call_arguments.done")]
    for call, output in zip(calls, ("one", "two", "three"), strict=True):
        give(session, call, output)
        server.advance(apart_ms)
    server.advance(15_000)
    assert set(statuses(session)) == {"completed"}
    assert said(session)[-1] == "The function gave three."
    refused = [event["error"]["event_id"] for event in session.client.of("error")]
    assert refused == ([] if apart_ms == 800 else ["three"]), "one waits, and knows all that are there"
    known = [message.text for message in server.stage("think").prompts[-1].messages if message.role == "tool"]
    assert sorted(text for text in known if "not there yet" not in text) == ["one", "three", "two"]
    server.check()


def test_a_result_that_comes_while_the_user_is_answered_is_said_behind_that() -> None:
    server = Server(SimOptions(vad="level", script=(LONG,), transcripts=("how are you",)))
    session = server.connect(wire={"type": "realtime", "tools": [WEATHER]})
    session.type_text(PARIS)
    server.advance(1500)
    (call,) = [event["call_id"] for event in session.client.of("response.function_call_arguments.done")]
    session.say(900)
    server.advance(4000)
    assert session.sounding()
    give(session, call, "mild")
    session.event(type="response.create", event_id="again")
    server.advance(14_000)
    assert statuses(session) == ["completed"] * 3
    assert said(session)[-1] == "The function gave mild."
    assert [event["error"]["event_id"] for event in session.client.of("error")] == ["again"]
    server.check()
