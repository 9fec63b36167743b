"""A server whose stages are processes to be killed and stopped, and conversations in which that happens."""

from __future__ import annotations

import asyncio
import base64
import os
import resource
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSServerHandshakeError

from duplex.actor.host import SessionHost
from duplex.config import load
from duplex.payloads import Int16Array, Role
from duplex.server.serve import listening
from duplex.stages.contract import ModelPack
from duplex.stages.restarts import Reason
from duplex.telemetry import Observer
from tests.model.caller import EventLog

CEILING_S = 60.0
"""Longest wait for one thing; none is expected to come near."""
HEARS = (Role.VAD, Role.END_OF_TURN, Role.TRANSCRIBE)
WORDS = {
    "exit": "lost its process", "hang": "made no progress", "memory": "ran out of memory", "start": "cannot start",
}  # fmt: skip
"""How `/readyz` puts why a stage is down."""


class Client(EventLog):
    """A session on a WebSocket that reads all the time, as a client does.

    Args:
        turn: what it says, mono at 24 kHz, with the silence that ends it.
        image: what it shows, as a data URL.
    """

    def __init__(self, ws: ClientWebSocketResponse, turn: Int16Array, image: str) -> None:
        super().__init__()
        self._ws = ws
        self._turn = turn
        self._image = image

    async def listen(self) -> None:
        """Take events until the socket closes."""
        async for message in self._ws:
            self.add(message.json())

    async def say(self, first: float = 0.0, last: float = 1.0) -> None:
        """Say a turn, or a part of it, as fast as it is taken.

        Args:
            first, last: shares of the turn where the part begins and ends.
        """
        part = self._turn[int(first * len(self._turn)) : int(last * len(self._turn))]
        audio = base64.b64encode(part.astype("<i2").tobytes()).decode()
        await self._ws.send_json({"type": "input_audio_buffer.append", "audio": audio})

    async def write(self, *content: dict[str, Any]) -> None:
        """Write an item."""
        item = {"type": "message", "role": "user", "content": list(content)}
        await self._ws.send_json({"type": "conversation.item.create", "item": item})

    async def want_answer(self) -> None:
        """Ask for a reply."""
        await self._ws.send_json({"type": "response.create"})

    async def use(self, role: Role) -> None:
        """Do what gives a stage work: say a turn, show an image, or write and ask for a reply."""
        if role in HEARS:
            await self.say()
        elif role is Role.READ:
            await self.write({"type": "input_image", "image_url": self._image})
        else:
            await self.write({"type": "input_text", "text": "What is the capital of France?"})
            await self.want_answer()

    async def status(self) -> str:
        """Wait for the reply's end and return how it ended."""
        return str((await self.until("response.done"))["response"]["status"])

    async def said(self) -> str:
        """Wait for the words of a spoken turn, and for its answer; return the words."""
        heard = await self.until("conversation.item.input_audio_transcription.completed")
        assert await self.status() == "completed"
        return str(heard["transcript"])


async def works(client: Client, role: Role) -> None:
    """See that a turn that needs the stage is answered."""
    await client.use(role)
    if role is Role.READ:
        await client.want_answer()
    assert await client.status() == "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """A server with its stages in processes."""

    url: str
    host: SessionHost
    observer: Observer
    turn: Int16Array
    """What clients say."""
    image: str
    """What they show."""

    @asynccontextmanager
    async def talk(self) -> AsyncIterator[Client]:
        """Hold a session."""
        async with (
            ClientSession(self.url) as http,
            http.ws_connect("/v1/realtime") as ws,
            asyncio.TaskGroup() as tasks,
        ):
            client = Client(ws, self.turn, self.image)
            ears = tasks.create_task(client.listen())
            await client.until("conversation.created")
            yield client
            ears.cancel()

    def stage(self, role: Role) -> Any:
        """Return the stage that serves."""
        return self.host._runners.runners[role]._watchdog.stage

    def name(self, role: Role) -> str:
        """Return what the pack calls the stage."""
        return self.host._runners.runners[role].spec.name

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for what sends no event."""
        try:
            async with asyncio.timeout(CEILING_S):
                while not condition():  # noqa: ASYNC110 - conditions of any kind
                    await asyncio.sleep(0.002)
        except TimeoutError:
            raise AssertionError(f"not within {CEILING_S:g} s: {what}") from None

    async def until_idle(self) -> None:
        """Wait until no stage has any work."""
        await self.until(lambda: self.host._runners.idle, "every stage is idle")

    async def until_held(self, role: Role) -> None:
        """Wait until a stage has work in its hands."""
        await self.until(lambda: self.host._runners.runners[role].load().running, f"{role} has work")

    def waiting(self, role: Role) -> int:
        """Return how many jobs wait for a stage."""
        return self.host._runners.runners[role].load().queued

    def starting(self, role: Role) -> int | None:
        """Return the process of a stage that is being started; None: there is none yet."""
        stage: Any = self.host._runners.runners[role]._watchdog._coming
        return None if stage is None else stage.pid

    async def sees_down(self, role: Role, reason: str) -> None:
        """Wait until a stage is known to be down, and see that everybody is told. It has to stay down meanwhile."""
        told = f"stage {self.name(role)} {WORDS[reason]}, and is being started again"
        await self.until(lambda: self.host.not_ready_reasons == [told], told)
        async with ClientSession(self.url) as http:
            async with http.get("/readyz") as response:
                assert response.status == 503
                assert (await response.json())["reasons"] == [told]
            async with http.get("/healthz") as response:
                assert response.status == 200
            with pytest.raises(WSServerHandshakeError) as refused:
                await http.ws_connect("/v1/realtime")
            assert refused.value.status == 503
        assert self.observer.value("duplex_stage_up", stage=self.name(role)) == 0

    async def sees_back(self, old: int | None = None) -> None:
        """Wait until all is well again, and see that the process `old` is no more."""
        await self.until(lambda: self.host.ready, "the stage is back")
        async with ClientSession(self.url) as http, http.get("/readyz") as response:
            assert response.status == 200
        for runner in self.host._runners.runners.values():
            assert self.observer.value("duplex_stage_up", stage=runner.spec.name) == 1
        if old is not None:
            with pytest.raises(ProcessLookupError):
                os.kill(old, 0)

    def restarts(self) -> Counter[tuple[str, str]]:
        """Return how often stages were started anew so far, by name and reason."""
        count = "duplex_stage_restarts_total"
        return +Counter({
            (name, reason): int(self.observer.value(count, stage=name, reason=reason))
            for name in map(self.name, self.host._runners.runners)
            for reason in get_args(Reason)
        })  # fmt: skip


@asynccontextmanager
async def stand(pack: ModelPack, turn: Int16Array, image: str, **stages: Any) -> AsyncIterator[Stand]:
    """Serve a pack.

    Args:
        stages: settings of the section.
    """
    settings = load(
        server={"port": 0, "close_timeout_s": 1.0},
        stages={"restart_s_first": 0.02, "restart_window_s": 2.0} | stages,
        # A stage that is to break breaks in the work that the test gives it, and whoever pauses in a turn may do so for long.
        turn={"partial_every_ms": 0, "input_stall_ms": 60_000},
        admission={"measured": False},
        log_level="error",
    )
    observer = Observer()
    host = SessionHost(settings, pack, observer.record)
    async with listening(host, settings.server, observer) as url:
        await host.start(lambda line: None)
        yield Stand(url=url, host=host, observer=observer, turn=turn, image=image)


def bound_memory(pid: int, more: int) -> None:
    """Let a process have so many bytes more than it has, and no more."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    bound = pages * resource.getpagesize() + more
    resource.prlimit(pid, resource.RLIMIT_AS, (bound, bound))
