"""`duplex doctor --turn` against a TURN server on loopback that answers, refuses, or is silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aioice import stun

from duplex import doctor
from duplex.doctor import Level

pytestmark = pytest.mark.protocol


class _Turn(asyncio.DatagramProtocol):
    """Answers each request with an allocation, or with an error."""

    def __init__(self, error: tuple[int, str] | None) -> None:
        self._error = error
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        request = stun.parse_message(data)
        if request.message_class is not stun.Class.REQUEST:
            return
        kind = stun.Class.ERROR if self._error is not None else stun.Class.RESPONSE
        answer = stun.Message(request.message_method, kind, transaction_id=request.transaction_id)
        if self._error is not None:
            answer.attributes["ERROR-CODE"] = self._error
        else:
            answer.attributes["XOR-RELAYED-ADDRESS"] = ("192.0.2.7", 50_000)
            answer.attributes["XOR-MAPPED-ADDRESS"] = addr
            answer.attributes["LIFETIME"] = 600
        self._transport.sendto(bytes(answer), addr)


@asynccontextmanager
async def turn(error: tuple[int, str] | None) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Turn(error), local_addr=("127.0.0.1", 0))
    try:
        async with asyncio.timeout(20):
            yield f"turn:127.0.0.1:{transport.get_extra_info('sockname')[1]}"
    finally:
        transport.close()


async def test_a_server_that_relays() -> None:
    async with turn(None) as url:
        finding = await doctor.turn_server(url, {})
    assert finding.level is Level.OK and "relays at 192.0.2.7" in finding.seen


async def test_a_server_that_wants_a_password() -> None:
    async with turn((401, "Unauthorized")) as url:
        finding = await doctor.turn_server(url, {})
    assert finding.level is Level.BAD and "401" in finding.seen and "TURN_PASSWORD" in finding.advice


async def test_a_server_that_is_full() -> None:
    async with turn((486, "Allocation Quota Reached")) as url:
        finding = await doctor.turn_server(url, {"TURN_USERNAME": "a", "TURN_PASSWORD": "b"})
    assert finding.level is Level.BAD and "486" in finding.seen and "log" in finding.advice
