"""Which conversation keeps its prefix in which of the engine's slots. Pure."""

from __future__ import annotations

Key = tuple[str, int]
"""Session and output lane."""


class SlotTable:
    """Slots pinned to conversations, the one that was used longest ago given away first.

    A conversation waits for its own slot while that is busy, rather than read its prefix again in another.
    """

    def __init__(self, count: int) -> None:
        self._order: list[int] = list(range(count))  # used longest ago first
        self._owner: dict[int, Key] = {}
        self._busy: set[int] = set()

    def acquire(self, key: Key) -> int | None:
        """Take the conversation's slot, or the best idle one; None while there is none."""
        own = next((slot for slot, owner in self._owner.items() if owner == key), None)
        if own is not None:
            return None if own in self._busy else self._take(own, key)
        idle = [slot for slot in self._order if slot not in self._busy]
        free = [slot for slot in idle if slot not in self._owner]
        slot = next(iter(free or idle), None)
        return None if slot is None else self._take(slot, key)

    def _take(self, slot: int, key: Key) -> int:
        self._owner[slot] = key
        self._busy.add(slot)
        self._order.remove(slot)
        self._order.append(slot)
        return slot

    def give_back(self, slot: int) -> None:
        """The slot's run ended; its prefix stays pinned."""
        self._busy.remove(slot)

    def forget(self, session: str) -> None:
        """The session ended: its slots may go to anyone."""
        for slot in [s for s, (owner, _) in self._owner.items() if owner == session]:
            del self._owner[slot]
