"""Raw Kafka requests over a plain socket: bytes out, decoded answers in, nothing hidden by a client library.

kafka-python's schemas encode and decode; this module adds what a judge needs and a client does not: an answer
with bytes left over is an error, a closed connection is a value, and any bytes at all can be sent.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Self

from wireproto.kafka.schemas import REQUEST_CLASSES, RESPONSE_CLASSES

API_VERSIONS = 18
UNSUPPORTED_VERSION = 35
CLIENT_ID = "differential"
MAX_ANSWER_BYTES = 256 * 1024 * 1024

MESSAGES: dict[int, tuple[Any, Any]] = {
    key: (request, RESPONSE_CLASSES[key]) for key, request in REQUEST_CLASSES.items()
}


class UndecodableError(Exception):
    """An answer that is not what its schema says."""


def encode(request: Any, correlation_id: int = 1) -> bytes:
    """One framed request: size, header, body."""
    request.with_header(correlation_id=correlation_id, client_id=CLIENT_ID)
    return bytes(request.encode(framed=True, header=True))


def is_flexible(api_key: int, version: int) -> bool:
    request, _ = MESSAGES[api_key]
    return bool(request.flexible_version_q(version))


def header(api_key: int, version: int, correlation_id: int = 1, *, flexible: bool | None = None) -> bytes:
    """A request header: v2 (with empty tags) where the version is flexible, else v1."""
    if flexible is None:
        flexible = is_flexible(api_key, version)
    client = CLIENT_ID.encode()
    fixed = struct.pack(">hhih", api_key, version, correlation_id, len(client)) + client
    return fixed + b"\0" if flexible else fixed


def body_of(request: Any) -> bytes:
    """The request's body alone, for tests that break it on purpose."""
    return bytes(request.encode())


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def decode(api_key: int, version: int, answer: bytes, correlation_id: int = 1) -> Any:
    """The answer (without its size) as a kafka-python response.

    Raises:
        UndecodableError: wrong correlation id, cut short, or bytes left over.
    """
    (got,) = struct.unpack_from(">i", answer)
    if got != correlation_id:
        raise UndecodableError(f"correlation id {got}, expected {correlation_id}")
    _, response = MESSAGES[api_key]
    start = 4
    if api_key == API_VERSIONS:
        # Its header is always v0, and its body is v0 when the version asked for is unknown (KIP-511).
        if struct.unpack_from(">h", answer, start)[0] == UNSUPPORTED_VERSION:
            version = 0
    elif response.flexible_version_q(version):
        if answer[start] != 0:
            raise UndecodableError(f"{answer[start]} tags in the response header")
        start += 1
    flexible = bool(response.flexible_version_q(version))
    decoder = response._struct.compiled_decode_from(
        version, compact=flexible, tagged=flexible, data_class=response
    )
    try:
        value, end = decoder(memoryview(answer), start)
    except (ValueError, IndexError, struct.error) as error:
        raise UndecodableError(f"{response.__name__} v{version}: {error}: {answer[:200]!r}") from error
    if end != len(answer):
        raise UndecodableError(f"{response.__name__} v{version}: {len(answer) - end} bytes left over")
    return value


class Connection:
    """One TCP connection to a Kafka server."""

    def __init__(self, bootstrap: str, *, timeout: float = 30.0) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def socket(self) -> socket.socket:
        return self._socket

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, smallest: int = 4) -> bytes | None:
        """The next answer without its size; None once the server has closed the connection.

        `smallest`: fewer bytes than these are no answer (a token may have none).

        Raises:
            TimeoutError: the server neither answers nor closes.
        """
        size = self._exactly(4)
        if size is None:
            return None
        (length,) = struct.unpack(">i", size)
        if not smallest <= length <= MAX_ANSWER_BYTES:
            raise UndecodableError(f"an answer of {length} bytes")
        return self._exactly(length)

    def _exactly(self, length: int) -> bytes | None:
        data = bytearray(length)
        view, have = memoryview(data), 0
        while have < length:
            try:
                got = self._socket.recv_into(view[have:])
            except ConnectionError:
                return None
            if not got:
                return None
            have += got
        return bytes(data)

    def ask(self, request: Any, correlation_id: int = 1) -> Any:
        """Sends a request and returns its decoded answer.

        Raises:
            ConnectionError: the server closed the connection instead.
        """
        self.send(encode(request, correlation_id))
        answer = self.receive()
        if answer is None:
            raise ConnectionError(f"closed instead of answering {request}")
        return decode(request.API_KEY, request.API_VERSION, answer, correlation_id)


def ask(bootstrap: str, request: Any) -> Any:
    """One request on a connection of its own."""
    with Connection(bootstrap) as connection:
        return connection.ask(request)
