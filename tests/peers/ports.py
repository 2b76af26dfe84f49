"""Ports for servers that must come back on the same one.

They lie below those that the system gives to connections (net.ipv4.ip_local_port_range): while a server is
down, any connection on the machine may be given its port there, and a client that tries to reach it may even
be connected to itself; then the server cannot listen again.
"""

import random
import socket
from contextlib import ExitStack

PORTS_OF_SERVERS = (21_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Ports on 127.0.0.1 that nobody used a moment ago; another process may take one before you do."""
    found: set[int] = set()
    while len(found) < count:
        found.add(free_ports_in_a_row(1))
    return list(found)


def free_ports_in_a_row(count: int) -> int:
    """The first of so many that follow each other and are free at this moment."""
    while True:
        first = random.randrange(*PORTS_OF_SERVERS)
        if _are_free(range(first, first + count)):
            return first


def _are_free(ports: range) -> bool:
    with ExitStack() as held:
        try:
            for port in ports:
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
