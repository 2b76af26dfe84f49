"""By which mechanisms users come in."""

from __future__ import annotations

import pytest
import trio

from gateway.cluster.scram_users import ScramUsers, Upsertion
from gateway.front.listeners import Listener, SecurityProtocol
from gateway.front.sessions import Sessions
from gateway.security.scram import Hash
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
