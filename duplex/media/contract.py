"""The boundary between a transport and a session: what a peer hands in, and what it asks for.

A transport (a WebRTC peer, a WebSocket) owns packets, codecs and clocks of the network. A `MediaSink` (the session actor)
owns meaning. All calls happen on the event loop's thread and return at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from duplex.payloads import Int16Array
from duplex.units import MonoNs, RtpTicks

INPUT_RATE = 16_000
"""Rate at which a session hears."""
OUTPUT_RATE = 48_000
"""Rate at which a session speaks to WebRTC."""
WEBSOCKET_RATE = 24_000
"""Rate of audio inside events, both ways."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPacket:
    """20 ms that leave as one RTP packet."""

    pcm: Int16Array
    """Shape (960,), mono, 48 kHz."""
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverReport:
    """What the client's RTCP says of our audio."""

    at: MonoNs
    rtp_seq_ext: int
    """Highest sequence number received, extended."""
    packets_lost: int
    """Cumulative."""
    fraction_lost: float
    jitter_ms: float
    rtt_ms: float | None
    """None until a sender report was echoed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoFrame:
    """A sampled camera frame."""

    rgb: NDArray[np.uint8]
    """Shape (height, width, 3)."""
    at: MonoNs
    """Arrival of its last packet."""


class MediaSink(Protocol):
    """What a transport needs of a session."""

    def hear(self, pcm: Int16Array, arrived: MonoNs | None = None) -> None:
        """Take the next input audio: shape (n,), mono, 16 kHz, n ≥ 1, in order, concealed losses included.

        Args:
            arrived: when its packet came in; None for what was made up, or is taken as it comes.
        """

    def hear_silence(self, n: int) -> None:
        """Take n samples (16 kHz) that are declared silent: no media, DTX, or lost past concealment."""

    def next_packet(self, now: MonoNs, rtp_ts: RtpTicks | None = None) -> OutputPacket | None:
        """Return the next 20 ms to send, or None when there is nothing to say (the transport may go DTX).

        Args:
            rtp_ts: timestamp that the packet gets; None where its clock is not of 48 kHz, or nothing is really sent.
        """

    def report(self, report: ReceiverReport) -> None:
        """Take the client's view of our audio."""

    def see(self, frame: VideoFrame) -> None:
        """Take the newest camera frame."""

    def connected(self) -> None:
        """Media can flow; called once."""

    def channel_open(self, last_event_id: str | None = None) -> None:
        """Events can be sent (the data channel is open); called after or before `connected`, and again after `channel_lost`.

        Args:
            last_event_id: id of the last event that the client saw before, as it says.
        """

    def channel_lost(self) -> None:
        """The data channel is gone, the connection is not: no event can be sent until another is open."""

    def receive(self, text: str | bytes) -> None:
        """Take one client event as it came off the wire."""

    def closed(self, reason: str) -> None:
        """The transport is gone; called once, last. Reasons: client, vanished, connect_timeout, server, error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLarge:
    """Why an event is not sent: it has more bytes than its client takes in one message."""

    size_bytes: int
    """Of the event in UTF-8."""
    bytes_max: int
    """What the client takes."""


class Transport(Protocol):
    """What a session needs of a transport."""

    def send(self, event: str) -> TooLarge | None:
        """Queue one server event (JSON text). Never blocks; bounded by `outbox_bytes_max`, past which it closes.

        Returns:
            None, or why nothing of this event will be sent; the next one may be.
        """

    async def close(self, reason: str) -> None:
        """End the connection and give everything back; safe to call twice. Cancel: never leaves a socket open."""
