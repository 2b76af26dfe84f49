"""A connection that sends frames and waits for answers."""

import socket
from struct import Struct

_SIZE = Struct(">i")
ANSWER_SECONDS = 60.0
# Of one read: a large answer, or many small ones.
RECEIVE_BYTES = 256 * 1024


class Connection:
    """A blocking connection to a server; answers come in the order of the requests."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), ANSWER_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()

    def send(self, frame: bytes) -> None:
        self.socket.sendall(frame)

    def receive(self) -> bytes:
        """The next answer, with its size field. Raises OSError when the server has closed or is silent."""
        received = self._received
        while len(received) < _SIZE.size or len(received) < (size := 4 + _SIZE.unpack_from(received)[0]):
            more = self.socket.recv(RECEIVE_BYTES)
            if not more:
                raise ConnectionError("the server has closed the connection")
            received += more
        answer = bytes(received[:size])
        del received[:size]
        return answer

    def ask(self, frame: bytes) -> bytes:
        self.send(frame)
        return self.receive()

    def close(self) -> None:
        self.socket.close()
