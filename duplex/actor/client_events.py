"""The events of one session on their way to its client: numbered always, and sent when there is somebody to take them."""

from __future__ import annotations

from collections import deque

from duplex.actor.side_channel import SideChannels
from duplex.media.contract import Transport
from duplex.protocol import WireEncoder, to_json
from duplex.session.events import ServerEvent, SessionCreated

_EARLY_EVENTS = 256


class ClientEvents:
    """Sends events in order.

    Args:
        encoder: the session's, which numbers them and keeps the newest for a resume.
        sides: others who are told as well.
    """

    def __init__(self, encoder: WireEncoder, sides: SideChannels) -> None:
        self._sides = sides
        self._encoder = encoder
        self.transport: Transport | None = None
        """The way to the client; None while it is away, or before it has come."""
        self.opened = False
        """The client can be told of events."""
        self._away = False
        """Events are numbered and kept in the ring, and go nowhere."""
        self._early: deque[ServerEvent] = deque(maxlen=_EARLY_EVENTS)
        """What happened before the client could be told; overflow rule: `drop_oldest`."""

    def detach(self) -> None:
        """The way to the client is lost."""
        self.transport = None
        self.opened = False
        self._away = True

    def channel_open(self) -> None:
        """The client can take events: the first that it is told is `session.created`."""
        self._away = False

    def send(self, event: ServerEvent) -> None:
        """Tell the client of an event, now or as soon as it can be told."""
        if not self._sides.show(event):
            self._send(event)

    def _send(self, event: ServerEvent) -> None:
        if self._away:
            self._encoder.encode(event)
            return
        if self.transport is None:
            return
        if not self.opened and not isinstance(event, SessionCreated):
            self._early.append(event)
            return
        for wire in self._encoder.encode(event):
            self.transport.send(to_json(wire))
        if not self.opened:
            self.opened = True
            while self._early:
                self._send(self._early.popleft())
