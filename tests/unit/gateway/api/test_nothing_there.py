"""APIs about what does not exist here, as Kafka answers them when there is none of it; and the metadata."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.gateway.api.asking import ADDRESS, NODE_ID, NOW_MS, FakeBroker, ask, request_class
from wireproto.kafka.errors import MalformedRequest

Acls = request_class(29)
NewAcls = request_class(30)
AclsDeleted = request_class(31)
Quotas = request_class(48)
Quorum = request_class(55)
Resources = request_class(74)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_off(version: int) -> None:
    request = Acls(
        version=version, resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
    )
    answer = ask(FakeBroker(), request)
    assert (answer["error_code"], answer["resources"]) == (54, [])


def new_acl(**changed: int) -> Any:
    codes = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
    return NewAcls.AclCreation(resource_name="t", principal="User:a", host="*", **codes | changed)


def acl_filter(**changed: int) -> Any:
    codes = dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), 1)
    return AclsDeleted.DeleteAclsFilter(**codes | changed)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_acls_cannot_be_created_nor_deleted(version: int, count: int) -> None:
    """One answer for each."""
    made = ask(FakeBroker(), NewAcls(version=version, creations=[new_acl()] * count))
    assert [one["error_code"] for one in made["results"]] == [54] * count
    deleted = ask(FakeBroker(), AclsDeleted(version=version, filters=[acl_filter()] * count))
    assert [(one["error_code"], one["matching_acls"]) for one in deleted["filter_results"]] == [
        (54, [])
    ] * count


@pytest.mark.parametrize("field", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
def test_an_acl_with_something_unknown_closes_the_connection(field: str) -> None:
    with pytest.raises(MalformedRequest, match="unknown element"):
        ask(FakeBroker(), NewAcls(version=3, creations=[new_acl(), new_acl(**{field: 0})]))
    field = {"resource_type": "resource_type_filter", "resource_pattern_type": "pattern_type_filter"}.get(
        field, field
    )
    with pytest.raises(MalformedRequest, match="unknown element"):
        ask(FakeBroker(), AclsDeleted(version=3, filters=[acl_filter(), acl_filter(**{field: 0})]))


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([], 0),
        ([("user", 0, "u"), ("client-id", 1, None)], 0),
        ([("ip", 2, None)], 0),
        ([("ip", 2, None), ("user", 2, None)], 42),
        ([("", 2, None)], 42),
        ([("user", 2, None), ("user", 2, None)], 42),
        ([("group", 2, None)], 35),
        ([("user", 0, None)], 42),
        ([("user", 1, "u")], 42),
        ([("user", 2, "u")], 42),
        ([("user", 3, None)], 42),
    ],
)
@pytest.mark.parametrize("version", [0, 1])
def test_there_are_no_quotas(version: int, components: list[tuple[str, int, str | None]], code: int) -> None:
    made = [Quotas.ComponentData(entity_type=t, match_type=m, match=v) for t, m, v in components]
    answer = ask(FakeBroker(), Quotas(version=version, components=made, strict=False))
    assert (answer["error_code"], answer["entries"]) == (code, None if code else [])
    assert bool(answer["error_message"]) is bool(code)


def quorum(version: int, *topics: tuple[str, list[int]]) -> Any:
    one = Quorum.TopicData
    made = [
        one(topic_name=name, partitions=[one.PartitionData(partition_index=index) for index in indexes])
        for name, indexes in topics
    ]
    return ask(FakeBroker(), Quorum(version=version, topics=made))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_this_node_keeps_the_metadata_alone(version: int) -> None:
    answer = quorum(version, ("__cluster_metadata", [0]))
    ((partition,),) = [topic["partitions"] for topic in answer["topics"]]
    assert (partition["leader_id"], partition["high_watermark"], partition["observers"]) == (NODE_ID, 7, [])
    (voter,) = partition["current_voters"]
    assert (voter["replica_id"], voter["log_end_offset"]) == (NODE_ID, 7)
    if version >= 1:
        assert voter["last_caught_up_timestamp"] == NOW_MS
    if version >= 2:
        (node,) = answer["nodes"]
        assert [(one["host"], one["port"]) for one in node["listeners"]] == [ADDRESS]


@pytest.mark.parametrize(
    "topics", [[("t", [0])], [("__cluster_metadata", [1])], [("__cluster_metadata", [0]), ("t", [0])]]
)
def test_only_the_metadata_has_a_quorum(topics: list[tuple[str, list[int]]]) -> None:
    answer = quorum(2, *topics)
    assert [
        (topic["topic_name"], [(p["partition_index"], p["error_code"]) for p in topic["partitions"]])
        for topic in answer["topics"]
    ] == [(name, [(index, 3) for index in indexes]) for name, indexes in topics]
    assert answer["nodes"] == []


def test_what_has_configs() -> None:
    broker = FakeBroker()
    broker.add("b")
    broker.add("a")

    def listed(types: list[int]) -> tuple[int, list[tuple[int, str]]]:
        answer = ask(broker, Resources(version=1, resource_types=types))
        found = [(one["resource_type"], one["resource_name"]) for one in answer["config_resources"]]
        return answer["error_code"], found

    assert listed([2]) == (0, [(2, "a"), (2, "b")])
    assert listed([]) == (0, [(2, "a"), (2, "b"), (4, "1"), (8, "1")])
    assert listed([32, 16]) == (0, [])
    assert listed([2, 3]) == (35, [])
    assert ask(broker, Resources(version=0))["config_resources"] == []
