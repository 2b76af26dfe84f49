"""Who counts as one client when something is shared fairly.

Rule: one address is one client, until clients say who they are. An IPv6 network of 64 bits is one address:
whoever has one address of it has all. Everything on this machine's loopback is one client, too.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final

NOBODY: Final = ""
"""The client of what was there before this life of the gateway: nobody is known to have asked for it."""

LOOPBACK: Final = "loopback"
"""The client of all connections from this machine over its loopback."""

HOSTS_REMEMBERED: Final = 4096
"""Addresses whose client is remembered, so that it is not worked out for each request."""

_NETWORK_BITS: Final = 64


def client_of(address: str) -> str:
    """The client at `address`, which is `host:port`, an IPv6 host in brackets."""
    return client_at(address.rpartition(":")[0].strip("[]"))


@lru_cache(maxsize=HOSTS_REMEMBERED)
def client_at(host: str) -> str:
    """The client at an IP address. What is no IP address is a client of that name."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            if address.is_loopback:
                return LOOPBACK
            return f"{IPv6Address(int(address) >> _NETWORK_BITS << _NETWORK_BITS)}/{_NETWORK_BITS}"
        address = address.ipv4_mapped
    return LOOPBACK if address.is_loopback else str(address)
