"""Users of SCRAM, made and deleted; and SASL where nobody is asked who he is."""

from __future__ import annotations

import hashlib
from typing import Any

from kafka.protocol.admin import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from tests.differential.case import case
from tests.differential.side import Side

SALT = b"salt of the client"
SHA_256, SHA_512 = 1, 2


def upsertion(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> Any:
    algorithm = "sha512" if mechanism == SHA_512 else "sha256"
    return AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=SALT,
        salted_password=hashlib.pbkdf2_hmac(algorithm, b"secret", SALT, 4096),
    )


def alter(side: Side, version: int, label: str, upsertions: Any = (), deletions: Any = ()) -> None:
    gone = AlterUserScramCredentialsRequest.ScramCredentialDeletion
    request = AlterUserScramCredentialsRequest(
        version=version,
        upsertions=list(upsertions),
        deletions=[gone(name=name, mechanism=mechanism) for name, mechanism in deletions],
    )
    side.ask(request, label)


def tell(side: Side, label: str, *names: str) -> None:
    one = DescribeUserScramCredentialsRequest.UserName
    side.ask(DescribeUserScramCredentialsRequest(version=0, users=[one(name=name) for name in names]), label)


def settled(side: Side, *credentials: tuple[int, int], name: str = "a") -> None:
    """Unrecorded: until the user has these mechanisms with these iterations.

    Kafka's controller answers a change before the broker, which describes users, has heard of it.
    """
    one = DescribeUserScramCredentialsRequest.UserName(name=name)
    side.until(
        DescribeUserScramCredentialsRequest(version=0, users=[one]),
        lambda answer: (
            sorted((each.mechanism, each.iterations) for each in answer.results[0].credential_infos or ())
            == sorted(credentials)
        ),
    )


@case(AlterUserScramCredentialsRequest)
def made_and_deleted(side: Side, version: int) -> None:
    alter(side, version, "nothing")
    alter(side, version, "two are made", [upsertion("b", SHA_512, 16384), upsertion("a")])
    settled(side, (SHA_256, 4096))
    settled(side, (SHA_512, 16384), name="b")
    tell(side, "both", "a", "b")
    alter(side, version, "the other mechanism", [upsertion("a", SHA_512)])
    alter(side, version, "the same again, otherwise", [upsertion("a", SHA_256, 5000)])
    settled(side, (SHA_256, 5000), (SHA_512, 4096))
    tell(side, "one of two mechanisms", "a")
    alter(side, version, "one mechanism goes", deletions=[("a", SHA_256), ("b", SHA_512)])
    settled(side, (SHA_512, 4096))
    settled(side, name="b")
    tell(side, "what is left", "a", "b")
    alter(side, version, "the last one goes", deletions=[("a", SHA_512)])
    alter(side, version, "it is gone", deletions=[("a", SHA_512)])


@case(AlterUserScramCredentialsRequest)
def what_is_wrong_with_users(side: Side, version: int) -> None:
    alter(side, version, "no name", [upsertion("")], [("", SHA_256)])
    alter(side, version, "no such mechanism", [upsertion("a", 0), upsertion("b", 3)], [("c", 0), ("d", 3)])
    alter(side, version, "iterations", [upsertion("a", SHA_256, 4095), upsertion("b", SHA_512, 16385)])
    alter(side, version, "iterations below nothing", [upsertion("a", SHA_256, -1)])
    alter(side, version, "nobody is deleted", deletions=[("nobody", SHA_256)])
    alter(side, version, "twice", [upsertion("a"), upsertion("a", SHA_512)])
    alter(side, version, "made and deleted at once", [upsertion("a")], [("a", SHA_256)])
    alter(side, version, "deleted twice", deletions=[("a", SHA_256), ("a", SHA_256)])
    settled(side)
    settled(side, name="b")
    tell(side, "none of them is there", "a", "b")
    alter(side, version, "one is good", [upsertion("good"), upsertion("bad", 9)])
    alter(side, version, "there, deleted and made", [upsertion("good")], [("good", SHA_256)])
    alter(side, version, "there, deleted twice", deletions=[("good", SHA_256), ("good", SHA_256)])
    alter(side, version, "not there, then there", deletions=[("good", SHA_512), ("good", SHA_256)])
    alter(side, version, "good, then bad", [upsertion("good"), upsertion("good", SHA_256, 1)])
    alter(side, version, "bad, then good", [upsertion("good", SHA_256, 1), upsertion("good")])
    alter(side, version, "bad in two ways", [upsertion("good", SHA_256, 1), upsertion("good", 9)])
    settled(side, (SHA_256, 4096), name="good")
    tell(side, "as it was", "good")
    alter(side, version, "it is there", deletions=[("good", SHA_256)])


@case(SaslHandshakeRequest)
def a_handshake_where_nobody_is_asked(side: Side, version: int) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "", "x" * 300):
        side.ask(SaslHandshakeRequest(version=version, mechanism=mechanism), f"mechanism {mechanism[:20]!r}")


@case(SaslAuthenticateRequest)
def a_token_where_nobody_is_asked(side: Side, version: int) -> None:
    for token in (b"", b"\0user\0password", bytes(300)):
        side.ask(SaslAuthenticateRequest(version=version, auth_bytes=token), f"{len(token)} bytes")
