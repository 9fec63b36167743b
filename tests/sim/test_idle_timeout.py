"""`idle_timeout_ms` of server_vad: the model speaks when nobody does (protocol.md, "Lifecycles": idle)."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.protocol import TransportName
from duplex.session.idle import IdleTimer
from duplex.units import MonoNs, Samples, ns_from_ms
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
TIMEOUT_MS = 5000


def connect(server: Server, transport: TransportName = "webrtc", **detection: Any) -> Session:
    detection = {"type": "server_vad", "idle_timeout_ms": TIMEOUT_MS} | detection
    return server.connect(transport, wire={"type": "realtime", "audio": {"input": {"turn_detection": detection}}})


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
def test_the_time_begins_when_a_reply_has_been_heard_and_brings_the_next_one(transport: TransportName) -> None:
    server = Server(SimOptions(vad="level", script=("One two three four.", "Are you there?")))
    session = connect(server, transport)
    session.type_text("go")
    server.advance(1000 + 4 * 300 + TIMEOUT_MS + 800)
    at, (timeout,) = session.client.at, session.client.of("input_audio_buffer.timeout_triggered")
    done = at("response.done")
    played = at("output_audio_buffer.stopped") if transport == "webrtc" else done
    assert (
        ns_from_ms(TIMEOUT_MS) <= at("input_audio_buffer.timeout_triggered") - played <= ns_from_ms(TIMEOUT_MS + 1500)
    )
    assert timeout["audio_end_ms"] - timeout["audio_start_ms"] == pytest.approx(
        TIMEOUT_MS, abs=300
    )  # silence is told in long spans
    kinds = session.client.types()
    tail = kinds[kinds.index("input_audio_buffer.timeout_triggered") :]
    assert tail[:6] == [
        "input_audio_buffer.timeout_triggered",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "conversation.item.input_audio_transcription.completed",
        "response.created",
    ]
    (committed,) = session.client.of("input_audio_buffer.committed")
    assert committed["item_id"] == timeout["item_id"]
    asked = server.stage("think").prompts[-1].messages[-1]
    assert (asked.role, asked.text) == ("user", server.settings.turn.idle_instructions)
    server.advance(2500)
    assert session.client.of("response.done")[1]["response"]["status"] == "completed"
    server.check()


def test_each_reply_begins_the_time_anew() -> None:
    server = Server(SimOptions(vad="level", script=("Yes.",)))
    session = connect(server)
    session.type_text("go")
    server.advance(3 * (TIMEOUT_MS + 1500))
    assert len(session.client.of("input_audio_buffer.timeout_triggered")) == 3
    server.check()


def test_it_waits_for_a_first_reply_and_for_who_speaks() -> None:
    server = Server(SimOptions(vad="level", script=("Yes.",)))
    session = connect(server, create_response=False)
    server.advance(3 * TIMEOUT_MS)
    session.type_text("go")
    server.advance(3000)
    session.say(900)  # a turn that the application answers when it likes
    server.advance(3 * TIMEOUT_MS)
    assert not session.client.of("input_audio_buffer.timeout_triggered")
    session.event(type="response.create")
    server.advance(2 * TIMEOUT_MS)
    assert len(session.client.of("input_audio_buffer.timeout_triggered")) == 1


@pytest.mark.parametrize("change", [{"turn_detection": None}, {"turn_detection": {"type": "semantic_vad"}}])
def test_other_ways_to_find_turns_have_no_timeout(change: dict[str, Any]) -> None:
    server = Server(SimOptions(vad="level", script=("Yes.",)))
    session = connect(server)
    session.type_text("go")
    server.advance(3000)
    session.event(type="session.update", session={"type": "realtime", "audio": {"input": change}})
    server.advance(3 * TIMEOUT_MS)
    assert not session.client.of("input_audio_buffer.timeout_triggered")


def test_a_cough_begins_the_time_anew_and_a_turn_ends_it() -> None:
    idle, second = IdleTimer(), ns_from_ms(1000)

    def look(at_s: int, *, playing: bool = False, quiet: bool = True) -> None:
        idle.look(playing=playing, quiet=quiet, position=Samples(at_s * 48_000), now=MonoNs(at_s * second))

    look(0)
    assert idle.deadline(5000) is None
    look(1, playing=True)
    look(2)
    look(3, quiet=False)
    look(4)
    look(5)
    assert idle.deadline(5000) == 9 * second
    assert idle.deadline(None) is None
    assert idle.take(5000, MonoNs(9 * second - 1)) is None
    assert idle.take(5000, MonoNs(9 * second)) == 4 * 48_000
    assert idle.take(5000, MonoNs(10 * second)) is None
    look(11, playing=True)
    look(12)
    idle.disarm()
    look(13)
    assert idle.deadline(5000) is None
