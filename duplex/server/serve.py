"""Run the server: bind, load, be ready, and end cleanly.

The port is bound before the model is loaded, so that a watcher sees `/readyz` turn from 503 with its reasons to 200.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import structlog
from aiohttp import web

from duplex.config import ServerSettings
from duplex.server.app import create_app
from duplex.server.connection import listen
from duplex.server.host_contract import SessionHost
from duplex.server.tidy import tidy_when_empty
from duplex.server.tls import Tls
from duplex.stages.contract import Progress
from duplex.telemetry import Observer, log_failure, sample_loop_lag
from duplex.telemetry.hub import Telemetry

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where a server that listens everywhere is reached from its own machine."""


async def serve(
    make_host: Callable[[], SessionHost],
    settings: ServerSettings,
    observer: Observer,
    *,
    progress: Progress,
    ready: Callable[[str], None],
    telemetry: Telemetry | None = None,
    tls: Tls | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; a second signal ends at once.

    Args:
        make_host: called on the loop; the host is started and closed here.
        settings: address and limits.
        observer: measures of the process.
        progress: told what is being loaded.
        ready: told the URL once sessions are served.
        telemetry: has looked at the host; None: nothing is shown live.
        tls: the certificate; None: plain HTTP.
    Raises:
        ConfigError: the API keys are no good, or others can reach the server and there are none.
        OSError: the address cannot be bound.
        PackError: the model cannot be loaded.
    Cancel: as a signal: first sessions may end by themselves, a second time they are ended.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None, "runs in a task"
    loop.set_exception_handler(_log_lost_exception)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    host = make_host()
    async with listening(host, settings, observer, telemetry, tls) as url:
        await host.start(progress)
        ready(url)
        try:
            async with asyncio.TaskGroup() as watching:
                watching.create_task(tidy_when_empty(lambda: host.sessions, settings.tidy_every_s))
                await sample_loop_lag(observer)
        except asyncio.CancelledError:
            task.uncancel()
        await _drain(host, settings.drain_timeout_s)


async def _drain(host: SessionHost, timeout_s: float) -> None:
    structlog.get_logger().info("draining", sessions=host.sessions, timeout_s=timeout_s)
    try:
        async with asyncio.timeout(timeout_s):
            await host.drain()
    except TimeoutError:
        structlog.get_logger().warning("drain_timeout", sessions=host.sessions)


@asynccontextmanager
async def listening(
    host: SessionHost,
    settings: ServerSettings,
    observer: Observer,
    telemetry: Telemetry | None = None,
    tls: Tls | None = None,
) -> AsyncIterator[str]:
    """Accept connections; yields the URL."""
    app = create_app(host, settings, observer, telemetry)
    runner = web.AppRunner(app, shutdown_timeout=settings.close_timeout_s)
    await runner.setup()
    port: asyncio.Server | None = None
    try:
        port = await listen(runner, settings, tls)
        yield url_of("http" if tls is None else "https", settings.host, port.sockets[0].getsockname()[1])
    finally:
        await host.close()
        if port is not None:
            port.close()
        await runner.cleanup()


def url_of(scheme: str, host: str, port: int) -> str:
    """Return where a server that is bound to `host` is reached from its own machine."""
    shown = _ANY_ADDRESS.get(host, host)
    return f"{scheme}://[{shown}]:{port}" if ":" in shown else f"{scheme}://{shown}:{port}"


def _log_lost_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what nobody awaited, without the message, which may hold what a client said."""
    error = context.get("exception")
    if isinstance(error, BaseException):
        log_failure("exception_lost", error)
    else:
        structlog.get_logger().error("event_loop_error")
