"""TCP connections that ZeroMQ made, by their file descriptors: who is at the other end, and to cut them.

ZeroMQ has no call that ends one peer's connection. It says on which descriptor a message came, and a
connection that is shut down ends for it as if the peer had gone: whatever it kept for that peer is freed. A
descriptor may be another connection's, or a file's, by the time that it is looked at; so it is duplicated
first, and compared.
"""

import contextlib
import logging
import os
import socket
import stat
import struct
from typing import NamedTuple

RESET_AT_CLOSE = struct.pack("ii", 1, 0)
"""Once ZeroMQ closes it nothing is kept for the peer, which would wait for room that never comes."""


CUT_LOGGED = 10
"""Connections that were cut and are logged, of one socket; further ones are only counted."""

logger = logging.getLogger(__name__)


class Connection(NamedTuple):
    """One connection, and no later one on the same descriptor."""

    descriptor: int
    peer: str
    """Address and port of the other end."""


def connection(descriptor: int) -> Connection | None:
    """What is on this descriptor now; None for what is no live connection."""
    with contextlib.suppress(OSError), _duplicate(descriptor) as opened:
        return Connection(descriptor, _peer(opened))
    return None


def cut(found: Connection) -> bool:
    """End this connection; false if it is gone already."""
    with contextlib.suppress(OSError), _duplicate(found.descriptor) as opened:
        if _peer(opened) == found.peer:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
            opened.shutdown(socket.SHUT_RDWR)
            return True
    return False


class Cuts:
    """The connections of one socket that were cut: counted, and the first ones logged."""

    def __init__(self) -> None:
        self.count = 0

    def cut(self, found: Connection, why: str) -> None:
        """End this connection, unless it is gone already. `why`: what its peer has done."""
        if cut(found):
            self.count += 1
            if self.count <= CUT_LOGGED:
                logger.warning("cut the link of %s: %s", found.peer, why)


def _duplicate(descriptor: int) -> socket.socket:
    """Raises OSError for what is no socket."""
    copy = os.dup(descriptor)
    try:
        if not stat.S_ISSOCK(os.fstat(copy).st_mode):
            raise OSError("not a socket")
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise


def _peer(opened: socket.socket) -> str:
    """Raises OSError for what is no TCP connection: others may have the descriptor by now."""
    if opened.family not in (socket.AF_INET, socket.AF_INET6):
        raise OSError("not a TCP connection")
    host, port = opened.getpeername()[:2]
    return f"{host}:{port}"
