"""By which mechanisms users come in."""

from __future__ import annotations

import pytest
import trio

from gateway.cluster.scram_users import ScramUsers, Upsertion
from gateway.front.listeners import Listener
from gateway.front.sessions import Sessions
from gateway.security.gateways import name_of, salted_password
from gateway.security.oauthbearer import Bearer
from gateway.security.principal import Principal
from gateway.security.protocol import SecurityProtocol
from gateway.security.scram import Hash, Known, credential_of
from gateway.security.scram_client import ScramClient
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.cluster.test_scram_users import upsertion
from tests.unit.gateway.security.test_scram import Client
from wireproto.kafka.errors import ErrorCode

SASL = Listener("X", "127.0.0.1", 9092, protocol=SecurityProtocol.SASL_PLAINTEXT)


def sessions(*users: Upsertion) -> Sessions:
    made = ScramUsers(MemoryCatalog())
    for user in users:
        assert trio.run(made.make, user) is None
    return Sessions(made, b"secret of the cluster")


def comes_in(made: Sessions, mechanism: str, *tokens: bytes) -> bool:
    session = made.begin(SASL)
    assert session is not None
    assert session.handshake(mechanism, 1, 0).error is ErrorCode.NONE
    return session.authenticate(tokens[0], 2, 0).error is ErrorCode.NONE


def test_nobody_is_asked_where_there_is_no_sasl() -> None:
    assert sessions().begin(Listener("X", "127.0.0.1", 9092)) is None
    assert sessions().begin(Listener("X", "h", 1, protocol=SecurityProtocol.SSL)) is None


@pytest.mark.parametrize("kind", list(Hash))
def test_plain_takes_the_password_whichever_way_it_was_set(kind: Hash) -> None:
    made = sessions(upsertion("alice", kind))
    assert comes_in(made, "PLAIN", b"\0alice\0secret")
    assert not comes_in(made, "PLAIN", b"\0alice\0wrong")
    assert not comes_in(made, "PLAIN", b"\0bob\0secret")


@pytest.mark.parametrize("kind", list(Hash))
def test_scram(kind: Hash) -> None:
    session = sessions(upsertion("alice", kind)).begin(SASL)
    assert session is not None
    assert session.handshake(kind.value, 1, 0).mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
    client = Client(kind)
    told = session.authenticate(client.first(), 2, 0)
    assert session.authenticate(client.last(told.token), 2, 0).token == client.verifier()
    assert str(session.principal) == "User:alice"


def test_a_gateway_comes_in_by_what_the_catalog_has_and_by_no_password() -> None:
    made = sessions()
    session = made.begin(SASL)
    assert session is not None
    session.handshake("SCRAM-SHA-256", 1, 0)
    salted = salted_password(Hash.SHA_256, 3, b"secret of the cluster")
    client = ScramClient(Hash.SHA_256, name_of(3), salted, b"nonce")
    told = session.authenticate(client.first(), 2, 0)
    client.check(session.authenticate(client.final(told.token), 2, 0).token)
    assert str(session.principal) == "Gateway:3"
    assert not comes_in(made, "PLAIN", b"\0__gateway-3\0" + salted)


def test_only_what_is_offered_is_offered() -> None:
    users = ScramUsers(MemoryCatalog())
    made = Sessions(users, b"secret", mechanisms=("PLAIN",), validate=lambda token: Bearer(token, 77_000))
    session = made.begin(SASL)
    assert session is not None
    shaken = session.handshake("SCRAM-SHA-256", 1, 0)
    assert (shaken.error, shaken.mechanisms) == (
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ("PLAIN", "OAUTHBEARER"),
    )


def test_a_session_lasts_as_long_as_the_token() -> None:
    made = Sessions(ScramUsers(MemoryCatalog()), b"secret", validate=lambda token: Bearer(token, 77_000))
    session = made.begin(SASL)
    assert session is not None
    assert session.handshake("OAUTHBEARER", 1, 0).error is ErrorCode.NONE
    assert session.takes_long(b"")
    told = session.authenticate(b"n,,\x01auth=Bearer alice\x01\x01", 2, 7_000)
    assert (told.error, told.lifetime_ms, str(session.principal)) == (ErrorCode.NONE, 70_000, "User:alice")
    assert not session.is_over(76_999)
    assert session.is_over(77_000)


@pytest.mark.parametrize("kind", list(Hash))
@pytest.mark.parametrize(
    ("name", "extensions", "comes_in"),
    [("id", ",tokenauth=true", True), ("id", "", False), ("alice", ",tokenauth=true", False)],
)
def test_who_comes_in_by_a_token_is_its_owner_for_as_long_as_it_lasts(
    kind: Hash, name: str, extensions: str, comes_in: bool
) -> None:
    known = Known(credential_of(kind, "hmac", b"salt", 4096), Principal("User", "bob"), 5_000, "id")
    users = ScramUsers(MemoryCatalog())
    trio.run(users.make, upsertion("alice", kind))
    tokens = {(kind, "id"): known}
    session = Sessions(users, b"secret", 60_000, known_token=lambda *which: tokens.get(which)).begin(SASL)
    assert session is not None
    session.handshake(kind.value, 1, 0)
    client = Client(kind, name, "hmac" if name == "id" else "secret", extensions)
    told = session.authenticate(client.first(), 2, 1_000)
    told = session.authenticate(client.last(told.token), 2, 1_000)
    if comes_in:
        assert (told.error, told.lifetime_ms) == (ErrorCode.NONE, 4_000)
        assert (str(session.principal), session.token_id) == ("User:bob", "id")
        assert session.is_over(5_000)
    else:
        assert (told.error, session.principal) == (ErrorCode.SASL_AUTHENTICATION_FAILED, None)
