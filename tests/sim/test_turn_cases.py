"""Field cases of turns and barge-in (kind 3), on simulated time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.config import BargeInSettings, Settings
from duplex.units import ns_from_ms
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
LONG = " ".join(f"word{i}" for i in range(34))
"""Ten seconds."""
STARTED, STOPPED = "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped"


def detection(**fields: Any) -> dict[str, Any]:
    return {"type": "realtime", "audio": {"input": {"turn_detection": fields or None}}}


def statuses(session: Session) -> list[str]:
    return [event["response"]["status"] for event in session.client.of("response.done")]


def test_c28_a_cancel_between_two_creates_ends_the_first_and_runs_the_second() -> None:
    """C28: `create A, cancel, create B` in one write: A is cancelled, B runs to its end, and only B sounds."""
    server = Server(SimOptions(vad="level", script=("One two three.",), first_token_s=0.05, talk_s=0.01, vocode_s=0.01))
    for i in range(200):
        session = server.connect()
        server.advance(i % 17)
        for number in ("A", "cancel", "B"):
            if number == "cancel":
                session.event(type="response.cancel")
            else:
                session.event(type="response.create", response={"metadata": {"n": number}})
        server.advance(2000)
        turns = [
            (event["type"].removeprefix("response."), event["response"]["metadata"]["n"], event["response"]["status"])
            for event in session.client.of("response.created", "response.done")
        ]
        assert turns == [
            ("created", "A", "in_progress"), ("done", "A", "cancelled"), ("created", "B", "in_progress"), ("done", "B", "completed"),
        ]  # fmt: skip
        sounding = {event["response_id"] for event in session.client.of("output_audio_buffer.started")}
        assert sounding == {session.client.of("response.created")[1]["response"]["id"]}
        session.leave()
    server.check()


def test_c28_a_cancel_of_a_reply_that_is_over_is_an_error_and_nothing_else() -> None:
    """C28: the id of a finished reply does not touch the one that runs."""
    server = Server(SimOptions(vad="level", script=("One two.", LONG)))
    session = server.connect()
    session.type_text("first")
    server.advance(2000)
    first = session.client.of("response.done")[0]["response"]["id"]
    session.type_text("second")
    server.advance(1000)
    session.event(type="response.cancel", response_id=first)
    server.advance(14_000)
    assert [event["error"]["code"] for event in session.client.of("error")] == ["response_cancel_not_active"]
    assert statuses(session) == ["completed", "completed"]


def off_and_on(server: Server, session: Session) -> None:
    session.event(type="session.update", session=detection())
    server.advance(5000)
    session.event(type="session.update", session=detection(type="semantic_vad"))


def cleared(server: Server, session: Session) -> None:
    session.event(type="input_audio_buffer.clear")


def mic_stops(server: Server, session: Session) -> None:
    session.mute()
    server.advance(5000)


def sharper(server: Server, session: Session) -> None:
    session.event(type="session.update", session=detection(type="server_vad", threshold=0.7))


@pytest.mark.parametrize("script", [off_and_on, cleared, mic_stops, sharper])
@pytest.mark.parametrize("after_ms", range(40, 940, 90))
def test_c30_every_speech_started_has_its_end(script: Callable[[Server, Session], None], after_ms: int) -> None:
    """C30: detection off and on, a clear, a microphone that stops, other limits: pairs match, nothing is answered late."""
    server = Server()
    session = server.connect()
    session.say(max(after_ms, 500))
    server.advance(after_ms)
    script(server, session)
    server.advance(3000)
    spoken = [(event["type"], event["item_id"]) for event in session.client.of(STARTED, STOPPED)]
    assert len(spoken) % 2 == 0
    for (began, item), (ended, same) in zip(spoken[::2], spoken[1::2], strict=True):
        assert (began, ended, item) == (STARTED, STOPPED, same)
    before = len(session.client.of("response.created"))
    assert before <= 1
    server.advance(5000)
    assert len(session.client.of("response.created")) == before
    server.check()


def test_c32_a_voice_stops_what_still_plays_of_a_reply_that_is_done() -> None:
    """C32: ten seconds made at once, `response.done` long sent, the user speaks at three: it is flushed and truncated."""
    settings = Settings()
    pacing = settings.pacing.model_copy(update={"lead_ms_min": 20_000})
    server = Server(SimOptions(vad="level", script=(LONG,)), settings.model_copy(update={"pacing": pacing}))
    session = server.connect()
    session.type_text("go on")
    server.advance(3000)
    assert statuses(session) == []  # words follow their sound, so the reply's end does as well
    assert server.stage("vocode").replies == 1
    made = sum(1 for span in server.spans if span.stage == "vocode")
    server.advance(500)
    assert sum(1 for span in server.spans if span.stage == "vocode") == made, "all of it was made"
    said_at = server.world.now()
    session.say(1000)
    server.advance(1000)
    confirmed = session.client.at(STARTED)
    assert session.sounding()[-1] - confirmed <= ns_from_ms(150)
    assert confirmed - said_at <= ns_from_ms(450)
    assert session.client.of("output_audio_buffer.cleared")
    sounded_ms = 20 * len(session.sounding())
    truncated = session.client.of("conversation.item.truncated")[0]["audio_end_ms"]
    assert truncated == pytest.approx(sounded_ms, abs=100)
    server.check()


def test_c32_a_websocket_reply_that_is_done_is_cut_where_the_client_is() -> None:
    """C32: on WebSocket `response.done` comes with the last delta, seconds ahead of the ear."""
    server = Server(SimOptions(vad="level", script=(LONG,)))
    session = server.connect("websocket", wire={"type": "realtime", "duplex": {"lead_ms": "unlimited"}})
    session.type_text("go on")
    server.advance(3000)
    assert statuses(session) == ["completed"]
    first = session.client.at("response.output_audio.delta")
    session.say(1000)
    server.advance(3000)
    assert statuses(session)[0] == "completed"
    cut = session.client.at(STARTED)
    heard = server.stage("think").prompts[-1].messages[1].text.split()
    assert len(heard) == pytest.approx((cut - first) / 1e6 / 300, abs=1.1)
    assert len(heard) < len(LONG.split())
    server.check()


@pytest.mark.parametrize(("pause_ms", "turns"), [(350, 1), (550, 2), (900, 2)])
def test_c33_one_reply_for_each_finished_turn(pause_ms: int, turns: int) -> None:
    """C33: "I want to book" – pause – "a table" at 500 ms of silence: what was answered too early is taken back."""
    server = Server(SimOptions(vad="level", transcripts=("I want to book", "a table"), first_token_s=1.2))
    session = server.connect(wire=detection(type="server_vad", silence_duration_ms=500))
    if turns == 1:
        server.stage("transcribe")._transcripts.clear()
    session.say(800)
    server.advance(800 + pause_ms)
    session.say(600)
    server.advance(9000)
    assert len(session.client.of("input_audio_buffer.committed")) == turns
    assert statuses(session).count("completed") == 1
    assert statuses(session).count("cancelled") == len(statuses(session)) - 1 <= turns - 1
    if turns == 2:
        assert server.stage("think").prompts[-1].messages[-1].text == "I want to book a table"
    server.check()


def test_c33_the_clients_own_commit_and_create_make_no_second_reply() -> None:
    """C33: a client that also commits and asks at the end gets one reply and errors that say why."""
    server = Server(SimOptions(vad="level"))
    session = server.connect(wire=detection(type="server_vad", silence_duration_ms=500))
    session.say(800)
    server.advance(800 + 560)
    session.event(type="input_audio_buffer.commit")
    session.event(type="response.create")
    server.advance(8000)
    assert statuses(session) == ["completed"]
    codes = [event["error"]["code"] for event in session.client.of("error")]
    assert codes == ["input_audio_buffer_commit_empty", "conversation_already_has_active_response"]
    server.check()


@pytest.mark.parametrize("first_token_s", [0.0, 1.2])
def test_c33_a_function_is_called_once_though_its_sentence_has_a_pause(first_token_s: float) -> None:
    """C33: answered in its pause, the sentence goes on: the call is taken back before it was told, or stands and is known."""
    asked = 'call get_weather {"city": "Paris"}'
    server = Server(SimOptions(vad="level", transcripts=(asked, "please"), first_token_s=first_token_s))
    tool = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
    session = server.connect(wire=detection(type="server_vad", silence_duration_ms=500) | {"tools": [tool]})
    session.say(800)
    server.advance(800 + 550)
    session.say(600)
    server.advance(9000)
    assert len(session.client.of("input_audio_buffer.committed")) == 2
    assert len(session.client.of("response.function_call_arguments.done")) == 1
    told = server.stage("think").prompts[-1].messages
    assert any(message.calls for message in told) == (first_token_s == 0.0)
    assert statuses(session) == ["completed" if first_token_s == 0.0 else "cancelled", "completed"]
    server.check()


@pytest.mark.parametrize("noise_at_ms", range(0, 200, 10))
def test_c34_noise_after_a_push_to_talk_commit_belongs_to_the_next_buffer(noise_at_ms: int) -> None:
    """C34: detection off, two seconds of speech, commit, 150 ms of breath, create: that speech is answered, silently heard."""
    server = Server(SimOptions(vad="level", transcribe_s=0.1))
    session = server.connect(wire=detection())
    session.say(2000)
    server.advance(2000)
    session.event(type="input_audio_buffer.commit")
    server.advance(noise_at_ms)
    session.say(150)
    server.advance(150)
    session.event(type="response.create")
    server.advance(8000)
    assert statuses(session) == ["completed"]
    assert not session.client.of(STARTED, STOPPED)
    texts = [
        event["transcript"] for event in session.client.of("conversation.item.input_audio_transcription.completed")
    ]
    assert texts == ["2.0 seconds of speech"]
    server.check()


# Words confirm. -----------------------------------------------------------------------------------------------------


def listening(said: str, **changes: Any) -> tuple[Server, Session]:
    """Return a session whose reply sounds, and whose interruptions are confirmed by their words: `said` is heard."""
    settings = Settings(barge_in=BargeInSettings(confirm="semantic", **changes))
    options = SimOptions(vad="level", script=(LONG,), transcripts=(said,), transcribe_s=0.1)
    server = Server(options, settings)
    session = server.connect()
    session.type_text("go on")
    server.advance(2100)
    return server, session


@pytest.mark.parametrize("said", ["Okay.", "Mm-hm.", "Yeah, I see.", ""])
def test_a_backchannel_withholds_the_reply_and_lets_it_go_on_from_a_word(said: str) -> None:
    server, session = listening(said)
    session.say(450)
    server.advance(14_000)
    assert statuses(session) == ["completed"]
    assert not session.client.of(STARTED)
    assert server.total("duplex_barge_in_total", outcome="backchannel" if said else "refused") == 1
    assert len(session.sounding()) * 20 == pytest.approx(34 * 300, abs=340)
    server.check()


@pytest.mark.parametrize(("said", "ms"), [("Wait.", 230), ("No, no.", 400), ("the blue one", 420)])
def test_words_that_take_the_floor_cut_at_the_pause(said: str, ms: int) -> None:
    server, session = listening(said)
    onset = server.world.now()
    session.say(ms)
    server.advance(ms + 64 + 100 + 120)
    assert statuses(session) == ["cancelled"]
    server.advance(3000)
    assert server.stage("think").prompts[-1].messages[-1].text == said
    assert session.client.of(STARTED)[0]["item_id"] == session.client.of(STOPPED)[0]["item_id"]
    assert session.client.at(STARTED) - onset <= ns_from_ms(ms + 300)
    server.check()


def test_a_voice_that_goes_on_is_withheld_early_and_cut_whatever_it_says() -> None:
    server, session = listening("yeah yeah yeah yeah")
    onset = server.world.now()
    session.say(1500)
    server.advance(1000)
    assert session.sounding()[-1] - onset <= ns_from_ms(256 + 80)
    assert statuses(session) == ["cancelled"]
    server.check()


def test_words_that_never_come_leave_it_to_the_voice() -> None:
    server, session = listening("Okay.")
    server.world.costs["transcribe"] = lambda: 60.0
    session.say(500)
    server.advance(500 + 1500)
    assert statuses(session) == ["cancelled"]


def test_on_websocket_words_are_not_waited_for() -> None:
    settings = Settings(barge_in=BargeInSettings(confirm="semantic"))
    server = Server(SimOptions(vad="level", script=(LONG,), transcripts=("Okay.",)), settings)
    session = server.connect("websocket")
    session.type_text("go on")
    server.advance(2100)
    onset = server.world.now()
    session.say(600)
    server.advance(600)
    assert session.client.at(STARTED) - onset <= ns_from_ms(430)
