"""ACLs where an authorizer is on: the same requests to Apache Kafka 4.3.1 and to us, the same answers.

Both have a server of their own for this, where whoever asks is a super user. Answers are sorted before they
are compared: Kafka keeps ACLs in hash tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from tests.differential.wire import ask
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.standalone import Standalone

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = range(2, 8)
READ, WRITE, ALTER = 3, 4, 7
DENY, ALLOW = 2, 3
UNDEFINED = 99


@pytest.fixture(scope="module")
def addresses() -> Iterator[tuple[str, str]]:
    """Of Kafka, and of ours."""
    with (
        ApacheKafka(properties=AUTHORIZER) as kafka,
        Standalone(None, "--authorizer", "acl", "--super-user", "User:ANONYMOUS") as ours,
    ):
        yield kafka.bootstrap, ours.bootstrap


def line(**changed: Any) -> dict[str, Any]:
    usual = {
        "resource_type": TOPIC, "resource_name": "orders", "resource_pattern_type": LITERAL,
        "principal": "User:alice", "host": "*", "operation": READ, "permission_type": ALLOW,
    }  # fmt: skip
    assert changed.keys() <= usual.keys()
    return usual | changed


def wanted(**changed: Any) -> dict[str, Any]:
    usual = {
        "resource_type_filter": ANY, "resource_name_filter": None, "pattern_type_filter": ANY,
        "principal_filter": None, "host_filter": None, "operation": ANY, "permission_type": ANY,
    }  # fmt: skip
    assert changed.keys() <= usual.keys()
    return usual | changed


GOOD = [
    line(), line(operation=WRITE, host="10.0.0.1"), line(permission_type=DENY, principal="User:*"),
    line(resource_name="ord", resource_pattern_type=PREFIXED), line(resource_name="*"),
    line(resource_name="*", resource_pattern_type=PREFIXED, principal="Group:a:b"),
    line(resource_type=GROUP, resource_name="g", host="no address"),
    line(resource_type=CLUSTER, resource_name="kafka-cluster", operation=ALTER),
    line(resource_type=TRANSACTIONAL_ID, resource_name="ä\0", operation=2), line(principal=":", host=""),
    line(resource_type=TOKEN, resource_name="t", operation=15), line(),
]  # fmt: skip
BAD = [
    line(resource_type=CLUSTER), line(resource_type=CLUSTER, resource_name=""), line(resource_name=""),
    line(resource_name="", resource_type=UNDEFINED), line(resource_type=UNDEFINED), line(resource_type=-1),
    line(resource_pattern_type=UNDEFINED), line(operation=16), line(operation=-128), line(permission_type=4),
    line(principal="alice"), line(principal=""), line(principal="alice", permission_type=UNDEFINED),
    line(operation=UNDEFINED, resource_pattern_type=UNDEFINED), line(resource_type=-2, permission_type=-2),
]  # fmt: skip
FAILS_INSIDE = [
    (line(resource_type=ANY), "Invalid resourceType ANY"),
    (line(resource_pattern_type=ANY), "Invalid patternType ANY"),
    (line(resource_pattern_type=MATCH), "Invalid patternType MATCH"),
    (line(operation=ANY), "Invalid operation ANY"),
    (line(permission_type=ANY), "Invalid permissionType ANY"),
]
"""What Kafka's controller has words for, and what throws before it is asked: all ACLs of a request fail."""

FILTERS = [
    wanted(), wanted(resource_type_filter=TOPIC), wanted(resource_name_filter="orders"),
    wanted(resource_name_filter="orders", pattern_type_filter=MATCH),
    wanted(resource_name_filter="orders", pattern_type_filter=MATCH, resource_type_filter=TOPIC),
    wanted(resource_name_filter="*", pattern_type_filter=MATCH), wanted(resource_name_filter="*"),
    wanted(resource_name_filter="*", pattern_type_filter=LITERAL),
    wanted(resource_name_filter="*", pattern_type_filter=PREFIXED), wanted(resource_name_filter=""),
    wanted(resource_name_filter="ord", pattern_type_filter=LITERAL), wanted(pattern_type_filter=PREFIXED),
    wanted(pattern_type_filter=MATCH), wanted(principal_filter="User:*"), wanted(principal_filter=""),
    wanted(host_filter="10.0.0.1"), wanted(host_filter=""), wanted(host_filter="*"), wanted(operation=2),
    wanted(operation=15), wanted(permission_type=DENY), wanted(resource_type_filter=UNDEFINED),
    wanted(pattern_type_filter=-7), wanted(operation=UNDEFINED), wanted(permission_type=4),
    wanted(
        resource_name_filter="orders", pattern_type_filter=LITERAL, principal_filter="User:alice",
        host_filter="*", operation=READ, permission_type=ALLOW, resource_type_filter=TOPIC,
    ),
]  # fmt: skip
UNKNOWN = ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")


def in_order(value: Any) -> Any:
    """The same, with the elements of inner lists sorted."""
    if isinstance(value, Mapping):
        return {key: in_order(each) for key, each in value.items()}
    return sorted(map(in_order, value), key=str) if isinstance(value, list) else value


def answers(address: str, request: Any) -> Any:
    """One answer for comparison; "closed" if there is none."""
    try:
        told = ask(address, request).to_dict(json=False)
    except OSError:
        return "closed"
    # Those of creations and filters are in the order of what was asked.
    return {
        key: list(map(in_order, value)) if key in {"results", "filter_results"} else in_order(value)
        for key, value in told.items()
    }


def same(addresses: tuple[str, str], make: Any) -> Any:
    """The answer that both give; each gets a request of its own."""
    kafkas, ours = (answers(address, make()) for address in addresses)
    assert ours == kafkas
    return ours


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_created_described_and_deleted_as_by_kafka(addresses: tuple[str, str], version: int) -> None:
    def create(*lines: dict[str, Any]) -> Any:
        made = [CreateAclsRequest.AclCreation(**one) for one in lines]
        return same(addresses, lambda: CreateAclsRequest(version=version, creations=made))

    def describe(fields: dict[str, Any]) -> Any:
        return same(addresses, lambda: DescribeAclsRequest(version=version, **fields))

    def delete(*filters: dict[str, Any]) -> Any:
        made = [DeleteAclsRequest.DeleteAclsFilter(**one) for one in filters]
        return same(addresses, lambda: DeleteAclsRequest(version=version, filters=made))

    everything = wanted()
    assert describe(everything)["resources"] == []
    for fields in FILTERS:
        assert {one["error_code"] for one in create(*GOOD, *BAD)["results"]} == {0, 42}
        assert len(create(*BAD)["results"]) == len(BAD)
        describe(everything)
        describe(fields)
        delete(fields)
        describe(everything)
    create(*GOOD)
    assert len(delete(*FILTERS)["filter_results"]) == len(FILTERS)
    assert describe(everything)["resources"] == []
    for field in UNKNOWN:
        assert describe(wanted(**{field: 0})) == "closed"
        assert delete(everything, wanted(**{field: 0})) == "closed"
        of_line = {"resource_type_filter": "resource_type", "pattern_type_filter": "resource_pattern_type"}
        assert create(line(), line(**{of_line.get(field, field): 0})) == "closed"
    assert describe(everything)["resources"] == []


def test_where_kafka_fails_inside_what_is_wrong_is_said(addresses: tuple[str, str]) -> None:
    for bad, message in FAILS_INSIDE:

        def answered(address: str, one: dict[str, Any] = bad) -> list[tuple[int, str | None]]:
            made = [CreateAclsRequest.AclCreation(**each) for each in (line(), one)]
            results = ask(address, CreateAclsRequest(version=3, creations=made)).results
            return [(result.error_code, result.error_message) for result in results]

        kafka, ours = addresses
        assert answered(kafka) == [(-1, None)] * 2
        assert answered(ours) == [(0, ""), (42, message)]
