"""The events of one session on their way to its client: numbered always, and sent when there is somebody to take them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import structlog

from duplex.actor.side_channel import SideChannels
from duplex.media.contract import TooLarge, Transport
from duplex.protocol import WireEncoder, sequence_of, to_json
from duplex.protocol.errors import EVENT_NOT_SENT
from duplex.protocol.missed import undelivered
from duplex.session.events import Failure, ServerEvent, SessionCreated, Unsent
from duplex.session.messages import Connected

_log = structlog.get_logger(__name__)


class Dialect(Protocol):
    """Words what a client is told that speaks no Realtime events."""

    def encode(self, event: ServerEvent) -> list[dict[str, Any]]:
        """Return what one core event is on the wire, in sending order."""


class ClientEvents:
    """Sends events in order.

    Args:
        session_id: ends every event's id.
        encoder: the session's, which numbers them and keeps the newest for a resume.
        sides: others who are told as well.
        early_max: events kept for a client that cannot be told yet.
        observe: takes measures.
        dialect: words them in its place, and then none is numbered or kept; None: it does.
    """

    def __init__(
        self, session_id: str, encoder: WireEncoder, sides: SideChannels, early_max: int,
        observe: Callable[[str, float, dict[str, str]], None], dialect: Dialect | None = None,
    ) -> None:  # fmt: skip
        self._session_id = session_id
        self._sides = sides
        self._encoder = encoder
        self._observe = observe
        self._dialect = dialect
        self.transport: Transport | None = None
        """The way to the client; None while it is away, or before it has come."""
        self.opened = False
        """The client can be told of events."""
        self._away = False
        """Events are numbered and kept in the ring, and go nowhere."""
        self._again = False
        """The client has been told of events before."""
        self._handed_over: int | None = None
        """Number of the last event that was given to a data channel that is lost, while its connection lives."""
        self._early: deque[ServerEvent] = deque(maxlen=early_max)
        """What happened before the client could be told; overflow rule: `drop_oldest`."""

    def detach(self) -> None:
        """The way to the client is lost."""
        self.transport = None
        self.opened = False
        self._away = True
        self._handed_over = None

    def pause(self) -> None:
        """The client cannot be told of events, and its connection lives."""
        if self.opened:
            self._handed_over = self._encoder.sequence if self._dialect is None else None
        self.opened = False
        self._away = self._again

    def channel_open(self, last_event_id: str | None) -> Connected:
        """The client can take events: the first that it is told is what it missed, or `session.created`.

        Args:
            last_event_id: id of the last event that it saw; None: it saw none, or does not say.
        Returns:
            What the core has to be told.
        """
        again, self._again = self._again, True
        seen = self._handed_over if last_event_id is None else sequence_of(last_event_id, self._session_id)
        missed = None if seen is None else self._encoder.ring.since(seen)
        self._handed_over = None
        if missed is None:
            self._away = self.opened = False
            return Connected(again=again)
        self._away = True  # until `replay`
        return Connected(again=again, seen=seen, missed=len(missed), undelivered=undelivered(missed))

    def replay(self, seen: int, without: tuple[str, ...]) -> None:
        """Send again what came after an event, and go on with what comes.

        Args:
            seen: number of the last event that the client saw.
            without: items whose audio is left out.
        """
        missed = self._encoder.ring.since(seen)
        assert missed is not None and self.transport is not None, "it was asked for a moment ago"
        self._away, self.opened = False, True
        self._hand_over(
            self.transport,
            [
                entry.event
                for entry in missed
                if entry.event is not None and (entry.audio is None or entry.audio.item_id not in without)
            ],
        )

    def send(self, event: ServerEvent) -> None:
        """Tell the client of an event, now or as soon as it can be told."""
        if not self._sides.show(event):
            self._send(event)

    def _send(self, event: ServerEvent) -> None:
        if self._away:
            self._encode(event)
            return
        if self.transport is None:
            return
        if not self.opened and not isinstance(event, SessionCreated):
            self._early.append(event)
            return
        opens, self.opened = not self.opened, True
        self._hand_over(self.transport, self._encode(event))
        while opens and self._early:
            self._send(self._early.popleft())

    def _hand_over(self, transport: Transport, wires: Iterable[dict[str, Any]]) -> None:
        """Send events, and behind them an error for each that the client cannot take: the numbers go on growing."""
        refused = [(wire, refusal) for wire in wires if (refusal := transport.send(to_json(wire))) is not None]
        for wire, refusal in refused:
            self._observe("duplex_unsent_events_total", 1, {})
            _log.warning("event_not_sent", session_id=self._session_id, type=wire["type"], bytes=refusal.size_bytes)
            if wire["type"] != "error":  # a client that cannot take this cannot be told that it cannot
                self._send(_failure(wire, refusal))

    def _encode(self, event: ServerEvent) -> list[dict[str, Any]]:
        return (self._dialect or self._encoder).encode(event)


def _failure(wire: dict[str, Any], refusal: TooLarge) -> Failure:
    unsent = Unsent(
        kind=wire["type"], event_id=wire.get("event_id"), size_bytes=refusal.size_bytes, bytes_max=refusal.bytes_max
    )
    name = unsent.kind if unsent.event_id is None else f"{unsent.kind} ({unsent.event_id})"
    message = f"{name} has {unsent.size_bytes} bytes and was not sent: the data channel takes {unsent.bytes_max}."
    return Failure(code=EVENT_NOT_SENT, message=message, kind="server_error", unsent=unsent)
