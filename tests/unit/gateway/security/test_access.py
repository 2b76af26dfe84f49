"""What a connection may do, asked again and again."""

from __future__ import annotations

import pytest

from gateway.security.access import MAX_REMEMBERED, UNRESTRICTED, ByAcls, java_address
from gateway.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from gateway.security.authorizer import Authorizer, Decision
from gateway.security.principal import Principal

ALICE = Principal("User", "alice")
TOPIC, READ = ResourceType.TOPIC, Operation.READ


class Counting(Authorizer):
    """Counts what it is asked."""

    def __init__(self, *acls: Acl) -> None:
        super().__init__(acls)
        self.asked = 0

    def decide(self, *question: object) -> Decision:
        self.asked += 1
        return super().decide(*question)  # type: ignore[arg-type]

    def may_somewhere(self, *question: object) -> bool:
        self.asked += 1
        return super().may_somewhere(*question)  # type: ignore[arg-type]


def line(host: str = "*", permission: Permission = Permission.ALLOW) -> Acl:
    return Acl(TOPIC, "orders", PatternType.LITERAL, "User:alice", host, READ, permission)


def test_what_was_asked_is_remembered_until_the_acls_are_others() -> None:
    first = in_force = Counting(line())
    access = ByAcls(ALICE, "10.0.0.1", lambda: in_force)
    for _ in range(5):
        assert access.may(READ, TOPIC, "orders")
        assert not access.may(Operation.WRITE, TOPIC, "orders")
        assert not access.may(READ, TOPIC, "others")
    assert first.asked == 3
    in_force = Counting(line(permission=Permission.DENY))
    assert not access.may(READ, TOPIC, "orders")
    in_force = first
    assert access.may(READ, TOPIC, "orders")


def test_what_is_remembered_is_bounded() -> None:
    authorizer = Counting(line())
    access = ByAcls(ALICE, "10.0.0.1", lambda: authorizer)
    for number in range(3 * MAX_REMEMBERED):
        assert not access.may(READ, TOPIC, f"t{number}")
        assert len(access._remembered) <= MAX_REMEMBERED
    assert access.may(READ, TOPIC, "orders")


def test_long_names_are_not_remembered() -> None:
    authorizer = Counting(line())
    access = ByAcls(ALICE, "10.0.0.1", lambda: authorizer)
    for size, asked in ((249, 1), (250, 3)):
        for _ in range(2):
            assert not access.may(READ, TOPIC, "\U0001f600" * size)
        assert authorizer.asked == asked
    assert [len(name) for _, _, name in access._remembered] == [249]


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::A:0:1", "2001:db8:0:0:0:a:0:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
    ],
)
def test_addresses_are_compared_as_java_writes_them(address: str, written: str) -> None:
    assert java_address(address) == written
    access = ByAcls(ALICE, address, lambda: Authorizer([line(host=written)]))
    assert access.may(READ, TOPIC, "orders")


def test_somewhere() -> None:
    acl = line()._replace(operation=Operation.WRITE)
    access = ByAcls(ALICE, "10.0.0.1", lambda: Authorizer([acl]))
    assert access.may_somewhere(Operation.WRITE, TOPIC)
    assert not access.may_somewhere(READ, TOPIC)


def test_what_may_be_done_somewhere_is_remembered_until_the_acls_are_others() -> None:
    first = in_force = Counting(line()._replace(operation=Operation.WRITE))
    access = ByAcls(ALICE, "10.0.0.1", lambda: in_force)
    assert [access.may_somewhere(Operation.WRITE, TOPIC) for _ in range(3)] == [True] * 3
    asked = first.asked
    assert access.may_somewhere(Operation.WRITE, TOPIC)
    assert first.asked == asked
    assert not access.may_somewhere(READ, TOPIC)
    in_force = Counting()
    assert not access.may_somewhere(Operation.WRITE, TOPIC)
    in_force = first
    assert access.may_somewhere(Operation.WRITE, TOPIC)


def test_a_request_that_is_denied_is_told_and_what_is_left_out_of_an_answer_is_not() -> None:
    told: list[object] = []
    access = ByAcls(
        ALICE, "10.0.0.1", lambda: Authorizer([line()]), lambda who, what: told.append((who, what))
    )
    assert access.may(READ, TOPIC, "orders")
    assert not access.sees(READ, TOPIC, "others")
    assert not told
    for _ in range(2):
        assert not access.may(READ, TOPIC, "others")
    assert told == [(access, (READ, TOPIC, "others"))] * 2


def test_all_that_may_be_done() -> None:
    access = ByAcls(ALICE, "10.0.0.1", lambda: Authorizer([line()]))
    assert access.operations(TOPIC, "orders") == {READ, Operation.DESCRIBE}
    assert not access.operations(ResourceType.GROUP, "orders")


@pytest.mark.parametrize(
    ("resource_type", "codes"),
    [
        (TOPIC, {3, 4, 5, 6, 7, 8, 10, 11}),
        (ResourceType.GROUP, {3, 6, 8, 10, 11}),
        (ResourceType.CLUSTER, {5, 7, 8, 9, 10, 11, 12}),
    ],
)
def test_without_an_authorizer_everything_is_allowed(resource_type: ResourceType, codes: set[int]) -> None:
    assert UNRESTRICTED.operations(resource_type, "any") == codes
    assert UNRESTRICTED.may(Operation.ALL, resource_type, "any")
    assert UNRESTRICTED.sees(Operation.ALL, resource_type, "any")
    assert UNRESTRICTED.may_somewhere(Operation.WRITE, resource_type)
