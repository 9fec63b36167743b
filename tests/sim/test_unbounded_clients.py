"""Clients that send without end: what they make the server keep stays bounded (C73).

Each goes several times past the bound, and not on for the hours of the field case: beyond the bound nothing changes.
"""

from __future__ import annotations

import base64
import json
from collections import deque
from pathlib import Path

import numpy as np
import pytest

from duplex.config import ConversationSettings, Settings
from duplex.protocol.ring import BYTES_MAX
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim

PUSH_TO_TALK = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
GROWTH_MIB_MAX = 64
"""Generous: what is bounded adds up to a few MiB, and what is not to hundreds."""


def resident_mib() -> float:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def connect(server: Server) -> Session:
    """A WebSocket client in push to talk, of which the test keeps only the newest events."""
    server.observe_nothing()
    session = server.connect("websocket", wire=PUSH_TO_TALK)
    session.mute()
    session.effects = deque(maxlen=0)  # type: ignore[assignment]
    session.client.events = deque(session.client.events, maxlen=50)  # type: ignore[assignment]
    return session


def append(seconds: int) -> str:
    loud = np.full(24_000 * seconds, 8000, "<i2")
    loud[::2] *= -1
    return json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(loud.tobytes()).decode()})


def message(text: str) -> str:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    return json.dumps({"type": "conversation.item.create", "item": item})


def test_twenty_minutes_of_audio_without_a_commit() -> None:
    server = Server()
    session, ten_seconds = connect(server), append(10)
    errors = 0
    before = resident_mib()
    for _ in range(120):
        session.actor.receive(ten_seconds)
        server.advance(1000)
        errors = max(errors, len(session.client.of("error")))
    assert resident_mib() - before < GROWTH_MIB_MAX
    assert session.actor.backlog_ms == 0
    (error,) = session.client.of("error")
    assert errors == 1, "told once, not again with each append"
    assert error["error"]["code"] == "input_audio_buffer_full"
    session.event(type="input_audio_buffer.commit")
    server.advance(1000)
    (heard,) = session.client.of("conversation.item.input_audio_transcription.completed")
    bound_s = server.settings.turn.input_buffer_ms_max / 1000
    assert heard["usage"]["seconds"] == pytest.approx(bound_s, abs=0.04), "the newest audio, as told"
    for _ in range(13):
        session.actor.receive(ten_seconds)
        server.advance(1000)
    assert len(session.client.of("error")) == 2, "of the next buffer too"
    server.check()


def test_a_microphone_that_is_always_on_is_no_error() -> None:
    server = Server(settings=Settings.model_validate({"turn": {"input_buffer_ms_max": 2000}}))
    session = server.connect("webrtc", wire=PUSH_TO_TALK)
    session.say(5000)
    server.advance(5000)
    session.event(type="input_audio_buffer.commit")
    server.advance(1000)
    assert session.client.of("error") == []
    (heard,) = session.client.of("conversation.item.input_audio_transcription.completed")
    assert heard["usage"]["seconds"] == pytest.approx(2.0, abs=0.04)


def test_tiny_items_without_end() -> None:
    server = Server()
    session, tiny = connect(server), message("x")
    before = resident_mib()
    for _ in range(10_000):
        session.actor.receive(tiny)
    assert resident_mib() - before < GROWTH_MIB_MAX
    assert len(session.actor._core.conversation) == server.settings.conversation.items_max
    session.type_text("Are you there?")
    server.advance(3000)
    assert session.client.of("response.done")[-1]["response"]["status"] == "completed"


def test_large_items_and_instructions_are_bounded_together() -> None:
    server = Server()
    session = connect(server)
    before = resident_mib()
    for number in range(600):
        session.actor.receive(message(f"{number} {'x' * 99_000}"))
        instructions = f"{number} {'y' * 99_000}"
        update = {"type": "realtime", "instructions": instructions, "duplex": {"resume": True}}
        session.event(type="session.update", session=update)
    assert resident_mib() - before < GROWTH_MIB_MAX
    conversation = session.actor._core.conversation
    assert 1 <= len(conversation) <= ConversationSettings().chars_max // 99_000
    assert session.actor._events._encoder.ring.stats().chars <= BYTES_MAX
    session.event(type="session.update", session={"type": "realtime", "instructions": "z" * 1_000_000})
    assert session.client.of("error")[-1]["error"]["code"] == "string_above_max_length"


def test_what_is_pushed_out_while_it_is_said_harms_nobody() -> None:
    server = Server(settings=Settings.model_validate({"conversation": {"items_max": 2}}))
    session = server.connect()
    session.type_text("Tell me a story.")
    server.advance(1500)
    assert session.sounding()
    for number in range(5):
        session.actor.receive(message(str(number)))
    session.say(900)
    server.advance(9000)
    assert session.ended == []
    done = session.client.of("response.done")
    assert [event["response"]["status"] for event in done] == ["cancelled", "completed"]
    server.check()
