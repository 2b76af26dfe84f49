"""A peer that speaks ZMTP 3.0 (NULL) over a plain socket, and says what no library would."""

from __future__ import annotations

import socket
import struct
from typing import Self

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31)
OLD_GREETING = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x01\x02" + b"\x00\x00"
"""Of ZMTP 2.0: a subscriber without an identity."""


class Peer:
    """A context manager around one connection; `kind` is `SUB`, `PUB` or another of ZeroMQ's names."""

    def __init__(self, connected: socket.socket, kind: bytes) -> None:
        self._socket = connected
        self._socket.settimeout(20)
        self._socket.sendall(GREETING)
        self._receive(len(GREETING))
        body = b"\x05READY\x0bSocket-Type" + struct.pack(">i", len(kind)) + kind
        self._socket.sendall(b"\x04" + bytes([len(body)]) + body)
        self._receive(self._receive(2)[1])

    @classmethod
    def connect(cls, port: int, kind: bytes) -> Self:
        return cls(socket.create_connection(("127.0.0.1", port)), kind)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> bool:
        """Whether the other side still takes it."""
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def is_cut(self) -> bool:
        """Reads what is there until the other side ends the connection, or is silent for long."""
        try:
            while self._socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the other side does not want this peer")
            data += piece
        return data


def frame(content: bytes, *, more: bool = False) -> bytes:
    """One frame of a message."""
    if len(content) < 256:
        return bytes([more, len(content)]) + content
    return bytes([more | 2]) + struct.pack(">Q", len(content)) + content


def subscriptions(count: int, size: int, start: int = 0) -> bytes:
    """Frames that subscribe to so many prefixes of `size` bytes that share nothing but their ends."""
    return b"".join(
        frame(b"\x01" + b"%08d" % number + bytes(size - 8)) for number in range(start, start + count)
    )
