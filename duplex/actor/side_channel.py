"""Side channels: further control connections onto a live call.

    call's data channel ─► SessionActor ─► ClientEvents ─► the call's client
    side channel ────────►      │               └────────► each side channel, numbered by its own encoder
                                └ an error that a side channel's event causes goes to it alone

A side channel sees what happens from its beginning on, and may send every client event that a call takes. It carries no audio.
It can neither resume the session nor end it: it is gone, and the call goes on. Source: protocol.md, "HTTP" (`?call_id=`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

from duplex.media.contract import Transport
from duplex.protocol import AppendAudio, ComeBack, Decoded, TooManySideChannels, WireEncoder, to_json
from duplex.session.config import SessionConfig
from duplex.session.events import Failure, ItemAdded, ServerEvent, SessionCreated, SessionResumed, SessionToken
from duplex.session.messages import ClientMessage, PlaybackReport, Rejected

CALL_ENDED = "call_ended"
"""Why a side channel closes whose call is over."""
_SECRET_BYTES = 12


class SideChannel:
    """One side channel; what its WebSocket feeds (`duplex.server.host_contract.EventSink`).

    Args:
        transport: leads to its client.
        encoder: its own.
        mark: begins the ids of its events inside the session; nobody else can know it.
        receive: hands an event to the session, in the name of this channel.
        closed: told once, when its connection is gone.
    """

    def __init__(
        self, transport: Transport, encoder: WireEncoder, mark: str, receive: Callable[[str | bytes, SideChannel], None],
        closed: Callable[[SideChannel], None],
    ) -> None:  # fmt: skip
        self.transport = transport
        self._encoder = encoder
        self._receive = receive
        self._closed = closed
        self.mark = mark

    @property
    def backlog_ms(self) -> int:
        """No audio comes by this way."""
        return 0

    def channel_open(self, last_event_id: str | None = None) -> None:
        """Its socket is up: the transport sends what was queued meanwhile. What it saw of another channel is not asked."""

    def receive(self, text: str | bytes) -> None:
        """Take one client event."""
        self._receive(text, self)

    def closed(self, reason: str) -> None:
        """The connection is gone."""
        self._closed(self)

    def show(self, event: ServerEvent) -> None:
        """Tell its client of an event; before the socket is up it waits in the transport's bounded outbox."""
        for wire in self._encoder.encode(event):
            self.transport.send(to_json(wire))

    def signed(self, message: Decoded) -> ClientMessage:
        """Return an event of its client under the mark of this channel, which neither hears, plays nor comes back."""
        if isinstance(message, PlaybackReport | ComeBack | AppendAudio):
            text = "A side channel has no sound, and resumes no session."
            message = Rejected(code="unsupported", message=text, param="type", event_id=message.event_id)
        return replace(message, event_id=f"{self.mark}{message.event_id or ''}")


class SideChannels:
    """The side channels of one session.

    Args:
        most: at once; overflow rule: `reject`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._secret = secrets.token_hex(_SECRET_BYTES)
        self._opened = 0
        self._channels: list[SideChannel] = []

    def open(
        self, transport: Transport, encoder: WireEncoder, receive: Callable[[str | bytes, SideChannel], None],
        config: SessionConfig,
    ) -> SideChannel:  # fmt: skip
        """Return a channel that sees the session from here on: first of all the session as it stands.

        Raises:
            TooManySideChannels: there are as many as there may be.
        """
        if len(self._channels) >= self._most:
            raise TooManySideChannels
        self._opened += 1
        channel = SideChannel(transport, encoder, f"{self._secret}.{self._opened}.", receive, self.remove)
        channel.show(SessionCreated(config=config))
        self._channels.append(channel)
        return channel

    def remove(self, channel: SideChannel) -> None:
        """A channel is gone; what it has asked for stands."""
        self._channels = [other for other in self._channels if other is not channel]

    def take_all(self) -> list[SideChannel]:
        """Return the channels, of a session that has ended."""
        channels, self._channels = self._channels, []
        return channels

    def show(self, event: ServerEvent) -> bool:
        """Tell the channels of an event; return whether it is for one of them alone, there or gone."""
        if isinstance(event, Failure) and event.event_id is not None and event.event_id.startswith(self._secret):
            for channel in self._channels:
                if event.event_id.startswith(channel.mark):
                    channel.show(replace(event, event_id=event.event_id.removeprefix(channel.mark) or None))
            return True
        if not _of_the_way(event):
            for channel in self._channels:
                channel.show(event)
        return False


def _of_the_way(event: ServerEvent) -> bool:
    """Return whether an event is about one client's connection: its beginning, its token, its return."""
    own = isinstance(event, SessionCreated | SessionToken | SessionResumed)
    return own or (isinstance(event, ItemAdded) and event.restored)
