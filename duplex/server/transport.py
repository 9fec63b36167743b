"""A session's events on their way to a WebSocket client: a queue bounded in bytes and one writer.

send() ──► outbox ──► write_to() ──► socket          over the bound: the outbox is dropped, the socket closed
                                                     a client that takes nothing: cut after close_timeout_s
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import WSCloseCode, web

OVERFLOW = "outbox_overflow"
_CODES = {
    "client": WSCloseCode.OK,
    "server": WSCloseCode.GOING_AWAY,
    OVERFLOW: WSCloseCode.POLICY_VIOLATION,
    "error": WSCloseCode.INTERNAL_ERROR,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxStats:
    """A snapshot."""

    events: int
    bytes: int


class WebSocketTransport:
    """What a session on a WebSocket talks to; implements `duplex.media.contract.Transport`.

    Args:
        outbox_bytes_max: bound of the events that wait; overflow rule: close, with reason `outbox_overflow`.
        close_timeout_s: how long a client may take for the last events and the closing handshake.
    """

    def __init__(self, *, outbox_bytes_max: int, close_timeout_s: float) -> None:
        self._outbox: deque[str] = deque()
        self._bytes = 0
        self._bytes_max = outbox_bytes_max
        self._close_timeout_s = close_timeout_s
        self._wake = asyncio.Event()
        self._done = asyncio.Event()
        self._reason: str | None = None
        self._abort: Callable[[], None] = lambda: None
        self._cut: asyncio.TimerHandle | None = None

    @property
    def close_reason(self) -> str | None:
        """Why our side closes; None while it does not."""
        return self._reason

    def stats(self) -> OutboxStats:
        """Return what waits."""
        return OutboxStats(events=len(self._outbox), bytes=self._bytes)

    def send(self, event: str) -> None:
        """Queue one event, ASCII JSON; after the close has begun it is dropped."""
        if self._reason is not None:
            return
        self._bytes += len(event)
        self._outbox.append(event)
        if self._bytes > self._bytes_max:
            self._drop()
            self._begin_close(OVERFLOW)
        self._wake.set()

    async def close(self, reason: str) -> None:
        """Let the client have what waits, then close; cut the connection when it takes too long.

        Cancel: the close goes on by itself.
        """
        self._begin_close(reason)
        await self._done.wait()

    async def write_to(self, socket: web.WebSocketResponse[bool], abort: Callable[[], None]) -> None:
        """Send what waits until the close, then close the socket; the only writer of events.

        Args:
            socket: prepared.
            abort: cuts the connection without waiting for anything.
        Cancel: drops what waits.
        """
        self._abort = abort
        try:
            while True:
                await self._flush(socket)
                if self._reason is not None:
                    break
                self._wake.clear()
                await self._wake.wait()
            code = _CODES.get(self._reason, WSCloseCode.OK)
            await socket.close(code=code, message=self._reason.encode())
        except ConnectionError:
            self._begin_close("client")  # the reading side learns it from the socket itself
        finally:
            self.detach()

    def detach(self) -> None:
        """Forget the socket: it is gone, or never came to be."""
        self._begin_close("client")
        if self._cut is not None:
            self._cut.cancel()
        self._drop()
        self._done.set()

    async def _flush(self, socket: web.WebSocketResponse[bool]) -> None:
        while self._outbox:
            event = self._outbox[0]
            await socket.send_str(event)
            if self._outbox and self._outbox[0] is event:  # not dropped meanwhile
                self._outbox.popleft()
                self._bytes -= len(event)

    def _begin_close(self, reason: str) -> None:
        if self._reason is not None:
            return
        self._reason = reason
        self._wake.set()
        self._cut = asyncio.get_running_loop().call_later(self._close_timeout_s, self._cut_off)

    def _cut_off(self) -> None:
        self._drop()
        self._abort()

    def _drop(self) -> None:
        self._outbox.clear()
        self._bytes = 0
