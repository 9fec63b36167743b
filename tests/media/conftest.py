"""What every media test leaves behind: nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvloop
from media_harness import Plane, sockets, until
from media_harness import plane as opened

from duplex.media.warm import video_executor


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Any]:
    """Run on the loop that `duplex serve` runs on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    """A plane bound to loopback; afterwards sockets, tasks and ticker are as before."""
    video_executor().submit(int).result()
    async with opened() as on:
        await asyncio.sleep(0)
        before = (sockets(), len(asyncio.all_tasks()))
        yield on
        await until(lambda: sockets() <= before[0], "the sockets are given back")
        await until(lambda: len(asyncio.all_tasks()) <= before[1], "the tasks are over")
        assert on.ticker.stats().members == 0
