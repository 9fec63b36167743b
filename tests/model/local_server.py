"""`duplex serve` with the default model in a process of its own, and what can be seen of it from outside."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

START_S = 120.0
STOP_S = 20.0
VANISH_TIMEOUT_S = 5.0
"""Of the server: shorter than by default, for tests wait for it to pass."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class LocalServer:
    """A running server; the constructor returns when it is ready.

    Args:
        log: file that its log goes to, one JSON object a line.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        arguments = [sys.executable, "-m", "duplex.cli", "serve", "--port", "0"]
        environment = os.environ | {
            "DUPLEX_ADMISSION__MEASURED": "false",  # a busy machine is not what is tested
            "DUPLEX_SERVER__VANISH_TIMEOUT_S": str(VANISH_TIMEOUT_S),
        }
        with log.open("wb") as errors:
            self._process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=errors, env=environment)
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode().split()
        assert line[:1] == ["ready"], log.read_text()
        self.url = line[1]

    def stop(self) -> None:
        """End it as an operator does, and see that it ends well."""
        self._process.terminate()
        assert self._process.wait(STOP_S) == 0, self._log.read_text()
        assert self._process.stdout is not None
        self._process.stdout.close()

    # What it says. --------------------------------------------------------------------------------------------------

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Return the log's lines of one event so far."""
        lines = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    def measure(self, name: str) -> float:
        """Return the sum of a measure's samples over all labels."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.split("{")[0].split(" ")[0] == name)

    # What the kernel says. ------------------------------------------------------------------------------------------

    @property
    def sockets(self) -> int:
        """Return how many sockets the process has open."""
        targets = []
        for fd in Path(f"/proc/{self._process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed since it was listed
                targets.append(os.readlink(fd))
        return sum(target.startswith("socket:") for target in targets)

    @property
    def children(self) -> list[int]:
        """Return the ids of the processes of its stages."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # ended since it was listed
                parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
                if int(parent) == self._process.pid and b"duplex.stages.child" in (process / "cmdline").read_bytes():
                    found.append(int(process.name))
        return found

    @property
    def threads(self) -> int:
        """Return how many threads the process has."""
        return len(list(Path(f"/proc/{self._process.pid}/task").iterdir()))

    @property
    def cpu_s(self) -> float:
        """Return the processor time that the process has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


async def within(seconds: float, condition: Callable[[], bool], what: str) -> None:
    """Wait until something that sends no event has come about; asked ten times a second, off the loop.

    Raises:
        AssertionError: it has not within `seconds`.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not await asyncio.to_thread(condition):
        assert loop.time() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.1)
