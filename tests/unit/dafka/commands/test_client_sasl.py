"""What a command says to show who it is, to the very server that checks it, and to those that are none."""

from __future__ import annotations

from base64 import b64encode

import pytest

from dafka.commands.client_sasl import MAX_ITERATIONS, BadServer, conversation
from gateway.security.mechanism import Authenticated, Refused
from gateway.security.principal import Principal
from gateway.security.scram import Hash, Known, ScramExchange, credential_of

NONCE = bytes(range(18))
ALICE = Principal("User", "alice")


def server(kind: Hash, name: str = "alice", password: str = "secret") -> ScramExchange:
    known = Known(credential_of(kind, password, b"salt", 4096), ALICE)
    return ScramExchange(kind, lambda asked, _: known if asked == name else None, bytes(32), b"n" * 18)


@pytest.mark.parametrize("kind", list(Hash))
@pytest.mark.parametrize(("name", "password"), [("alice", "secret"), ("a,b=c", "p\u00e4ss,word=")])
def test_who_has_the_password_comes_in(kind: Hash, name: str, password: str) -> None:
    exchange = server(kind, name, password)
    said = conversation(kind.value, name, password, NONCE)
    challenge = exchange.step(next(said))
    end = exchange.step(said.send(challenge.token))
    assert end.authenticated == Authenticated(ALICE, None)
    with pytest.raises(StopIteration):
        said.send(end.token)


def test_who_has_another_one_does_not() -> None:
    exchange = server(Hash.SHA_256)
    said = conversation("SCRAM-SHA-256", "alice", "wrong", NONCE)
    challenge = exchange.step(next(said))
    with pytest.raises(Refused):
        exchange.step(said.send(challenge.token))


def test_plain_is_one_token() -> None:
    said = conversation("PLAIN", "alice", "s\u00e4cret", NONCE)
    assert next(said) == b"\0alice\0s\xc3\xa4cret"
    with pytest.raises(StopIteration):
        said.send(b"")


OWN = b64encode(NONCE)


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b"", "malformed"),
        (b"r=another,s=AAAA,i=4096", "malformed"),
        (b"r=" + OWN + b",s=AAAA", "malformed"),
        (b"r=" + OWN + b"x,s=A,i=4096", "its salt is not in base64"),
        (b"r=" + OWN + b"x,s=AAAA,i=4095", "it wants 4095 iterations"),
        (b"r=" + OWN + b"x,s=AAAA,i=%d" % (MAX_ITERATIONS + 1), "it wants 1000001 iterations"),
        (b"r=" + OWN + b"x,s=AAAA,i=9999999999999", "malformed"),
    ],
)
def test_a_challenge_that_is_none(challenge: bytes, why: str) -> None:
    said = conversation("SCRAM-SHA-512", "alice", "secret", NONCE)
    next(said)
    with pytest.raises(BadServer, match=why):
        said.send(challenge)


@pytest.mark.parametrize("end", [b"", b"v=AAAA", b"e=other-error"])
def test_a_server_that_does_not_know_the_password(end: bytes) -> None:
    said = conversation("SCRAM-SHA-256", "alice", "secret", NONCE)
    said.send(server(Hash.SHA_256).step(next(said)).token)
    with pytest.raises(BadServer, match="it does not know the password either"):
        said.send(end)
