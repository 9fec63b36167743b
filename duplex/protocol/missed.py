"""Of the events that a client missed: which audio is among them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from duplex.protocol.ring import RingEntry
from duplex.session.messages import Undelivered
from duplex.units import Samples


def undelivered(missed: Sequence[RingEntry]) -> tuple[Undelivered, ...]:
    """Return the audio in the events that a client missed, by item, in the order of their first deltas."""
    by_item: dict[str, list[RingEntry]] = {}
    for entry in missed:
        if entry.audio is not None:
            by_item.setdefault(entry.audio.item_id, []).append(entry)
    cancelled = {
        entry.event["response"]["id"]
        for entry in missed
        if entry.event is not None
        and entry.event["type"] == "response.done"
        and entry.event["response"]["status"] in ("cancelled", "failed")
    }
    return tuple(_of_item(entries, cancelled) for entries in by_item.values())


def _of_item(entries: Sequence[RingEntry], cancelled: set[str]) -> Undelivered:
    places = [entry.audio for entry in entries if entry.audio is not None]
    return Undelivered(
        item_id=places[0].item_id,
        delivered=places[0].begin,
        length=Samples(sum(place.length for place in places)),
        events=len(places),
        kept=all(entry.event is not None for entry in entries),
        cancelled=places[0].reply_id in cancelled,
    )
