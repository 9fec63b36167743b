"""An asyncio loop on a thread of its own, so that a slow handshake or a burst of text never delays the ticker's loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


class BackgroundLoop:
    """A loop that runs from `start` to `stop`; both may be called once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Between `start` and `stop`."""
        return self._loop is not None

    def start(self) -> None:
        """Start the thread and wait until its loop runs."""
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), name=self._name, daemon=True)
        self._thread.start()
        started.wait()

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run a coroutine on the loop; callable from any thread. Cancelling the future cancels it."""
        assert self._loop is not None, "started before the first work"
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self) -> None:
        """Cancel what runs and end the thread."""
        assert self._loop is not None and self._stop is not None and self._thread is not None, "started before"
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop = None

    async def _serve(self, started: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        started.set()
        await self._stop.wait()
