"""What a client that comes back is told of its absence, and what the history says of sound that did not reach it.

sent before the loss    ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇
the last event it saw              │
                                   └─ events: sent again, in order, as they were
                                      audio:  of a reply that ended by itself, whole, with them
                                              of one that was cut, or whose audio is gone: not at all; heard ends here at the latest
"""

from __future__ import annotations

from duplex.session.conversation import Conversation, Item, ItemError
from duplex.session.effects import Outbox, Replay
from duplex.session.events import ItemAdded, ItemTruncated, SessionResumed
from duplex.session.messages import Connected, Undelivered
from duplex.units import Samples


def tell_missed(msg: Connected, conversation: Conversation, outbox: Outbox) -> bool:
    """Send what the client missed; audio that is stale or has a hole stays away, and counts as not heard.

    Args:
        msg: with the number of the last event that reached the client.
        conversation: its items hold from then on what was heard at most.
    Returns:
        Whether the last turn's answer was cut, and nothing of it had reached the client.
    Source: DESIGN.md §1, invariants 1, 8 and 9.
    """
    assert msg.seen is not None, "the client said what it had seen"
    withheld = [(each, _find(conversation, each.item_id)) for each in msg.undelivered]
    withheld = [(each, item) for each, item in withheld if not _is_whole(each, item)]
    outbox.add(Replay(seen=msg.seen, without=tuple(each.item_id for each, _ in withheld)))
    for each, item in withheld:
        if item is not None:
            item.heard = each.delivered if item.heard is None else min(item.heard, each.delivered)
            item.cut = True
            outbox.send(ItemTruncated(item_id=item.id, audio_end=item.heard))
    left_out = sum(each.events for each, _ in withheld)
    outbox.observe("duplex_replayed_events_total", msg.missed - left_out)
    missed = Samples(sum(each.length for each, _ in withheld))
    outbox.send(SessionResumed(items=0, replayed=msg.missed - left_out, audio_missed=missed))
    return _unanswered(withheld, conversation)


def restore(conversation: Conversation, outbox: Outbox) -> None:
    """Send the conversation as it stands, behind `SessionCreated`."""
    items = conversation.items()
    outbox.send(SessionResumed(items=len(items)))
    previous: str | None = None
    for item in items:
        outbox.send(ItemAdded(item=item.view(), previous_item_id=previous, restored=True, cut=item.cut))
        previous = item.id


def _find(conversation: Conversation, item_id: str) -> Item | None:
    """Return an item; None if it was deleted, or is of an out-of-band reply."""
    try:
        return conversation.get(item_id)
    except ItemError:
        return None


def _is_whole(audio: Undelivered, item: Item | None) -> bool:
    """Whether audio can be sent late: its reply was not cut, and nothing of it is gone."""
    cut = item is not None and (item.heard is not None or item.status == "incomplete")
    return audio.kept and not audio.cancelled and not cut


def _unanswered(withheld: list[tuple[Undelivered, Item | None]], conversation: Conversation) -> bool:
    last = conversation.items()[-2:]
    if [item.role for item in last] != ["user", "assistant"]:
        return False
    return any(item is last[1] and not audio.delivered for audio, item in withheld)
