"""Clients that say who they are by a certificate: those of Python's ssl, over TLS 1.2 and 1.3."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from gateway.front.certificates import CertificateFiles, Certificates, ClientAuth
from gateway.front.listeners import Listener
from gateway.front.principal_rules import PrincipalRules
from gateway.security.access import Access, Unrestricted
from gateway.security.principal import ANONYMOUS, Principal
from gateway.security.sasl_session import SaslSession
from tests.peers.certificates import self_signed, signed
from tests.unit.gateway.kafka_wire import ECHO, Fakes, Running, answer, request, run, running

Pair = tuple[Path, Path]

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]

BOTH = pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)


class Pairs:
    """Certificates, with their keys: those of the server, of who signs, and of clients."""

    def __init__(self, directory: Path) -> None:
        self.server = self_signed(directory)
        self.authority = self_signed(directory, "authority", "/CN=authority")
        self.alice = signed(directory, self.authority, "alice", "/C=DE/OU=Ops/CN=alice")
        self.ended = signed(directory, self.authority, "ended", "/CN=ended", days=-1)
        self.stranger = self_signed(directory, "stranger", "/CN=alice")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    return Pairs(tmp_path_factory.mktemp("certificates"))


@asynccontextmanager
async def serving(
    pairs: Pairs, auth: ClientAuth, granted: list[Principal], rules: str = "DEFAULT", *, sasl: bool = False
) -> AsyncIterator[Running]:
    def grant(principal: Principal, address: str) -> Access:
        assert address == "127.0.0.1"
        granted.append(principal)
        return Unrestricted(principal)

    def begin_session(_listener: Listener) -> SaslSession | None:
        return SaslSession({}, 0) if sasl else None

    made = Certificates(CertificateFiles(*pairs.server, pairs.authority[0], auth))
    async with running(
        fakes=Fakes(),
        tls_of=lambda _listener: made.context,
        principal_rules=PrincipalRules(rules),
        grant=grant,
        begin_session=begin_session,
    ) as server:
        yield server


def connected(server: Running, pairs: Pairs, version: ssl.TLSVersion, shown: Pair | None) -> ssl.SSLSocket:
    """A client, once its handshake is over; blocking, as real ones are."""
    context = ssl.create_default_context(cafile=pairs.server[0])
    context.minimum_version = context.maximum_version = version
    if shown is not None:
        context.load_cert_chain(*shown)
    plain = socket.create_connection(server.address)
    try:
        return context.wrap_socket(plain, server_hostname="localhost")
    except BaseException:
        plain.close()
        raise


def ask(
    server: Running, pairs: Pairs, version: ssl.TLSVersion, shown: Pair | None, content: bytes = b"hello"
) -> bytes:
    """What an Echo is answered, "" at the end of the connection. Raises ssl.SSLError."""
    with connected(server, pairs, version, shown) as one:
        one.sendall(request(ECHO, 1, content))
        return one.recv(100)


@BOTH
@pytest.mark.parametrize(
    ("auth", "shows", "rules", "principal"),
    [
        (ClientAuth.REQUIRED, True, "DEFAULT", Principal("User", "CN=alice,OU=Ops,C=DE")),
        (ClientAuth.REQUESTED, True, "RULE:CN=(.*?),.*/$1/U", Principal("User", "ALICE")),
        (ClientAuth.REQUESTED, False, "RULE:CN=(.*?),.*/$1/U", ANONYMOUS),
        (ClientAuth.NONE, True, "DEFAULT", ANONYMOUS),
    ],
)
def test_who_somebody_is_says_his_certificate(
    pairs: Pairs, version: ssl.TLSVersion, auth: ClientAuth, shows: bool, rules: str, principal: Principal
) -> None:
    async def main() -> None:
        granted: list[Principal] = []
        async with serving(pairs, auth, granted, rules) as server:
            shown = pairs.alice if shows else None
            said = await trio.to_thread.run_sync(ask, server, pairs, version, shown)
            assert said == answer(1, b"hello")
            assert granted == ([ANONYMOUS, principal] if principal != ANONYMOUS else [ANONYMOUS])

    run(main)


@BOTH
def test_on_a_listener_with_sasl_a_certificate_says_nothing(pairs: Pairs, version: ssl.TLSVersion) -> None:
    async def main() -> None:
        granted: list[Principal] = []
        async with serving(pairs, ClientAuth.REQUIRED, granted, sasl=True) as server:
            said = await trio.to_thread.run_sync(ask, server, pairs, version, pairs.alice)
            assert said == b""  # hung up on: it has not said who it is
            assert granted == [ANONYMOUS]

    run(main)


@BOTH
@pytest.mark.parametrize(
    ("shown", "alert", "logged"),
    [
        (None, "HANDSHAKE_FAILURE|CERTIFICATE_REQUIRED", "PEER_DID_NOT_RETURN_A_CERTIFICATE"),
        ("stranger", "UNKNOWN_CA", "CERTIFICATE_VERIFY_FAILED: self-signed certificate"),
        ("ended", "CERTIFICATE_EXPIRED", "CERTIFICATE_VERIFY_FAILED: certificate has expired"),
    ],
)
def test_who_shows_no_good_certificate_is_told_so(
    pairs: Pairs,
    version: ssl.TLSVersion,
    shown: str | None,
    alert: str,
    logged: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also where the client's handshake is over before the server has looked (TLS 1.3): it reads the alert,
    and no reset, after which it would try again for ever. What it has sent meanwhile is more than is read
    before.
    """

    async def main() -> None:
        granted: list[Principal] = []
        pair: Pair | None = getattr(pairs, shown) if shown else None
        async with serving(pairs, ClientAuth.REQUIRED, granted) as server:
            with pytest.raises(ssl.SSLError, match=alert):
                await trio.to_thread.run_sync(ask, server, pairs, version, pair, bytes(1_000_000))
            assert granted == [ANONYMOUS]
            said = await trio.to_thread.run_sync(ask, server, pairs, version, pairs.alice)
            assert said == answer(1, b"hello")

    run(main)
    assert f"the TLS handshake failed: {logged}" in caplog.text


@pytest.mark.parametrize("shown", ["stranger", "ended"])
def test_a_bad_certificate_is_refused_where_none_is_needed(pairs: Pairs, shown: str) -> None:
    async def main() -> None:
        async with serving(pairs, ClientAuth.REQUESTED, []) as server:
            with pytest.raises(ssl.SSLError, match=r"UNKNOWN_CA|CERTIFICATE_EXPIRED"):
                await trio.to_thread.run_sync(ask, server, pairs, VERSIONS[1], getattr(pairs, shown))

    run(main)


@BOTH
def test_whom_no_rule_names_is_hung_up_on_and_not_anonymous(
    pairs: Pairs, version: ssl.TLSVersion, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        granted: list[Principal] = []
        async with serving(pairs, ClientAuth.REQUIRED, granted, "RULE:CN=bob.*/bob/") as server:
            said = await trio.to_thread.run_sync(ask, server, pairs, version, pairs.alice)
            assert said == b""
            assert (granted, server.fakes.ran) == ([ANONYMOUS], [])

    run(main)
    assert (
        "no rule of --tls-principal-rules matches the subject of its certificate: 'CN=alice," in caplog.text
    )


@BOTH
def test_requests_may_come_with_the_end_of_the_handshake(pairs: Pairs, version: ssl.TLSVersion) -> None:
    async def main() -> None:
        async with serving(pairs, ClientAuth.REQUIRED, []) as server:
            large = bytes(1_000_000)
            said = await trio.to_thread.run_sync(ask, server, pairs, version, pairs.alice, large)
            assert said == answer(1, large)[: len(said)] != b""

    run(main)


def test_a_session_that_is_resumed_is_the_same_clients(pairs: Pairs) -> None:
    """Without a certificate in the second handshake."""

    def twice(server: Running) -> list[bool]:
        context = ssl.create_default_context(cafile=pairs.server[0])
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*pairs.alice)
        session, resumed = None, []
        for _ in range(2):
            with (
                socket.create_connection(server.address) as plain,
                context.wrap_socket(plain, server_hostname="localhost", session=session) as one,
            ):
                one.sendall(request(ECHO, 1, b"hello"))
                assert one.recv(100) == answer(1, b"hello")
                session = one.session
                resumed.append(bool(one.session_reused))
        return resumed

    async def main() -> None:
        granted: list[Principal] = []
        async with serving(pairs, ClientAuth.REQUIRED, granted) as server:
            assert await trio.to_thread.run_sync(twice, server) == [False, True]
        alice = Principal("User", "CN=alice,OU=Ops,C=DE")
        assert granted == [ANONYMOUS, alice, ANONYMOUS, alice]

    run(main)
