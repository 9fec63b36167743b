"""The data channel of the events, `oai-events` by name: whichever way the client makes it, the session's first event comes first, once.

    in band       client opens `oai-events` when it likes, at once or after minutes
    negotiated    both sides take id 0; nothing on the wire tells us so

So a channel with id 0 stands ready. If nothing was opened in band shortly after the association is up, the session
speaks on it, and what it said is kept (bounded) until the client proves to be there by a message. If the client then
opens one in band after all, what was said is said again there. Messages on an id that nobody listens to are harmless.

A channel that is closed while the connection lives may be opened again. Its field `protocol` says by `duplex-last.EVENT_ID`
what its client saw last (docs/resume.md).

Source: RFC 8831; RFC 8832; field case C12.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from aiortc import InvalidStateError, RTCDataChannel, RTCPeerConnection

from duplex.media import rtc
from duplex.media.contract import TooLarge

LABEL = "oai-events"
RTVI_LABEL = "chat"
"""As Pipecat's clients call it."""
LAST_SEEN = "duplex-last."
"""Begins a channel's protocol that names the last event which the client saw."""
_GRACE_S = 0.5
"""Wait for an in-band channel after the association is up."""
_JOURNAL_BYTES_MAX = 1024 * 1024
"""Events kept for a client that has not shown itself; past it they are forgotten."""


class EventsChannel:
    """One peer's events, both ways.

    Args:
        pc: a connection whose offer has a data channel section.
        label: name of the channel that the client opens; others are closed.
        outbox_bytes_max: bytes that may wait for the client.
        message_bytes_max: largest message that the client takes; 0: any.
        on_open: called when events can be sent, with the id of the last event that the client saw, if it says that.
        on_lost: called when they cannot be sent any more; `on_open` may follow.
        on_message: called with each message of the client.
        on_overflow: called when more waits than the bound.
    """

    def __init__(
        self,
        pc: RTCPeerConnection,
        *,
        label: str,
        outbox_bytes_max: int,
        message_bytes_max: int,
        on_open: Callable[[str | None], None],
        on_lost: Callable[[], None],
        on_message: Callable[[str | bytes], None],
        on_overflow: Callable[[], None],
    ) -> None:
        self._label = label
        self._outbox_max = outbox_bytes_max
        self._message_max = message_bytes_max
        self._on_open = on_open
        self._on_lost = on_lost
        self._on_message = on_message
        self._on_overflow = on_overflow
        self._loop = asyncio.get_running_loop()
        self._grace: asyncio.TimerHandle | None = None
        self._chosen: RTCDataChannel | None = None
        self._opened = False
        self._unproven = False
        self._journal: list[str] = []
        self._journal_bytes = 0
        self.undeliverable = 0
        self._negotiated = rtc.events_channel(pc, label)
        self._negotiated.on("open", self._association_up)
        self._negotiated.on("message", self._message_on_negotiated)
        self._negotiated.on("close", lambda: self._closed(self._negotiated))
        pc.on("datachannel", self._opened_in_band)

    def send(self, event: str) -> TooLarge | None:
        """Send one event, or keep it until the client's channel is known; too much waiting is an overflow.

        Returns:
            None, or why the client cannot take this event.
        """
        size = len(event.encode())
        if 0 < self._message_max < size:
            event = _unescaped(event)
            size = len(event.encode())
            if size > self._message_max:
                return TooLarge(size_bytes=size, bytes_max=self._message_max)
        channel = self._chosen
        if self._unproven or channel is None:
            self._keep(event, size)
        if channel is None:
            return None
        if channel.bufferedAmount + size > self._outbox_max:
            self._on_overflow()
        else:
            self._send(channel, event)
        return None

    def close(self) -> None:
        """Stop waiting for a channel."""
        if self._grace is not None:
            self._grace.cancel()
        self._journal.clear()

    def _send(self, channel: RTCDataChannel, event: str) -> None:
        try:
            channel.send(event)
        except InvalidStateError:
            self.undeliverable += 1

    def _keep(self, event: str, size: int) -> None:
        self._journal.append(event)
        self._journal_bytes += size
        if self._journal_bytes > _JOURNAL_BYTES_MAX:
            self._forget()

    def _forget(self) -> None:
        self._journal.clear()
        self._journal_bytes = 0
        self._unproven = False

    def _choose(self, channel: RTCDataChannel) -> None:
        self._chosen = channel
        for event in self._journal:
            self._send(channel, event)
        self._forget()
        if not self._opened:
            self._opened = True
            self._on_open(_last_seen(channel))

    def _association_up(self) -> None:
        if self._chosen is None:
            self._grace = self._loop.call_later(_GRACE_S, self._try_negotiated)

    def _try_negotiated(self) -> None:
        if self._chosen is None and self._negotiated.readyState == "open":
            self._unproven = True
            self._chosen = self._negotiated
            self._opened = True
            self._on_open(None)

    def _message_on_negotiated(self, message: str | bytes) -> None:
        if self._chosen is None:
            self._choose(self._negotiated)
        elif self._chosen is not self._negotiated:
            return
        if self._unproven:
            self._forget()
        self._on_message(message)

    def _opened_in_band(self, channel: RTCDataChannel) -> None:
        if channel.label != self._label or (self._chosen is not None and not self._unproven):
            channel.close()
            return
        channel.on("message", self._on_message)
        channel.on("close", lambda: self._closed(channel))
        self._choose(channel)

    def _closed(self, channel: RTCDataChannel) -> None:
        if self._chosen is channel:
            self._chosen = None
            self._opened = False
            self._on_lost()


def _unescaped(event: str) -> str:
    """Return JSON in UTF-8, where letters outside ASCII take 2 to 4 bytes instead of 6 to 12; what cannot be is left as it is."""
    try:
        shorter = json.dumps(json.loads(event), ensure_ascii=False, separators=(",", ":"))
        shorter.encode()
    except ValueError:  # no JSON, or half a surrogate pair
        return event
    return shorter


def _last_seen(channel: RTCDataChannel) -> str | None:
    protocol: str = channel.protocol
    return protocol.removeprefix(LAST_SEEN) if protocol.startswith(LAST_SEEN) else None
