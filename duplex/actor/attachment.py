"""One transport's hold on a session: what it hands in reaches the session for as long as the hold lasts.

A session may change its transport (`duplex.actor.resume`). The former may live on for a while, half open; whatever still
comes from it falls away here, so that the session hears one client at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from duplex.media.contract import MediaSink, OutputPacket, ReceiverReport, Transport, VideoFrame
from duplex.payloads import Int16Array
from duplex.units import MonoNs, RtpTicks


class Attachable(MediaSink, Protocol):
    """A session, as its transport's hold knows it."""

    @property
    def backlog_ms(self) -> int:
        """Input that has arrived and is not analysed yet."""


class Attachment:
    """A `MediaSink` and `EventSink` that passes on to a session.

    Args:
        session: whose.
        now: the clock.
        lost: told once why the transport is gone, unless the hold was released before.
        last_event_id: of the last event that the client saw, as it said when it came.
    """

    def __init__(
        self, session: Attachable, now: Callable[[], MonoNs], lost: Callable[[Attachment, str], None],
        last_event_id: str | None = None,
    ) -> None:  # fmt: skip
        self._session: Attachable | None = session
        self._last_event_id = last_event_id
        self._now = now
        self._lost = lost
        self.transport: Transport | None = None
        self.received = 0
        """Events that came from the client."""
        self.opened = False
        """The client could be told of events."""
        self.heard_at = now()
        """When the client last gave a sign of life."""

    def move(self, session: Attachable, lost: Callable[[Attachment, str], None]) -> None:
        """Hold another session from now on; arguments as in the beginning."""
        self._session = session
        self._lost = lost

    def release(self) -> None:
        """End the hold: the transport is heard no more."""
        self._session = None

    @property
    def backlog_ms(self) -> int:
        """Input that has arrived and is not analysed yet."""
        return 0 if self._session is None else self._session.backlog_ms

    def hear(self, pcm: Int16Array, arrived: MonoNs | None = None) -> None:
        """See `MediaSink`."""
        if arrived is not None:
            self.heard_at = arrived
        if self._session is not None:
            self._session.hear(pcm, arrived)

    def hear_silence(self, n: int) -> None:
        """See `MediaSink`."""
        if self._session is not None:
            self._session.hear_silence(n)

    def next_packet(self, now: MonoNs, rtp_ts: RtpTicks | None = None) -> OutputPacket | None:
        """See `MediaSink`."""
        return None if self._session is None else self._session.next_packet(now, rtp_ts)

    def report(self, report: ReceiverReport) -> None:
        """See `MediaSink`."""
        self.heard_at = report.at
        if self._session is not None:
            self._session.report(report)

    def see(self, frame: VideoFrame) -> None:
        """See `MediaSink`."""
        if self._session is not None:
            self._session.see(frame)

    def connected(self) -> None:
        """See `MediaSink`."""
        self.heard_at = self._now()
        if self._session is not None:
            self._session.connected()

    def channel_open(self, last_event_id: str | None = None) -> None:
        """See `MediaSink`."""
        self.heard_at = self._now()
        if self._session is not None:
            self.opened = True
            said, self._last_event_id = self._last_event_id, None
            self._session.channel_open(last_event_id or said)

    def channel_lost(self) -> None:
        """See `MediaSink`."""
        if self._session is not None:
            self._session.channel_lost()

    def receive(self, text: str | bytes) -> None:
        """See `MediaSink`."""
        self.heard_at = self._now()
        self.received += 1
        if self._session is not None:
            self._session.receive(text)

    def closed(self, reason: str) -> None:
        """See `MediaSink`."""
        if self._session is not None:
            self._session = None
            self._lost(self, reason)
