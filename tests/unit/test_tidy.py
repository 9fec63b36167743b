"""The memory of ended sessions is given back when the server is empty."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref

import pytest

from duplex.server.tidy import give_back, tidy_when_empty

pytestmark = pytest.mark.unit


class Cycle:
    def __init__(self) -> None:
        self.me = self


def test_what_ended_in_a_cycle_is_given_back() -> None:
    gc.disable()
    try:
        cycle = Cycle()
        seen = weakref.ref(cycle)
        del cycle
        assert seen() is not None
        give_back()
        assert seen() is None
    finally:
        gc.enable()


async def test_it_is_given_back_once_when_the_last_session_has_left() -> None:
    counts = iter([0, 2, 1, 0, 0, 3, 0])
    given: list[int] = []
    left = 7

    def sessions() -> int:
        nonlocal left
        left -= 1
        return next(counts)

    with contextlib.suppress(StopIteration, RuntimeError):
        await asyncio.wait_for(tidy_when_empty(sessions, 0, lambda: given.append(left)), 10)
    assert given == [3, 0]
