"""Who does not say who he is, on listeners that ask: what it costs, and that it keeps nobody away."""

from __future__ import annotations

import resource
import socket
import ssl
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka.protocol.metadata import ApiVersionsRequest

from tests.differential.wire import decode, encode
from tests.faults.victim import ANSWER_SECONDS
from tests.peers.certificates import self_signed
from tests.peers.standalone import READY, Standalone
from wireproto.kafka.api_keys import ApiKey

KIB = 1024
MOST_KIB = 128
"""Of one such connection: docs/limits.md says so."""

CONNECTIONS = 250
SILENT = 1_000
OPEN_FILES = 4_000
ASKED = encode(ApiVersionsRequest(version=0))


class Doors(NamedTuple):
    """A server with listeners that ask who comes, one of them over TLS."""

    server: Standalone
    plain: int
    encrypted: int
    trusting: ssl.SSLContext

    def connect(self, port: int) -> socket.socket:
        return socket.create_connection((self.server.host, port), timeout=ANSWER_SECONDS)

    def shake_hands(self) -> ssl.SSLSocket:
        return self.trusting.wrap_socket(self.connect(self.encrypted), server_hostname="localhost")


@pytest.fixture(scope="module", autouse=True)
def files() -> Iterator[None]:
    """As many as the connections take, here and in the server, which inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, OPEN_FILES), hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def serving(directory: Path) -> Iterator[Doors]:
    certificate, key = self_signed(directory)
    listeners = ("--listen", "SASL_PLAINTEXT://127.0.0.1:0", "--listen", "SASL_SSL://127.0.0.1:0")
    files = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    with Standalone(None, *listeners, *files, directory=directory / "server") as server:
        _, plain, encrypted = (int(port) for _, port in READY.findall(server.stdout))
        yield Doors(server, plain, encrypted, ssl.create_default_context(cafile=certificate))


def records(message: bytes) -> bytes:
    """A message of a TLS handshake, in records of the largest size."""
    pieces = [message[start : start + 16_384] for start in range(0, len(message), 16_384)]
    return b"".join(b"\x16\x03\x01" + struct.pack(">H", len(piece)) + piece for piece in pieces)


def hello_without_end(sent: int, announced: int = 16_000) -> bytes:
    """The beginning of a ClientHello."""
    head = b"\x01" + announced.to_bytes(3, "big") + b"\x03\x03" + bytes(32) + b"\0\0\x02\x13\x01\x01\0"
    return records((head + struct.pack(">H", 65_000)).ljust(sent, b"\0")[:sent])


HALF_FRAME = struct.pack(">i", 16_000) + bytes(15_900)
"""The largest that is counted in no budget of all."""

STATES = {
    "silent": (False, False, b""),
    "half a frame": (False, False, HALF_FRAME),
    "silent, in its handshake": (True, False, b""),
    "half of the longest hello": (True, False, hello_without_end(15_900)),
    "a hello of which nobody takes as much": (True, False, hello_without_end(100, 131_000)),
    "half a frame over TLS": (True, True, HALF_FRAME),
}


@pytest.mark.parametrize("state", STATES)
def test_what_one_keeps_is_bounded(tmp_path: Path, state: str) -> None:
    """Whatever it sends, and stops to send. What a larger frame takes is in `REQUEST_MEMORY_BYTES`."""
    is_encrypted, is_connected, said = STATES[state]
    with serving(tmp_path) as doors, ExitStack() as stack:
        ask(doors)  # what the first one costs is no part of it
        before = doors.server.rss_bytes
        for _ in range(CONNECTIONS):
            port = doors.encrypted if is_encrypted else doors.plain
            one = doors.shake_hands() if is_connected else doors.connect(port)
            stack.enter_context(closing(one))
            try:
                one.sendall(said)
            except ConnectionError:
                pass  # it was more than is taken
        for _ in range(5):
            ask(doors)  # all of them have had their turns before
        grown = doors.server.rss_bytes - before
    assert grown / CONNECTIONS / KIB < MOST_KIB


def ask(doors: Doors) -> None:
    """A good client connects over TLS, asks which versions there are, and is told."""
    with doors.shake_hands() as one:
        one.sendall(ASKED)
        received = b""
        while len(received) < 4 or len(received) < 4 + struct.unpack_from(">i", received)[0]:
            chunk = one.recv(1 << 16)
            assert chunk, "the server has hung up"
            received += chunk
    told = decode(ApiKey.API_VERSIONS, 0, received[4:])
    assert {entry.api_key for entry in told.api_keys} >= {0, 1, 3, 17, 36}


@pytest.mark.parametrize("said", [b"", hello_without_end(10_000)], ids=["nothing", "half a hello"])
def test_a_thousand_who_do_not_end_their_handshake_keep_nobody_away(tmp_path: Path, said: bytes) -> None:
    """Others shake hands and are answered after each hundred of them; none of these is given up for it."""
    with serving(tmp_path) as doors, ExitStack() as stack:
        silent: list[socket.socket] = []
        for _ in range(SILENT // 100):
            for _ in range(100):
                silent.append(stack.enter_context(closing(doors.connect(doors.encrypted))))
                silent[-1].sendall(said)
            for _ in range(3):
                ask(doors)
        assert still_open(silent) == SILENT


def still_open(ones: Sequence[socket.socket]) -> int:
    """How many of them the server has not hung up on."""
    count = 0
    for one in ones:
        one.setblocking(False)
        try:
            one.recv(1)
        except BlockingIOError:
            count += 1
    return count
