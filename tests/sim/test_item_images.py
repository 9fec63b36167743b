"""Images in items: what is read in them is in the prompt of the answer and of every later one, and costs nothing when it fails."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
from pathlib import Path
from typing import Any

import pytest
from duplex_models.sim import SimOptions
from PIL import Image

from duplex.config import Settings, load
from duplex.replay import replay
from tests.sim.recorded import hang_up, recorder, under_record
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
WORDS = "blorptic 7431"


def png(size: int = 40) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (size, size), "white").save(file, "PNG")
    return file.getvalue()


def image(raw: bytes | None = None) -> dict[str, Any]:
    data = base64.b64encode(png() if raw is None else raw).decode()
    return {"type": "input_image", "image_url": f"data:image/png;base64,{data}"}


def server(settings: Settings | None = None, **options: object) -> Server:
    chosen = {"vad": "level", "script": ("Yes.",), "reads": (WORDS,)} | options
    return Server(SimOptions(**chosen), settings)  # type: ignore[arg-type]


def show(session: Session, *parts: dict[str, Any], **fields: Any) -> None:
    item = {"type": "message", "role": "user", "content": list(parts)} | fields
    session.event(type="conversation.item.create", event_id="e1", item=item)


def text(words: str) -> dict[str, Any]:
    return {"type": "input_text", "text": words}


def ask(session: Session, ms: float = 1000) -> str:
    """Ask for an answer and return the user's last words in its prompt."""
    session.event(type="response.create")
    session.server.advance(ms)
    return last_prompt(session)


def last_prompt(session: Session) -> str:
    return str([m.text for m in session.server.stage("think").prompts[-1].messages if m.role == "user"][-1])


def retrieved(session: Session, item_id: str) -> list[dict[str, Any]]:
    session.event(type="conversation.item.retrieve", item_id=item_id)
    content: list[dict[str, Any]] = session.client.of("conversation.item.retrieved")[-1]["item"]["content"]
    return content


def test_the_prompt_has_what_was_read_beside_the_users_words() -> None:
    world = server(read_s=0.3)
    session = world.connect()
    show(session, text("What is this?"), image())
    assert ask(session) == f"What is this?\nText in picture: {WORDS}"
    world.check()
    assert world.total("duplex_image_readings_total", outcome="read") == 1


def test_later_turns_have_it_too_where_it_was_shown() -> None:
    world = server()
    session = world.connect()
    show(session, text("What is this?"), image())
    ask(session, 3000)
    session.type_text("And again?")
    world.advance(3000)
    told = [(m.role, m.text) for m in world.stage("think").prompts[-1].messages]
    assert told == [("user", f"What is this?\nText in picture: {WORDS}"), ("assistant", "Yes."), ("user", "And again?")]
    session.say(1000)
    world.advance(3000)
    assert WORDS in world.stage("think").prompts[-1].messages[0].text
    assert world.stage("read").pictures == 1


def test_a_spoken_turn_is_answered_with_what_was_shown_before_it() -> None:
    world = server(read_s=1.5)
    session = world.connect()
    session.say(1000)
    world.advance(500)
    show(session, image())
    world.advance(3500)
    assert WORDS in " ".join(m.text for m in world.stage("think").prompts[-1].messages)
    assert len(session.client.of("response.done")) == 1
    world.check()


def test_several_pictures_are_read_in_order_one_at_a_time() -> None:
    world = server(reads=("first", "", "third"), read_s=0.2)
    session = world.connect()
    show(session, image(), text("Compare."), image(), image())
    world.advance(10)
    assert len([span for span in world.spans if span.stage == "read"]) == 0
    assert ask(session) == "Compare.\nText in picture 1: first\n(Picture 2: no text in it.)\nText in picture 3: third"


def test_an_answer_waits_for_the_bound_at_most_and_the_next_one_has_what_came_late() -> None:
    world = server(load(conversation={"image_wait_ms_max": 800}), read_s=2.0)
    session = world.connect()
    show(session, text("What is this?"), image(), id="shown")
    session.event(type="response.create")
    world.advance(750)
    assert not world.stage("think").prompts
    assert retrieved(session, "shown")[1]["duplex"]["state"] == "waiting"
    world.advance(100)
    assert last_prompt(session) == "What is this?\n(Picture: it is not read yet.)"
    world.advance(4000)
    assert retrieved(session, "shown")[1]["duplex"]["text"] == WORDS
    session.type_text("And now?")
    world.advance(2000)
    assert WORDS in world.stage("think").prompts[-1].messages[0].text
    world.check()


def test_a_reader_that_fails_costs_the_answer_nothing_but_the_reading() -> None:
    world = server()

    def fail(job: object) -> None:
        raise RuntimeError("broken")

    world.stage("read").compute = fail
    session = world.connect()
    show(session, text("What is this?"), image(), id="shown")
    assert ask(session, 2000) == "What is this?\n(Picture: it could not be read.)"
    assert session.client.of("response.done")[-1]["response"]["status"] == "completed"
    (error,) = (event["error"] for event in session.client.of("error"))
    assert (error["type"], error["code"], error["event_id"]) == ("server_error", "image_not_read", "e1")
    assert retrieved(session, "shown")[1]["duplex"]["state"] == "failed"
    world.check()


def test_an_image_that_is_broken_behind_its_head_is_told_and_the_words_are_answered() -> None:
    world = server()
    session = world.connect()
    show(session, text("What is this?"), image(png()[:-40]))
    assert ask(session) == "What is this?\n(Picture: it could not be read.)"
    (error,) = (event["error"] for event in session.client.of("error"))
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "invalid_image", "item.content")
    show(session, image())
    world.advance(1000)
    assert world.total("duplex_image_readings_total", outcome="read") == 1, "the reader lives on"


def test_the_client_is_shown_sizes_and_what_was_read_and_never_the_picture_again() -> None:
    world = server()
    session = world.connect()
    show(session, text("What is this?"), image(png(32)), id="shown")
    world.advance(500)
    (added,) = session.client.of("conversation.item.added")
    size = {"format": "png", "width": 32, "height": 32, "bytes": len(png(32))}
    part = {"type": "input_image", "detail": "auto"}
    waiting = part | {"duplex": size | {"state": "waiting", "text": None}}
    assert added["item"]["content"] == [text("What is this?"), waiting]
    assert retrieved(session, "shown")[1] == part | {"duplex": size | {"state": "read", "text": WORDS}}
    show(session, image(png(32)), id="alone")
    assert [part["type"] for part in retrieved(session, "alone")] == ["input_image"]


def test_a_client_that_comes_back_is_shown_what_was_read() -> None:
    world = server()
    session = world.connect()
    show(session, image(), id="shown")
    session.actor.detach(0)  # type: ignore[arg-type]
    world.advance(500)
    session.actor.attach(session.client)
    session.actor.channel_open()
    (restored,) = (e for e in session.client.of("conversation.item.added") if "duplex" in e)
    assert restored["item"]["content"][0]["duplex"]["text"] == WORDS


def test_a_deleted_item_is_read_no_further_and_keeps_no_answer_waiting() -> None:
    world = server(read_s=2.0)
    session = world.connect()
    show(session, image(), image(), id="shown")
    show(session, text("Hello."))
    session.event(type="response.create")
    world.advance(100)
    session.event(type="conversation.item.delete", item_id="shown")
    world.advance(100)
    assert last_prompt(session) == "Hello."
    world.advance(5000)
    assert world.total("duplex_image_readings_total", outcome="dropped") == 2
    assert world.total("duplex_image_readings_total") == 2
    world.check()


def test_more_than_the_bound_may_not_wait() -> None:
    world = server(load(conversation={"images_unread_max": 2}), read_s=1.0)
    session = world.connect()
    show(session, image(), image())
    show(session, image(), id="third")
    (error,) = (event["error"] for event in session.client.of("error"))
    assert (error["code"], error["param"], error["event_id"]) == ("too_many_images", "item.content", "e1")
    session.event(type="conversation.item.retrieve", item_id="third")
    assert session.client.of("error")[-1]["error"]["code"] == "item_retrieve_invalid_item_id"
    world.advance(3000)
    show(session, image(), id="third")
    world.advance(100)
    assert retrieved(session, "third")


def test_what_was_read_counts_as_text_of_the_conversation() -> None:
    world = server(load(conversation={"chars_max": 100}), reads=("x" * 80,))
    session = world.connect()
    show(session, text("y" * 50), id="old")
    show(session, image(), id="shown")
    world.advance(500)
    session.event(type="conversation.item.retrieve", item_id="old")
    assert session.client.of("error")[-1]["error"]["code"] == "item_retrieve_invalid_item_id"
    assert retrieved(session, "shown")[0]["duplex"]["text"] == "x" * 80


def test_what_is_read_is_cut_off_at_the_bound() -> None:
    world = server(load(conversation={"image_text_chars_max": 5}), reads=("abcdefgh",))
    session = world.connect()
    show(session, image())
    assert ask(session) == "Text in picture: abcde"


@pytest.mark.parametrize("options", [{"reads": ()}, {"form": "tick"}])
def test_a_pack_that_reads_nothing_says_so(options: dict[str, Any]) -> None:
    session = server(**options).connect()
    show(session, image())
    (error,) = (event["error"] for event in session.client.of("error"))
    assert (error["code"], error["param"]) == ("unsupported", "item.content.0.type")
    assert "reads no images" in error["message"]
    assert session.client.of("conversation.item.added") == []


def test_a_session_that_ends_gives_its_pictures_back() -> None:
    world = server(read_s=2.0)
    session = world.connect()
    show(session, image(), image())
    world.advance(100)
    session.leave()
    world.advance(5000)
    assert session.ended
    assert world.total("duplex_image_readings_total", outcome="dropped") == 2
    world.check()


def test_a_recording_holds_hash_and_size_and_runs_again(tmp_path: Path) -> None:
    world, record = server(), recorder(tmp_path)
    under_record(world, record)
    session = world.connect()
    show(session, text("What is this?"), image())
    assert WORDS in ask(session, 2000)
    hang_up(world, record)
    record.close()
    (file,) = (tmp_path / "recordings").iterdir()
    result = replay(file)
    assert result.difference is None and result.effects > 10
    written = gzip.open(file, "rt").read()
    assert base64.b64encode(png()).decode()[-40:] not in written
    assert hashlib.blake2b(png(), digest_size=16).hexdigest() in written and WORDS in written
