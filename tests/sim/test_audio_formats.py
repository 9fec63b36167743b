"""G.711 on WebSocket: in and out at 8 kHz, as the session says at the moment."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from duplex_models.sim import SimOptions

from duplex.media import g711
from duplex.protocol import TransportName
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
LAWS = {"audio/pcmu": g711.Law.MU, "audio/pcma": g711.Law.A}


def formats(name: str) -> dict[str, Any]:
    return {
        "audio": {"input": {"format": {"type": name}, "turn_detection": None}, "output": {"format": {"type": name}}}
    }


def tone(ms: int, level: int = 8000, hz: int = 400) -> np.ndarray[Any, Any]:
    return (level * np.sin(2 * np.pi * hz * np.arange(8 * ms) / 8000)).astype(np.int16)


def said(session: Session) -> bytes:
    return b"".join(base64.b64decode(each["delta"]) for each in session.client.of("response.output_audio.delta"))


@pytest.mark.parametrize("name", LAWS)
def test_what_is_appended_is_heard_at_its_length_and_what_is_said_is_encoded(name: str) -> None:
    server = Server(SimOptions(vad="level", script=("One two three.",)))
    session = server.connect("websocket", wire={"type": "realtime", **formats(name)})
    session.mute()
    encoded = g711.encode(tone(2000), LAWS[name])
    for start in range(0, len(encoded), 161):  # pieces of an odd number of bytes are whole samples here
        audio = base64.b64encode(encoded[start : start + 161]).decode()
        session.event(type="input_audio_buffer.append", audio=audio)
    session.event(type="input_audio_buffer.commit")
    session.event(type="response.create")
    server.advance(6000)
    (words,) = session.client.of("conversation.item.input_audio_transcription.completed")
    assert float(words["transcript"].split()[0]) == pytest.approx(2.0, abs=0.02)
    done = session.client.of("response.done")[0]["response"]
    assert done["audio"]["output"]["format"] == {"type": name}
    assert len(said(session)) == done["usage"]["duplex"]["output_audio_ms"] * 8
    assert np.abs(g711.decode(said(session), LAWS[name])).max() > 1000
    server.check()


def pcm(ms: int) -> str:
    return base64.b64encode(np.resize(np.array([8000, -8000], "<i2"), 24 * ms).tobytes()).decode()


def test_a_turn_that_the_client_commits_is_all_that_was_appended_before_and_nothing_else() -> None:
    """A tenth of a second is enough, wherever in the stream it lies; what the resampler holds back goes with its turn."""
    server = Server(SimOptions(vad="level"))
    session = server.connect("websocket", wire={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
    session.mute()
    lengths = [100, 100, 333, 110, 500, 100]
    for ms in lengths:
        session.event(type="input_audio_buffer.append", audio=pcm(ms))
        session.event(type="input_audio_buffer.commit")
        server.advance(500)
        session.event(type="input_audio_buffer.append", audio=pcm(70))
        session.event(type="input_audio_buffer.clear")
    heard = session.client.of("conversation.item.input_audio_transcription.completed")
    assert not session.client.of("error")
    assert [event["usage"]["seconds"] for event in heard] == pytest.approx([ms / 1000 for ms in lengths], abs=0.001)
    server.check()


def test_the_format_changes_between_replies_and_a_reply_keeps_its_own() -> None:
    server = Server(SimOptions(vad="level", script=("One two three four five six.", "Yes.")))
    session = server.connect("websocket", wire={"type": "realtime", "duplex": {"lead_ms": 300}})
    session.type_text("go")
    server.advance(600)
    session.event(type="session.update", session=formats("audio/pcma"))
    server.advance(6000)
    first = len(said(session))
    session.type_text("again")
    server.advance(6000)
    one, two = (event["response"] for event in session.client.of("response.done"))
    assert one["audio"]["output"]["format"] == {"type": "audio/pcm", "rate": 24000}
    assert two["audio"]["output"]["format"] == {"type": "audio/pcma"}
    assert first == one["usage"]["duplex"]["output_audio_ms"] * 48
    assert len(said(session)) - first == two["usage"]["duplex"]["output_audio_ms"] * 8
    session.event(type="session.update", session={"audio": {"output": {"format": None}}})
    shown = session.client.of("session.updated")[-1]["session"]["audio"]
    assert (shown["output"]["format"]["type"], shown["input"]["format"]["type"]) == ("audio/pcm", "audio/pcma")


@pytest.mark.parametrize("name", ["audio/pcm", *LAWS])
@pytest.mark.parametrize(("audio", "told"), [("", "empty"), ("A", "base64"), ("####", "base64"), ("é", "base64")])
def test_audio_that_cannot_be_read_is_one_error_and_the_session_hears_on(name: str, audio: str, told: str) -> None:
    server = Server()
    session = server.connect("websocket", wire={"type": "realtime", **formats(name)})
    session.mute()
    session.event(type="input_audio_buffer.append", audio=audio, event_id="bad")
    (error,) = (each["error"] for each in session.client.of("error"))
    assert (error["code"], error["param"], error["event_id"]) == ("invalid_audio", "audio", "bad")
    assert told in error["message"]
    assert session.actor.backlog_ms == 0


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
def test_a_call_takes_a_format_without_effect(transport: TransportName) -> None:
    server = Server(SimOptions(vad="level", script=("Yes.",)))
    session = server.connect(transport, wire={"type": "realtime", **formats("audio/pcmu")})
    session.type_text("go")
    server.advance(4000)
    assert bool(session.client.of("response.output_audio.delta")) is (transport == "websocket")
    assert bool(session.sounding()) is (transport == "webrtc")


def test_the_speed_changes_between_replies() -> None:
    server = Server(SimOptions(vad="level", script=("One two three four five six.",)))
    session = server.connect("websocket", wire={"type": "realtime", "audio": {"output": {"speed": 1.5}}})
    for speed in (None, 0.25):
        if speed is not None:
            session.event(type="session.update", session={"audio": {"output": {"speed": speed}}})
        session.type_text("go")
        server.advance(15_000)
    fast, slow = (
        event["response"]["usage"]["duplex"]["output_audio_ms"] for event in session.client.of("response.done")
    )
    assert slow > 4 * fast
    session.event(type="session.update", session={"audio": {"output": {"speed": 1.51}}}, event_id="fast")
    error = session.client.of("error")[0]["error"]
    assert (error["code"], error["param"]) == ("invalid_value", "session.audio.output.speed")
    assert session.actor._core.config.speed == 0.25
