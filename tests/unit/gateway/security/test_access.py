"""What a connection may do, asked again and again."""

from __future__ import annotations

import pytest

from gateway.security.access import MAX_REMEMBERED, Access, java_address
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


def line(host: str = "*", permission: Permission = Permission.ALLOW) -> Acl:
    return Acl(TOPIC, "orders", PatternType.LITERAL, "User:alice", host, READ, permission)


def test_what_was_asked_is_remembered_until_the_acls_are_others() -> None:
    first = in_force = Counting(line())
    access = Access(ALICE, "10.0.0.1", lambda: in_force)
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
    access = Access(ALICE, "10.0.0.1", lambda: authorizer)
    for number in range(3 * MAX_REMEMBERED):
        assert not access.may(READ, TOPIC, f"t{number}")
        assert len(access._remembered) <= MAX_REMEMBERED
    assert access.may(READ, TOPIC, "orders")


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
    access = Access(ALICE, address, lambda: Authorizer([line(host=written)]))
    assert access.may(READ, TOPIC, "orders")


def test_somewhere() -> None:
    acl = line()._replace(operation=Operation.WRITE)
    access = Access(ALICE, "10.0.0.1", lambda: Authorizer([acl]))
    assert access.may_somewhere(Operation.WRITE, TOPIC)
    assert not access.may_somewhere(READ, TOPIC)
