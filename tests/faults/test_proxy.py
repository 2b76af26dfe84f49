"""The proxy does to a connection what it says, and nothing else."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from tests.faults.proxy import IN, OUT, Proxy

SECONDS = 10.0


class Echo(socketserver.BaseRequestHandler):
    """Sends back what comes."""

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):
            while data := self.request.recv(65536):
                self.request.sendall(data)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        with Proxy(("127.0.0.1", server.server_address[1])) as running:
            yield running
        server.shutdown()
        thread.join()


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection((proxy.host, proxy.port), timeout=SECONDS)


def echoed(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    found = b""
    while len(found) < len(data) and (part := connection.recv(65536)):
        found += part
    return found


def test_what_is_sent_arrives(proxy: Proxy) -> None:
    data = bytes(range(256)) * 4000
    with connect(proxy) as connection:
        assert echoed(connection, data) == data
    assert proxy.connections == 1


def test_late_both_ways_and_not_one_after_the_other(proxy: Proxy) -> None:
    with connect(proxy) as connection, proxy.slowed(delay_seconds=0.1):
        began = time.monotonic()
        connection.sendall(b"a")
        time.sleep(0.05)
        assert echoed(connection, b"b")[:1] == b"a"
        assert 0.2 <= time.monotonic() - began < 1.0


def test_slow(proxy: Proxy) -> None:
    with connect(proxy) as connection, proxy.slowed(bytes_per_second=100_000):
        began = time.monotonic()
        assert len(echoed(connection, b"x" * 30_000)) == 30_000
        assert time.monotonic() - began > 0.25


def test_held_comes_later(proxy: Proxy) -> None:
    with connect(proxy) as connection:
        with proxy.held(IN):
            connection.sendall(b"hello")
            connection.settimeout(0.1)
            with pytest.raises(TimeoutError):
                connection.recv(5)
        connection.settimeout(SECONDS)
        assert connection.recv(5) == b"hello"


@pytest.mark.parametrize("way", [IN, OUT])
def test_dropped_is_gone_and_the_connection_with_it(proxy: Proxy, way: str) -> None:
    with connect(proxy) as connection, connect(proxy) as other:
        assert echoed(connection, b"before") == b"before"
        with proxy.dropped(way):
            connection.sendall(b"hello")
            connection.settimeout(0.1)
            with pytest.raises(TimeoutError):
                connection.recv(5)
        connection.settimeout(SECONDS)
        with pytest.raises(ConnectionResetError):
            connection.recv(5)
        assert echoed(other, b"unhurt") == b"unhurt"


def test_reset_after_so_many_bytes(proxy: Proxy) -> None:
    with connect(proxy) as connection:
        assert echoed(connection, b"before") == b"before"
        with proxy.resets(3):
            with pytest.raises(ConnectionResetError):
                assert len(echoed(connection, b"hello")) <= 3
            assert proxy.reset_count == 1
    with connect(proxy) as connection:
        assert echoed(connection, b"healed") == b"healed"
