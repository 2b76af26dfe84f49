"""Who is one client, for what clients share: memory, connections, work.

There are no principals yet, so it is the address: an IPv4 address, or the 64 bits that one host of IPv6 may
choose from. This machine is one client, whichever of its loopback addresses it uses.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Final

NOBODY: Final = ""
"""The client of what was there before this life of the gateway: nobody is known to have asked for it."""

LOOPBACK: Final = "loopback"
"""This machine."""

REMEMBERED_HOSTS: Final = 4096
"""Hosts whose client is remembered."""


@lru_cache(maxsize=REMEMBERED_HOSTS)
def client_of(host: str) -> str:
    """The client that connects from `host` (an address as the socket tells it)."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback:
        return LOOPBACK
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)
