"""`duplex trace`: fetch a session's timeline from a running server as a Perfetto file, or list the sessions that have one."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp

from duplex.client_key import headers_of

_TIMEOUT: Final = aiohttp.ClientTimeout(total=30)
_NAME: Final = re.compile(r'filename="([\w.-]{1,128})"')
_FALLBACK: Final = "duplex.pftrace"


class TraceError(Exception):
    """There is no trace to be had; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One session's trace."""

    name: str
    """File name that the server proposes."""
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One session that has a trace."""

    id: str
    transport: str
    began: datetime
    ended: datetime | None
    """None: it lives."""


async def fetch_trace(url: str, session_id: str, key: str | None = None) -> Trace:
    """Fetch a session's trace.

    Args:
        url: of the server.
        session_id: `rtc_…` (the Location of a call) or `sess_…` (session.created on a WebSocket).
        key: API key of the server; None: it asks for none.
    Raises:
        TraceError: the server is not there, or has no such trace.
    """
    if not re.fullmatch(r"[\w-]+", session_id):
        raise TraceError(f"that is no session's id: {session_id}")
    headers, body = await _get(f"{url.rstrip('/')}/v1/duplex/sessions/{session_id}/trace", key)
    proposed = _NAME.search(headers.get("Content-Disposition", ""))
    return Trace(name=proposed.group(1) if proposed else _FALLBACK, data=body)


async def list_sessions(url: str, key: str | None = None) -> list[Listed]:
    """Ask a server on this machine which sessions have a trace, the newest last.

    Raises:
        TraceError: the server is not there, or does not tell.
    """
    _, body = await _get(f"{url.rstrip('/')}/v1/duplex/sessions", key)
    listed: list[dict[str, Any]] = json.loads(body)["sessions"]
    return [
        Listed(
            id=session["id"],
            transport=session["transport"],
            began=_time(session["began_at_s"]),
            ended=None if session["ended_at_s"] is None else _time(session["ended_at_s"]),
        )
        for session in listed
    ]


def trace_to_file(url: str, session_id: str, out: Path | None, key: str | None = None) -> Path:
    """Fetch a session's trace and write it; return where.

    Raises:
        TraceError: as `fetch_trace`. OSError: the file cannot be written.
    """
    trace = asyncio.run(fetch_trace(url, session_id, key))
    path = out or Path(trace.name)
    path.write_bytes(trace.data)
    return path


def describe(sessions: list[Listed]) -> str:
    """Return the sessions as lines for a person."""
    if not sessions:
        return "no session has a trace"
    return "\n".join(
        f"{session.id}  {session.transport:9}  began {session.began.astimezone():%H:%M:%S}  "
        + ("live" if session.ended is None else f"ended {session.ended.astimezone():%H:%M:%S}")
        for session in sessions
    )


async def _get(url: str, key: str | None) -> tuple[dict[str, str], bytes]:
    async with aiohttp.ClientSession(timeout=_TIMEOUT, headers=headers_of(key)) as http:
        try:
            async with http.get(url) as response:
                await _check(response)
                return dict(response.headers), await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise TraceError(f"cannot reach the server: {error or 'no answer'}") from error


async def _check(response: aiohttp.ClientResponse) -> None:
    if response.status == 200:
        return
    try:
        message = (await response.json())["error"]["message"]
    except (ValueError, KeyError, TypeError, aiohttp.ContentTypeError):
        message = f"the server answered {response.status}"
    raise TraceError(message)


def _time(unix_s: float) -> datetime:
    return datetime.fromtimestamp(unix_s, UTC)
