"""Where stages compute: one thread per stage, results posted back to the loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from duplex.units import MonoNs


class ThreadExecutor:
    """The `Executor` of a running server. Made on the loop's thread.

    Args:
        on_transfer: takes the seconds from a step's end on its thread until the loop takes the result.
    """

    def __init__(self, on_transfer: Callable[[float], None]) -> None:
        self._on_transfer = on_transfer
        self._loop = asyncio.get_running_loop()
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._closed = False

    def now(self) -> MonoNs:
        """Return the loop's clock."""
        return MonoNs(int(self._loop.time() * 1e9))

    def run(self, stage: str, step: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Run `step` on the stage's own thread, then `done` on the loop's with its result or exception."""
        thread = self._threads.get(stage)
        if thread is None:
            thread = self._threads[stage] = ThreadPoolExecutor(1, thread_name_prefix=f"stage-{stage}")

        def finished(future: Future[Any]) -> None:
            ended = time.perf_counter()
            self.post(lambda: self._taken(done, future, ended))

        thread.submit(step).add_done_callback(finished)

    def _taken(self, done: Callable[[Any], None], future: Future[Any], ended: float) -> None:
        self._on_transfer(time.perf_counter() - ended)
        done(_outcome(future))

    def post(self, call: Callable[[], None]) -> None:
        """Run `call` on the loop's thread soon; callable from any thread, ignored once closed."""
        if not self._closed and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)

    def call_at(self, when: MonoNs, call: Callable[[], None]) -> Callable[[], None]:
        """Run `call` on the loop's thread at `when`; return what cancels it."""
        return self._loop.call_at(when / 1e9, call).cancel

    def close(self) -> None:
        """Let running steps end, start no more."""
        self._closed = True
        for thread in self._threads.values():
            thread.shutdown(wait=False, cancel_futures=True)


def _outcome(future: Future[Any]) -> Any:
    error = future.exception()
    return future.result() if error is None else error
