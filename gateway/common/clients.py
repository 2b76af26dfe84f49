"""Who is one client, for what clients share: memory, connections, work.

Who has said who he is (SASL) is one client with all others that are the same principal, wherever they come
from: `User:NAME`. Of everybody else it is the address: an IPv4 address, or the 64 bits that one host of IPv6
may choose from. This machine is one client then, whichever of its loopback addresses it uses.

Who has one network of 64 bits often has thousands: a site is given 48 bits (RFC 6177). To take those for one
client would let one of a company's hosts use up the share of all the others; so they are a network, and what
its clients take together is bounded besides, at what one and a half clients may have.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Final

NOBODY: Final = ""
"""The client of what was there before this life of the gateway: nobody is known to have asked for it."""

LOOPBACK: Final = "loopback"
"""This machine."""

CLIENT_BITS: Final = 64
"""Bits of an IPv6 address that the hosts of one client have in common."""

NETWORK_BITS: Final = 48
"""Bits of an IPv6 address that the clients of one network have in common."""

NETWORK_CLIENTS: Final = 1.5
"""The clients of one network may take together what so many may."""

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
        return str(IPv6Network((address, CLIENT_BITS), strict=False))
    return str(address)


@lru_cache(maxsize=REMEMBERED_HOSTS)
def network_of(client: str) -> str:
    """The network that a client is of; the client itself, if it is not one of IPv6."""
    if ":" not in client:
        return client
    try:
        return str(IPv6Network(client).supernet(new_prefix=NETWORK_BITS))
    except ValueError:
        return client
