"""Two gateways on one catalog: an ACL that one of them makes or deletes is in force on both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from dafka.settings import Settings
from gateway.broker import Broker
from gateway.catalog import keys
from gateway.catalog.interface import HistoryLost
from gateway.cluster.acls import key_of
from gateway.security.access import UNRESTRICTED
from gateway.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from gateway.security.principal import Principal
from tests.unit.gateway.api.asking import ask_async, request_class
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.fake_log import FakeLog

Delete = request_class(31)
ALICE = Principal("User", "alice")
READ, TOPIC = Operation.READ, ResourceType.TOPIC
ALLOWED = Acl(TOPIC, "ord", PatternType.PREFIXED, "User:alice", "*", READ, Permission.ALLOW)
DENIED = Acl(TOPIC, "orders", PatternType.LITERAL, "User:*", "*", READ, Permission.DENY)
MANY = [DENIED._replace(name=f"t{number}") for number in range(300)]


class Two:
    """Each makes changes, and follows those of the other one."""

    def __init__(self) -> None:
        self.catalog = MemoryCatalog()
        self.logs = [FakeLog(catalog=self.catalog) for _ in range(2)]
        settings = Settings(authorizer="acl")
        self.first, self.second = self.brokers = [
            Broker(log.context, log.stores, settings, lambda: None) for log in self.logs
        ]
        self.alice = [broker.acls.grant(ALICE, "10.0.0.1") for broker in self.brokers]
        """What she may do, as a connection of each gateway remembers it."""

    def may(self) -> list[bool]:
        return [access.may(READ, TOPIC, "orders") for access in self.alice]

    def there(self) -> list[set[Acl]]:
        return [set(broker.acls.all().values()) for broker in self.brokers]


Body = Callable[[Two], Awaitable[None]]


def run(body: Body) -> None:
    async def main() -> None:
        two = Two()
        async with trio.open_nursery() as nursery:
            for broker in two.brokers:
                nursery.start_soon(broker.following.run)
                nursery.start_soon(broker.changes.run)
            await wait_all_tasks_blocked()
            await body(two)
            await wait_all_tasks_blocked()
            assert two.there()[0] == two.there()[1]
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def keyed(*acls: Acl) -> dict[str, Acl]:
    return {key_of(acl): acl for acl in acls}


async def delete(broker: Broker, *acls: Acl) -> set[str]:
    """As DeleteAcls does."""
    await broker.catch_up()
    revisions = {key: broker.acls.revision(key) for key in keyed(*acls)}
    return await broker.delete_acls({key: at for key, at in revisions.items() if at is not None})


def test_what_one_makes_is_in_force_at_once_there_and_on_the_other_as_it_follows() -> None:
    async def body(two: Two) -> None:
        assert two.may() == [False, False]
        await two.first.create_acls(keyed(ALLOWED))
        assert two.may()[0]
        await wait_all_tasks_blocked()
        assert two.may() == [True, True]
        await two.second.create_acls(keyed(DENIED))
        assert not two.may()[1]
        await wait_all_tasks_blocked()
        assert two.may() == [False, False]
        assert await delete(two.first, DENIED) == set(keyed(DENIED))
        assert two.may()[0]
        await wait_all_tasks_blocked()
        assert two.may() == [True, True]

    run(body)


@pytest.mark.parametrize("acls", [[ALLOWED, DENIED], MANY])
def test_what_both_make_and_delete_at_once_ends_alike(acls: list[Acl]) -> None:
    async def body(two: Two) -> None:
        half = len(acls) // 2
        async with trio.open_nursery() as nursery:
            nursery.start_soon(two.first.create_acls, keyed(*acls))
            nursery.start_soon(two.second.create_acls, keyed(*acls[half:]))
        await wait_all_tasks_blocked()
        assert two.there() == [set(acls)] * 2
        async with trio.open_nursery() as nursery:
            nursery.start_soon(delete, two.first, *acls[:half])
            nursery.start_soon(two.second.create_acls, keyed(ALLOWED._replace(name="new")))
        await wait_all_tasks_blocked()
        assert two.there() == [{*acls[half:], ALLOWED._replace(name="new")}] * 2

    run(body)


def test_a_change_goes_on_to_its_end_when_its_client_is_gone() -> None:
    async def body(two: Two) -> None:
        async def leave_in_the_middle(work: Callable[[], Awaitable[object]]) -> None:
            before = two.catalog.sequence
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(work)
                    while two.catalog.sequence == before:
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            assert 0 < len(two.catalog.range(keys.ACLS)) < len(MANY)
            await wait_all_tasks_blocked()

        await leave_in_the_middle(lambda: two.first.create_acls(keyed(*MANY)))
        assert two.there() == [set(MANY)] * 2
        await leave_in_the_middle(lambda: delete(two.first, *MANY))
        assert two.there() == [set()] * 2

    run(body)


def test_who_changes_something_sees_what_the_other_one_has_done_before() -> None:
    """However far behind it is: its administrator has been answered by the other one."""

    async def main() -> None:
        two = Two()
        two.second.access = UNRESTRICTED  # type: ignore[attr-defined]
        everything = Delete.DeleteAclsFilter(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
            host_filter=None, operation=1, permission_type=1,
        )  # fmt: skip
        await two.first.create_acls(keyed(ALLOWED))
        answer = await ask_async(cast("Any", two.second), Delete(version=3, filters=[everything]))
        assert [one.resource_name for one in answer.filter_results[0].matching_acls] == [ALLOWED.name]
        await two.second.create_acls(keyed(DENIED))
        assert set(await delete(two.first, DENIED)) == set(keyed(DENIED))
        await two.second.create_acls(keyed(DENIED))  # it had it already, as far as it knew
        assert [entry.key for entry in two.catalog.range(keys.ACLS)] == list(keyed(DENIED))

    trio.run(main)


def test_who_has_missed_too_many_changes_takes_all_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(two: Two) -> None:
        await two.first.create_acls(keyed(ALLOWED, DENIED))
        await wait_all_tasks_blocked()
        assert two.may() == [False, False]
        changes = two.catalog.changes

        def lost(_from_revision: int) -> None:
            raise HistoryLost(two.catalog.revision)

        monkeypatch.setattr(two.catalog, "changes", lost)
        assert await delete(two.first, DENIED) == set(keyed(DENIED))
        await wait_all_tasks_blocked()
        assert two.there() == [{ALLOWED}] * 2
        assert two.may() == [True, True]
        monkeypatch.setattr(two.catalog, "changes", changes)

    run(body)
