"""A server of chat completions on loopback that does what a test tells it to, and sees when its client goes away."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from duplex_models.openai_chat.background import BackgroundLoop

CEILING_S = 20.0
Reply = Callable[["Streaming"], Awaitable[None]]


class Streaming:
    """One request and its answer."""

    def __init__(self, request: web.Request, body: dict[str, Any]) -> None:
        self.request = request
        self.body = body
        self.response: web.StreamResponse = web.StreamResponse()

    async def begin(self, status: int = 200, content_type: str = "text/event-stream") -> None:
        self.response = web.StreamResponse(status=status, headers={"Content-Type": content_type})
        await self.response.prepare(self.request)

    async def raw(self, data: bytes) -> None:
        await self.response.write(data)

    async def event(self, payload: object) -> None:
        await self.raw(f"data: {json.dumps(payload)}\n\n".encode())

    async def delta(self, finish: str | None = None, **delta: Any) -> None:
        await self.event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    async def end(self, finish: str = "stop", tokens: int | None = None) -> None:
        await self.delta(finish)
        if tokens is not None:
            await self.event({"choices": [], "usage": {"completion_tokens": tokens, "prompt_tokens": 1}})
        await self.raw(b"data: [DONE]\n\n")

    async def error(self, status: int, error: object, **headers: str) -> None:
        self.response = web.json_response({"error": error}, status=status, headers=headers)

    def hang_up(self) -> None:
        assert self.request.transport is not None
        self.request.transport.abort()


async def hello(answer: Streaming) -> None:
    """Say one sentence in three pieces."""
    await answer.begin()
    for text in ("Hello", " there", "."):
        await answer.delta(content=text)
    await answer.end(tokens=5)


async def endless(answer: Streaming) -> None:
    """Generate slowly, and never stop by itself."""
    await answer.begin()
    while True:
        await answer.delta(content=" word,")
        await asyncio.sleep(0.02)


async def silent(answer: Streaming) -> None:
    """Say one word, then nothing."""
    await answer.begin()
    await answer.delta(content="Well")
    await asyncio.sleep(CEILING_S)


class FakeChatServer:
    """Listens on a free port of loopback, on a thread of its own.

    Args:
        replies: what it does with one request after the other; the last one goes on for ever.
    """

    def __init__(self, *replies: Reply) -> None:
        self.replies = deque(replies or (hello,))
        self.models: list[str] | int = ["m"]
        """What `/models` lists, or the status that it answers."""
        self.requests: list[Streaming] = []
        self.gone = threading.Event()
        """A client went away before its answer was complete."""
        self.gone_at = 0.0
        self.running = 0
        self.running_max = 0
        self.connections: set[Any] = set()
        self._loop = BackgroundLoop("fake-chat-server")
        self._loop.start()
        self.port = self._loop.submit(self._start()).result(CEILING_S)
        self.url = f"http://127.0.0.1:{self.port}/v1"

    async def _start(self) -> int:
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._complete)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return int(self._runner.addresses[0][1])

    def stop(self) -> None:
        self._loop.submit(self._runner.cleanup()).result(CEILING_S)
        self._loop.stop()

    async def _models(self, request: web.Request) -> web.StreamResponse:
        if isinstance(self.models, int):
            return web.json_response({"error": {"code": "told_so"}}, status=self.models)
        return web.json_response({"data": [{"id": name} for name in self.models]})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        answer = Streaming(request, await request.json())
        self.requests.append(answer)
        self.connections.add(request.transport)
        reply = self.replies.popleft() if len(self.replies) > 1 else self.replies[0]
        self.running += 1
        self.running_max = max(self.running, self.running_max)
        try:
            await reply(answer)
        except (asyncio.CancelledError, ConnectionError):
            self.gone_at = time.monotonic()
            self.gone.set()
            raise
        finally:
            self.running -= 1
        return answer.response
