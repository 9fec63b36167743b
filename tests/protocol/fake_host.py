"""A session host without sessions: it records what the app asks of it and answers as the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession

from duplex.actor.detached import Owner
from duplex.config import ServerSettings
from duplex.media.contract import Transport
from duplex.protocol import CallNotFound, ServerBusy, WireProfile, initial
from duplex.protocol.lock import shown
from duplex.server.serve import listening
from duplex.stages.contract import ModelPack, Progress
from duplex.telemetry import Observer

CEILING_S = 10.0
ANSWER = "v=0\r\na=fake answer\r\n"


class FakeSession:
    """Records what its WebSocket hands in; `on_receive` may answer."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.backlog_ms = 0
        self.received: list[str | bytes] = []
        self.reasons: list[str] = []
        self.opened = 0
        self.on_receive: Callable[[str | bytes], None] = lambda event: None
        self.greeting = json.dumps({"type": "session.created"})

    def channel_open(self, last_event_id: str | None = None) -> None:
        self.opened += 1
        self.transport.send(self.greeting)

    def receive(self, text: str | bytes) -> None:
        self.received.append(text)
        self.on_receive(text)

    def closed(self, reason: str) -> None:
        self.reasons.append(reason)


class FakeHost:
    """Implements what these tests use of `duplex.server.host_contract.SessionHost`."""

    def __init__(self) -> None:
        self.pack = ModelPack(
            name="fake", stages=(), edges=(), voices=("low",), test_double=True, notice="Not a model."
        )
        self.ready = True
        self.not_ready_reasons: list[str] = []
        self.sessions_max = 3
        self.refusal: Exception | None = None
        self.offers: list[tuple[str, dict[str, Any] | None]] = []
        self.live = {"rtc_1"}
        self.websockets: list[FakeSession] = []
        self.log: list[str] = []
        self.tenants: list[str] = []
        self.locks: list[dict[str, Any] | None] = []
        self.tokens: list[str | None] = []

    @property
    def sessions(self) -> int:
        return len(self.live)

    def check_room(self) -> None:
        if not self.ready:
            raise ServerBusy(2)

    async def start(self, progress: Progress) -> None:
        progress("the fake model")
        self.log.append("start")

    def lives(self, session_id: str) -> bool:
        return session_id in self.live

    async def open_call(
        self,
        offer_sdp: str,
        session: dict[str, Any] | None,
        owner: Owner,
        token: str | None = None,
        *,
        locked: dict[str, Any] | None = None,
        rtvi: bool = False,
        lost: bool = False,
        last_event_id: str | None = None,
    ) -> tuple[str, str]:
        self.tenants.append(owner.tenant)
        self.tokens.append(token)
        self.locks.append(locked)
        self.offers.append((offer_sdp, session))
        if self.refusal is not None:
            raise self.refusal
        return "rtc_1", ANSWER

    def open_websocket(
        self,
        transport: Transport,
        session: dict[str, Any] | None,
        owner: Owner,
        token: str | None = None,
        *,
        locked: dict[str, Any] | None = None,
    ) -> FakeSession:
        self.check_room()
        self.tenants.append(owner.tenant)
        self.tokens.append(token)
        self.locks.append(locked)
        if self.refusal is not None:
            raise self.refusal
        self.websockets.append(FakeSession(transport))
        return self.websockets[-1]

    def preview(self, session: dict[str, Any], *, locked: bool) -> dict[str, Any]:
        return shown(initial(WireProfile(), session_id="sess_1", **{"locked" if locked else "session": session}))

    def open_side_channel(self, call_id: str, transport: Transport, owner: Owner) -> FakeSession:
        if call_id not in self.live:
            raise CallNotFound
        self.tenants.append(owner.tenant)
        self.websockets.append(FakeSession(transport))
        return self.websockets[-1]

    async def hangup(self, call_id: str, owner: Owner) -> bool:
        return call_id in self.live

    async def drain(self) -> None:
        self.log.append("drain")

    async def close(self) -> None:
        self.log.append("close")


@asynccontextmanager
async def served(host: FakeHost, **settings: Any) -> AsyncIterator[ClientSession]:
    """Serve the app over `host` on a free port of the loopback; yields a client for it."""
    async with listening(host, ServerSettings(port=0, **settings), Observer()) as url, ClientSession(url) as client:
        yield client


def url_of(client: ClientSession, path: str = "") -> str:
    """Return the address of the server behind a client of `served`."""
    return f"{str(client._base_url).rstrip('/')}{path}"


async def until(condition: Callable[[], object]) -> None:
    """Wait for what another task does, under a ceiling."""
    async with asyncio.timeout(CEILING_S):
        while not condition():  # noqa: ASYNC110 - conditions of any kind
            await asyncio.sleep(0.005)
