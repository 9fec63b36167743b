"""The processes of talkers of a run, behind one small face: in this process, or in children of it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Protocol

from duplex.units import MonoNs
from loadgen.live import rows
from loadgen.live.options import LiveOptions, OptionError
from loadgen.live.worker import Assignment, Worker

Tell = Callable[[rows.Row], None]
_START_S = 60.0
_STOP_S = 15.0
_LINE_BYTES_MAX = 2**20


class CrewError(Exception):
    """A process of talkers did not start, or ended before its time."""


class Crew(Protocol):
    """Who holds the sessions."""

    async def start(self) -> None:
        """Get ready; raises OptionError for recordings that cannot be used, CrewError for a process that fails."""

    def zero(self, epoch: MonoNs) -> None:
        """Say when the run begins; once, before the first session."""

    def begin(self, assignment: Assignment) -> None:
        """Begin a session."""

    async def stop(self) -> None:
        """Hang up everything; all rows have been told when it returns."""


def crew(options: LiveOptions, tell: Tell) -> Crew:
    """Return the crew that the options ask for."""
    return _Children(options, tell) if options.processes else _Here(options, tell)


class _Here:
    """Talkers in this process."""

    def __init__(self, options: LiveOptions, tell: Tell) -> None:
        self._options = options
        self._tell = tell
        self._worker: Worker | None = None

    async def start(self) -> None:
        self._worker = Worker(self._options, 0, self._tell)

    def zero(self, epoch: MonoNs) -> None:
        assert self._worker is not None
        self._worker.epoch = epoch

    def begin(self, assignment: Assignment) -> None:
        assert self._worker is not None
        self._worker.begin(assignment)

    async def stop(self) -> None:
        if self._worker is not None:
            await self._worker.close()


class _Children:
    """Talkers in processes of their own; sessions go to the one that has the fewest."""

    def __init__(self, options: LiveOptions, tell: Tell) -> None:
        self._options = options
        self._tell = tell
        self._processes: list[asyncio.subprocess.Process] = []
        self._readers: list[asyncio.Task[None]] = []
        self._load: list[int] = []
        self._where: dict[str, int] = {}

    async def start(self) -> None:
        for number in range(self._options.processes):
            command = (sys.executable, "-m", "loadgen.live.worker")
            child = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_LINE_BYTES_MAX
            )
            self._processes.append(child)
            self._load.append(0)
            options, key = self._options.to_json(), self._options.key
            self._order(number, {"options": options, "key": key, "process": number})
        try:
            async with asyncio.timeout(_START_S):
                for child in self._processes:
                    await _ready(child)
        except TimeoutError:
            raise CrewError(f"the talkers were not ready within {_START_S:g} s") from None
        loop = asyncio.get_running_loop()
        self._readers = [loop.create_task(self._read(child)) for child in self._processes]

    def zero(self, epoch: MonoNs) -> None:
        for number in range(len(self._processes)):
            self._order(number, {"epoch": epoch})

    def begin(self, assignment: Assignment) -> None:
        number = self._load.index(min(self._load))
        self._load[number] += 1
        self._where[assignment.name] = number
        self._order(number, {"begin": assignment.to_json()})

    async def stop(self) -> None:
        for number, child in enumerate(self._processes):
            if child.returncode is None:
                self._order(number, {"stop": True})
        try:
            async with asyncio.timeout(_STOP_S):
                await asyncio.gather(*self._readers, *(child.wait() for child in self._processes))
        except TimeoutError:
            for child in self._processes:
                if child.returncode is None:
                    child.kill()
                    await child.wait()

    def _order(self, number: int, order: dict[str, object]) -> None:
        stdin = self._processes[number].stdin
        assert stdin is not None
        if not stdin.is_closing():
            stdin.write(json.dumps(order).encode() + b"\n")

    async def _read(self, child: asyncio.subprocess.Process) -> None:
        """Pass rows on until the child ends. Cancel: at any time."""
        assert child.stdout is not None
        while line := await child.stdout.readline():
            row = rows.from_json(json.loads(line))
            if isinstance(row, rows.SessionRow):
                self._load[self._where.pop(row.session)] -= 1
            self._tell(row)


async def _ready(child: asyncio.subprocess.Process) -> None:
    assert child.stdout is not None
    line = await child.stdout.readline()
    if not line:
        raise CrewError("a process of talkers ended while it started")
    first = json.loads(line)
    if "error" in first:
        raise OptionError(first["error"])
