"""ACLs in the catalog: created and deleted, whoever else does so at that moment, and what cannot be read."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import trio

from gateway.catalog import keys
from gateway.catalog.interface import MAX_OPERATIONS
from gateway.cluster import acls as module
from gateway.cluster.acls import Acls, BadAcl, check, key_of, pack, unpack
from gateway.cluster.entry_check import unreadable
from gateway.common.settings import LogSettings
from gateway.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from gateway.security.authorizer import Authorizer
from gateway.security.principal import Principal
from tests.unit.gateway.catalog.memory import MemoryCatalog, put_many
from wireproto.kafka.errors import ErrorCode, KafkaError

ALICE, ROOT = Principal("User", "alice"), Principal("User", "root")
TOPIC, READ = ResourceType.TOPIC, Operation.READ
ALLOW, DENY = Permission.ALLOW, Permission.DENY
SETTINGS = LogSettings(authorizer="acl", super_user=("User:root",), allow_everyone_if_no_acl_found=True)


def line(name: str = "orders", permission: Permission = ALLOW, **changes: Any) -> Acl:
    made = Acl(TOPIC, name, PatternType.LITERAL, "User:alice", "*", READ, permission)
    return made._replace(**changes)


def keyed(*acls: Acl) -> dict[str, Acl]:
    return {key_of(acl): acl for acl in acls}


def may(acls: Acls, name: str = "orders", who: Principal = ALICE) -> bool:
    return acls.authorizer().decide(who, "10.0.0.1", READ, TOPIC, name).is_allowed


class Gateway:
    """One of several over a catalog; what it may not see yet is taken by `follow`."""

    def __init__(self, catalog: MemoryCatalog, settings: LogSettings = SETTINGS) -> None:
        self.catalog = catalog
        self.acls = Acls(catalog, settings)

    def follow(self) -> None:
        for key in {*self.acls.known_keys(), *(entry.key for entry in self.catalog.range(keys.ACLS))}:
            self.acls.take(key)

    async def create(self, *acls: Acl) -> None:
        try:
            await self.acls.create(keyed(*acls))
        finally:
            self.follow()

    def revisions(self, *acls: Acl) -> dict[str, int]:
        found = {key: self.acls.revision(key) for key in keyed(*acls)}
        return {key: revision for key, revision in found.items() if revision is not None}

    async def delete(self, *acls: Acl) -> set[str]:
        try:
            return await self.acls.delete(self.revisions(*acls))
        finally:
            self.follow()

    def there(self) -> set[Acl]:
        return set(self.acls.all().values())


Body = Callable[[Gateway, Gateway], Awaitable[None]]


def with_two(body: Body) -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        await body(Gateway(catalog), Gateway(catalog))

    trio.run(main)


def test_what_is_created_is_in_force_until_it_is_deleted() -> None:
    async def body(one: Gateway, other: Gateway) -> None:
        before = one.acls.authorizer()
        await one.create(line("others"), line(permission=DENY), line(permission=DENY))
        assert not may(one.acls)
        assert may(one.acls, "others")
        assert one.acls.authorizer() is not before
        assert one.acls.authorizer() is one.acls.authorizer()
        other.follow()
        assert other.there() == {line("others"), line(permission=DENY)}
        assert await other.delete(line(permission=DENY), line("nothing")) == set(keyed(line(permission=DENY)))
        one.follow()
        assert may(one.acls)
        assert {entry.key for entry in one.catalog.range(keys.ACLS)} == set(keyed(line("others")))
        assert Gateway(one.catalog).there() == {line("others")}

    with_two(body)


@pytest.mark.parametrize("count", [MAX_OPERATIONS, 500])
def test_many_are_several_transactions_and_what_denies_comes_first_and_goes_last(count: int) -> None:
    async def body(one: Gateway, other: Gateway) -> None:
        # Those that allow are first where they are made, and last where they are deleted.
        acls = [line(f"t{number}", principal="User:*") for number in range(count // 2)]
        acls += [acl._replace(permission=DENY) for acl in acls]
        seen: list[int] = []
        transact = one.catalog.transact

        async def watched(*transaction: Any) -> int:
            revision = await transact(*transaction)
            other.follow()
            seen.append(len(other.there()))
            names = {acl.name for acl in other.there() if acl.permission is ALLOW}
            assert not any(may(other.acls, name) for name in names)
            return revision

        one.catalog.transact = watched  # type: ignore[method-assign, assignment]
        await one.create(*acls)
        assert one.there() == set(acls)
        assert await one.delete(*reversed(acls)) == set(keyed(*acls))
        assert one.there() == set()
        assert len(seen) >= 2 * count / MAX_OPERATIONS
        assert sorted(seen[: len(seen) // 2]) == seen[: len(seen) // 2]

    with_two(body)


def test_what_another_one_creates_at_the_same_moment_stays() -> None:
    async def body(one: Gateway, other: Gateway) -> None:
        both = [line(f"t{number}") for number in range(300)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.create, *both[:200])
            nursery.start_soon(other.create, *reversed(both[100:]))
        one.follow()
        assert one.there() == set(both)
        assert len(one.catalog.range(keys.ACLS)) == 300

    with_two(body)


def test_each_is_deleted_by_one_of_those_who_delete_it_at_the_same_moment() -> None:
    async def body(one: Gateway, other: Gateway) -> None:
        both = [line(f"t{number}") for number in range(300)]
        await one.create(*both)
        other.follow()
        deleted: list[set[str]] = []

        async def delete(gateway: Gateway, acls: Sequence[Acl]) -> None:
            deleted.append(await gateway.delete(*acls))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(delete, one, both)
            nursery.start_soon(delete, other, both[::-1])
        assert deleted[0] | deleted[1] == set(keyed(*both))
        assert not deleted[0] & deleted[1]
        assert one.catalog.range(keys.ACLS) == []

    with_two(body)


def test_what_was_created_anew_since_it_was_found_is_not_deleted() -> None:
    async def body(one: Gateway, other: Gateway) -> None:
        await one.create(line(), line("others"))
        found = one.revisions(line(), line("others"))
        other.follow()
        await other.delete(line())
        await other.create(line())
        assert await one.acls.delete(found) == set(keyed(line("others")))
        one.follow()
        assert one.there() == {line()}

    with_two(body)


def refused(body: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[str]]:
    async def run() -> str:
        with pytest.raises(KafkaError) as error:
            await body()
        assert error.value.code is ErrorCode.POLICY_VIOLATION
        return error.value.message

    return run


def test_too_many_are_refused_and_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ACLS", 5)
    monkeypatch.setattr(module, "MAX_CHANGED_ACLS", 3)

    async def body(one: Gateway, _other: Gateway) -> None:
        lines = [line(str(number)) for number in range(6)]
        message = await refused(lambda: one.create(*lines[:4]))()
        assert message == "One request may create 3 ACLs: ask for fewer at a time."
        assert one.there() == set()
        await one.create(*lines[:3])
        await one.create(*lines[:5])  # those that are there count once
        message = await refused(lambda: one.create(*lines[4:]))()
        assert message.startswith("There are 5 ACLs, and there may be 5: delete those")
        await one.create(*lines[:5])
        assert one.there() == set(lines[:5])

    with_two(body)


LONG = line("ä" * 300, principal="User:CN=a,O=b:c", host="0:0:0:0:0:0:0:1", pattern_type=PatternType.PREFIXED)


@pytest.mark.parametrize("acl", [line(), LONG, line('"\\\0\n'), line(principal="User:😀")])
def test_what_was_packed_is_read_back(acl: Acl) -> None:
    assert unpack(pack(acl)) == acl
    assert check(key_of(acl), pack(acl)) == acl
    assert len(key_of(acl)) < 50


GOOD = pack(line())
BAD = {
    "nothing": b"",
    "a number": b"7",
    "no text": b"\xff",
    "too little": b'[2,"orders",3]',
    "too deep": b"[" * 100_000,
    "a name that is none": GOOD.replace(b'"orders"', b"7"),
    "half a character": GOOD.replace(b'"orders"', b'"\\ud800"'),
    "a type that nobody knows": GOOD.replace(b"[2,", b"[99,"),
    "any type": GOOD.replace(b"[2,", b"[1,"),
    "a pattern of filters": GOOD.replace(b'"orders",3', b'"orders",2'),
    "any operation": GOOD.replace(b",3,3]", b",1,3]"),
    "no permission": GOOD.replace(b",3,3]", b",3,0]"),
    "a number with a point": GOOD.replace(b"[2,", b"[2.0,"),
    "a space": GOOD.replace(b",", b", "),
}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
def test_what_is_damaged_lets_nobody_but_super_users_do_anything_until_it_is_gone(
    value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)

    async def body(one: Gateway, other: Gateway) -> None:
        await one.create(line("others"))
        key = key_of(line())
        await put_many(one.catalog, {key: value})
        for gateway in (one, other, Gateway(one.catalog)):
            gateway.follow()
            assert not may(gateway.acls)
            assert not may(gateway.acls, "others")
            assert may(gateway.acls, who=ROOT)
            assert key in gateway.acls.known_keys()
        assert f"the ACL at {key} of the catalog cannot be read" in caplog.text
        # To say again what it is about puts it right.
        await one.create(line())
        other.follow()
        assert may(other.acls)
        assert other.there() == {line(), line("others")}

    with_two(body)
    with pytest.raises(BadAcl):
        check(key_of(line()), value)
    assert list(unreadable({key_of(line()): value, key_of(LONG): pack(LONG)})) == [key_of(line())]


def test_an_acl_at_another_ones_key_is_named() -> None:
    found = unreadable({key_of(LONG): pack(line())})
    assert found == {key_of(LONG): "its key is that of another ACL"}


def test_a_key_that_is_taken_several_times_counts_as_it_is_at_last() -> None:
    async def body(one: Gateway, _other: Gateway) -> None:
        await one.create(line(permission=DENY))
        assert not may(one.acls)
        key = key_of(line(permission=DENY))
        await one.catalog.transact([], {}, [key])
        for _ in range(2):
            one.acls.take(key)
        assert may(one.acls)
        for value in (pack(line(permission=DENY)), None, pack(line(permission=DENY))):
            await one.catalog.transact([], {} if value is None else {key: value}, [] if value else [key])
            one.acls.take(key)
        assert not may(one.acls)

    with_two(body)


def test_another_authorizer_is_made_after_some_changes_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RENEWED_AT_ONCE", 3)
    made: list[int] = []
    changed = Authorizer.changed

    def counted(self: Authorizer, removed: Sequence[Acl], added: Sequence[Acl]) -> Authorizer:
        made.append(len(added) - len(removed))
        return changed(self, removed, added)

    async def body(one: Gateway, _other: Gateway) -> None:
        lines = [line(f"t{number}") for number in range(7)]
        await one.catalog.transact([], {key_of(acl): pack(acl) for acl in lines})
        monkeypatch.setattr(Authorizer, "changed", counted)
        for acl in lines:
            one.acls.take(key_of(acl))
        assert made == [3, 3]
        assert all(may(one.acls, acl.name) for acl in lines)
        assert made == [3, 3, 1]
        await one.catalog.transact([], {}, [key_of(acl) for acl in lines[:3]])
        for acl in lines[:3]:
            one.acls.take(key_of(acl))
        assert made == [3, 3, 1, -3]
        assert [may(one.acls, acl.name) for acl in lines] == [True] * 7  # everybody, where there are none

    with_two(body)


def test_where_nothing_is_asked_there_is_no_authorizer() -> None:
    acls = Acls(MemoryCatalog(), LogSettings())
    assert not acls.is_on
    assert acls.grant(ALICE, "10.0.0.1").is_unrestricted
    assert not Acls(MemoryCatalog(), SETTINGS).grant(ALICE, "10.0.0.1").is_unrestricted
