"""What people report of access to servers like this one, beyond the field cases (kind 9).

report                                       what goes wrong there
ruhex/BGPLite#256, NeoLabs-Systems/NeoAgent#31   who reaches the server past its proxy says in a header who they are, and is believed
maximhq/bifrost#7317                             whatever looks like a secret takes a place and opens a session before it is looked up
"""

from __future__ import annotations

import pytest
from aiohttp import WSServerHandshakeError
from fake_host import FakeHost, served

pytestmark = pytest.mark.protocol
CALLS = "/v1/realtime/calls"
OFFER = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\n"
SDP = {"Content-Type": "application/sdp"}


@pytest.mark.parametrize(
    ("proxies", "tenant"),
    [((), "gold"), (("127.0.0.0/8", "::1"), "gold"), (("10.0.0.0/8",), "default")],
)
async def test_only_a_proxy_says_whose_session_it_is(proxies: tuple[str, ...], tenant: str) -> None:
    host = FakeHost()
    async with served(host, tenant_header="X-Tenant", trusted_proxies=proxies) as client:
        response = await client.post(CALLS, data=OFFER, headers={**SDP, "X-Tenant": "gold"})
        assert response.status == 201
    assert host.tenants == [tenant]


@pytest.mark.parametrize("name", ["", "go\u200bld", "x" * 65])
async def test_a_name_that_no_log_could_show_is_refused(name: str) -> None:
    host = FakeHost()
    async with served(host, tenant_header="X-Tenant") as client:
        response = await client.post(CALLS, data=OFFER, headers={**SDP, "X-Tenant": name})
        assert response.status == 400
    assert host.offers == []


@pytest.mark.parametrize(
    "secret", ["ek_", "ek_0123456789abcdef0123456789abcdef", "sk-proj-0123456789abcdef", "key-0123456789abcde"]
)
async def test_what_only_looks_like_a_secret_opens_nothing(secret: str) -> None:
    host = FakeHost()
    async with served(host, api_keys={"app": "key-0123456789abcdef"}, caller_sessions_max=1) as client:
        for _ in range(3):
            called = await client.post(CALLS, data=OFFER, headers={**SDP, "Authorization": f"Bearer {secret}"})
            assert called.status == 401
            with pytest.raises(WSServerHandshakeError) as refused:
                await client.ws_connect("/v1/realtime", protocols=("realtime", f"openai-insecure-api-key.{secret}"))
            assert refused.value.status == 401
    assert host.offers == [] and host.websockets == []
