"""Which of a client's ICE candidates are worth a check, and which addresses the server itself offers.

A candidate makes the server send packets to an address of the client's choosing, so only literal addresses that a
conversation can come from are used. Names are never resolved: an mDNS (`.local`) client is found by the checks it sends
itself (a peer-reflexive candidate), which costs nothing and cannot stall the answer.

Source: RFC 8445 §5.1; RFC 8839 §5.1; draft-ietf-mmusic-mdns-ice-candidates.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence

from aioice.ice import get_host_addresses

CHECKED_MAX = 16
"""Most remote candidates that are checked, in the client's order."""
_LINE = re.compile(
    r"(?P<foundation>[A-Za-z0-9+/]{1,32}) 1 (?i:udp) (?P<priority>[0-9]{1,10}) (?P<address>[0-9a-fA-F.:]{2,45})"
    r" (?P<port>[0-9]{1,5}) typ (?P<type>host|srflx|relay)\b"
)
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def usable(lines: Iterable[str], *, loopback: bool, denied: Sequence[Network] = ()) -> list[str]:
    """Return the candidates worth a check, canonical, without duplicates, at most `CHECKED_MAX`.

    Args:
        lines: values of `a=candidate`, as the client wrote them.
        loopback: whether loopback addresses are allowed (the server itself is bound to loopback).
        denied: networks whose addresses are not, beside those that never are.
    """
    kept: dict[tuple[_Address, int], str] = {}
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        address, port = _address(match["address"]), int(match["port"])
        if address is None or not 0 < port < 65536 or not _allowed(address, loopback=loopback):
            continue
        if any(address in network for network in denied):
            continue
        head = f"{match['foundation']} 1 udp {int(match['priority']) & 0x7FFFFFFF}"
        kept.setdefault((address, port), f"{head} {address} {port} typ {match['type']}")
        if len(kept) == CHECKED_MAX:
            break
    return list(kept.values())


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _allowed(address: _Address, *, loopback: bool) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return False  # a plain IPv4 candidate says the same
    if address.is_reserved and not address.is_loopback:
        return False  # in IPv6 also what translates to an IPv4 address (64:ff9b::/96), whichever that is
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return False
    return loopback or not address.is_loopback


def lines_in(fragment: str) -> list[str]:
    """Return the candidates of an SDP fragment, as values of `a=candidate`. Source: RFC 8840."""
    prefix = "a=candidate:"
    return [line.strip().removeprefix(prefix) for line in fragment.splitlines() if line.startswith(prefix)]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; a name other than localhost is taken to be reachable by others."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def host_addresses(host: str) -> list[str]:
    """Return the addresses whose sockets a server bound to `host` offers, best first.

    Bound to loopback it offers loopback and the machine's other addresses: a browser on the same machine does not use
    loopback for WebRTC on every system, and nobody reaches the media without the offer made over loopback. Bound to
    one address it offers that one. Bound to all it offers all but loopback.
    """
    every = [str(address) for address in get_host_addresses(use_ipv4=True, use_ipv6=True)]
    if is_loopback(host):
        return ["::1" if ":" in host else "127.0.0.1", *every]
    bound = _address(host)
    if bound is not None and not bound.is_unspecified:
        return [str(bound)]
    return every or ["127.0.0.1"]
