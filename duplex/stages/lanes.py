"""The epochs of all lanes, and the checks against them on the edges of the graph."""

from __future__ import annotations

from duplex.payloads import Address


class Lanes:
    """The epochs of all lanes of the open sessions; a lane that nobody cut is at 0."""

    def __init__(self) -> None:
        self._epochs: dict[str, dict[int, int]] = {}

    def open(self, session: str) -> None:
        """Let work of a session pass."""
        self._epochs[session] = {}

    def release(self, session: str) -> None:
        """Let nothing of a session pass any more."""
        self._epochs.pop(session, None)

    def cut(self, session: str, lane: int, epoch: int) -> None:
        """Raise a lane's epoch; never lowers it."""
        lanes = self._epochs.get(session)
        if lanes is not None:
            lanes[lane] = max(epoch, lanes.get(lane, 0))

    def epoch(self, session: str, lane: int) -> int:
        """Return a lane's epoch."""
        return self._epochs.get(session, {}).get(lane, 0)

    def alive(self, address: Address) -> bool:
        """Return whether the session is open and nobody has cut the lane since the work was made."""
        lanes = self._epochs.get(address.session)
        return lanes is not None and address.epoch >= lanes.get(address.lane, 0)


class Gate:
    """One check of the epoch on one edge; counts what it turned away."""

    def __init__(self, edge: str, lanes: Lanes) -> None:
        self.edge = edge
        self.stale = 0
        self._lanes = lanes

    def alive(self, address: Address) -> bool:
        """Return the same without counting."""
        return self._lanes.alive(address)

    def admits(self, address: Address) -> bool:
        """Return whether work for `address` is alive."""
        if self._lanes.alive(address):
            return True
        self.stale += 1
        return False
