"""What people report of connections that end, beyond the field cases: which end is a goodbye, and which is a loss."""

from __future__ import annotations

import pytest
from fake_host import FakeHost, served, until

pytestmark = pytest.mark.protocol


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (1000, "client"),
        (4000, "client"),  # an application's own word
        (1001, "left"),
        (1011, "left"),  # websockets for Python, whose ping was not answered in time: daydreamlive/DEMON#248
        (1012, "left"),
        (1014, "left"),  # a proxy that restarts, or has lost its way
    ],
)
async def test_only_a_client_that_says_goodbye_ends_its_session(code: int, reason: str) -> None:
    host = FakeHost()
    async with served(host) as client, client.ws_connect("/v1/realtime") as ws:
        await ws.receive_json()
        (session,) = host.websockets
        await ws.close(code=code)
        await until(lambda: session.reasons)
        assert session.reasons == [reason]
