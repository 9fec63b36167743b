"""Events on their way to a client that cannot be told of them yet: kept up to a bound, and told behind the first."""

from __future__ import annotations

import json

import pytest

from duplex.actor.client_events import ClientEvents
from duplex.actor.side_channel import SideChannels
from duplex.protocol import WireEncoder, WireProfile, initial
from duplex.session.events import ItemDeleted, SessionCreated

pytestmark = pytest.mark.unit


class Client:
    """Takes down what it is sent."""

    def __init__(self) -> None:
        self.events: list[dict[str, str]] = []

    def send(self, event: str) -> None:
        self.events.append(json.loads(event))

    async def close(self, reason: str) -> None:
        raise AssertionError("nobody closes it")


def test_what_comes_too_early_is_told_behind_the_first_event_up_to_the_bound() -> None:
    encoder = WireEncoder(session_id="s", conversation_id="c", transport="webrtc", ring_events_max=10)
    events, client = ClientEvents("s", encoder, SideChannels(0), early_max=2), Client()
    events.transport = client
    for item in ("item_1", "item_2", "item_3"):
        events.send(ItemDeleted(item_id=item))
    assert client.events == []
    events.send(SessionCreated(config=initial(WireProfile(), session_id="s")))
    told = [(event["type"], event.get("item_id")) for event in client.events]
    assert told[0] == ("session.created", None)
    assert told[-2:] == [("conversation.item.deleted", "item_2"), ("conversation.item.deleted", "item_3")]
    assert ("conversation.item.deleted", "item_1") not in told
