"""AlterUserScramCredentials 0 and DescribeUserScramCredentials 0: users made, changed, deleted, refused."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest

from tests.differential.case import as_each
from tests.differential.principals import ADMIN
from tests.differential.rights import credential
from tests.differential.side import NO_ERROR, Side

SHA_256, SHA_512 = 1, 2
LEAST, MOST = 4096, 16_384


def gone(user: str, mechanism: int = SHA_256) -> Any:
    return AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=user, mechanism=mechanism)


def made(user: str, mechanism: int = SHA_256, iterations: int = LEAST, **changed: Any) -> Any:
    found = credential(user, "secret", SHA_512 if mechanism == SHA_512 else SHA_256, max(iterations, 1))
    found.mechanism, found.iterations = mechanism, iterations
    for name, value in changed.items():
        setattr(found, name, value)
    return found


def alter(side: Side, label: str, *, upsert: tuple[Any, ...] = (), delete: tuple[Any, ...] = ()) -> None:
    side.ask(
        AlterUserScramCredentialsRequest(version=0, deletions=list(delete), upsertions=list(upsert)), label
    )


def describe(side: Side, label: str, *users: str) -> None:
    one = DescribeUserScramCredentialsRequest.UserName
    wanted = [one(name=user) for user in users]
    side.ask(DescribeUserScramCredentialsRequest(version=0, users=wanted), label)


def settled(side: Side, user: str, mechanisms: int) -> None:
    """Unrecorded: until he has so many, as Kafka's broker hears of a change after the answer."""
    one = DescribeUserScramCredentialsRequest.UserName(name=user)
    request = DescribeUserScramCredentialsRequest(version=0, users=[one])
    for _ in range(2000):
        (found,) = side.for_set_up.ask(request).results
        if (len(found.credential_infos) if found.error_code == NO_ERROR else 0) == mechanisms:
            return
    raise TimeoutError(f"{side.server.name} does not show {mechanisms} mechanisms of {user}")


@as_each(AlterUserScramCredentialsRequest, principals=(ADMIN,))
def one_after_the_other(side: Side, version: int) -> None:
    """As kafka-configs does it: one mechanism in each request."""
    user = side.own_name("u")
    alter(side, "make one", upsert=(made(user),))
    settled(side, user, 1)
    describe(side, "one", user)
    alter(side, "make another", upsert=(made(user, SHA_512, 8192),))
    settled(side, user, 2)
    describe(side, "two", user)
    alter(side, "change one", upsert=(made(user, SHA_256, MOST),))
    alter(side, "delete another", delete=(gone(user, SHA_512),))
    settled(side, user, 1)
    describe(side, "changed", user)
    alter(side, "delete it again", delete=(gone(user, SHA_512),))
    alter(side, "delete the last", delete=(gone(user),))
    settled(side, user, 0)
    describe(side, "none", user)


@as_each(AlterUserScramCredentialsRequest, principals=(ADMIN,))
def twice_in_one_request(side: Side, version: int) -> None:
    user, other = side.own_name("u"), side.own_name("other")
    alter(side, "two mechanisms", upsert=(made(user), made(user, SHA_512)))
    alter(side, "the same", upsert=(made(user), made(user)))
    alter(side, "beside another user", upsert=(made(user), made(other), made(user, SHA_512)))
    settled(side, other, 1)
    describe(side, "which are there", user, other)
    alter(side, "made and deleted", upsert=(made(other),), delete=(gone(other),))
    alter(side, "made and another deleted", upsert=(made(other),), delete=(gone(other, SHA_512),))
    alter(side, "deleted twice", delete=(gone(other), gone(other)))
    alter(side, "both deleted", delete=(gone(other), gone(other, SHA_512)))
    describe(side, "which are left", user, other)


@as_each(AlterUserScramCredentialsRequest, principals=(ADMIN,))
def refused(side: Side, version: int) -> None:
    user = side.own_name("u")
    for label, one in {
        "empty name": made(""),
        "mechanism 0": made(user, 0),
        "mechanism 3": made(user, 3),
        "mechanism -1": made(user, -1),
        "too few": made(user, iterations=LEAST - 1),
        "no iterations": made(user, iterations=0),
        "negative": made(user, iterations=-1),
        "too many": made(user, iterations=MOST + 1),
        "empty name and too few": made("", iterations=1),
        "unknown mechanism and too few": made(user, 0, iterations=1),
    }.items():
        alter(side, label, upsert=(one,))
    for label, deletion in {
        "empty name": gone(""),
        "mechanism 0": gone(user, 0),
        "mechanism 9": gone(user, 9),
        "nobody": gone(user),
    }.items():
        alter(side, f"delete, {label}", delete=(deletion,))
    good = side.own_name("good")
    alter(
        side, "beside a good one", upsert=(made(user, 0), made(good), made("", SHA_256)), delete=(gone("x"),)
    )
    settled(side, good, 1)
    describe(side, "the good one", good, user)


@as_each(AlterUserScramCredentialsRequest, principals=(ADMIN,))
def odd_values(side: Side, version: int) -> None:
    """What no client can come in by."""
    alter(side, "no salt", upsert=(made(side.own_name("salt"), salt=b""),))
    alter(side, "no password", upsert=(made(side.own_name("password"), salted_password=b""),))
    alter(side, "a name that is not ASCII", upsert=(made(side.own_name("\N{SNOWMAN}")),))


@as_each(DescribeUserScramCredentialsRequest, principals=(ADMIN,))
def described(side: Side, version: int) -> None:
    for label, users in {"two": ("allowed", "admin"), "unknown": ("nobody", "admin"), "empty": ("",),
                         "twice": ("admin", "nobody", "admin", "nobody")}.items():  # fmt: skip
        describe(side, label, *users)
