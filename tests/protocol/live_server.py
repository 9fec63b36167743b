"""The real server with the test double as its model, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from duplex_models.sim import SimOptions, make

from duplex.actor.host import SessionHost
from duplex.config import Settings, load
from duplex.server.serve import listening
from duplex.telemetry import Observer

CEILING_S = 30.0


@asynccontextmanager
async def live(*script: str, **sections: dict[str, Any]) -> AsyncIterator[tuple[str, Observer]]:
    """Serve sessions with the test double and further settings; yields the URL."""
    settings: Settings = load(**sections | {"server": {"port": 0, "close_timeout_s": 1.0} | sections.get("server", {})})
    observer = Observer()
    host = SessionHost(settings, make(SimOptions(script=script or ("One two three.",))), observer.record)
    async with listening(host, settings.server, observer) as url, asyncio.timeout(CEILING_S):
        await host.start(lambda line: None)
        yield url, observer
