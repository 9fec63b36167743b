"""Whole conversations on simulated time: voice turns, text turns, push to talk, both transports."""

import base64

import numpy as np
import pytest
from duplex_models.sim import SimOptions

from duplex.units import ns_from_ms
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
VOICE_TURN = [
    "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", "input_audio_buffer.committed",
    "conversation.item.added", "conversation.item.done", "conversation.item.input_audio_transcription.delta",
    "conversation.item.input_audio_transcription.completed", "response.created", "rate_limits.updated",
    "response.output_item.added", "conversation.item.added", "response.content_part.added",
]  # fmt: skip
ENDINGS = [
    "response.output_audio.done", "response.output_audio_transcript.done", "response.content_part.done",
    "response.output_item.done", "conversation.item.done", "response.done",
]  # fmt: skip


def without_deltas(session: Session) -> list[str]:
    skipped = {"response.output_audio.delta", "response.output_audio_transcript.delta", "duplex.metrics"}
    return [kind for kind in session.client.types()[2:] if kind not in skipped]


def test_a_voice_turn_on_webrtc_in_the_wires_order() -> None:
    server = Server()
    session = server.connect()
    server.advance(500)
    session.say(1500)
    server.advance(9000)
    assert without_deltas(session) == [
        *VOICE_TURN,
        "output_audio_buffer.started",
        *ENDINGS,
        "output_audio_buffer.stopped",
    ]
    assert server.total("duplex_underruns_total") == 0
    server.check()


def test_a_voice_turn_on_websocket_ends_after_its_last_audio() -> None:
    server = Server()
    session = server.connect("websocket")
    server.advance(500)
    session.say(1500)
    server.advance(9000)
    assert without_deltas(session) == [*VOICE_TURN, *ENDINGS]
    kinds = session.client.types()
    assert kinds.index("response.output_audio.done") > max(
        i for i, kind in enumerate(kinds) if kind == "response.output_audio.delta"
    )
    pcm = b"".join(base64.b64decode(e["delta"]) for e in session.client.of("response.output_audio.delta"))
    words = len(server.options.script[0].split())
    assert len(pcm) / 2 / 24_000 == pytest.approx(words * 0.3)


def test_the_same_seed_gives_the_same_trace_twice() -> None:
    def trace() -> list[tuple[int, str]]:
        server = Server(SimOptions(vad="level", transcribe_s=0.1, vocode_s=0.03), seed=3)
        session = server.connect()
        server.advance(300)
        session.say(900)
        server.advance(2600)
        session.say(700)
        server.advance(6000)
        return [(when, str(event)) for when, event in session.client.events]

    assert trace() == trace()


def test_the_thinker_is_asked_over_the_conversation_as_heard() -> None:
    server = Server(SimOptions(vad="level", transcripts=("first question", "second question")))
    session = server.connect(wire={"type": "realtime", "instructions": "be kind"})
    session.say(800)
    server.advance(7500)
    session.say(800)
    server.advance(3000)
    messages = server.stage("think").prompts[-1].messages
    assert [(m.role, m.text) for m in messages] == [
        ("system", "be kind"), ("user", "first question"), ("assistant", server.options.script[0]),
        ("user", "second question"),
    ]  # fmt: skip


def test_a_typed_turn_is_answered_aloud_before_any_audio_came_in() -> None:
    server = Server()
    session = server.connect()
    session.mute()
    session.type_text("hello")
    server.advance(7000)
    assert len(session.sounding()) > 200
    assert session.client.types()[-1] == "output_audio_buffer.stopped"


def test_text_only_replies_have_no_audio() -> None:
    server = Server()
    session = server.connect(wire={"type": "realtime", "output_modalities": ["text"]})
    session.type_text("hello")
    server.advance(3000)
    text = "".join(event["delta"] for event in session.client.of("response.output_text.delta"))
    assert text == server.options.script[0]
    assert not session.sounding()
    assert session.client.of("response.done")[0]["response"]["status"] == "completed"


def test_push_to_talk_has_no_speech_events_and_answers_when_asked() -> None:
    server = Server()
    session = server.connect(wire={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
    session.say(1000)
    server.advance(1500)
    session.event(type="input_audio_buffer.commit")
    session.say(150)  # C34: noise behind the commit belongs to the next buffer
    session.event(type="response.create")
    server.advance(7000)
    kinds = session.client.types()
    assert "input_audio_buffer.speech_started" not in kinds
    assert kinds.count("response.done") == 1
    assert session.client.of("response.done")[0]["response"]["status"] == "completed"


def test_a_pause_inside_a_sentence_makes_one_turn_when_the_model_is_unsure() -> None:
    server = Server(SimOptions(vad="level", end_probability=0.1))
    session = server.connect()
    session.say(800)
    server.advance(800 + 900)
    session.say(800)
    server.advance(6000)
    assert session.client.types().count("response.created") == 1
    assert session.client.types().count("input_audio_buffer.committed") == 1


def test_going_on_before_the_first_audio_cancels_the_early_reply_and_keeps_both_parts() -> None:
    server = Server(SimOptions(vad="level", first_token_s=1.0, transcripts=("I want to book", "a table")))
    session = server.connect()
    session.say(800)
    server.advance(800 + 550)
    session.say(800)
    server.advance(9000)
    done = session.client.of("response.done")
    assert [event["response"]["status"] for event in done] == ["cancelled", "completed"]
    assert server.stage("think").prompts[-1].messages[-1].text == "I want to book a table"
    server.check()


def test_a_turn_without_words_is_not_answered() -> None:
    server = Server(SimOptions(vad="level", transcripts=("",)))
    session = server.connect()
    session.say(500)
    server.advance(3000)
    assert session.client.of("conversation.item.input_audio_transcription.completed")[0]["transcript"] == ""
    assert "response.created" not in session.client.types()


def test_continuous_sound_is_committed_at_the_greatest_length() -> None:
    server = Server()
    session = server.connect(wire={"type": "realtime", "audio": {"input": {"turn_detection": {
        "type": "server_vad", "interrupt_response": False}}}})  # fmt: skip
    session.say(65_000)
    server.advance(70_000)
    assert session.client.types().count("input_audio_buffer.committed") >= 2
    server.check()


def test_media_that_stops_mid_word_ends_the_turn() -> None:
    server = Server()
    session = server.connect()
    session.say(2000)
    server.advance(1000)
    session.mute()
    server.advance(3000)
    assert session.client.types().count("input_audio_buffer.speech_stopped") == 1
    assert "response.created" in session.client.types()


def test_turn_detection_switched_off_mid_speech_completes_the_pair_and_wakes_up_clean() -> None:
    server = Server()
    session = server.connect()
    session.say(4000)
    server.advance(500)
    session.event(type="session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
    server.advance(5000)
    session.event(
        type="session.update",
        session={"type": "realtime", "audio": {"input": {"turn_detection": {"type": "server_vad"}}}},
    )
    server.advance(3000)
    kinds = session.client.types()
    assert kinds.count("input_audio_buffer.speech_started") == kinds.count("input_audio_buffer.speech_stopped") == 1
    assert "response.created" not in kinds
    server.check()


def test_the_text_of_a_clause_comes_with_its_sound_not_ahead_of_it() -> None:
    server = Server(SimOptions(vad="level", script=("One two three. " * 6,), vocode_s=0.05))
    session = server.connect()
    session.type_text("go")
    server.advance(14_000)
    texts = [
        (when, event["delta"]) for when, event in session.client.events if event["type"].endswith("transcript.delta")
    ]
    assert len(texts) >= 4
    first_sound = session.sounding()[0]
    words = 0
    for when, text in texts:
        due = first_sound + ns_from_ms(300 * words)
        assert due - ns_from_ms(900) <= when <= due + ns_from_ms(260)
        words += len(text.split())


def test_an_idle_session_sends_nothing_and_computes_nothing_but_vad() -> None:
    server = Server()
    session = server.connect()
    server.advance(5000)
    assert all(pcm is None for _, pcm, _ in session.packets)
    stages = {labels["stage"] for name, _, labels in server.measures if name == "duplex_stage_compute_seconds"}
    assert stages == {"vad"}
    assert np.abs(session.heard()).max() == 0


def test_the_models_time_is_hidden_in_the_silence_that_is_waited_anyway() -> None:
    server = Server(SimOptions(vad="level", transcribe_s=0.1, end_of_turn_s=0.08))
    session = server.connect()
    session.say(960)
    server.advance(3000)
    assert session.client.at("response.created") - ns_from_ms(960) <= ns_from_ms(
        server.settings.turn.first_look_ms + 32 + 20
    )


def test_a_short_pause_takes_back_what_was_begun_and_the_whole_turn_is_transcribed() -> None:
    server = Server(SimOptions(vad="level", transcribe_s=0.1, end_of_turn_s=0.08))
    session = server.connect()
    session.say(640)
    server.advance(640 + 130)
    session.say(800)
    server.advance(4000)
    assert session.client.types().count("input_audio_buffer.committed") == 1
    heard = session.client.of("conversation.item.input_audio_transcription.completed")[0]["transcript"]
    assert float(heard.split()[0]) == pytest.approx(1.67, abs=0.1)
