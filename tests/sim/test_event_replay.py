"""A client that says what it saw last: it is told the rest, in order, as it was, each event once."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from duplex_models.sim import SimOptions
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex.config import Settings
from duplex.protocol import TransportName, sequence_of
from duplex.units import MonoNs, ns_from_ms

from .world import Client, Server, Session

pytestmark = pytest.mark.sim

ASKS = {"type": "realtime", "duplex": {"resume": True}}
STORY = "One two three four five six seven eight nine ten."
AUDIO = "response.output_audio.delta"


class Wire(Client):
    """A client that keeps what it got as it came, and loses the newest of it."""

    def __init__(self, server: Server) -> None:
        super().__init__(world=server.world)
        self.texts: list[str] = []

    def send(self, event: str) -> None:
        self.texts.append(event)
        super().send(event)

    def saw(self, number: int) -> str | None:
        """Return the id of the n-th event; None before the first."""
        return None if number == 0 else str(json.loads(self.texts[number - 1])["event_id"])


def begin(
    options: SimOptions, transport: TransportName, config: dict[str, Any] | None = None, lead_ms: int | None = None
) -> tuple[Server, Session, Wire]:
    server = Server(options, Settings.model_validate(config or {}))
    asks = ASKS if lead_ms is None else {"type": "realtime", "duplex": {"resume": True, "lead_ms": lead_ms}}
    session = server.connect(transport, wire=asks, opens=False)
    wire = Wire(server)
    session.client = wire
    session.actor.attach(wire)
    session.actor.channel_open()
    return server, session, wire


def lose(session: Session, quiet_ms: float = 0) -> None:
    session.mute()
    session.actor.detach(MonoNs(ns_from_ms(quiet_ms)))


def come_back(server: Server, session: Session, last_event_id: str | None) -> Wire:
    wire = Wire(server)
    session.client = wire
    session.actor.attach(wire)
    session._mic_on = True
    session.actor.channel_open(last_event_id)
    return wire


def check(server: Server, session: Session, told: list[str]) -> None:
    """Check the invariants over all that a client was told, as if it had never been away."""
    session.client = whole = Wire(server)
    for text in told:
        whole.send(text)
    server.check()


def number(session: Session, text: str) -> int:
    found = sequence_of(json.loads(text)["event_id"], session.actor.session_id)
    assert found is not None
    return found


def kept(session: Session) -> dict[int, str]:
    """Return what the session has sent, or would have, by number."""
    entries = session.actor._events._encoder.ring.since(0) or []
    return {entry.sequence: json.dumps(entry.event, separators=(",", ":")) for entry in entries}


def converse(server: Server, session: Session) -> None:
    session.type_text("Count for me.")
    session.server.world.call_at(MonoNs(ns_from_ms(4000)), lambda: session.say(1200))


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
@settings(max_examples=15, deadline=None, derandomize=True)
@given(drop_ms=st.integers(0, 9000), away_ms=st.integers(0, 3000), lost=st.integers(0, 30))
def test_what_is_seen_is_what_was_sent_each_once(
    transport: TransportName, drop_ms: int, away_ms: int, lost: int
) -> None:
    server, session, first = begin(
        SimOptions(vad="level", script=(STORY, "Yes."), transcripts=("And then?",)), transport
    )
    converse(server, session)
    server.advance(drop_ms)
    seen = max(1, len(first.texts) - lost)
    lose(session)
    server.advance(away_ms)
    second = come_back(server, session, first.saw(seen))
    server.advance(12_000 - drop_ms)
    told = [*first.texts[:seen], *second.texts]
    numbers = [number(session, text) for text in told]
    assert numbers == sorted(set(numbers)), "in order, each once"
    resumed = second.of("duplex.session.resumed")[0]
    assert "session.created" not in second.types()
    sent = kept(session)
    assert {number(session, text): text for text in told}.items() <= sent.items(), "byte for byte"
    left_out = [json.loads(sent[n]) for n in sent.keys() - set(numbers)]
    assert {event["type"] for event in left_out} <= {AUDIO}
    assert second.types().index("duplex.session.resumed") == resumed["replayed"] + len(
        second.of("conversation.item.truncated")[: len({event["item_id"] for event in left_out})]
        if transport == "websocket" else []
    )  # fmt: skip
    audio_ms = sum(len(event["delta"]) * 3 // 4 / 48 for event in left_out)
    assert resumed["audio_missed_ms"] == pytest.approx(audio_ms, abs=2)
    check(server, session, told)


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
def test_every_point_of_a_lifecycle_may_be_the_last_that_was_seen(transport: TransportName) -> None:
    server, session, first = begin(
        SimOptions(vad="level", script=(STORY, "Yes."), transcripts=("And then?",)), transport
    )
    converse(server, session)
    server.advance(14_000)
    assert len(first.of("response.done")) == 2
    for last in range(1, len(first.texts) + 1):
        lose(session)
        back = come_back(server, session, first.saw(last))
        missed = len(first.texts) - last
        assert back.texts[:missed] == first.texts[last:]
        assert back.of("duplex.session.resumed")[-1]["replayed"] >= missed
    server.advance(1000)
    assert "response.created" not in [json.loads(text)["type"] for text in back.texts], "nothing is done twice"


def undelivered_reply(
    play_ms: float, seen: Callable[[Wire], int], config: dict[str, Any] | None = None, lead_ms: int | None = None
) -> tuple[Session, Wire]:
    """Let a reply be sent for a while on WebSocket, of which only a part arrives; return what the client gets on return."""
    server, session, first = begin(SimOptions(vad="level", script=(STORY, "Again.")), "websocket", config, lead_ms)
    session.type_text("Count for me.")
    server.advance(play_ms)
    assert first.of(AUDIO)
    lose(session)
    return session, come_back(server, session, first.saw(seen(first)))


def audio_sent(session: Session) -> list[dict[str, Any]]:
    return [event for event in map(json.loads, kept(session).values()) if event["type"] == AUDIO]


def before_audio(deltas: int) -> Callable[[Wire], int]:
    """Return what finds the last event before the n-th delta of audio, counted from 0."""
    return lambda wire: [n for n, kind in enumerate(wire.types()) if kind == AUDIO][deltas]


@pytest.mark.parametrize("runs_ahead", [True, False])
def test_audio_of_a_reply_that_was_cut_stays_away_and_was_not_heard(runs_ahead: bool) -> None:
    session, back = undelivered_reply(1700, before_audio(4), lead_ms=None if runs_ahead else 500)
    assert back.of(AUDIO) == []
    (done,) = back.of("response.done")
    assert done["response"]["status"] == ("completed" if runs_ahead else "cancelled")
    (truncated,) = back.of("conversation.item.truncated")
    arrived_ms = sum(len(event["delta"]) // 4 * 3 // 48 for event in audio_sent(session)[:4])
    assert truncated["audio_end_ms"] == pytest.approx(arrived_ms, abs=1)
    assert back.of("duplex.session.resumed")[0]["audio_missed_ms"] > 0
    item = session.actor._core.conversation.items()[-1]
    assert (item.heard or 0) // 48 == truncated["audio_end_ms"]
    assert STORY.startswith(item.heard_text()) and item.heard_text() != STORY
    session.server.advance(3000)
    assert "response.created" not in back.types()[back.types().index("duplex.session.resumed") :]


def test_an_answer_of_which_nothing_arrived_is_given_again() -> None:
    session, back = undelivered_reply(2500, before_audio(0))
    session.server.advance(5000)
    assert len(back.of("response.created")) == 1
    assert len(back.of("response.done")) == 2
    assert back.of("conversation.item.truncated")[0]["audio_end_ms"] == 0
    assert back.of(AUDIO), "the new one"


def test_audio_of_a_reply_that_had_ended_comes_late_and_whole() -> None:
    session, back = undelivered_reply(9000, before_audio(2))
    assert back.of(AUDIO) == audio_sent(session)[2:]
    assert back.of("conversation.item.truncated") == []
    assert back.of("duplex.session.resumed")[0]["audio_missed_ms"] == 0
    assert session.actor._core.conversation.items()[-1].heard is None


def test_audio_with_a_hole_stays_away_and_the_history_ends_before_it() -> None:
    small = {"conversation": {"event_ring_audio_bytes_max": 30_000}}
    session, back = undelivered_reply(9000, before_audio(2), small)
    assert back.of(AUDIO) == []
    assert back.of("response.done")[0]["response"]["status"] == "completed"
    (truncated,) = back.of("conversation.item.truncated")
    assert truncated["audio_end_ms"] == 400
    item = session.actor._core.conversation.items()[-1]
    assert (item.heard or 0) // 48 == 400
    assert item.heard_text() != STORY


@pytest.mark.parametrize(("kept", "whole"), [(1_000_000, True), (10_000, False)])
def test_the_last_samples_of_g711_go_with_the_rest_of_the_reply(kept: int, whole: bool) -> None:
    """The filter gives them with the reply's end, behind its last piece of audio."""
    config = {"conversation": {"event_ring_audio_bytes_max": kept}}
    server, session, first = begin(SimOptions(vad="level", script=(STORY,)), "websocket", config)
    session.event(type="session.update", session={"audio": {"output": {"format": {"type": "audio/pcmu"}}}})
    session.type_text("Count for me.")
    server.advance(9000)
    deltas = first.of(AUDIO)
    assert len(deltas[-1]["delta"]) < len(deltas[-2]["delta"]), "the filter's rest"
    lose(session)
    back = come_back(server, session, first.saw(before_audio(2)(first)))
    assert back.of(AUDIO) == (deltas[2:] if whole else [])
    assert (back.of("duplex.session.resumed")[0]["audio_missed_ms"] > 0) is not whole


@pytest.mark.parametrize(
    "last", ["event_000000000001_{id}", "event_000000009999_{id}", "event_000000000009_other", "?"]
)
def test_outside_the_ring_the_answer_says_so_and_the_conversation_is_restored(last: str) -> None:
    server, session, _ = begin(
        SimOptions(vad="level", script=(STORY,)), "webrtc", {"conversation": {"event_ring_max": 5}}
    )
    session.type_text("Count.")
    server.advance(2000)
    lose(session)
    back = come_back(server, session, last.format(id=session.actor.session_id))
    assert back.types()[:3] == ["session.created", "conversation.created", "duplex.session.resumed"]
    resumed = back.of("duplex.session.resumed")[0]
    assert (resumed["items"], resumed["replayed"]) == (2, None)
    assert len(back.of("conversation.item.done")) == 2
    server.check()


@pytest.mark.parametrize(("play_ms", "cut"), [(1500, True), (6000, False)])
def test_a_client_that_is_restored_is_told_which_answers_were_cut(play_ms: int, cut: bool) -> None:
    server, session, _ = begin(SimOptions(vad="level", script=(STORY,)), "webrtc")
    session.type_text("Count.")
    server.advance(play_ms)
    lose(session)
    back = come_back(server, session, None)
    asked, answer = back.of("conversation.item.done")
    assert asked["duplex"] == {"restored": True}
    assert answer["duplex"] == {"restored": True} | ({"cut": True} if cut else {})
    assert answer["item"]["status"] == ("incomplete" if cut else "completed")
    text = answer["item"]["content"][0]["transcript"]
    assert STORY.startswith(text) and (text == STORY) is not cut
    server.check()


def test_a_data_channel_that_is_lost_comes_back_while_the_reply_sounds_on() -> None:
    server, session, first = begin(SimOptions(vad="level", script=(STORY,)), "webrtc")
    session.type_text("Count.")
    server.advance(1500)
    before = len(first.texts)
    session.actor.channel_lost()
    lost_at = server.world.now()
    server.advance(2000)
    assert len(first.texts) == before
    assert [when for when in session.sounding() if when > lost_at], "the voice goes on"
    session.actor.channel_open(first.saw(before - 2))
    server.advance(4000)
    assert first.texts[before : before + 2] == first.texts[before - 2 : before], "what was on its way, again"
    numbers = [number(session, text) for text in first.texts[before:]]
    assert numbers == list(range(before - 1, before - 1 + len(numbers)))
    assert [done["response"]["status"] for done in first.of("response.done")] == ["completed"]
    assert first.of("duplex.session.resumed")[0]["audio_missed_ms"] == 0


def test_a_new_data_channel_of_a_client_that_says_nothing_goes_on_where_the_former_ended() -> None:
    server, session, first = begin(SimOptions(vad="level", script=(STORY,)), "webrtc")
    session.type_text("Count.")
    server.advance(1000)
    session.actor.channel_lost()
    server.advance(2000)
    session.actor.channel_open()
    server.advance(4000)
    numbers = [number(session, text) for text in first.texts]
    assert numbers == list(range(1, len(numbers) + 1))
    server.check()


def test_a_client_event_that_is_sent_again_is_not_applied_again() -> None:
    server, session, first = begin(SimOptions(vad="level", script=("Yes.",)), "websocket")

    def ask(event_id: str) -> None:
        content = [{"type": "input_text", "text": "Are you there?"}]
        item = {"type": "message", "role": "user", "content": content}
        session.event(type="conversation.item.create", event_id=f"{event_id}_item", item=item)
        session.event(type="response.create", event_id=event_id)

    ask("ask_1")
    server.advance(3000)
    lose(session)
    back = come_back(server, session, first.saw(len(first.texts)))
    ask("ask_1")
    ask("ask_2")
    server.advance(3000)
    assert len(back.of("response.created")) == 1
    assert len([item for item in session.actor._core.conversation.items() if item.role == "user"]) == 2
    assert back.of("error") == []
    assert server.total("duplex_repeated_events_total") == 2


def test_ids_are_remembered_within_bounds_and_only_where_resume_is_asked_for() -> None:
    few = Settings.model_validate({"conversation": {"event_ids_max": 2}})
    for wire, expected in ((ASKS, [3, 4, 4, 4]), (None, [3, 4, 5, 6])):
        server = Server(SimOptions(vad="level"), few)
        session = server.connect("websocket", wire=wire)
        counts = []
        for event_id in ("a", "b", "c", "a", "c", "a"):
            item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}
            session.event(type="conversation.item.create", event_id=event_id, item=item)
            counts.append(len(session.actor._core.conversation))
        assert counts[2:] == expected, "the oldest is forgotten, what is forgotten is taken as new"


def test_a_session_restores_after_many_losses_in_a_row() -> None:
    server, session, wire = begin(SimOptions(vad="level", script=(STORY,)), "websocket")
    session.type_text("Count.")
    told: list[str] = []
    for step in itertools.count():
        server.advance(700)
        lose(session)
        seen = max(1, len(wire.texts) - step % 3)
        told += wire.texts[:seen]
        if step == 8:
            break
        wire = come_back(server, session, wire.saw(seen))
    numbers = [number(session, text) for text in told]
    assert numbers == sorted(set(numbers))
    check(server, session, told)
