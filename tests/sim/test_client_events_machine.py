"""Anything that a client may send or do, in any order: the session lives, each event is answered once, and the order holds."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

import pytest
from duplex_models.sim import SimOptions
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pydantic import ValidationError

from duplex.protocol import TransportName
from duplex.protocol.client_events import CLIENT_EVENT
from duplex.units import MonoNs, ns_from_ms
from tests.sim.audit import Audit
from tests.sim.chaos import Watch
from tests.sim.client_event_strategies import BROKEN, NAMELESS, WEATHER, Draw, an_event, broken
from tests.sim.world import Client, Server

pytestmark = pytest.mark.sim
EXAMPLES = os.environ.get("DUPLEX_MACHINE_EXAMPLES")
"""For a long run, of other examples each time."""
STEPS = 40
STAYS_MS = 3000
"""A client comes back for as long at least."""
SCRIPT = ("One two three four, five six seven eight. " * 3, "Short.", "")
ANSWERS = {
    "conversation.item.retrieve": "conversation.item.retrieved", "conversation.item.delete": "conversation.item.deleted",
    "conversation.item.truncate": "conversation.item.truncated", "conversation.item.create": "conversation.item.done",
    "session.update": "session.updated",
}  # fmt: skip
"""Events that are answered at once, by this or by an error."""
TOOLS = {"type": "realtime", "tools": [WEATHER], "duplex": {"resume": True, "events": True}}


class ClientEvents(RuleBasedStateMachine):
    """A client, and a person who speaks."""

    @initialize(
        transport=st.sampled_from(["webrtc", "websocket"]), slow=st.booleans(), reads=st.booleans(),
        listening=st.sampled_from([{}, {}, {"turn_detection": {"type": "server_vad"}}, {"turn_detection": None}]),
    )  # fmt: skip
    def begin(self, transport: TransportName, slow: bool, reads: bool, listening: dict[str, Any]) -> None:
        cost = 0.15 if slow else 0.0
        self.server = Server(
            SimOptions(
                vad="level", script=SCRIPT, partials=("Well",), token_s=0.01, transcribe_s=cost, talk_s=cost / 3,
                first_token_s=cost, reads=("EXIT",) if reads else (), read_s=cost,
            )
        )  # fmt: skip
        self.server.context = replace(
            self.server.context, come_back=lambda _, asked: self.session.actor.refuse_return(asked.event_id)
        )
        self.session = self.server.connect(transport, TOOLS | {"audio": {"input": listening}})
        self.watch = Watch(self.session, live=transport == "webrtc")
        self.audit = Audit(self.session.actor.session_id)
        self.seen = self.sent = self.nameless = self.may_leave_at = 0

    # What a client does. --------------------------------------------------------------------------------------------

    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        self._send(self._event(data.draw))

    @rule(data=st.data())
    def send_broken(self, data: st.DataObject) -> None:
        self._send(broken(data.draw, self._event(data.draw)))

    @rule(kind=st.sampled_from(["response.create", "response.cancel", "input_audio_buffer.commit"]))
    def send_plain(self, kind: str) -> None:
        self._send({"type": kind})

    @rule(
        words=st.sampled_from(
            ["Go on.", 'call get_weather {"city": "Paris"}', 'say and call get_weather {"city": "X"}']
        )
    )
    def type_text(self, words: str) -> None:
        content = [{"type": "input_text", "text": words}]
        item = {"type": "message", "role": "user", "content": content}
        self._send({"type": "conversation.item.create", "item": item})
        self._send({"type": "response.create"})

    @rule(text=st.sampled_from(["text", "audio"]), own=st.booleans())
    def ask_beside_the_conversation(self, text: str, own: bool) -> None:
        asked = {"conversation": "none", "output_modalities": [text], **({"input": []} if own else {})}
        self._send({"type": "response.create", "response": asked})

    @rule(text=st.sampled_from([*BROKEN, *NAMELESS]))
    def send_no_event(self, text: str | bytes) -> None:
        named = text not in NAMELESS
        event_id = self._new_id() if named else None
        self.nameless += not named
        if event_id is not None:
            text = text.replace("ID", event_id) if isinstance(text, str) else text.replace(b"ID", event_id.encode())
        self.session.actor.receive(text)
        assert self._errors() == [event_id], text

    @precondition(lambda self: self.server.world.now() >= self.may_leave_at)
    @rule(says=st.booleans(), away_ms=st.sampled_from([0, 300, 2000]), quiet_ms=st.sampled_from([0, 400]))
    def lose_the_connection_and_come_back(self, says: bool, away_ms: int, quiet_ms: int) -> None:
        self.session.mute()
        self.session.actor.detach(MonoNs(ns_from_ms(quiet_ms)))
        self._look()
        self.server.advance(away_ms)
        self.may_leave_at = self.server.world.now() + ns_from_ms(STAYS_MS)
        self.session.client, self.seen = Client(world=self.server.world), 0
        self.audit.come_back(says)
        self.session.actor.attach(self.session.client)
        self.session._mic_on = True
        self.session.actor.channel_open(self.audit.last_event_id if says else None)

    # What happens beside it. ----------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([120, 400, 900]))
    def begin_to_speak(self, ms: int) -> None:
        self.session.say(ms)

    @rule(ms=st.sampled_from([400, 900]), then_ms=st.sampled_from([100, 700, 2000]))
    def speak(self, ms: int, then_ms: int) -> None:
        self.session.say(ms)
        self.server.advance(ms + then_ms)

    @rule(ms=st.sampled_from([20, 150, 700, 1500]), microphone=st.sampled_from([True, True, True, False]))
    def wait(self, ms: int, microphone: bool) -> None:
        self.session._mic_on = microphone
        self.server.advance(ms)
        self.session._mic_on = True

    # What always holds. ---------------------------------------------------------------------------------------------

    @invariant()
    def all_is_well(self) -> None:
        if not hasattr(self, "session"):
            return
        self._look()
        self.watch.check()
        assert not self.session.ended and self.session.client.closed is None
        assert not self.server.stale
        assert self.server.total("duplex_invariant_violations_total") == 0
        assert self.server.total("duplex_stale_packets_total") == 0
        self.server.measures.clear()
        self.server.spans.clear()
        known = [item.id for item in self.session.actor._core.conversation.items()]
        assert self.audit.items == known
        errors = self.audit.errors
        assert all(count == 1 for event_id, count in errors.items() if event_id is not None), errors
        assert errors[None] <= self.nameless

    def teardown(self) -> None:
        if not hasattr(self, "session"):
            return
        self.session.mute()
        self._send({"type": "session.update", "session": {"audio": {"input": {"turn_detection": None}}}})
        for _ in range(60):
            self.server.advance(1000)
            self.all_is_well()
            if not self.audit.open:
                break
        self.server.advance(1000)
        self.all_is_well()
        self.audit.finish()
        self.session.leave()
        self.server.advance(1000)
        assert self.session.ended == [self.session.actor.session_id]
        assert self.server.runners.idle

    # Inside. --------------------------------------------------------------------------------------------------------

    def _event(self, draw: Draw) -> dict[str, Any]:
        return an_event(
            draw, [*self.audit.items[-4:], *self.audit.items[:1], *self.audit.ids[-3:], "mine", "root", "item_none"]
        )

    def _new_id(self) -> str:
        self.sent += 1
        return f"e{self.sent}"

    def _send(self, event: dict[str, Any]) -> None:
        event_id = self._new_id()
        event = event | {"event_id": event_id}
        note(json.dumps(event)[:400])
        there, config = event.get("item_id") in self.audit.items, self.session.actor._core.config
        self.session.actor.receive(json.dumps(event))
        told = self._look()
        own = [each for each in told if each["type"] == "error" and each["error"]["event_id"] == event_id]
        assert not own or self.session.actor._core.config is config, "taken in part"
        if not _is_event(event):
            assert len(own) == 1, event
            return
        answer = ANSWERS.get(event["type"])
        if answer is not None:
            answered = [each for each in told if each["type"] == answer]
            assert len(answered) + len(own) >= 1 and len(own) <= 1, (event, told)
        if event["type"] in ("conversation.item.retrieve", "conversation.item.delete"):
            assert len(own) == (0 if there else 1), event

    def _errors(self) -> list[str | None]:
        return [event["error"]["event_id"] for event in self._look() if event["type"] == "error"]

    def _look(self) -> list[dict[str, Any]]:
        """Check what has come since the last look, and return it."""
        told = [event for _, event in self.session.client.events[self.seen :]]
        self.seen += len(told)
        for event in told:
            self.audit.take(event)
        return told


def _is_event(event: dict[str, Any]) -> bool:
    try:
        CLIENT_EVENT.validate_python(event)
    except ValidationError:
        return False
    return True


def test_whatever_a_client_sends() -> None:
    chosen = settings(
        max_examples=int(EXAMPLES or 60), stateful_step_count=STEPS, derandomize=EXAMPLES is None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(ClientEvents, settings=chosen)
