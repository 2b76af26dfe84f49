"""How gateways know each other."""

from __future__ import annotations

import pytest

from gateway.security import gateways
from gateway.security.gateways import gateway_of, name_of, principal_of, salted_password
from gateway.security.mechanism import Refused
from gateway.security.scram import Hash, Known, ScramExchange, nobody
from gateway.security.scram_client import NotTheServer, ScramClient

SECRET, OTHER = b"s" * 32, b"t" * 32
KINDS = pytest.mark.parametrize("kind", list(Hash))


def known(kind: Hash, secret: bytes = SECRET) -> ScramExchange:
    def lookup(name: str, _is_token: bool) -> Known | None:
        gateway = gateway_of(name)
        if gateway is None:
            return None
        return Known(gateways.credential(kind, gateway, secret), principal_of(gateway))

    return ScramExchange(kind, lookup, secret, b"server's nonce")


def client(kind: Hash, gateway: int = 2, secret: bytes = SECRET) -> ScramClient:
    return ScramClient(kind, name_of(gateway), salted_password(kind, gateway, secret), b"client's nonce")


@KINDS
def test_both_prove_that_they_know_the_secret(kind: Hash) -> None:
    one, other = client(kind), known(kind)
    step = other.step(one.final(other.step(one.first()).token))
    assert step.authenticated is not None
    assert step.authenticated.principal == ("Gateway", "2")
    assert step.authenticated.expires_ms is None
    one.check(step.token)


@KINDS
def test_who_does_not_know_it_is_nobody(kind: Hash) -> None:
    one, other = client(kind, secret=OTHER), known(kind)
    with pytest.raises(Refused, match="wrong user or password"):
        other.step(one.final(other.step(one.first()).token))


@KINDS
def test_one_gateway_is_not_another_one(kind: Hash) -> None:
    other = known(kind)
    mixed = ScramClient(kind, name_of(3), salted_password(kind, 2, SECRET), b"nonce")
    with pytest.raises(Refused, match="wrong user or password"):
        other.step(mixed.final(other.step(mixed.first()).token))


@KINDS
def test_a_server_that_does_not_know_it_is_found_out(kind: Hash) -> None:
    one, other = client(kind), known(kind)
    one.final(other.step(one.first()).token)
    for said in (b"", b"v=", b"v=" + b"A" * 44, b"e=other-error", b"v=\xff"):
        with pytest.raises(NotTheServer, match="does not know the password"):
            one.check(said)
    with pytest.raises(NotTheServer, match="does not know the password"):
        client(kind).check(b"v=")


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"r=other,s=AAAA,i=4096",
        b"r=%b,s=AAAA,i=0",
        b"r=%b,s=AAAA",
        b"r=%b,s=,i=4096",
        b"r=%b,s=AAAA,i=4096,x=1",
        b"m=1,r=%b,s=AAAA,i=4096",
        b"\xff",
        b"r=" + b"%b" * 100_000,
    ],
)
def test_a_challenge_that_is_none(challenge: bytes) -> None:
    one = client(Hash.SHA_256)
    nonce = one.first().partition(b",r=")[2]
    with pytest.raises(NotTheServer, match="malformed"):
        one.final(challenge.replace(b"%b", nonce, 1))


@KINDS
def test_nothing_that_is_shown_of_users_who_are_not_there_is_a_part_of_it(kind: Hash) -> None:
    """Their salts are made from the same secret."""
    salted = salted_password(kind, 2, SECRET)
    for name in (name_of(2), f"{kind.value} {name_of(2)}", f"salt {name_of(2)}", "gateways"):
        assert not salted.startswith(nobody(kind, name, SECRET).salt)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("__gateway-1", 1),
        ("__gateway-999", 999),
        ("__gateway-0", None),
        ("__gateway-01", None),
        ("__gateway-1000", None),
        ("__gateway-", None),
        ("__gateway-1 ", None),
        ("gateway-1", None),
        ("alice", None),
    ],
)
def test_names(name: str, number: int | None) -> None:
    assert gateway_of(name) == number
    if number is not None:
        assert name_of(number) == name
