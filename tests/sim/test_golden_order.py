"""The order of events on the wire: each lifecycle of docs/protocol.md as a table, compared whole, on both transports.

A line that begins with a transport's name holds on that one only. How the tables are written is told in `story`.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.protocol import TransportName
from tests.sim.lifecycles import holds
from tests.sim.story import Story, rows
from tests.sim.tables import closing, spoken, turn, user, written
from tests.sim.test_item_images import image
from tests.sim.world import Server

pytestmark = [pytest.mark.sim, pytest.mark.parametrize("transport", ["webrtc", "websocket"])]
COUNT = "One two three four five six seven eight nine ten eleven twelve."
TEXT = {"type": "realtime", "output_modalities": ["text"]}
WEATHER = {
    "type": "function", "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}  # fmt: skip
ASIDE = {"conversation": "none", "input": [], "instructions": "Sum up."}


def begin(transport: TransportName, *script: str, wire: dict[str, Any] | None = None, **options: Any) -> Story:
    """Begin a session whose model says the script; its own beginning is told by `test_a_session_begins`."""
    chosen = {
        "vad": "level", "script": script or ("One two.",), "transcripts": ("Hello there.",),
        "first_token_s": 0.05, "token_s": 0.02,
    }  # fmt: skip
    story = Story(Server(SimOptions(**(chosen | options))), transport, wire)
    story.table()
    return story


def ask(story: Story, words: str = "Go.") -> None:
    story.type_text(words)
    story.send("response.create")


def check(story: Story, table: str, documented: str | None = None) -> None:
    """Compare all that passed since the last look with a table, and the table with a lifecycle of docs/protocol.md."""
    expected = rows(table, story.transport)
    assert story.table() == expected
    if documented is not None:
        assert holds(documented, expected, story.transport)
    story.server.check()


def test_a_session_begins(transport: TransportName) -> None:
    story = Story(Server(SimOptions(vad="level")), transport)
    story.wait(500)
    check(story, """
        session.created
        conversation.created
    """, "A session begins")  # fmt: skip


def test_a_spoken_turn_and_its_answer(transport: TransportName) -> None:
    story = begin(transport)
    story.say(900, 3000)
    check(story, f"""
        input_audio_buffer.speech_started           item1
        {turn("item1", "None")}
        {spoken("reply1", "item2", "item1", "One two.", metrics="webrtc duplex.metrics reply1")}
    """, "A spoken turn and its answer")  # fmt: skip


def test_a_typed_turn(transport: TransportName) -> None:
    story = begin(transport)
    ask(story)
    story.wait(3000)
    check(story, f"""
        > conversation.item.create
        {user("item1", "None", "input_text 'Go.'")}
        > response.create
        {spoken("reply1", "item2", "item1", "One two.")}
    """, "A typed turn")  # fmt: skip


def test_an_answer_in_text(transport: TransportName) -> None:
    story = begin(transport, wire=TEXT)
    ask(story)
    story.wait(1000)
    check(story, f"""
        > conversation.item.create
        {user("item1", "None", "input_text 'Go.'")}
        > response.create
        {written("reply1", "item2", "item1", "One two.")}
    """, "An answer in text")  # fmt: skip


def test_the_user_interrupts(transport: TransportName) -> None:
    story = begin(transport, COUNT, "Yes.", wire={"type": "realtime", "duplex": {"lead_ms": 500}})
    ask(story)
    story.wait(1500)
    story.table()
    story.say(700)
    if transport == "websocket":
        item = story.newest("response.done")["response"]["output"][0]["id"]
        story.send("conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=900)
    story.wait(3000)
    check(story, f"""
        websocket response.output_audio.delta …     reply1 item2 0 0
        input_audio_buffer.speech_started           item3
        webrtc output_audio_buffer.cleared          reply1
        {closing("reply1", "item2", "item1", COUNT, "cancelled turn_detected", "One two three four five")}
        webrtc conversation.item.truncated          item2 0
        websocket > conversation.item.truncate
        websocket conversation.item.truncated       item2 0
        {turn("item3", "item2")}
        {spoken("reply2", "item4", "item3", "Yes.", metrics="webrtc duplex.metrics reply2")}
    """, "The user interrupts")  # fmt: skip


def test_the_user_interrupts_behind_the_end_of_the_response(transport: TransportName) -> None:
    """What sounds on when the response is done is cut, and there is no second end."""
    story = begin(transport, COUNT, "Yes.")
    ask(story)
    while not story.session.client.of("response.done"):
        story.wait(100)
    item = story.newest("response.done")["response"]["output"][0]["id"]
    story.table()
    story.say(700)
    if transport == "websocket":
        story.send("conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=900)
    story.wait(3000)
    check(story, f"""
        input_audio_buffer.speech_started           item3
        webrtc output_audio_buffer.cleared          reply1
        websocket > conversation.item.truncate
        conversation.item.truncated                 item2 0
        {turn("item3", "item2")}
        {spoken("reply2", "item4", "item3", "Yes.", metrics="webrtc duplex.metrics reply2")}
    """)  # fmt: skip


def test_the_client_interrupts(transport: TransportName) -> None:
    story = begin(transport, COUNT, wire={"type": "realtime", "duplex": {"lead_ms": 500}})
    ask(story)
    story.wait(1500)
    story.table()
    story.send("response.cancel")
    if transport == "webrtc":
        story.send("output_audio_buffer.clear")
    story.wait(1000)
    check(story, f"""
        > response.cancel
        webrtc output_audio_buffer.cleared          reply1
        {closing("reply1", "item2", "item1", COUNT, "cancelled client_cancelled", "One two three four")}
        webrtc conversation.item.truncated          item2 0
        webrtc > output_audio_buffer.clear
    """, "The client interrupts")  # fmt: skip


def test_the_client_clears_what_sounds(transport: TransportName) -> None:
    """Alone it ends the response too; on WebSocket it is the client itself that plays, and that stops."""
    story = begin(transport, COUNT, wire={"type": "realtime", "duplex": {"lead_ms": 500}})
    ask(story)
    story.wait(1500)
    story.table()
    story.send("output_audio_buffer.clear", event_id="e1")
    cleared = rows(f"""
        output_audio_buffer.cleared                 reply1
        {closing("reply1", "item2", "item1", COUNT, "cancelled client_cancelled", "One two three four")}
        conversation.item.truncated                 item2 0
    """, transport)  # fmt: skip
    refused = ["error unsupported_on_transport e1"]
    told = "\n".join(cleared if transport == "webrtc" else refused)
    check(story, f"> output_audio_buffer.clear\n{told}")


def test_the_model_calls_a_function(transport: TransportName) -> None:
    story = begin(transport, wire={"type": "realtime", "tools": [WEATHER]})
    ask(story, 'call get_weather {"city": "Paris"}')
    story.wait(1000)
    call_id = story.newest("response.function_call_arguments.done")["call_id"]
    result = {"type": "function_call_output", "call_id": call_id, "output": "rain"}
    story.send("conversation.item.create", item=result)
    story.send("response.create")
    story.wait(3000)
    asked = 'input_text \'call get_weather {"city": "Paris"}\''
    check(story, f"""
        > conversation.item.create
        {user("item1", "None", asked)}
        > response.create
        response.created                            reply1 in_progress
        rate_limits.updated
        response.output_item.added                  reply1 0 item2 function_call in_progress
        conversation.item.added                     item2 function_call in_progress after item1
        response.function_call_arguments.delta …    reply1 item2 0 call1 '{{"city": "Paris"}}'
        response.function_call_arguments.done       reply1 item2 0 call1 get_weather '{{"city": "Paris"}}'
        response.output_item.done                   reply1 0 item2 function_call completed
        conversation.item.done                      item2 function_call completed after item1
        response.done                               reply1 completed item2:completed
        > conversation.item.create
        conversation.item.added                     item3 function_call_output completed after item2
        conversation.item.done                      item3 function_call_output completed after item2
        > response.create
        {spoken("reply2", "item4", "item3", "The function gave rain.")}
    """, "The model calls a function")  # fmt: skip


def test_a_response_beside_the_conversation(transport: TransportName) -> None:
    story = begin(transport)
    story.send("response.create", response=ASIDE | {"output_modalities": ["text"]})
    story.wait(1000)
    check(story, """
        > response.create
        response.created                            reply1 beside in_progress
        rate_limits.updated
        response.output_item.added                  reply1 0 item1 assistant in_progress
        response.content_part.added                 reply1 item1 0 0 text
        response.output_text.delta …                reply1 item1 0 0 'One two.'
        response.output_text.done                   reply1 item1 0 0 'One two.'
        response.content_part.done                  reply1 item1 0 0 text 'One two.'
        response.output_item.done                   reply1 0 item1 assistant completed output_text 'One two.'
        response.done                               reply1 beside completed item1:completed
    """, "A response beside the conversation")  # fmt: skip


def test_a_spoken_response_beside_the_conversation(transport: TransportName) -> None:
    story = begin(transport)
    story.send("response.create", event_id="e1", response=ASIDE)
    story.wait(2000)
    check(story, """
        > response.create
        webrtc error                                               unsupported_on_transport e1
        websocket response.created                                 reply1 beside in_progress
        websocket rate_limits.updated
        websocket response.output_item.added                       reply1 0 item1 assistant in_progress
        websocket response.content_part.added                      reply1 item1 0 0 audio
        websocket response.output_audio_transcript.delta …         reply1 item1 0 0 'One two.'
        websocket response.output_audio.delta …                    reply1 item1 0 0
        websocket response.output_audio.done                       reply1 item1 0 0
        websocket response.output_audio_transcript.done            reply1 item1 0 0 'One two.'
        websocket response.content_part.done                       reply1 item1 0 0 audio 'One two.'
        websocket response.output_item.done                        reply1 0 item1 assistant completed output_audio 'One two.'
        websocket response.done                                    reply1 beside completed item1:completed
    """)  # fmt: skip


def test_a_response_beside_one_of_the_conversation(transport: TransportName) -> None:
    """Each of the two keeps its own order, and neither waits for the other."""
    story = begin(transport, COUNT, "Two.", wire={"type": "realtime", "duplex": {"lead_ms": 500}})
    ask(story)
    story.wait(300)
    story.send("response.create", response=ASIDE | {"output_modalities": ["text"]})
    story.wait(6000)
    conversation, beside = story.apart("reply1"), story.apart("reply2")
    assert beside == rows("""
        response.created                            reply2 beside in_progress
        response.output_item.added                  reply2 0 item3 assistant in_progress
        response.content_part.added                 reply2 item3 0 0 text
        response.output_text.delta …                reply2 item3 0 0 'Two.'
        response.output_text.done                   reply2 item3 0 0 'Two.'
        response.content_part.done                  reply2 item3 0 0 text 'Two.'
        response.output_item.done                   reply2 0 item3 assistant completed output_text 'Two.'
        response.done                               reply2 beside completed item3:completed
    """, transport)  # fmt: skip
    own = [row for row in rows(spoken("reply1", "item2", "item1", COUNT), transport) if " reply1" in row]
    assert conversation == own
    kinds = story.session.client.types()
    last = len(kinds) - 1 - kinds[::-1].index("response.done")
    assert story.session.client.events[last][1]["response"]["conversation_id"] is not None
    story.server.check()


def test_nobody_speaks(transport: TransportName) -> None:
    detection = {"type": "server_vad", "idle_timeout_ms": 5000}
    story = begin(
        transport, "One two.", "Are you there?",
        wire={"type": "realtime", "audio": {"input": {"turn_detection": detection}}},
    )  # fmt: skip
    ask(story)
    story.wait(2500)
    story.table()
    story.wait(7000)
    check(story, f"""
        input_audio_buffer.timeout_triggered        item3
        input_audio_buffer.committed                item3 after item2
        {user("item3", "item2", "input_audio")}
        conversation.item.input_audio_transcription.completed   item3 0
        {spoken("reply2", "item4", "item3", "Are you there?")}
    """, "Nobody speaks")  # fmt: skip


def test_push_to_talk(transport: TransportName) -> None:
    """What is appended is committed when it was analysed, so on WebSocket a response that is asked for at once begins before."""
    story = begin(transport, wire={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
    if transport == "websocket":
        story.session.mute()
        story.send("input_audio_buffer.append", audio=base64.b64encode(b"\x00\x20\x00\xe0" * 12_000).decode())
    else:
        story.say(1000)
    story.send("input_audio_buffer.commit")
    story.send("response.create")
    story.wait(3000)
    committed = f"""
        input_audio_buffer.committed                item1 after None
        {user("item1", "None", "input_audio")}
    """
    created, *rest = rows(spoken("reply1", "item2", "item1", "One two."), transport)
    limits, *rest = rest
    early, late = (committed, "") if transport == "webrtc" else ("", committed)
    check(story, f"""
        websocket > input_audio_buffer.append
        > input_audio_buffer.commit
        {early}
        > response.create
        {created}
        {limits}
        {late}
        conversation.item.input_audio_transcription.delta …     item1 0 'Hello there.'
        conversation.item.input_audio_transcription.completed   item1 0 'Hello there.'
        {chr(10).join(rest)}
    """, "Push to talk" if transport == "webrtc" else None)  # fmt: skip


def test_the_client_sees_to_its_items(transport: TransportName) -> None:
    story = begin(transport)
    ask(story)
    story.wait(4000)
    story.table()
    said = story.newest("response.output_item.done")["item"]["id"]
    story.send("conversation.item.retrieve", item_id=said)
    story.send("conversation.item.truncate", item_id=said, content_index=0, audio_end_ms=300)
    story.send("conversation.item.retrieve", item_id=said)
    story.send("conversation.item.delete", item_id=said)
    story.send("conversation.item.retrieve", item_id=said, event_id="e1")
    story.type_text("More.")
    first = {
        "id": "mine",
        "type": "message",
        "role": "system",
        "content": [{"type": "input_text", "text": "Be brief."}],
    }
    story.send("conversation.item.create", previous_item_id="root", item=first)
    story.send("conversation.item.create", item=first, event_id="e2")
    check(story, f"""
        > conversation.item.retrieve
        conversation.item.retrieved                 item2 assistant completed output_audio 'One two.'
        > conversation.item.truncate
        conversation.item.truncated                 item2 0
        > conversation.item.retrieve
        conversation.item.retrieved                 item2 assistant completed output_audio 'One'
        > conversation.item.delete
        conversation.item.deleted                   item2
        > conversation.item.retrieve
        error                                       item_retrieve_invalid_item_id e1
        > conversation.item.create
        {user("item3", "item1", "input_text 'More.'")}
        > conversation.item.create
        conversation.item.added                     mine system completed input_text 'Be brief.' after None
        conversation.item.done                      mine system completed input_text 'Be brief.' after None
        > conversation.item.create
        error                                       item_create_duplicate_item_id e2
    """)  # fmt: skip


def test_a_session_that_writes_down(transport: TransportName) -> None:
    story = begin(transport, wire={"type": "transcription"}, partials=("Hello",))
    story.say(1500, 2500)
    check(story, f"""
        input_audio_buffer.speech_started           item1
        conversation.item.input_audio_transcription.delta …     item1 0 'Hello'
        input_audio_buffer.speech_stopped           item1
        input_audio_buffer.committed                item1 after None
        {user("item1", "None", "input_audio")}
        conversation.item.input_audio_transcription.delta …     item1 0 ' there.'
        conversation.item.input_audio_transcription.completed   item1 0 'Hello there.'
    """, "A session of type transcription")  # fmt: skip


def test_a_client_comes_back_and_says_what_it_saw(transport: TransportName) -> None:
    story = begin(transport, COUNT, wire=TEXT | {"duplex": {"resume": True}})
    ask(story)
    story.wait(150)
    seen = story.newest("response.content_part.added")["event_id"]
    story.table()
    story.leave()
    story.wait(1000)
    story.come_back(seen)
    story.wait(500)
    said = "One two three four five six "
    assert story.table() == rows(f"""
        > duplex.session.resume
        response.output_text.delta …                reply1 item2 0 0 {said!r}
        response.output_text.done                   reply1 item2 0 0 {said!r}
        response.content_part.done                  reply1 item2 0 0 text {said!r}
        response.output_item.done                   reply1 0 item2 assistant incomplete output_text {said!r}
        conversation.item.done                      item2 assistant incomplete output_text {said!r} after item1
        response.done                               reply1 cancelled client_cancelled item2:incomplete
        duplex.session.resumed
    """, transport)  # fmt: skip


def test_a_client_comes_back_and_says_nothing(transport: TransportName) -> None:
    story = begin(transport, wire=TEXT | {"duplex": {"resume": True}})
    ask(story)
    story.wait(1000)
    story.table()
    story.leave()
    story.come_back(None)
    story.wait(500)
    check(story, """
        > duplex.session.resume
        session.created
        conversation.created
        duplex.session.resumed
        conversation.item.added                     item1 user completed input_text 'Go.' after None restored
        conversation.item.done                      item1 user completed input_text 'Go.' after None restored
        conversation.item.added                     item2 assistant completed output_text 'One two.' after item1 restored
        conversation.item.done                      item2 assistant completed output_text 'One two.' after item1 restored
    """)  # fmt: skip


def test_the_model_speaks_first(transport: TransportName) -> None:
    story = begin(transport, wire={"type": "realtime", "duplex": {"greeting": {"text": "Hi."}}})
    story.wait(2500)
    check(story, spoken("reply1", "item1", "None", "Hi."))


def test_an_answer_reaches_its_bound(transport: TransportName) -> None:
    story = begin(transport, COUNT, wire={"type": "realtime", "max_output_tokens": 3})
    ask(story)
    story.wait(4000)
    check(story, f"""
        > conversation.item.create
        {user("item1", "None", "input_text 'Go.'")}
        > response.create
        {spoken("reply1", "item2", "item1", "One two three ", "incomplete max_output_tokens")}
    """)  # fmt: skip


def test_an_answer_in_text_reaches_its_bound(transport: TransportName) -> None:
    story = begin(transport, COUNT, wire=TEXT | {"max_output_tokens": 3})
    ask(story)
    story.wait(2000)
    check(story, f"""
        > conversation.item.create
        {user("item1", "None", "input_text 'Go.'")}
        > response.create
        {written("reply1", "item2", "item1", "One two three ", "incomplete max_output_tokens")}
    """)  # fmt: skip


def test_an_image_is_shown(transport: TransportName) -> None:
    story = begin(transport, reads=("EXIT",), read_s=0.05)
    content = [{"type": "input_text", "text": "What?"}, image()]
    story.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
    story.send("response.create")
    story.wait(3000)
    check(story, f"""
        > conversation.item.create
        {user("item1", "None", "input_text 'What?' input_image")}
        > response.create
        {spoken("reply1", "item2", "item1", "One two.")}
    """)  # fmt: skip
