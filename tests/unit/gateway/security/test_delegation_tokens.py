"""Delegation tokens: who they are of, and what clients come in by."""

from __future__ import annotations

from base64 import b64encode

import pytest

from gateway.security.delegation_tokens import DelegationToken, TokenSecret, is_id, new_id
from gateway.security.principal import Principal
from gateway.security.scram import MIN_ITERATIONS, Hash, Known, ScramExchange
from tests.unit.gateway.security.test_scram import Client

SECRET = TokenSecret(b"of-the-gateways-and-of-nobody-else")
ID = "A" * 22
ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "carol"))
TOKEN = DelegationToken(ID, ALICE, CAROL, (BOB,), 100, 200, 300)

BY_OPENSSL = (
    "abfb9277aabd1bbf098d1d301238ffcf115a4b8a4e1c56f3061283bebd043fbe"
    "931d379145fe26dc5de92bb2d28d1865d2a3167fa0200331701a7a82733f560f"
)
"""`printf ID | openssl dgst -sha512 -mac HMAC -macopt key:SECRET`."""


def test_the_hmac_is_that_of_the_id() -> None:
    assert SECRET.hmac_of(ID).hex() == BY_OPENSSL


@pytest.mark.parametrize("kind", list(Hash))
def test_what_clients_come_in_by(kind: Hash) -> None:
    credential = SECRET.credential(kind, ID)
    assert credential.iterations == MIN_ITERATIONS
    assert credential == SECRET.credential(kind, ID)
    server = ScramExchange(kind, lambda *_: Known(credential, ALICE, 200, ID), b"salts", b"nonce")
    client = Client(kind, ID, b64encode(SECRET.hmac_of(ID)).decode(), ",tokenauth=true")
    done = server.step(client.last(server.step(client.first()).token))
    assert done.token == client.verifier()
    assert done.authenticated == (ALICE, 200, ID)


def test_tokens_kinds_and_secrets_have_nothing_in_common() -> None:
    other = TokenSecret(b"another one of the gateways, of 32 bytes")
    made = [
        one.credential(kind, token_id)
        for one in (SECRET, other)
        for kind in Hash
        for token_id in (ID, "B" * 22)
    ]
    assert len({one.salt for one in made}) == len({one.stored_key for one in made}) == len(made)
    assert SECRET.mark != other.mark


def test_an_id_is_written_as_kafka_writes_one() -> None:
    made = {new_id() for _ in range(300)}
    assert len(made) == 300
    assert all(map(is_id, made))
    assert not [one for one in made if one.startswith("-")]
    assert not any(map(is_id, ("", "A" * 21, "A" * 23, "A" * 21 + "/", "A" * 21 + "=", "A" * 22 + "\n")))


@pytest.mark.parametrize(
    ("now_ms", "max_ms", "is_over"), [(199, 300, False), (200, 300, True), (150, 150, True)]
)
def test_when_it_is_over(now_ms: int, max_ms: int, is_over: bool) -> None:
    assert TOKEN._replace(max_ms=max_ms).is_over(now_ms) is is_over


@pytest.mark.parametrize(
    ("who", "is_of"), [(ALICE, True), (BOB, True), (CAROL, False), (Principal("Other", "alice"), False)]
)
def test_who_may_renew_it_is_its_owner_and_its_renewers_and_not_who_has_asked(
    who: Principal, is_of: bool
) -> None:
    assert TOKEN.is_of(who) is is_of
