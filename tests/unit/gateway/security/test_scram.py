"""SCRAM, as RFC 7677 has it, as Kafka's clients send it, and as nobody should."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from contextlib import suppress
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.security.mechanism import Authenticated, Refused, Step
from gateway.security.principal import Principal
from gateway.security.scram import (
    MAX_MESSAGE_BYTES,
    MIN_ITERATIONS,
    Hash,
    Known,
    ScramExchange,
    credential_of,
    from_salted,
)

ALICE = Principal("User", "alice")
SALT, SECRET, NONCE = b"0123456789abcdef", b"of the cluster", b"eighteen bytes ..."
KINDS = pytest.mark.parametrize("kind", list(Hash), ids=lambda kind: kind.value)


@dataclass
class Client:
    """The client's side, written down once more."""

    kind: Hash
    name: str = "alice"
    password: str = "secret"
    extensions: str = ""
    header: str = "n,,"
    nonce: str = "of-the-client"

    @property
    def bare(self) -> str:
        return f"n={self.name},r={self.nonce}{self.extensions}"

    def first(self) -> bytes:
        return (self.header + self.bare).encode()

    def last(self, challenge: bytes, **changes: str) -> bytes:
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        self.salted = hashlib.pbkdf2_hmac(
            self.kind.algorithm, self.password.encode(), b64decode(fields["s"]), int(fields["i"])
        )
        binding = changes.get("binding", b64encode(self.header.encode()).decode())
        unsigned = f"c={binding},r={changes.get('nonce', fields['r'])}{changes.get('extensions', '')}"
        self.signed = f"{self.bare},{challenge.decode()},{unsigned}".encode()
        key = hmac.digest(self.salted, b"Client Key", self.kind.algorithm)
        stored = hashlib.new(self.kind.algorithm, key).digest()
        signature = hmac.digest(stored, self.signed, self.kind.algorithm)
        proof = b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        return f"{unsigned},p={changes.get('proof', proof)}".encode()

    def verifier(self) -> bytes:
        key = hmac.digest(self.salted, b"Server Key", self.kind.algorithm)
        return b"v=" + b64encode(hmac.digest(key, self.signed, self.kind.algorithm))


def exchange(kind: Hash, name: str = "alice", *, is_token: bool = False) -> ScramExchange:
    known = Known(credential_of(kind, "secret", SALT, MIN_ITERATIONS), ALICE, 77)
    return ScramExchange(
        kind, lambda asked, token: known if (asked, token) == (name, is_token) else None, SECRET, NONCE
    )


def refused(server: ScramExchange, message: bytes) -> str:
    with pytest.raises(Refused) as raised:
        server.step(message)
    assert raised.value.told is None
    return raised.value.why


def test_the_conversation_of_the_rfc() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    known = Known(credential_of(Hash.SHA_256, "pencil", salt, 4096), Principal("User", "user"))
    server = ScramExchange(Hash.SHA_256, lambda _name, _token: known, SECRET, NONCE)
    server._own_nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert server.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").token == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    last = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert server.step(last) == Step(
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", Authenticated(Principal("User", "user"))
    )


@KINDS
@pytest.mark.parametrize(("name", "sent"), [("alice", "alice"), ("a,b=c", "a=2Cb=3Dc"), ("=2C", "=3D2C")])
def test_who_has_the_password_comes_in_and_knows_the_server(kind: Hash, name: str, sent: str) -> None:
    server, client = exchange(kind, name), Client(kind, sent)
    challenge = server.step(client.first())
    assert challenge.authenticated is None
    assert server.step(client.last(challenge.token)) == Step(client.verifier(), Authenticated(ALICE, 77))


@KINDS
def test_a_delegation_token_is_asked_for_by_an_extension_that_is_signed(kind: Hash) -> None:
    client = Client(kind, "id", extensions=",tokenauth=true")
    server = exchange(kind, "id", is_token=True)
    end = server.step(client.last(server.step(client.first()).token))
    assert end.authenticated == Authenticated(ALICE, 77)
    for extensions in ("", ",tokenauth=false", ",other=true"):
        client = Client(kind, "id", extensions=extensions)
        server = exchange(kind, "id", is_token=True)
        last = client.last(server.step(client.first()).token)
        assert refused(server, last) == "wrong user or password"


@KINDS
def test_who_is_not_known_is_told_what_a_wrong_password_is(kind: Hash) -> None:
    challenges = []
    for name, password in (("alice", "wrong"), ("mallory", "secret"), ("mallory", "secret")):
        server, client = exchange(kind), Client(kind, name, password)
        challenges.append(server.step(client.first()).token)
        assert refused(server, client.last(challenges[-1])) == "wrong user or password"
    known, first, again = challenges
    assert first == again
    assert len(known.split(b",i=")[0]) - len(first.split(b",i=")[0]) in range(-8, 9)
    assert known.rpartition(b",")[2] == first.rpartition(b",")[2]


@KINDS
def test_an_authorization_id_is_that_of_the_user(kind: Hash) -> None:
    client = Client(kind, header="n,a=alice,")
    server = exchange(kind)
    assert server.step(client.last(server.step(client.first()).token)).authenticated is not None
    assert refused(exchange(kind), Client(kind, header="n,a=bob,").first()) == "it asks to be another user"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"y,,n=alice,r=x",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,m=ext,n=alice,r=x",
        b"n,,n=al=ice,r=x",
        b"n,,n=al\0ice,r=x",
        "n,,n=älice,r=x".encode(),
        b"n,,n=alice,r=x y",
        b"n,,n=alice,r=x,",
        b"n,,n=alice,r=x,a1=x",
        b"n,,n=alice,r=x,a=",
        b"n,,n=alice,r=x\n",
        b"n,,n=alice,r=" + b"x" * MAX_MESSAGE_BYTES,
    ],
)
def test_a_first_message_that_is_none(message: bytes) -> None:
    refused(exchange(Hash.SHA_256), message)


@KINDS
@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "of-the-client"},
        {"nonce": "another"},
        {"binding": ""},
        {"binding": "eSws"},
        {"proof": "AAAA"},
        {"proof": "A"},
        {"proof": "===="},
    ],
)
def test_a_last_message_that_does_not_fit(kind: Hash, changes: dict[str, str]) -> None:
    server, client = exchange(kind), Client(kind)
    refused(server, client.last(server.step(client.first()).token, **changes))


@KINDS
def test_extensions_of_the_last_message_are_signed_and_ignored(kind: Hash) -> None:
    server, client = exchange(kind), Client(kind)
    last = client.last(server.step(client.first()).token, extensions=",some=thing,more=x")
    assert server.step(last).authenticated == Authenticated(ALICE, 77)


@KINDS
def test_what_a_users_own_program_has_salted_is_the_same(kind: Hash) -> None:
    salted = hashlib.pbkdf2_hmac(kind.algorithm, b"secret", SALT, 5000)
    assert from_salted(kind, salted, SALT, 5000) == credential_of(kind, "secret", SALT, 5000)


@given(
    st.lists(st.binary(max_size=80) | st.text(",=nrcpyvms+/A1 \0", max_size=60).map(str.encode), max_size=3)
)
def test_whatever_comes_is_answered_or_refused(messages: list[bytes]) -> None:
    server = exchange(Hash.SHA_512)
    with suppress(Refused):
        for message in messages:
            assert server.step(message).authenticated is None


@pytest.mark.parametrize("kind", list(Hash))
@pytest.mark.parametrize(
    "now", [None, Known(credential_of(Hash.SHA_256, "other", SALT, MIN_ITERATIONS), ALICE)]
)
def test_a_password_that_changes_in_the_middle_of_a_login_is_the_old_one(
    kind: Hash, now: Known | None
) -> None:
    known: list[Known | None] = [Known(credential_of(kind, "secret", SALT, MIN_ITERATIONS), ALICE), now]
    server = ScramExchange(kind, lambda _name, _is_token: known.pop(0), SECRET, NONCE)
    client = Client(kind)
    last = client.last(server.step(client.first()).token)
    assert "was changed, or it was deleted" in refused(server, last)


@pytest.mark.parametrize("kind", list(Hash))
def test_a_token_that_is_renewed_in_the_middle_of_a_login_lasts_as_long_as_it_does_now(kind: Hash) -> None:
    before = Known(credential_of(kind, "secret", SALT, MIN_ITERATIONS), ALICE, 77, "id")
    known = [before, before._replace(expires_ms=88)]
    server = ScramExchange(kind, lambda _name, _is_token: known.pop(0), SECRET, NONCE)
    client = Client(kind, "id", extensions=",tokenauth=true")
    done = server.step(client.last(server.step(client.first()).token))
    assert done.authenticated == (ALICE, 88, "id")


def test_only_the_beginning_of_a_login_by_a_token_takes_long() -> None:
    server = exchange(Hash.SHA_256, "id", is_token=True)
    first = Client(Hash.SHA_256, "id", extensions=",tokenauth=true").first()
    assert [server.takes_long(one) for one in (first, Client(Hash.SHA_256).first())] == [True, False]
    server.step(first)
    assert not server.takes_long(first)
