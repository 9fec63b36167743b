"""Client events at the wrong moment: one error that names the event, and nothing else changes."""

import base64

import numpy as np
import pytest
from duplex_models.sim import SimOptions

from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim


def last_error(session: Session) -> tuple[str, str | None]:
    error = session.client.of("error")[-1]["error"]
    return error["code"], error.get("event_id")


def test_create_while_one_is_active_names_it_and_leaves_it_alone() -> None:
    server = Server()
    session = server.connect()
    session.event(type="response.create", event_id="e1")
    session.event(type="response.create", event_id="e2")
    assert last_error(session) == ("conversation_already_has_active_response", "e2")
    active = session.client.of("response.created")[0]["response"]["id"]
    assert active in session.client.of("error")[0]["error"]["message"]
    server.advance(8000)
    assert session.client.of("response.done")[0]["response"]["status"] == "completed"


def test_a_turn_that_ends_while_a_reply_is_active_is_answered_after_it() -> None:
    server = Server(SimOptions(vad="level", script=("word " * 30, "second"), transcripts=("my turn",)))
    detection = {"type": "server_vad", "interrupt_response": False}
    session = server.connect(wire={"type": "realtime", "audio": {"input": {"turn_detection": detection}}})
    session.say(900)
    server.advance(600)
    session.event(type="response.create")
    server.advance(20_000)
    assert [e["response"]["status"] for e in session.client.of("response.done")] == ["completed", "completed"]


@pytest.mark.parametrize("reply_id", [None, "resp_none"])
def test_cancel_with_nothing_active_is_an_error_only(reply_id: str | None) -> None:
    server = Server(SimOptions(vad="level", transcribe_s=0.3))
    session = server.connect()
    session.say(800)
    server.advance(1050)  # the transcription is running
    session.event(type="response.cancel", event_id="c", **({"response_id": reply_id} if reply_id else {}))
    assert last_error(session) == ("response_cancel_not_active", "c")
    assert session.client.of("error")[-1]["error"]["message"].startswith(
        "Cancellation failed"
    )  # what LiveKit looks for
    server.advance(7000)
    assert session.client.of("conversation.item.input_audio_transcription.completed")
    session.event(type="response.cancel", response_id=session.client.of("response.done")[0]["response"]["id"])
    assert last_error(session)[0] == "response_cancel_not_active"


@pytest.mark.parametrize("milliseconds", [0, 40, 80])
def test_an_empty_commit_makes_no_item_and_no_reply(milliseconds: int) -> None:
    server = Server()
    session = server.connect("websocket", wire={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
    session.mute()
    if milliseconds:
        pcm = base64.b64encode(b"\x01\x10" * (24 * milliseconds)).decode()
        session.event(type="input_audio_buffer.append", audio=pcm)
    session.event(type="input_audio_buffer.commit", event_id="x")
    server.advance(500)
    assert last_error(session) == ("input_audio_buffer_commit_empty", "x")
    assert "input_audio_buffer.committed" not in session.client.types()
    assert len(session.actor._core.conversation) == 0


def test_a_commit_right_behind_the_servers_own_is_empty() -> None:
    server = Server()
    session = server.connect()
    session.say(900)
    server.advance(900 + 400)
    assert session.client.types().count("input_audio_buffer.committed") == 1
    session.event(type="input_audio_buffer.commit")
    assert last_error(session)[0] == "input_audio_buffer_commit_empty"
    assert session.client.types().count("input_audio_buffer.committed") == 1


def test_clear_mid_speech_completes_the_pair_and_makes_no_turn() -> None:
    server = Server()
    session = server.connect()
    session.say(800)
    server.advance(500)
    session.event(type="input_audio_buffer.clear")
    session.mute()
    server.advance(3000)
    kinds = session.client.types()
    assert kinds.count("input_audio_buffer.speech_started") == kinds.count("input_audio_buffer.speech_stopped") == 1
    assert "input_audio_buffer.committed" not in kinds


def test_audio_appended_at_once_is_transcribed_whole() -> None:
    server = Server()
    session = server.connect("websocket", wire={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
    session.mute()
    pcm = base64.b64encode(b"\x01\x10" * 24_000 * 12).decode()
    session.event(type="input_audio_buffer.append", audio=pcm)
    session.event(type="input_audio_buffer.commit")
    server.advance(500)
    assert session.client.of("conversation.item.input_audio_transcription.completed")[0]["transcript"].startswith(
        "12.0"
    )


def test_the_voice_is_fixed_after_the_first_audio() -> None:
    server = Server()
    session = server.connect()
    session.type_text("go")
    server.advance(1000)
    config = session.actor._core.config
    from dataclasses import replace  # noqa: PLC0415

    from duplex.session.messages import Configure  # noqa: PLC0415

    session.actor.post(Configure(config=replace(config, voice="other"), event_id="v"))
    assert last_error(session) == ("cannot_update_voice", "v")
    assert session.actor._core.config is config


def test_unknown_events_are_errors_and_unknown_fields_are_counted() -> None:
    server = Server()
    session = server.connect()
    session.event(type="no.such.event", event_id="n")
    assert last_error(session)[1] == "n"
    session.event(type="response.cancel", shiny=True)
    assert server.total("duplex_unknown_fields_total", event="response.cancel") == 1


def test_a_thousand_wrong_events_change_nothing() -> None:
    server = Server()
    session = server.connect()
    for i in range(1000):
        session.actor.receive(["{", "[]", '{"type":5}', b"\xff", '{"type":"response.cancel"}'][i % 5])
    assert len(session.client.of("error")) == 1000
    session.type_text("go")
    server.advance(8000)
    assert session.client.of("response.done")[0]["response"]["status"] == "completed"


def append(session: Session, *pieces: tuple[int, int]) -> None:
    """Append audio at once: (milliseconds, level) each."""
    pcm = b"".join(
        np.resize(np.repeat(np.array([level, -level], "<i2"), 40), 24 * ms).tobytes() for ms, level in pieces
    )
    session.event(type="input_audio_buffer.append", audio=base64.b64encode(pcm).decode())


def test_clearing_audio_that_is_not_analysed_yet_leaves_no_trace_of_it() -> None:
    server = Server()
    session = server.connect("websocket")
    session.mute()
    append(session, (500, 0), (3000, 8000), (1500, 0))
    session.event(type="input_audio_buffer.clear")
    server.advance(1000)
    assert session.client.types()[2:] == ["input_audio_buffer.cleared"]
    append(session, (300, 0), (900, 8000), (1500, 0))
    server.advance(6000)
    assert session.client.types().count("input_audio_buffer.committed") == 1
    assert not session.ended


def test_committing_audio_that_is_not_analysed_yet_waits_for_it() -> None:
    server = Server()
    session = server.connect("websocket")
    session.mute()
    append(session, (500, 0), (1500, 8000), (100, 0))
    session.event(type="input_audio_buffer.commit", event_id="c")
    session.event(type="response.create")
    server.advance(6000)
    assert session.client.types().count("input_audio_buffer.committed") == 1
    assert not session.client.of("error")
    assert session.client.of("response.done")[0]["response"]["status"] == "completed"
    assert server.stage("think").prompts[-1].messages[-1].role == "user"


def test_minutes_appended_at_once_lose_no_turn() -> None:
    server = Server(SimOptions(vad="level", script=("Yes.",)))
    detection = {"type": "server_vad", "create_response": False}
    session = server.connect("websocket", wire={"type": "realtime", "audio": {"input": {"turn_detection": detection}}})
    session.mute()
    append(session, *[(700, 0), (1300, 8000), (1000, 0)] * 70)
    assert session.actor.backlog_ms > 180_000
    server.advance(30_000)
    texts = [e["transcript"] for e in session.client.of("conversation.item.input_audio_transcription.completed")]
    assert len(texts) == 70
    assert all(1.3 <= float(text.split()[0]) <= 2.0 for text in texts)
    assert session.actor.backlog_ms == 0


def test_an_item_of_the_users_open_turn_cannot_be_taken_by_the_client() -> None:
    server = Server()
    session = server.connect()
    session.say(900)
    server.advance(500)
    taken = session.client.of("input_audio_buffer.speech_started")[0]["item_id"]
    content = [{"type": "input_text", "text": "x"}]
    session.event(
        type="conversation.item.create", item={"type": "message", "role": "user", "id": taken, "content": content}
    )
    assert last_error(session)[0] == "item_create_duplicate_item_id"
    server.advance(3000)
    assert not session.ended
    assert "response.created" in session.client.types()


def test_two_turns_before_the_first_words_get_one_reply() -> None:
    server = Server(SimOptions(vad="level", transcribe_s=1.5, transcripts=("one", "two")))
    detection = {"type": "server_vad", "silence_duration_ms": 200, "interrupt_response": False}
    session = server.connect(wire={"type": "realtime", "audio": {"input": {"turn_detection": detection}}})
    session.say(400)
    server.advance(700)
    session.say(400)
    server.advance(20_000)
    assert session.client.types().count("input_audio_buffer.committed") == 2
    assert len(session.client.of("response.done")) <= 2
    texts = [prompt.messages[-1].text for prompt in server.stage("think").prompts]
    assert texts[-1].endswith("two")
    assert len(texts) == len(set(texts))


def test_turns_that_end_during_one_reply_are_answered_by_one() -> None:
    server = Server(SimOptions(vad="level", script=("word " * 30, "Fine."), transcripts=("one", "two", "three")))
    detection = {"type": "server_vad", "silence_duration_ms": 200, "interrupt_response": False}
    session = server.connect(wire={"type": "realtime", "audio": {"input": {"turn_detection": detection}}})
    session.type_text("go")
    for _ in range(3):
        session.say(500)
        server.advance(1200)
    server.advance(20_000)
    assert len(session.client.of("response.done")) == 2
    assert server.stage("think").prompts[-1].messages[-1].text == "one two three"


@pytest.mark.parametrize("lead", [0, 10])
def test_the_smallest_lead_still_plays(lead: int) -> None:
    server = Server()
    session = server.connect("websocket", wire={"type": "realtime", "duplex": {"lead_ms": lead}})
    session.type_text("go")
    server.advance(9000)
    assert session.client.of("response.done")[0]["response"]["status"] == "completed"


def test_nothing_is_told_before_the_session_is_created() -> None:
    server = Server()
    session = server.connect(opens=False)
    session.say(900)
    server.advance(500)
    assert not session.client.events
    session.actor.channel_open()
    server.advance(100)
    assert session.client.types()[:3] == [
        "session.created",
        "conversation.created",
        "input_audio_buffer.speech_started",
    ]


def test_a_clear_behind_a_commit_takes_nothing_from_it() -> None:
    server = Server()
    session = server.connect("websocket", wire={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
    session.mute()
    append(session, (3000, 8000))
    session.event(type="input_audio_buffer.commit", event_id="c")
    session.event(type="input_audio_buffer.clear")
    server.advance(1000)
    append(session, (40, 8000))
    session.event(type="input_audio_buffer.commit", event_id="empty")
    server.advance(1000)
    kinds = session.client.types()
    assert kinds.index("input_audio_buffer.committed") < kinds.index("input_audio_buffer.cleared")
    texts = [e["transcript"] for e in session.client.of("conversation.item.input_audio_transcription.completed")]
    assert [text.split()[0] for text in texts] == ["3.0"]
    assert last_error(session) == ("input_audio_buffer_commit_empty", "empty")


def test_a_commit_right_behind_a_clear_or_a_commit_is_empty() -> None:
    server = Server()
    session = server.connect("websocket", wire={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
    session.mute()
    append(session, (3000, 8000))
    session.event(type="input_audio_buffer.clear")
    session.event(type="input_audio_buffer.commit", event_id="cleared")
    server.advance(1000)
    assert last_error(session) == ("input_audio_buffer_commit_empty", "cleared")
    append(session, (3000, 8000))
    session.event(type="input_audio_buffer.commit")
    session.event(type="input_audio_buffer.commit", event_id="twice")
    server.advance(1000)
    assert last_error(session) == ("input_audio_buffer_commit_empty", "twice")
    assert session.client.types().count("input_audio_buffer.committed") == 1


def test_items_are_put_where_they_are_wanted_or_nowhere() -> None:
    server = Server()
    session = server.connect("websocket")

    def put(name: str, **fields: str) -> None:
        content = [{"type": "input_text", "text": name}]
        item = {"type": "message", "role": "user", "id": name, "content": content}
        session.event(type="conversation.item.create", item=item, event_id=f"put_{name}", **fields)

    put("b")
    put("a", previous_item_id="root")
    put("c", previous_item_id="b")
    put("d", previous_item_id="nobody")
    error = session.client.of("error")[0]["error"]
    assert (error["code"], error["param"], error["event_id"]) == ("item_not_found", "previous_item_id", "put_d")
    assert [item.id for item in session.actor._core.conversation.items()] == ["a", "b", "c"]
    assert [each["previous_item_id"] for each in session.client.of("conversation.item.added")] == [None, None, "b"]
    session.event(type="conversation.item.retrieve", item_id="b")
    assert session.client.of("conversation.item.retrieved")[0]["item"]["content"][0]["text"] == "b"
    session.event(type="conversation.item.delete", item_id="b")
    assert session.client.of("conversation.item.deleted")[0]["item_id"] == "b"
    for kind in ("retrieve", "delete"):
        session.event(type=f"conversation.item.{kind}", item_id="b", event_id=kind)
        assert last_error(session) == (f"item_{kind}_invalid_item_id", kind)


def test_a_turn_that_the_client_deletes_before_its_words_are_there_is_not_answered() -> None:
    server = Server(SimOptions(vad="level", transcripts=("never mind", "hello"), transcribe_s=0.5))
    session = server.connect()
    for answers in (0, 1):
        session.say(900)
        while len(session.client.of("input_audio_buffer.committed")) <= answers:
            server.advance(20)
        if not answers:
            item = session.client.of("input_audio_buffer.committed")[0]["item_id"]
            session.event(type="conversation.item.delete", item_id=item)
        server.advance(6000)
        heard = session.client.of("conversation.item.input_audio_transcription.completed")
        assert len(heard) == answers + 1, "its words are told all the same: what was begun has its end"
        assert len(session.client.of("response.created")) == answers
    assert [message.text for message in server.stage("think").prompts[-1].messages] == ["hello"]
    assert not session.client.of("error")
    server.check()
