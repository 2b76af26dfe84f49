"""ACLs as administrators' tools make, list and remove them: kafka-acls, kafka-python, confluent-kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import confluent_kafka.admin
import kafka.admin
import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from tests.peers.java import java_tool
from tests.peers.standalone import Standalone

SECONDS = 30.0

Line = tuple[str, str, str, str, str, str, str]
"""Resource type, name, pattern type, principal, host, operation, permission."""

# Its own hints leave out half of what it has.
library: Any = confluent_kafka.admin


@pytest.fixture
def server() -> Iterator[str]:
    """The address of a server where ACLs decide, and whoever asks is a super user."""
    with Standalone(None, "--authorizer", "acl", "--super-user", "User:ANONYMOUS") as standalone:
        yield standalone.bootstrap


def kafka_acls(server: str, *arguments: str) -> set[Line]:
    """The ACLs that it prints."""
    done = java_tool("org.apache.kafka.tools.AclCommand", "--bootstrap-server", server, *arguments)
    assert "Exception" not in done.stdout + done.stderr
    found: set[Line] = set()
    resource: tuple[str, ...] = ()
    for said in done.stdout.splitlines():
        if shown := re.search(r"ResourcePattern\(resourceType=(\w+), name=(.*), patternType=(\w+)\)", said):
            resource = shown.groups()
        elif shown := re.search(
            r"\(principal=(.*), host=(.*), operation=(\w+), permissionType=(\w+)\)", said
        ):
            found.add((*resource, *shown.groups()))  # type: ignore[arg-type]
    return found


def topic(
    name: str, operation: str, who: str, pattern: str = "LITERAL", host: str = "*", permission: str = "ALLOW"
) -> Line:
    return ("TOPIC", name, pattern, who, host, operation, permission)


@pytest.mark.slow
def test_kafka_acls(server: str) -> None:
    """Literal, prefixed and wildcard patterns, hosts, denials, conveniences; each is removed as it came, or
    by a filter.
    """
    orders = {
        topic("orders", "READ", "User:alice", host="10.0.0.1"),
        topic("orders", "READ", "User:mallory", permission="DENY", host="10.6.6.6"),
    }
    hosts = ("--allow-host", "10.0.0.1", "--deny-principal", "User:mallory", "--deny-host", "10.6.6.6")
    added = ("--allow-principal", "User:alice", *hosts, "--operation", "Read", "--topic", "orders")
    assert kafka_acls(server, "--add", *added) == orders
    producer = {topic("ord", what, "User:bob", "PREFIXED") for what in ("WRITE", "DESCRIBE", "CREATE")}
    produces = (
        *("--allow-principal", "User:bob", "--producer", "--topic", "ord"),
        *("--resource-pattern-type", "prefixed"),
    )
    assert kafka_acls(server, "--add", *produces) == producer
    consumer = {
        *(topic("*", what, "User:*") for what in ("READ", "DESCRIBE")),
        ("GROUP", "g", "LITERAL", "User:*", "*", "READ", "ALLOW"),
    }
    consumes = ("--allow-principal", "User:*", "--consumer", "--topic", "*", "--group", "g")
    assert kafka_acls(server, "--add", *consumes) == consumer
    # What is there already may be added again.
    kafka_acls(server, "--add", *consumes)
    assert kafka_acls(server, "--list") == orders | producer | consumer
    of_orders = ("--topic", "orders", "--resource-pattern-type", "match")
    assert kafka_acls(server, "--list", *of_orders) == {
        one for one in orders | producer | consumer if one[0] == "TOPIC"
    }
    kafka_acls(server, "--remove", "--force", *produces)
    assert kafka_acls(server, "--list", "--principal", "User:bob") == set()
    kafka_acls(server, "--remove", "--force", *of_orders)
    assert kafka_acls(server, "--list") == {one for one in consumer if one[0] == "GROUP"}


def test_kafka_python_and_confluent_see_and_remove_each_others_acls(server: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=server)
    other = AdminClient({"bootstrap.servers": server})
    try:
        orders = kafka.admin.ResourcePattern(
            kafka.admin.ResourceType.TOPIC, "orders", kafka.admin.ACLResourcePatternType.PREFIXED
        )
        made = kafka.admin.ACL(
            "User:CN=alice,O=ä", "0:0:0:0:0:0:0:1", kafka.admin.ACLOperation.ALL,
            kafka.admin.ACLPermissionType.DENY, orders,
        )  # fmt: skip
        created = admin.create_acls([made])
        assert (created["succeeded"], created["failed"]) == ([made], [])
        (future,) = other.create_acls([group_line("g")]).values()
        assert future.result(SECONDS) is None

        of_topics = kafka.admin.ACLFilter(
            None, None, kafka.admin.ACLOperation.ANY, kafka.admin.ACLPermissionType.ANY,
            kafka.admin.ResourcePatternFilter(
                kafka.admin.ResourceType.ANY, None, kafka.admin.ACLResourcePatternType.ANY
            ),
        )  # fmt: skip
        seen = other.describe_acls(everything()).result(SECONDS)
        assert sorted((one.name, one.principal, one.host) for one in seen) == [
            ("g", "User:bob", "*"), ("orders", "User:CN=alice,O=ä", "0:0:0:0:0:0:0:1"),
        ]  # fmt: skip
        found, error = admin.describe_acls(of_topics)
        assert error.errno == 0
        assert {one.resource_pattern.resource_name for one in found} == {"g", "orders"}
        (future,) = other.delete_acls([everything()]).values()
        assert {one.name for one in future.result(SECONDS)} == {"g", "orders"}
        assert admin.describe_acls(of_topics)[0] == []
    finally:
        admin.close()


def group_line(name: str) -> Any:
    return library.AclBinding(
        library.ResourceType.GROUP, name, library.ResourcePatternType.LITERAL, "User:bob", "*",
        library.AclOperation.READ, library.AclPermissionType.ALLOW,
    )  # fmt: skip


def everything() -> Any:
    return library.AclBindingFilter(
        library.ResourceType.ANY, None, library.ResourcePatternType.ANY, None, None,
        library.AclOperation.ANY, library.AclPermissionType.ANY,
    )  # fmt: skip
