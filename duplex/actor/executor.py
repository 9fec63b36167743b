"""Where stages compute: one thread per stage, results posted back to the loop."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from duplex.units import MonoNs

_CALLS_MAX = 4
"""Calls that wait for a thread: a step, and closing its stage; overflow rule: `reject`."""


class _StageThread:
    """One thread that makes calls in order. A daemon: one that hangs for good does not keep the process from ending."""

    def __init__(self, name: str) -> None:
        self._calls: queue.Queue[Callable[[], None] | None] = queue.Queue(_CALLS_MAX)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, call: Callable[[], None]) -> None:
        """Make a call after those before it."""
        self._calls.put_nowait(call)

    def end(self) -> None:
        """End after the calls that were given."""
        self._calls.put_nowait(None)

    def join(self, seconds: float) -> None:
        """Wait for the end."""
        self._thread.join(seconds)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


class ThreadExecutor:
    """The `Executor` of a running server. Made on the loop's thread.

    Args:
        on_transfer: takes the seconds from a step's end on its thread until the loop takes the result.
    """

    def __init__(self, on_transfer: Callable[[float], None]) -> None:
        self._on_transfer = on_transfer
        self._loop = asyncio.get_running_loop()
        self._threads: dict[str, _StageThread] = {}
        self._closed = False

    def now(self) -> MonoNs:
        """Return the loop's clock."""
        return MonoNs(int(self._loop.time() * 1e9))

    def run(self, stage: str, step: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Run `step` on the stage's own thread, then `done` on the loop's with its result or exception."""
        thread = self._threads.get(stage)
        if thread is None:
            thread = self._threads[stage] = _StageThread(f"stage-{stage}")

        def call() -> None:
            result = _outcome(step)
            ended = time.perf_counter()
            self.post(lambda: self._taken(done, result, ended))

        thread.call(call)

    def _taken(self, done: Callable[[Any], None], result: Any, ended: float) -> None:
        self._on_transfer(time.perf_counter() - ended)
        done(result)

    def abandon(self, stage: str) -> None:
        """Give the stage a fresh thread for its next step; the old one ends when it has done what it was given."""
        thread = self._threads.pop(stage, None)
        if thread is not None:
            thread.end()

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
            thread.end()

    def join(self, seconds: float) -> None:
        """Wait for running steps to end, for so long in all; after `close`, and off the loop."""
        until = time.perf_counter() + seconds
        for thread in self._threads.values():
            thread.join(max(0.0, until - time.perf_counter()))


def _outcome(step: Callable[[], Any]) -> Any:
    """Return a step's result, or what it raised: nothing ends the thread but its end."""
    try:
        return step()
    except BaseException as error:  # noqa: BLE001  handed to whoever asked for the step
        return error
