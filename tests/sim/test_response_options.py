"""What one response may ask for itself, what it costs, and who begins it: on simulated time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from duplex_models.sim import SimOptions

from duplex.media.contract import VideoFrame
from duplex.session.conversation import Item, SpokenText
from duplex.session.messages import CreateReply
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
LONG = " ".join(f"word{i}" for i in range(40))
DETECTIONS = ["server_vad", "semantic_vad"]


def serve(*script: str, **options: Any) -> Server:
    return Server(SimOptions(**({"vad": "level", "script": script or ("One two three.",), "token_s": 0.02} | options)))


def detecting(kind: str, **fields: bool) -> dict[str, Any]:
    return {"type": "realtime", "audio": {"input": {"turn_detection": {"type": kind, **fields}}}}


def respond(session: Session, ms: float = 3000, **response: Any) -> dict[str, Any]:
    """Ask for a response and return it as it ended."""
    session.event(type="response.create", event_id="r", response=response)
    session.server.advance(ms)
    found: dict[str, Any] = session.client.of("response.done")[-1]["response"]
    return found


def said(server: Server) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in server.stage("think").prompts[-1].messages]


def last_error(session: Session) -> tuple[str, str | None, str | None]:
    error = session.client.of("error")[-1]["error"]
    return error["code"], error["param"], error["event_id"]


# What it asks for. --------------------------------------------------------------------------------------------------


def test_a_response_of_the_conversation_may_have_an_input_of_its_own_and_is_added_to_it() -> None:
    server = serve("First.", "Second.", "Third.")
    session = server.connect("websocket", wire={"type": "realtime", "instructions": "Be kind."})
    session.type_text("Hello.")
    server.advance(3000)
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Only this."}]}
    done = respond(session, input=[item], metadata={"k": "v"})
    assert said(server) == [("system", "Be kind."), ("user", "Only this.")]
    assert done["conversation_id"].startswith("conv_")
    assert done["metadata"] == {"k": "v"}
    respond(session)
    assert said(server) == [("system", "Be kind."), ("user", "Hello."), ("assistant", "First. Second.")]
    assert session.client.of("conversation.item.added")[2]["item"]["id"] == done["output"][0]["id"]
    server.check()


def test_its_own_instructions_modality_and_bound_hold_for_it_alone() -> None:
    server = serve("one two three four five")
    session = server.connect("websocket", wire={"type": "realtime", "instructions": "Be kind."})
    session.type_text("Hello.")
    server.advance(3000)
    done = respond(session, instructions="Be brief.", output_modalities=["text"], max_output_tokens=2)
    assert said(server)[0] == ("system", "Be brief.")
    assert done["output_modalities"] == ["text"]
    assert done["output"][0]["content"] == [{"type": "output_text", "text": "one two "}]
    assert (done["status"], done["status_details"]) == (
        "incomplete", {"type": "incomplete", "reason": "max_output_tokens"},
    )  # fmt: skip
    assert done["output"][0]["status"] == "incomplete"
    after = respond(session)
    assert said(server)[0] == ("system", "Be kind.")
    assert (after["output_modalities"], after["status"], after["max_output_tokens"]) == (["audio"], "completed", "inf")


def test_a_response_may_lift_the_sessions_bound() -> None:
    server = serve("one two three four five")
    session = server.connect("websocket", wire={"type": "realtime", "max_output_tokens": 2})
    assert respond(session, instructions="Go.")["status"] == "incomplete"
    done = respond(session, max_output_tokens="inf")
    assert (done["status"], done["max_output_tokens"]) == ("completed", "inf")


def test_a_bound_on_spoken_words_ends_them_where_their_sound_ends() -> None:
    server = serve("one two three four five")
    session = server.connect("webrtc")
    done = respond(session, instructions="Go.", max_output_tokens=3)
    assert (done["status"], done["output"][0]["content"][0]["transcript"]) == ("incomplete", "one two three ")
    assert done["usage"]["output_token_details"] == {"text_tokens": 3, "audio_tokens": 18}


def test_a_voice_of_its_own_is_taken_until_a_voice_was_heard() -> None:
    server = serve()
    session = server.connect("websocket")
    session.actor.post(CreateReply(voice="other", instructions="Go.", event_id="v1"))
    server.advance(3000)
    assert session.client.of("response.done")[0]["response"]["audio"]["output"]["voice"] == "other"
    session.actor.post(CreateReply(voice="other", event_id="v2"))
    assert last_error(session) == ("cannot_update_voice", "response.audio.output.voice", "v2")
    session.actor.post(CreateReply(voice="default", event_id="v3"))
    server.advance(3000)
    assert len(session.client.of("response.done")) == 2


def test_what_the_camera_shows_is_no_part_of_an_input_of_its_own() -> None:
    server = serve()
    session = server.connect("websocket")
    session.actor.see(VideoFrame(rgb=np.zeros((2, 2, 3), np.uint8), at=server.world.now()))
    shown = server.stage("think").shown
    respond(session, 1000, input=[], instructions="Go.")
    respond(session, 1000, conversation="none", instructions="Go.", output_modalities=["text"])
    assert len(shown) == 0
    respond(session, 1000)
    assert len(shown) == 1


# What it costs. -----------------------------------------------------------------------------------------------------


def test_usage_counts_text_as_the_engine_does_and_each_second_of_speech_once() -> None:
    server = serve("one two three.", transcripts=("four five six seven",))
    session = server.connect(wire={"type": "realtime", "instructions": "Be kind."})
    for _ in range(2):
        session.say(900)
        server.advance(4000)
    first, second = [event["response"]["usage"] for event in session.client.of("response.done")]
    heard = session.client.of("conversation.item.input_audio_transcription.completed")
    for usage, text_in, turn in ((first, 2 + 4, heard[0]), (second, 2 + 4 + 3 + 4, heard[1])):
        audio_in = usage["input_token_details"]["audio_tokens"]
        assert audio_in == pytest.approx(10 * turn["usage"]["seconds"], abs=1)
        assert usage["input_token_details"]["text_tokens"] == text_in
        assert usage["output_token_details"] == {"text_tokens": 3, "audio_tokens": 18}
        assert usage["input_tokens"] == text_in + audio_in
        assert usage["output_tokens"] == 3 + 18
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
        assert usage["duplex"]["input_estimated"] is False


def test_what_an_engine_did_not_tell_before_a_cut_is_an_estimate_and_says_so() -> None:
    server = serve(LONG)
    session = server.connect("websocket")
    session.type_text("How are you today?")
    server.advance(300)
    session.event(type="response.cancel")
    usage = session.client.of("response.done")[0]["response"]["usage"]
    assert usage["duplex"]["input_estimated"] is True
    assert 4 <= usage["input_token_details"]["text_tokens"] <= 8
    assert usage["output_token_details"]["text_tokens"] > 0


# Who begins it. -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DETECTIONS)
def test_with_create_response_false_turns_are_taken_and_only_answered_when_asked(kind: str) -> None:
    server = serve("Yes.", transcripts=("one", "two"))
    session = server.connect(wire=detecting(kind, create_response=False))
    for _ in range(2):
        session.say(900)
        server.advance(4000)
    kinds = session.client.types()
    assert kinds.count("input_audio_buffer.committed") == 2
    assert kinds.count("conversation.item.input_audio_transcription.completed") == 2
    assert "response.created" not in kinds
    respond(session)
    assert said(server) == [("user", "one two")]
    server.check()


@pytest.mark.parametrize("kind", DETECTIONS)
def test_with_create_response_false_a_voice_still_interrupts(kind: str) -> None:
    server = serve(LONG)
    session = server.connect(wire=detecting(kind, create_response=False))
    session.type_text("go")
    server.advance(1500)
    session.say(1000)
    server.advance(4000)
    assert [e["response"]["status_details"]["reason"] for e in session.client.of("response.done")] == ["turn_detected"]
    assert session.client.types().count("response.created") == 1
    server.check()


@pytest.mark.parametrize("kind", DETECTIONS)
def test_with_interrupt_response_false_a_reply_goes_on_and_the_turn_is_answered_behind_it(kind: str) -> None:
    server = serve("word " * 20, "Fine.", transcripts=("me too",))
    session = server.connect(wire=detecting(kind, interrupt_response=False))
    session.type_text("go")
    server.advance(1500)
    session.say(1000)
    server.advance(15_000)
    assert [event["response"]["status"] for event in session.client.of("response.done")] == ["completed"] * 2
    assert "output_audio_buffer.cleared" not in session.client.types()
    assert said(server)[-1] == ("user", "me too")
    server.check()


@pytest.mark.parametrize("kind", DETECTIONS)
def test_with_both_false_nothing_happens_by_itself(kind: str) -> None:
    server = serve("word " * 20)
    session = server.connect(wire=detecting(kind, interrupt_response=False, create_response=False))
    session.type_text("go")
    server.advance(1500)
    session.say(1000)
    server.advance(15_000)
    assert [event["response"]["status"] for event in session.client.of("response.done")] == ["completed"]
    assert session.client.types().count("input_audio_buffer.committed") == 1


# What was heard. ----------------------------------------------------------------------------------------------------


def test_a_call_truncates_by_itself_behind_the_replys_end() -> None:
    server = serve(LONG)
    session = server.connect("webrtc")
    session.type_text("go")
    server.advance(2000)
    session.say(1000)
    server.advance(1000)
    kinds = session.client.types()
    assert kinds.index("output_audio_buffer.cleared") < kinds.index("response.done")
    assert kinds.index("response.done") < kinds.index("conversation.item.truncated")
    truncated = session.client.of("conversation.item.truncated")[0]
    item = session.client.of("response.done")[0]["response"]["output"][0]
    assert (truncated["item_id"], truncated["content_index"]) == (item["id"], 0)
    assert item["content"][0]["transcript"].split() == LONG.split()[: truncated["audio_end_ms"] // 300]


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"audio_end_ms": 100_000}, "invalid_truncate", "audio_end_ms"),
        ({"audio_end_ms": 100, "content_index": 1}, "invalid_truncate", "content_index"),
        ({"audio_end_ms": 100, "item_id": "none"}, "item_not_found", "item_id"),
    ],
)
@pytest.mark.parametrize("moment", ["while it plays", "after it"])
def test_a_truncate_that_cannot_be_is_an_error_and_changes_nothing(
    fields: dict[str, Any], code: str, param: str, moment: str
) -> None:
    server = serve(LONG)
    session = server.connect("websocket")
    session.type_text("go")
    server.advance(1500 if moment == "while it plays" else 20_000)
    item = session.client.of("response.output_item.added")[0]["item"]["id"]
    event = {"type": "conversation.item.truncate", "item_id": item, "content_index": 0, "event_id": "t"} | fields
    session.event(**event)
    assert last_error(session) == (code, param, "t")
    assert "conversation.item.truncated" not in session.client.types()
    server.advance(20_000)
    respond(session)
    assert said(server)[1] == ("assistant", LONG)


def test_a_truncate_before_there_is_any_audio_is_an_error_and_the_reply_is_heard() -> None:
    server = serve("one two three.", talk_s=0.5)
    session = server.connect("websocket")
    session.type_text("go")
    server.advance(250)
    item = session.client.of("response.output_item.added")[0]["item"]["id"]
    session.event(type="conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=0, event_id="t")
    assert last_error(session) == ("invalid_truncate", "audio_end_ms", "t")
    server.advance(4000)
    respond(session)
    assert said(server)[1] == ("assistant", "one two three.")


def test_an_item_without_sound_and_the_users_own_cannot_be_truncated() -> None:
    server = serve()
    session = server.connect("websocket")
    silent = Item(id="silent", role="assistant", modality="audio", text=None, spoken=SpokenText())
    session.actor._core.conversation.add(silent)
    session.type_text("go")
    server.advance(100)
    user = session.client.of("conversation.item.added")[0]["item"]["id"]
    for item, param in (("silent", "audio_end_ms"), (user, "item_id")):
        session.event(type="conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=0)
        assert last_error(session)[:2] == ("invalid_truncate", param)
    assert silent.heard is None
