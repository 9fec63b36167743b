"""Whose address a request comes from, also behind proxies. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def client_address(peer: str | None, forwarded_for: Sequence[str], trusted: Sequence[Network]) -> Address | None:
    """Return the address of the client.

    Each proxy writes who asked it at the end of X-Forwarded-For, and what stands further left was said by that one. So the
    list is read from its end, for as long as a trusted proxy speaks.

    Args:
        peer: who is connected; None: not known (a Unix socket, a connection that is gone).
        forwarded_for: every X-Forwarded-For header, in order.
        trusted: proxies whose word is taken; without any the headers are not looked at.
    """
    client = _parse(peer or "")
    entries = [entry.strip() for header in forwarded_for for entry in header.split(",")]
    while client is not None and entries and any(client in network for network in trusted):
        said = _parse(entries.pop())
        if said is None:
            break
        client = said
    return client


def speaks_for_others(peer: str | None, trusted: Sequence[Network]) -> bool:
    """Return whether a peer is believed about who asks: a trusted proxy is; without any, a program on this machine.

    Args:
        peer: who is connected.
        trusted: proxies whose word is taken.
    """
    address = _parse(peer or "")
    if address is None:
        return False
    return any(address in network for network in trusted) if trusted else address.is_loopback


def bucket_name(address: Address | None) -> str:
    """Return what is counted together: an IPv4 address, or the /64 that an IPv6 host can choose its address from."""
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def _parse(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
