"""Bytes over TLS for servers of HTTP: clients are Python's ssl, blocking in threads."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from gateway.front.door import HANDSHAKE_SECONDS, Door, HttpStream
from tests.peers.certificates import self_signed
from tests.unit.gateway.kafka_wire import run

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]

BOTH = pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)

Handle = Callable[[HttpStream], Awaitable[object]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return self_signed(tmp_path_factory.mktemp("tls"))


def served(pair: tuple[Path, Path], handle: Handle, client: Callable[[int], Any], *, tls: bool = True) -> Any:
    """What the client returns, in a thread of its own, of a server that lets one visitor in."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    door = Door("--http", tls=(lambda: context) if tls else None)
    told: list[Any] = []

    async def let_in(stream: trio.SocketStream) -> None:
        async with stream:
            opened = await door.open(stream)
            if opened is not None:
                async with opened:
                    await handle(opened)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            listeners: list[trio.SocketListener] = await nursery.start(trio.serve_tcp, let_in, 0)
            port = listeners[0].socket.getsockname()[1]
            told.append(await trio.to_thread.run_sync(client, port))
            nursery.cancel_scope.cancel()

    run(main)
    return told[0]


def connected(port: int, pair: tuple[Path, Path], version: ssl.TLSVersion) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=pair[0])
    context.minimum_version = context.maximum_version = version
    plain = socket.create_connection(("127.0.0.1", port))
    # An end that was not announced raises.
    return context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False)


def all_of(one: socket.socket) -> bytes:
    received = b""
    while chunk := one.recv(1 << 16):
        received += chunk
    return received


async def echo(stream: HttpStream) -> None:
    while data := await stream.receive_some(10_000):
        await stream.send_all(data)


@BOTH
@pytest.mark.parametrize("size", [1, 16_384, 70_000, 3_000_000])
def test_what_is_sent_comes_back(pair: tuple[Path, Path], version: ssl.TLSVersion, size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)

    def client(port: int) -> bytes:
        with connected(port, pair, version) as one:
            received = b""
            for start in range(0, size, 50_000):
                piece = content[start : min(size, start + 50_000)]
                one.sendall(piece)
                while len(received) < start + len(piece):
                    received += one.recv(1 << 16)
            return received

    assert served(pair, echo, client) == content[:size]


@BOTH
def test_the_end_is_announced_and_what_comes_then_is_taken(
    pair: tuple[Path, Path], version: ssl.TLSVersion
) -> None:
    """A client that still sends gets what was said before, and no reset."""

    async def answer(stream: HttpStream) -> None:
        assert await stream.receive_some(5) == b"hello"
        await stream.send_all(b"not so much")
        await stream.send_eof()
        while await stream.receive_some(1 << 16):
            pass

    def client(port: int) -> bytes:
        with connected(port, pair, version) as one:
            one.sendall(b"hello")
            for _ in range(40):
                one.sendall(bytes(50_000))
            return all_of(one)

    assert served(pair, answer, client) == b"not so much"


@BOTH
def test_the_end_is_announced_where_the_stream_is_closed(
    pair: tuple[Path, Path], version: ssl.TLSVersion
) -> None:
    async def answer(stream: HttpStream) -> None:
        await stream.send_all(b"x" * 1000)

    def client(port: int) -> bytes:
        with connected(port, pair, version) as one:
            return all_of(one)

    assert served(pair, answer, client) == b"x" * 1000


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", bytes(2000)])
def test_who_speaks_no_tls_is_hung_up_on(
    pair: tuple[Path, Path], said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def never(_stream: HttpStream) -> None:
        raise AssertionError("let in")

    def client(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as one, contextlib.suppress(ConnectionResetError):
            one.sendall(said)
            all_of(one)

    served(pair, never, client)
    assert "--http: closing the connection of 127.0.0.1: it does not speak TLS" in caplog.text


def test_who_says_nothing_is_hung_up_on(pair: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)

    async def main() -> None:
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        async with listener, await trio.open_tcp_stream(*listener.socket.getsockname()) as client:
            async with await listener.accept() as accepted:
                began = trio.current_time()
                with pytest.raises(trio.TooSlowError):
                    await Door("--http", tls=lambda: context).open(accepted)
                assert trio.current_time() - began == HANDSHAKE_SECONDS
            assert await client.receive_some(10) == b""

    run(main, MockClock(autojump_threshold=0.05))


def test_without_tls_a_door_is_open(pair: tuple[Path, Path]) -> None:
    def client(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port)) as one:
            one.sendall(b"hello")
            one.shutdown(socket.SHUT_WR)
            return all_of(one)

    assert served(pair, echo, client, tls=False) == b"hello"
