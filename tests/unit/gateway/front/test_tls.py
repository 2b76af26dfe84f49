"""A listener with TLS: real clients of Python's ssl, and some that speak none."""

from __future__ import annotations

import hashlib
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gateway.front.tls import MAX_HELLO_BYTES
from tests.peers.certificates import self_signed
from tests.unit.gateway.kafka_wire import ECHO, Fakes, Running, answer, request, run, running


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a key and a certificate for localhost, which signs itself."""
    made, key = self_signed(tmp_path_factory.mktemp("tls"))
    made.write_text(made.read_text() + key.read_text())
    return made


@asynccontextmanager
async def serving(certificate: Path) -> AsyncIterator[Running]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    async with running(fakes=Fakes(), tls_of=lambda _listener: context) as server:
        yield server


@asynccontextmanager
async def client(
    server: Running, certificate: Path, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> AsyncIterator[trio.SSLStream[trio.SocketStream]]:
    context = ssl.create_default_context(cafile=certificate)
    context.maximum_version = version
    stream = await trio.open_tcp_stream(*server.address)
    async with trio.SSLStream(stream, context, server_hostname="localhost") as made:
        yield made


async def exactly(stream: trio.SSLStream[Any], size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = await stream.receive_some(size - len(received))
        assert chunk, f"{len(received)} of {size} bytes"
        received += chunk
    return received


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("size", [0, 1, 5_000, 20_000, 70_000, 3_000_000])
def test_what_is_sent_is_answered(certificate: Path, version: ssl.TLSVersion, size: int) -> None:
    async def main() -> None:
        async with serving(certificate) as server, client(server, certificate, version) as one:
            for number in range(3):
                body = bytes([number]) * size
                await one.send_all(request(ECHO, number, body))
                wanted = answer(number, body)
                assert await exactly(one, len(wanted)) == wanted

    run(main)


def test_many_requests_in_one_record_and_one_in_many(certificate: Path) -> None:
    async def main() -> None:
        async with serving(certificate) as server, client(server, certificate) as one:
            many = [(request(ECHO, n, b"%d" % n), answer(n, b"%d" % n)) for n in range(500)]
            await one.send_all(b"".join(asked for asked, _ in many))
            wanted = b"".join(told for _, told in many)
            assert await exactly(one, len(wanted)) == wanted
            for byte in request(ECHO, 7, b"slowly"):
                await one.send_all(bytes([byte]))
            assert await exactly(one, 14) == answer(7, b"slowly")

    run(main)


def test_a_client_that_reads_slowly_gets_everything_in_order(certificate: Path) -> None:
    async def main() -> None:
        async with serving(certificate) as server, client(server, certificate) as one:
            sizes = [900_000 + number for number in range(12)]
            async with trio.open_nursery() as nursery:

                async def ask() -> None:
                    for number, size in enumerate(sizes):
                        await one.send_all(request(ECHO, number, bytes([number]) * size))

                nursery.start_soon(ask)
                for number, size in enumerate(sizes):
                    await trio.sleep(0.01)
                    wanted = answer(number, bytes([number]) * size)
                    assert await exactly(one, len(wanted)) == wanted

    run(main)


@pytest.mark.parametrize("said", [request(ECHO, 1, b"hello"), b"GET / HTTP/1.1\r\n\r\n", bytes(2000)])
def test_who_speaks_no_tls_is_hung_up_on(
    certificate: Path, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving(certificate) as server:
            async with server.client() as one:
                await one.send(said)
                await one.read(5000)  # nothing, or an alert, and then the end
            async with client(server, certificate) as good:
                await good.send_all(request(ECHO, 1, b"x"))
                assert await exactly(good, 9) == answer(1, b"x")

    run(main)
    assert "the TLS handshake failed: it does not speak TLS" in caplog.text


RETRY = hashlib.sha256(b"HelloRetryRequest").digest()


def hello(size: int, record: int = 100) -> bytes:
    """The beginning of a client's first message, which announces its size."""
    header = b"\x16\x03\x01" + record.to_bytes(2, "big")
    return header + b"\x01" + size.to_bytes(3, "big") + b"\x03\x03" + bytes(record)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (hello(MAX_HELLO_BYTES + 1), f"its first message has {MAX_HELLO_BYTES + 1} bytes"),
        (hello(0xFFFFFF), "its first message has 16777215 bytes"),
        (b"\x16\x03\x01\0\x01\x01" + b"\x16\x03\x01\0\x01\x01", "its first record is too short"),
        (b"\x14\x03\x03\0\x01\x01" * 5_000, "it changes its cipher more than once"),
    ],
)
@pytest.mark.parametrize("is_slow", [False, True])
def test_a_first_message_that_would_take_much_memory_is_not_begun(
    certificate: Path, said: bytes, why: str, is_slow: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving(certificate) as server, server.client() as one:
            for piece in (said[:4], said[4:9], said[9:]) if is_slow else (said,):
                with suppress(trio.BrokenResourceError):
                    await one.send(piece)
                await trio.testing.wait_all_tasks_blocked(0.01)
            assert await one.closed()

    run(main)
    assert f"the TLS handshake failed: {why}" in caplog.text


@asynccontextmanager
async def retrying(certificate: Path) -> AsyncIterator[Running]:
    """Who asks everybody for another hello."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_ecdh_curve("secp521r1")
    async with running(fakes=Fakes(), tls_of=lambda _listener: context) as server:
        yield server


def test_a_second_hello_that_was_asked_for_is_taken(certificate: Path) -> None:
    async def main() -> None:
        async with retrying(certificate) as server, client(server, certificate) as one:
            await one.send_all(request(ECHO, 1, b"x"))
            assert await exactly(one, 9) == answer(1, b"x")

    run(main)


@pytest.mark.parametrize("before", [b"", b"\x14\x03\x03\0\x01\x01"])
def test_a_second_hello_that_would_take_much_memory_is_not_begun(
    certificate: Path, before: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        said, heard = ssl.MemoryBIO(), ssl.MemoryBIO()
        one = ssl.create_default_context(cafile=certificate).wrap_bio(
            heard, said, server_hostname="localhost"
        )
        with suppress(ssl.SSLWantReadError):
            one.do_handshake()
        async with retrying(certificate) as server, server.client() as raw:
            await raw.send(said.read())
            assert RETRY in await raw.read(11 + len(RETRY))
            await raw.send(before + hello(131_000))
            await raw.read(5_000)

    run(main)
    assert "the TLS handshake failed: its first message has 131000 bytes" in caplog.text


def test_a_first_message_may_come_byte_by_byte(certificate: Path) -> None:
    async def main() -> None:
        async with serving(certificate) as server:
            context = ssl.create_default_context(cafile=certificate)
            stream = Slowly(await trio.open_tcp_stream(*server.address))
            async with trio.SSLStream(stream, context, server_hostname="localhost") as one:
                await one.send_all(request(ECHO, 1, b"x"))
                assert await exactly(one, 9) == answer(1, b"x")

    run(main)


class Slowly(trio.abc.HalfCloseableStream):
    """Sends the first bytes one by one."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        for at in range(20):
            await self._stream.send_all(data[at : at + 1])
            await trio.testing.wait_all_tasks_blocked()
        await self._stream.send_all(data[20:])

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


def test_silent_ones_keep_nobody_away(certificate: Path) -> None:
    async def main() -> None:
        async with serving(certificate) as server:
            silent = [await trio.open_tcp_stream(*server.address) for _ in range(50)]
            async with client(server, certificate) as good:
                await good.send_all(request(ECHO, 1, b"x"))
                assert await exactly(good, 9) == answer(1, b"x")
            for one in silent:
                await one.aclose()

    run(main)


def test_a_gateway_that_stops_says_nothing_of_who_is_in_his_handshake(
    certificate: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving(certificate) as server:
            stream = await trio.open_tcp_stream(*server.address)
            while not server.server.connections:  # noqa: ASYNC110 - nothing says so
                await trio.sleep(0.01)
        await stream.aclose()

    run(main)
    assert "failed unexpectedly" not in caplog.text
