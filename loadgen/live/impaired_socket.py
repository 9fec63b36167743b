# ruff: noqa: SLF001 - reaches the sockets of aioice, which it keeps private (as duplex/media/rtc.py does)
"""A bad network around the sockets of a WebRTC call: media, ICE, DTLS and the data channel pass it alike."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from duplex.media import rtc
from duplex.units import NS_PER_S
from loadgen.live.clock import now_ns
from loadgen.live.impairment import DatagramPath, outage
from loadgen.live.options import Network

_Take = Callable[[bytes, Any], None]


def impair(link: rtc.Link, network: Network, rng: random.Random) -> None:
    """Put the network between a call's sockets and everything that uses them; once, after `Link.tap`."""
    down = outage(network, now_ns(), rng)
    loop = asyncio.get_running_loop()

    def through(path: DatagramPath, further: _Take) -> _Take:
        def pass_on(data: bytes, address: Any) -> None:
            now = now_ns()
            arrival = path.arrival(now)
            if arrival is None:
                return
            if arrival <= now:
                further(data, address)
            else:
                loop.call_later((arrival - now) / NS_PER_S, further, data, address)

        return pass_on

    for protocol in link._ice._protocols:
        protocol.datagram_received = through(DatagramPath(network, down, rng), protocol.datagram_received)
        protocol.transport = _ImpairedTransport(protocol.transport, DatagramPath(network, down, rng), through)


class _ImpairedTransport:
    """A datagram transport whose packets pass a path first."""

    def __init__(self, transport: Any, path: DatagramPath, through: Callable[[DatagramPath, Any], Any]) -> None:
        self._transport = transport
        self.sendto = through(path, self._send)

    def _send(self, data: bytes, address: Any) -> None:
        if not self._transport.is_closing():
            self._transport.sendto(data, address)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
