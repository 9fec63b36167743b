"""Which client events were taken already, by the ids that the client gave them. Pure."""

from __future__ import annotations

from collections import deque


class SeenEvents:
    """Remembers the newest ids; overflow rule: `drop_oldest`.

    Args:
        ids_max: how many; 0: none, so that nothing is ever taken for a repetition.
    Source: DESIGN.md §1, invariant 9.
    """

    def __init__(self, ids_max: int) -> None:
        self._ids_max = ids_max
        self._order: deque[str] = deque()
        self._ids: set[str] = set()

    def repeated(self, event_id: str | None) -> bool:
        """Note an event; return whether one of the same id was noted before. One without an id never was."""
        if not event_id or not self._ids_max:
            return False
        if event_id in self._ids:
            return True
        if len(self._order) == self._ids_max:
            self._ids.remove(self._order.popleft())
        self._order.append(event_id)
        self._ids.add(event_id)
        return False
