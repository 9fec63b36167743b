"""A second control connection onto a call: it sees what happens, may act, and its errors are its own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.actor.side_channel import CALL_ENDED, SideChannel
from duplex.config import Settings
from duplex.protocol import TooManySideChannels
from duplex.units import MonoNs
from tests.sim.world import Client, Server, Session, check_lifecycle

pytestmark = pytest.mark.sim


def join(session: Session) -> tuple[SideChannel, Client]:
    client = Client(world=session.server.world)
    channel = session.actor.open_side_channel(client)
    channel.channel_open()
    return channel, client


def send(channel: SideChannel, kind: str, **fields: Any) -> None:
    channel.receive(json.dumps({"type": kind, **fields}))


def plain(client: Client, first: int = 0) -> list[dict[str, Any]]:
    return [{name: value for name, value in event.items() if name != "event_id"} for _, event in client.events[first:]]


def test_it_sees_what_the_call_sees_and_acts_on_it() -> None:
    server = Server(SimOptions(vad="level", script=("One two three.",)))
    session = server.connect(wire={"type": "realtime", "instructions": "Be brief.", "duplex": {"events": True}})
    channel, side = join(session)
    assert side.of("session.created")[0]["session"]["instructions"] == "Be brief."
    send(channel, "session.update", session={"instructions": "Be kind."})
    session.say(900)
    server.advance(6000)
    send(channel, "response.create")
    server.advance(4000)
    assert plain(side) == plain(session.client)
    assert session.actor._core.config.instructions == "Be kind."
    assert [event["response"]["status"] for event in side.of("response.done")] == ["completed"] * 2
    check_lifecycle(side.types(), side)
    server.check()


def test_an_error_goes_to_whose_event_it_was_at_once_or_later() -> None:
    server = Server()
    session = server.connect(wire={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
    (channel, side), (_, other) = join(session), join(session)
    send(channel, "response.cancel", event_id="mine")
    send(channel, "no.such.event")
    channel.receive("{")
    send(channel, "input_audio_buffer.append", audio="AAAA", event_id="append")
    send(channel, "duplex.playback.report", response_id="r", played_ms=1, event_id="report")
    send(channel, "input_audio_buffer.commit", event_id="later")
    server.advance(500)
    errors = [event["error"] for event in side.of("error")]
    assert [(each["code"], each["event_id"]) for each in errors] == [
        ("response_cancel_not_active", "mine"),
        ("unknown_event_type", None),
        ("invalid_json", None),
        ("unsupported_on_transport", "append"),
        ("unsupported", "report"),
        ("input_audio_buffer_commit_empty", "later"),
    ]
    assert not session.client.of("error")
    assert not other.of("error")
    session.event(type="response.cancel", event_id="call")
    assert session.client.of("error")[0]["error"]["event_id"] == "call"


def test_what_a_channel_asked_for_before_it_went_is_told_to_nobody_else() -> None:
    server = Server()
    session = server.connect(wire={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
    channel, side = join(session)
    channel.closed("client")
    send(channel, "response.cancel", event_id="late")
    session.type_text("go")
    server.advance(8000)
    assert not session.client.of("error")
    assert side.types() == ["session.created", "conversation.created"]
    assert session.client.of("response.done")[0]["response"]["status"] == "completed"


def test_one_that_joins_in_the_middle_of_a_reply_sees_its_end() -> None:
    server = Server(SimOptions(vad="level", script=("word " * 20,)))
    session = server.connect()
    session.type_text("go")
    server.advance(2000)
    channel, side = join(session)
    send(channel, "response.cancel")
    server.advance(1000)
    assert side.types()[-3:] == session.client.types()[-3:]
    assert side.of("response.done")[0]["response"]["status"] == "cancelled"
    assert side.of("response.content_part.done") == [
        event | {"event_id": side.of("response.content_part.done")[0]["event_id"]}
        for event in session.client.of("response.content_part.done")
    ]


def test_a_call_whose_own_channel_is_not_open_is_led_from_the_side() -> None:
    server = Server(SimOptions(vad="level", script=("Yes.",)))
    session = server.connect(opens=False)
    channel, side = join(session)
    send(channel, "response.create", response={"instructions": "Greet."})
    server.advance(4000)
    assert side.of("response.done")[0]["response"]["status"] == "completed"
    assert not session.client.events
    session.actor.channel_open()
    assert session.client.types()[0] == "session.created"
    assert side.types().count("session.created") == 1


def test_what_is_asked_for_while_the_client_is_away_is_said_when_it_is_back() -> None:
    server = Server(SimOptions(vad="level", script=("Yes.",)))
    session = server.connect(wire={"type": "realtime", "duplex": {"resume": True}})
    channel, side = join(session)
    session.mute()
    session.actor.detach(MonoNs(0))
    send(channel, "response.create", response={"metadata": {"asked": "away"}})
    server.advance(3000)
    assert not side.of("response.created"), "nothing is made for nobody"
    send(channel, "response.create", event_id="second")
    assert side.of("error")[0]["error"]["code"] == "conversation_already_has_active_response"
    session.client = Client(world=server.world)
    session.actor.attach(session.client)
    session.actor.channel_open()
    server.advance(4000)
    (done,) = session.client.of("response.done")
    assert (done["response"]["status"], done["response"]["metadata"]) == ("completed", {"asked": "away"})
    server.check()


def test_there_are_so_many_and_they_close_with_the_call() -> None:
    server = Server(settings=Settings.model_validate({"server": {"side_channels_max": 2}}))
    session = server.connect()
    (first, gone), (_, stays) = join(session), join(session)
    with pytest.raises(TooManySideChannels):
        join(session)
    first.closed("client")
    _, newest = join(session)
    session.leave()
    assert (gone.closed, stays.closed, newest.closed) == (None, CALL_ENDED, CALL_ENDED)
    send(first, "response.create")
    assert session.ended


def test_the_token_that_resumes_the_call_is_the_calls_own() -> None:
    server = Server()
    session = server.connect()
    object.__setattr__(session.actor._context, "offer", lambda name: "rt_secret")
    channel, side = join(session)
    send(channel, "session.update", session={"duplex": {"resume": True}})
    assert session.client.of("duplex.session.token")
    assert not side.of("duplex.session.token")
    assert side.of("session.updated")


def test_our_own_events_are_for_who_asks_for_them() -> None:
    """A side channel is a WebSocket, where stock clients take an event that they do not know for an error."""
    server = Server(SimOptions(vad="level", script=("One two three.",)))
    session = server.connect()
    _, side = join(session)
    session.say(900)
    server.advance(6000)
    assert session.client.of("duplex.metrics")
    assert side.of("response.done") and not side.of("duplex.metrics")


def test_a_call_that_is_under_way_is_told_to_its_end() -> None:
    weather = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
    server = Server(SimOptions(vad="level", token_s=0.05))
    session = server.connect(wire={"type": "realtime", "tools": [weather], "duplex": {"events": True}})
    session.mute()
    session.type_text('call get_weather {"city": "Paris"}')
    while not session.client.of("response.function_call_arguments.delta"):
        server.advance(10)
    channel, side = join(session)
    server.advance(1000)
    assert plain(side)[2:] == plain(session.client)[-len(plain(side)[2:]) :]
    assert side.of("response.function_call_arguments.done") and side.of("response.done")
    send(channel, "duplex.session.resume", token="rt_x", event_id="mine")
    error = side.of("error")[0]["error"]
    assert (error["code"], error["event_id"]) == ("unsupported", "mine")
    server.check()
