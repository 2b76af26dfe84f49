"""Who a client is, for what is shared between clients: the host that its connection comes from."""

from __future__ import annotations

from typing import Final

LOOPBACK: Final = "loopback"
"""All connections from this machine: they are one client, whatever the address of theirs."""


def client_of(address: str) -> str:
    """The client behind `address`, as `host:port` (an IPv6 host may have brackets)."""
    host = address.rpartition(":")[0].strip("[]")
    plain = host.removeprefix("::ffff:")
    return LOOPBACK if plain == "::1" or plain.startswith("127.") else plain
