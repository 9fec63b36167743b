"""The process of one stage: `python -m duplex.stages.child FD`, started by `duplex.stages.process` and ended by it.

    from the parent   Load (first) · Step · Call · Ping
    to the parent     Loading … · Loaded or Raised · Stepped or Raised · Emitted · Pong

One thread reads and answers pings, another makes the calls in order, as the stage's thread would. The pipe is a pair of sockets
that nobody else has; when the parent is gone it ends, and so does this process, at once.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from duplex.payloads import Job
from duplex.stages.contract import Stage, is_engine
from duplex.stages.process_messages import Call, Emitted, Load, Loaded, Loading, Ping, Pong, Raised, Step, Stepped

_CALLS_MAX = 1024
"""Calls that wait for the stage; overflow rule: the reader waits, so pings go unanswered and the parent ends this process."""
_OOM_SCORE = "500"
"""Where the kernel has to end something for want of memory, it is this and not the server."""


class _Child:
    """The stage and its pipe."""

    def __init__(self, pipe: Connection, stage: Stage) -> None:
        self._pipe = pipe
        self._stage = stage
        self._sending = threading.Lock()
        self._calls: queue.Queue[Step | Call] = queue.Queue(_CALLS_MAX)

    def load(self) -> None:
        self._stage.load(lambda line: self._send(Loading(line)))
        self._send(Loaded())

    def serve(self) -> None:
        """Take messages until the parent is gone."""
        threading.Thread(target=self._work, name="stage", daemon=True).start()
        while True:
            message = self._pipe.recv()
            if isinstance(message, Ping):
                self._send(Pong())
            else:
                self._calls.put(message)

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            try:
                self._make(call)
            except BaseException as error:  # noqa: BLE001  the thread's root: told to the parent, which decides
                if isinstance(call, Call) and call.method != "submit":
                    _give_up(error)
                job = call.argument.id if isinstance(call, Call) else None
                self._send(Raised(error=type(error).__name__, memory=isinstance(error, MemoryError), job=job))

    def _make(self, call: Step | Call) -> None:
        stage = self._stage
        if isinstance(call, Step):
            assert not is_engine(stage), "only a batch stage steps"
            self._send(Stepped(tuple(stage.step(call.jobs))))
        elif call.method == "submit":
            assert is_engine(stage), "only an engine is submitted to"
            job: Job = call.argument
            stage.submit(job, lambda output: self._send(Emitted(job.id, output)))
        else:
            method: Callable[[Any], None] = getattr(stage, call.method)
            method(call.argument)

    def _send(self, message: Any) -> None:
        with self._sending:
            self._pipe.send(message)


def main(fd: int) -> None:
    """Serve one stage until the parent is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to the whole group or unit; the parent says when it is time
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # not Linux
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
    pipe = Connection(fd)
    try:
        child = _loaded(pipe)
        if child is not None:
            child.serve()
        _end(0)
    except (EOFError, OSError):  # the parent is gone: so is everything that this was for
        _end(0)
    except Exception as error:  # noqa: BLE001  the root: the parent sees the process end, and starts another
        _give_up(error)


def _loaded(pipe: Connection) -> _Child | None:
    """Load the stage that the parent names; None: it cannot be, and the parent knows why."""
    try:
        first = pipe.recv()
        assert isinstance(first, Load), "the first message says what to load"
        child = _Child(pipe, first.maker())
        child.load()
    except EOFError:
        raise
    except Exception as error:  # noqa: BLE001  told to the parent, which tells whoever started the server
        pipe.send(Raised(error=type(error).__name__, message=str(error), memory=isinstance(error, MemoryError)))
        return None
    return child


def _give_up(error: BaseException) -> NoReturn:
    """End this process for a mistake; without its message, which could hold what somebody said."""
    sys.stderr.write(f"a stage's process ends: {type(error).__name__}\n")
    _end(1)


def _end(status: int) -> NoReturn:
    sys.stderr.flush()
    os._exit(status)  # engines' threads may be at work; nothing here is worth waiting for


if __name__ == "__main__":
    main(int(sys.argv[1]))
