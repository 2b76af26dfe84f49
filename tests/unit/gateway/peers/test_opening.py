"""Connections to other gateways: how each protocol is spoken, and what is wrong with who answers."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.cluster.scram_users import ScramUsers
from gateway.front.listeners import Listener
from gateway.front.sessions import Sessions
from gateway.leadership.records import Address
from gateway.peers.failures import PeerFailed
from gateway.peers.opening import Opening, PeerSecurity
from gateway.security.acls import ResourceType
from gateway.security.principal import Principal
from gateway.security.protocol import SecurityProtocol
from tests.peers.certificates import self_signed
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.front.test_authentication import with_sasl
from tests.unit.gateway.kafka_wire import ECHO, Fakes, answer, request, run, running

SECRET = b"s" * 32


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return self_signed(tmp_path_factory.mktemp("tls"))


async def secret(value: bytes = SECRET) -> bytes:
    await trio.lowlevel.checkpoint()
    return value


@contextlib.asynccontextmanager
async def other_gateway(
    protocol: SecurityProtocol, certificate: tuple[Path, Path]
) -> AsyncIterator[tuple[Any, Address]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    sessions = Sessions(ScramUsers(MemoryCatalog()), SECRET)

    def tls_of(listener: Listener) -> ssl.SSLContext | None:
        return context if listener.protocol.has_tls else None

    listen = f"INSIDE={protocol.value}://127.0.0.1:0"
    async with running(
        listen=listen, fakes=with_sasl(Fakes()), begin_session=sessions.begin, tls_of=tls_of
    ) as server:
        yield server, Address("127.0.0.1", server.address[1])


async def echoed(stream: trio.abc.Stream) -> bytes:
    await stream.send_all(request(ECHO, 7, b"hello"))
    expected = answer(7, b"hello")
    received = b""
    while len(received) < len(expected):
        received += await stream.receive_some(1000)
    assert received == expected
    return received


def opening(protocol: SecurityProtocol, ca: Path | None, value: bytes = SECRET) -> Opening:
    return Opening(2, PeerSecurity({"INSIDE": protocol}, ca), lambda: secret(value))


@pytest.mark.parametrize("protocol", list(SecurityProtocol))
def test_each_protocol_is_spoken(protocol: SecurityProtocol, certificate: tuple[Path, Path]) -> None:
    async def main() -> None:
        async with other_gateway(protocol, certificate) as (server, address):
            stream = await opening(protocol, certificate[0]).open("INSIDE", address)
            await echoed(stream)
            (connection,) = server.server.connections
            expected = Principal("Gateway", "2") if protocol.has_sasl else Principal("User", "ANONYMOUS")
            assert connection.access.principal == expected
            assert connection.access.operations(ResourceType.CLUSTER, "kafka-cluster")
            await stream.aclose()

    run(main)


def test_a_gateway_of_another_cluster_is_refused(certificate: tuple[Path, Path]) -> None:
    async def main() -> None:
        protocol = SecurityProtocol.SASL_PLAINTEXT
        async with other_gateway(protocol, certificate) as (_, address):
            with pytest.raises(PeerFailed, match="does not believe that this is a gateway: Authentication"):
                await opening(protocol, None, b"t" * 32).open("INSIDE", address)

    run(main)


def test_a_certificate_that_nobody_trusts_is_named(certificate: tuple[Path, Path]) -> None:
    async def main() -> None:
        protocol = SecurityProtocol.SASL_SSL
        async with other_gateway(protocol, certificate) as (_, address):
            with pytest.raises(
                PeerFailed, match=r"no TLS with what listens at 127.0.0.1:.*CERTIFICATE_VERIFY"
            ):
                await opening(protocol, None).open("INSIDE", address)
            with pytest.raises(PeerFailed, match=r"no TLS with .*No such file"):
                await opening(protocol, Path("/nowhere")).open("INSIDE", address)

    run(main)


def test_a_listener_that_speaks_otherwise_fails_and_hangs_nobody(certificate: tuple[Path, Path]) -> None:
    async def main() -> None:
        async with other_gateway(SecurityProtocol.PLAINTEXT, certificate) as (_, address):
            with pytest.raises(PeerFailed, match="no TLS with"):
                await opening(SecurityProtocol.SSL, certificate[0]).open("INSIDE", address)
            with pytest.raises(PeerFailed, match="does not take SCRAM-SHA-256"):
                await opening(SecurityProtocol.SASL_PLAINTEXT, None).open("INSIDE", address)

    run(main)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "closed the connection before it knew who this is"),
        (b"\x7f\xff\xff\xff", "answers with 2147483647 bytes"),
        (b"\0\0\0\4\0\0\0\x09", "answers what it was not asked"),
        (b"\0\0\0\5\0\0\0\1x", "answers with what is no answer"),
    ],
)
def test_what_is_no_gateway_at_all(said: bytes, why: str) -> None:
    async def main() -> None:
        async def speak(stream: trio.SocketStream) -> None:
            await stream.receive_some(1000)
            await stream.send_all(said)
            await stream.send_eof()
            await stream.receive_some(1000)

        async with trio.open_nursery() as nursery:
            serve = partial(trio.serve_tcp, speak, 0, host="127.0.0.1")
            (listener,) = await nursery.start(serve)
            address = Address("127.0.0.1", listener.socket.getsockname()[1])
            with pytest.raises(PeerFailed, match=why):
                await opening(SecurityProtocol.SASL_PLAINTEXT, None).open("INSIDE", address)
            nursery.cancel_scope.cancel()

    run(main)
