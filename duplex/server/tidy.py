"""The memory of sessions that have ended, given back while nobody is there to notice.

What ends as a cycle of objects waits for Python's collector, which counts objects and not bytes, and an allocator keeps what
comes back in small pieces. One sweep takes milliseconds: too long while somebody listens, nothing when the server is empty.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable
from typing import NoReturn

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""glibc has it; elsewhere the allocator does as it likes."""


def give_back() -> None:
    """Collect what nobody can reach, and give free memory back to the system."""
    gc.collect()
    if _trim is not None:
        _trim(0)


async def tidy_when_empty(
    sessions: Callable[[], int], interval_s: float, give_back: Callable[[], None] = give_back
) -> NoReturn:
    """Look at the server for ever; once it was in use and is empty, give back what its sessions held.

    Args:
        sessions: how many there are.
        interval_s: time between looks.
        give_back: does it.
    Cancel: at any time; nothing is lost.
    """
    used = False
    while True:
        await asyncio.sleep(interval_s)
        if sessions():
            used = True
        elif used:
            used = False
            give_back()
