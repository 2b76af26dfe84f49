"""The addresses of hosts that an administrator names (`InetAddress.getByName`)."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

import trio

from gateway.security.access import java_address

RESOLVE_SECONDS: Final = 5.0
"""How long the names of one request are looked up, all together."""

MAX_NAMES: Final = 100
"""Names of one request that are looked up: each may be waited for."""


async def addresses_of(hosts: Iterable[str]) -> dict[str, str]:
    """Host -> its address, as clients' are compared; of names the first that is found. Who has none, or none
    in time, is left out.
    """
    found: dict[str, str] = {}
    names = []
    for host in dict.fromkeys(hosts):
        try:
            ip_address(host)
        except ValueError:
            names.append(host)
        else:
            found[host] = java_address(host)
    with trio.move_on_after(RESOLVE_SECONDS):
        for name in names[:MAX_NAMES]:
            try:
                (*_, where), *_ = await trio.socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError):
                continue
            found[name] = java_address(str(where[0]))
    return found
