"""What the runners need of whoever has threads and a clock; the very same runners serve on simulated time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from duplex.units import MonoNs

Observe = Callable[[str, float, dict[str, str]], None]
"""Takes a measure: name, value in base units, labels."""


class Executor(Protocol):
    """Where a stage's compute happens, and what time it is."""

    def now(self) -> MonoNs: ...

    def run(self, stage: str, step: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Run `step` on the stage's thread; later call `done` on the loop's with its result or its exception."""

    def abandon(self, stage: str) -> None:
        """Give the stage a fresh thread for its next step. The old one does what it was given, and ends."""

    def post(self, call: Callable[[], None]) -> None:
        """Run `call` on the loop's thread soon; callable from any thread."""

    def call_at(self, when: MonoNs, call: Callable[[], None]) -> Callable[[], None]:
        """Run `call` on the loop's thread at `when`; return what cancels it."""
