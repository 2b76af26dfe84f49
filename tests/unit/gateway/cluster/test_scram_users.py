"""Users and their passwords in the catalog."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import trio

from gateway.catalog import keys
from gateway.cluster import scram_users
from gateway.cluster.scram_users import (
    BadUser,
    Change,
    Deletion,
    Refusal,
    ScramUsers,
    Upsertion,
    pack,
    unpack,
)
from gateway.security.principal import Principal
from gateway.security.scram import Hash, Known, credential_of
from tests.unit.gateway.catalog.memory import MemoryCatalog

SALT = b"salt of the client"


def upsertion(user: str = "alice", kind: Hash = Hash.SHA_256, **changes: Any) -> Upsertion:
    salted = hashlib.pbkdf2_hmac(kind.algorithm, b"secret", SALT, 4096)
    return Upsertion(user, kind.number, 4096, SALT, salted)._replace(**changes)


async def alter(users: ScramUsers, changes: Sequence[Change]) -> dict[str, Refusal | None]:
    """As the API does."""
    found = users.refusals(changes)
    for change in changes:
        if found[change.user] is None:
            found[change.user] = await users.make(change)
    return found


def with_users(body: Callable[[ScramUsers, MemoryCatalog], Awaitable[None]]) -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        await body(ScramUsers(catalog), catalog)

    trio.run(main)


@pytest.mark.parametrize("name", ["alice", "a/b", "a,b=c%2F ", "/", "-", "%" * 255])
def test_a_user_comes_in_by_what_was_set(name: str) -> None:
    async def body(users: ScramUsers, catalog: MemoryCatalog) -> None:
        both = [upsertion(name), upsertion("other", Hash.SHA_512)]
        assert await alter(users, both) == {name: None, "other": None}
        for seen in (users, ScramUsers(catalog)):
            assert seen.known(Hash.SHA_256, name) == Known(
                credential_of(Hash.SHA_256, "secret", SALT, 4096), Principal("User", name)
            )
            assert seen.known(Hash.SHA_512, name) is None
            assert [user for user, _ in seen.all()] == sorted([name, "other"])

    with_users(body)


def test_each_mechanism_has_its_own_and_the_last_one_takes_the_user_with_it() -> None:
    async def body(users: ScramUsers, catalog: MemoryCatalog) -> None:
        for kind in Hash:
            assert await alter(users, [upsertion(kind=kind)]) == {"alice": None}
        assert (users.of("alice") or {}).keys() == set(Hash)
        assert await alter(users, [Deletion("alice", 1)]) == {"alice": None}
        assert (users.of("alice") or {}).keys() == {Hash.SHA_512}
        assert await alter(users, [Deletion("alice", 1)]) == {"alice": Refusal.NONE_THERE}
        assert await alter(users, [Deletion("alice", 2)]) == {"alice": None}
        assert users.of("alice") is None
        assert catalog.range(keys.SCRAM) == []

    with_users(body)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (upsertion(""), Refusal.NO_NAME),
        (Deletion("", 1), Refusal.NO_NAME),
        (upsertion(mechanism=3), Refusal.NO_MECHANISM),
        (Deletion("alice", 0), Refusal.NO_MECHANISM),
        (upsertion("älice"), Refusal.BAD_NAME),
        (upsertion("a\0b"), Refusal.BAD_NAME),
        (upsertion("x" * 256), Refusal.BAD_NAME),
        (upsertion(iterations=4095), Refusal.TOO_FEW),
        (upsertion(iterations=16385), Refusal.TOO_MANY),
        (upsertion(salt=b""), Refusal.NO_SALT),
        (upsertion(salted_password=b""), Refusal.NO_SALT),
        (Deletion("nobody", 1), Refusal.NONE_THERE),
    ],
)
def test_what_is_refused_changes_nothing_and_holds_up_nobody(change: Any, refusal: Refusal) -> None:
    async def body(users: ScramUsers, _catalog: MemoryCatalog) -> None:
        assert await alter(users, [change, upsertion("other")]) == {change.user: refusal, "other": None}
        assert [user for user, _ in users.all()] == ["other"]

    with_users(body)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ([upsertion(), upsertion(kind=Hash.SHA_512)], Refusal.TWICE),
        ([Deletion("alice", 1), upsertion()], Refusal.TWICE),
        ([Deletion("alice", 1), Deletion("alice", 1)], Refusal.TWICE),
        ([Deletion("alice", 2), upsertion()], Refusal.NONE_THERE),
        ([Deletion("alice", 2), Deletion("alice", 1)], Refusal.NONE_THERE),
        ([upsertion(iterations=1), upsertion()], Refusal.TOO_FEW),
        ([upsertion(), upsertion(iterations=1)], Refusal.TWICE),
    ],
)
def test_of_several_things_the_first_one_is_said(changes: list[Change], refusal: Refusal) -> None:
    async def body(users: ScramUsers, _catalog: MemoryCatalog) -> None:
        await alter(users, [upsertion()])
        before = users.of("alice")
        assert await alter(users, changes) == {"alice": refusal}
        assert users.of("alice") == before

    with_users(body)


def test_a_user_who_is_named_twice_is_not_changed() -> None:
    async def body(users: ScramUsers, _catalog: MemoryCatalog) -> None:
        twice = [upsertion(), upsertion(kind=Hash.SHA_512)]
        assert await alter(users, twice) == {"alice": Refusal.TWICE}
        assert users.of("alice") is None

    with_users(body)


def test_what_cannot_be_read_is_nobody() -> None:
    async def body(_users: ScramUsers, catalog: MemoryCatalog) -> None:
        good = pack({Hash.SHA_256: credential_of(Hash.SHA_256, "secret", SALT, 4096)})
        bad = [b"[]", b'{"SCRAM-SHA-1":{}}', b'{"SCRAM-SHA-256":{"salt":"%"}}', good.replace(b"stored", b"")]
        for number, value in enumerate(bad):
            with pytest.raises(BadUser):
                unpack(value)
            await catalog.transact([], {keys.scram_key(f"bad-{number}"): value})
        await catalog.transact([], {keys.scram_key("good"): good})
        assert [user for user, _ in ScramUsers(catalog).all()] == ["good"]

    with_users(body)


@pytest.mark.parametrize(("change", "left"), [(upsertion("bad"), {Hash.SHA_256}), (Deletion("bad", 1), None)])
def test_a_user_who_cannot_be_read_can_be_made_anew_or_deleted(
    change: Change, left: set[Hash] | None
) -> None:
    async def body(users: ScramUsers, catalog: MemoryCatalog) -> None:
        await catalog.transact([], {keys.scram_key("bad"): b"[]"})
        assert await alter(users, [change]) == {"bad": None}
        found = ScramUsers(catalog).of("bad")
        assert (None if found is None else found.keys()) == left

    with_users(body)


def test_there_are_no_more_users_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram_users, "MAX_USERS", 2)

    async def body(users: ScramUsers, _catalog: MemoryCatalog) -> None:
        names = ["a", "b", "c"]
        assert await alter(users, [upsertion(name) for name in names]) == {
            "a": None, "b": None, "c": Refusal.TOO_MANY_USERS,
        }  # fmt: skip
        assert await alter(users, [upsertion("a", Hash.SHA_512)]) == {"a": None}, "it is there already"
        assert await alter(users, [Deletion("b", 1)]) == {"b": None}
        assert await alter(users, [upsertion("c")]) == {"c": None}
        assert [user for user, _ in users.all()] == ["a", "c"]

    with_users(body)


def test_the_clusters_secret_is_made_once() -> None:
    async def body(users: ScramUsers, catalog: MemoryCatalog) -> None:
        secret = await users.secret()
        assert len(secret) == 32
        assert await ScramUsers(catalog).secret() == secret

    with_users(body)


def test_whose_password_is_not_right_any_more_is_told() -> None:
    async def body(users: ScramUsers, _catalog: MemoryCatalog) -> None:
        told: list[tuple[str, frozenset[Hash]]] = []
        users.on_revoked(lambda user, kinds: told.append((user, kinds)))
        for one in (*(upsertion("alice", kind) for kind in Hash), upsertion("bob")):
            await users.make(one)
        users.take(keys.scram_key("alice"))
        assert told == []  # nothing of anybody has changed
        await users.make(upsertion("alice", Hash.SHA_512, salt=b"another"))
        assert told.pop() == ("alice", frozenset((Hash.SHA_512,)))
        await users.make(Deletion("bob", 1))
        assert told.pop() == ("bob", frozenset((Hash.SHA_256,)))
        assert told == []

    with_users(body)
