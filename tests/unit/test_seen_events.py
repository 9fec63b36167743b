"""Ids of client events: which were there before, within bounds; and which audio a client missed."""

from __future__ import annotations

import pytest

from duplex.actor.seen_events import SeenEvents
from duplex.protocol.missed import undelivered
from duplex.protocol.ring import AudioPlace, EventRing
from duplex.session.messages import Undelivered
from duplex.units import Samples

pytestmark = pytest.mark.unit


def test_an_id_is_new_once() -> None:
    seen = SeenEvents(3)
    assert [seen.repeated(event_id) for event_id in ("a", "b", "a", "b", "c")] == [False, False, True, True, False]


def test_the_oldest_id_is_forgotten_at_the_bound() -> None:
    seen = SeenEvents(2)
    assert [seen.repeated(event_id) for event_id in "abcba"] == [False, False, False, True, False]


def test_without_ids_or_memory_nothing_is_repeated() -> None:
    assert [SeenEvents(3).repeated(event_id) for event_id in (None, None, "", "")] == [False] * 4
    off = SeenEvents(0)
    assert [off.repeated("a"), off.repeated("a")] == [False, False]


def test_missed_audio_is_told_by_item() -> None:
    ring = EventRing(100, audio_bytes_max=25)
    for n, item in enumerate(("x", "x", "y", "x"), 1):
        place = AudioPlace(reply_id=f"of_{item}", item_id=item, begin=Samples(100 * n), length=Samples(100))
        ring.add(n, {"type": "response.output_audio.delta"}, 10, place)
    ring.add(5, {"type": "response.done", "response": {"id": "of_y", "status": "cancelled"}})
    x, y = undelivered(ring.since(1) or [])
    assert x == Undelivered(
        item_id="x", delivered=Samples(200), length=Samples(200), events=2, kept=False, cancelled=False
    )
    assert y == Undelivered(
        item_id="y", delivered=Samples(300), length=Samples(100), events=1, kept=True, cancelled=True
    )
    assert undelivered(ring.since(5) or []) == ()
