"""Events on their way to their client: those that it cannot be told of yet, and those that are too large for its connection."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duplex.actor.client_events import ClientEvents
from duplex.actor.side_channel import SideChannels
from duplex.media.contract import TooLarge
from duplex.protocol import WireEncoder, WireProfile, initial
from duplex.session.events import ItemDeleted, SessionCreated, SessionToken

pytestmark = pytest.mark.unit


class Client:
    """Takes down what it is sent.

    Args:
        bytes_max: what it takes in one message.
    """

    def __init__(self, bytes_max: int = 1_000_000) -> None:
        self.bytes_max = bytes_max
        self.events: list[dict[str, Any]] = []

    def send(self, event: str) -> TooLarge | None:
        if len(event) > self.bytes_max:
            return TooLarge(size_bytes=len(event), bytes_max=self.bytes_max)
        self.events.append(json.loads(event))
        return None

    async def close(self, reason: str) -> None:
        raise AssertionError("nobody closes it")


def begin(client: Client, early_max: int = 10) -> tuple[ClientEvents, list[str]]:
    encoder = WireEncoder(session_id="s", conversation_id="c", transport="webrtc", ring_events_max=100)
    observed: list[str] = []
    sides = SideChannels(0)
    events = ClientEvents("s", encoder, sides, early_max, lambda name, value, labels: observed.append(name))
    events.transport = client
    return events, observed


CREATED = SessionCreated(config=initial(WireProfile(), session_id="s"))


def test_what_comes_too_early_is_told_behind_the_first_event_up_to_the_bound() -> None:
    client = Client()
    events, _ = begin(client, early_max=2)
    for item in ("item_1", "item_2", "item_3"):
        events.send(ItemDeleted(item_id=item))
    assert client.events == []
    events.send(CREATED)
    told = [(event["type"], event.get("item_id")) for event in client.events]
    assert told[0] == ("session.created", None)
    assert told[-2:] == [("conversation.item.deleted", "item_2"), ("conversation.item.deleted", "item_3")]
    assert ("conversation.item.deleted", "item_1") not in told


def test_an_error_stands_in_the_place_of_what_is_too_large() -> None:
    client = Client(bytes_max=5000)
    events, observed = begin(client)
    events.channel_open(None)
    events.send(CREATED)
    events.send(SessionToken(token="t" * 6000, window_s=30))
    events.send(ItemDeleted(item_id="item_1"))
    created, conversation, error, deleted = client.events
    numbers = [event["event_id"] for event in (created, conversation, error, deleted)]
    assert numbers == [f"event_{n:012d}_s" for n in (1, 2, 4, 5)]
    missing = "event_000000000003_s"
    unsent = error["duplex"]["unsent"]
    assert (unsent["type"], unsent["event_id"], unsent["bytes_max"]) == ("duplex.session.token", missing, 5000)
    assert 6000 < unsent["bytes"] < 6200
    assert (error["error"]["code"], error["error"]["type"]) == ("event_not_sent", "server_error")
    assert missing in error["error"]["message"]
    assert observed == ["duplex_unsent_events_total"]


def test_the_error_comes_behind_all_that_was_numbered_before_it() -> None:
    client = Client(bytes_max=5000)
    events, _ = begin(client)
    events.send(ItemDeleted(item_id="early"))
    asked = {"type": "realtime", "instructions": "x" * 6000}
    events.send(SessionCreated(config=initial(WireProfile(), session_id="s", session=asked)))
    assert [event["type"] for event in client.events] == ["conversation.created", "error", "conversation.item.deleted"]
    numbers = [event["event_id"] for event in client.events]
    assert numbers == sorted(numbers)


def test_what_was_too_large_is_kept_for_a_return_by_a_way_that_takes_it() -> None:
    events, _ = begin(Client(bytes_max=5000))
    events.channel_open(None)
    events.send(CREATED)
    events.send(ItemDeleted(item_id="i" * 6000))
    events.detach()
    events.transport = wide = Client()
    told = events.channel_open("event_000000000002_s")
    assert (told.seen, told.missed) == (2, 2)
    events.replay(2, ())
    assert [event["type"] for event in wide.events] == ["conversation.item.deleted", "error"]
    assert wide.events[0]["item_id"] == "i" * 6000


def test_a_return_by_a_way_that_takes_no_more_is_told_again() -> None:
    events, _ = begin(Client())
    events.channel_open(None)
    events.send(CREATED)
    events.detach()
    events.send(ItemDeleted(item_id="i" * 6000))  # while the client is away
    events.transport = narrow = Client(bytes_max=5000)
    events.channel_open("event_000000000002_s")
    events.replay(2, ())
    (error,) = narrow.events
    assert error["duplex"]["unsent"]["event_id"] == "event_000000000003_s"


def test_a_client_that_takes_nothing_is_not_told_so_for_ever() -> None:
    client = Client(bytes_max=10)
    events, observed = begin(client)
    events.send(CREATED)
    assert client.events == []
    assert len(observed) == 4, "the two events of the beginning, and one error for each"
