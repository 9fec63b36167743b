"""Who is believed about who asks."""

from __future__ import annotations

import ipaddress

import pytest

from duplex.server.addresses import speaks_for_others

pytestmark = pytest.mark.unit
PROXIES = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "without_proxies", "with_proxies"),
    [
        ("127.0.0.1", True, False),
        ("::1", True, False),
        ("::ffff:127.0.0.1", True, False),
        ("10.1.2.3", False, True),
        ("::ffff:10.1.2.3", False, True),
        ("fd00::7", False, True),
        ("203.0.113.9", False, False),
        ("not an address", False, False),
        (None, False, False),
    ],
)
def test_a_trusted_proxy_is_believed_and_without_any_this_machine(
    peer: str | None, without_proxies: bool, with_proxies: bool
) -> None:
    assert speaks_for_others(peer, ()) is without_proxies
    assert speaks_for_others(peer, PROXIES) is with_proxies
