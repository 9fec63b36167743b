"""`input_audio` in an item of the user: transcribed like a turn, and answered once its words are there."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from duplex_models.sim import SimOptions

from duplex.config import Settings
from duplex.media import g711
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
TRANSCRIPTION = "conversation.item.input_audio_transcription"


def audio(ms: int, law: g711.Law | None = None) -> str:
    pcm = np.full((8 if law else 24) * ms, 5000, np.int16)
    return base64.b64encode(pcm.astype("<i2").tobytes() if law is None else g711.encode(pcm, law)).decode()


def put(session: Session, *content: dict[str, Any], role: str = "user", **fields: Any) -> None:
    item = {"type": "message", "role": role, "id": "spoken", "content": list(content)}
    session.event(type="conversation.item.create", item=item, event_id="mine", **fields)


@pytest.mark.parametrize("name", ["audio/pcm", "audio/pcmu", "audio/pcma"])
def test_it_is_transcribed_and_the_answer_waits_for_its_words(name: str) -> None:
    server = Server(SimOptions(vad="level", script=("Yes.",), transcribe_s=0.4))
    law = {"audio/pcmu": g711.Law.MU, "audio/pcma": g711.Law.A}.get(name)
    session = server.connect("websocket", wire={"audio": {"input": {"format": {"type": name}}}})
    put(session, {"type": "input_audio", "audio": audio(1500, law)}, {"type": "input_audio", "audio": audio(500, law)})
    session.event(type="response.create")
    added = session.client.of("conversation.item.added")[0]["item"]
    assert added["content"] == [{"type": "input_audio", "transcript": None}]
    server.advance(300)
    assert not server.stage("think").prompts
    server.advance(4000)
    (words,) = session.client.of(f"{TRANSCRIPTION}.completed")
    assert (words["item_id"], words["transcript"], words["usage"]["seconds"]) == (
        "spoken",
        "2.0 seconds of speech",
        2.0,
    )
    assert server.stage("think").prompts[0].messages[-1].text == "2.0 seconds of speech"
    done = session.client.of("response.done")[0]["response"]
    assert (done["status"], done["usage"]["duplex"]["input_audio_ms"]) == ("completed", 2000)
    server.check()


def test_a_transcript_without_audio_is_its_words() -> None:
    server = Server(SimOptions(vad="level", script=("Yes.",)))
    session = server.connect("websocket")
    put(session, {"type": "input_audio", "transcript": "I said so."})
    session.event(type="response.create")
    server.advance(3000)
    assert server.stage("think").prompts[0].messages[-1].text == "I said so."


def test_one_that_is_deleted_is_not_waited_for_and_one_that_fails_is_told() -> None:
    server = Server(SimOptions(vad="level", script=("Yes.",), transcribe_s=1.0))
    session = server.connect("websocket")
    put(session, {"type": "input_audio", "audio": audio(500)})
    session.event(type="conversation.item.delete", item_id="spoken")
    session.type_text("go")
    server.advance(500)
    assert server.stage("think").prompts

    def broken(*args: Any, **named: Any) -> Any:
        raise RuntimeError("broken")

    server.stage("transcribe").step = broken
    server.advance(5000)
    put(session, {"type": "input_audio", "audio": audio(500)})
    server.advance(3000)
    assert [event["item_id"] for event in session.client.of(f"{TRANSCRIPTION}.failed")] == ["spoken"]
    assert not session.client.of(f"{TRANSCRIPTION}.completed")


@pytest.mark.parametrize(
    ("content", "role", "code", "param"),
    [
        ([{"type": "input_audio", "audio": "####"}], "user", "invalid_audio", "item.content.0.audio"),
        ([{"type": "input_audio", "audio": "AAAA"}], "user", "invalid_audio", "item.content.0.audio"),
        ([{"type": "input_audio", "audio": ""}], "user", "invalid_audio", "item.content.0.audio"),
        ([{"type": "input_audio", "audio": audio(30_001)}], "user", "string_above_max_length", "item.content"),
        ([{"type": "input_audio"}], "user", "missing_required_parameter", "item.content.0.transcript"),
        ([{"type": "output_audio", "audio": "AAAAAAAA"}], "assistant", "unsupported", "item.content"),
        (
            [{"type": "input_audio", "audio": audio(20)}, {"type": "input_text", "text": "x"}],
            "user",
            "unsupported",
            "item.content.1.type",
        ),
    ],
)
def test_what_cannot_be_heard_is_one_error_and_no_item(
    content: list[dict[str, Any]], role: str, code: str, param: str
) -> None:
    server = Server()
    session = server.connect("websocket")
    put(session, *content, role=role)
    error = session.client.of("error")[0]["error"]
    assert (error["code"], error["param"], error["event_id"]) == (code, param, "mine")
    assert len(session.actor._core.conversation) == 0


def test_only_so_many_wait() -> None:
    settings = Settings.model_validate({"conversation": {"audio_unheard_max": 1}})
    server = Server(SimOptions(vad="level", transcribe_s=1.0), settings=settings)
    session = server.connect("websocket")
    put(session, {"type": "input_audio", "audio": audio(500)})
    item = {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": audio(500)}]}
    session.event(type="conversation.item.create", item=item)
    assert session.client.of("error")[0]["error"]["code"] == "too_many_audio_items"
    server.advance(2000)
    session.event(type="conversation.item.create", item=item)
    server.advance(2000)
    assert len(session.client.of(f"{TRANSCRIPTION}.completed")) == 2
