"""A listener with TLS: real clients of Python's ssl, and some that speak none."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

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


async def exactly(stream: trio.SSLStream[trio.SocketStream], size: int) -> bytes:
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
