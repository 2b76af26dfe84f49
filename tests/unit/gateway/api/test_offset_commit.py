from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest

from gateway.groups.offsets import OFFSET_METADATA_MAX_BYTES
from gateway.groups.records import CommittedOffset
from tests.unit.gateway.api.asking import FakeBroker, ask, request_class
from tests.unit.gateway.api.fake_groups import NOW_MS, broker_with_groups, member_of
from wireproto.kafka.errors import ErrorCode, KafkaError

Commit = request_class(8)
_Topic = Commit.OffsetCommitRequestTopic
STRANGER = UUID(int=1)


def partition(index: int, offset: int, epoch: int = -1, metadata: str | None = "") -> Any:
    return _Topic.OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=offset,
        committed_leader_epoch=epoch,
        committed_metadata=metadata,
    )


def commit(
    broker: FakeBroker,
    version: int,
    wanted: Mapping[Any, Sequence[Any]],
    *,
    group: str = "g",
    generation: int = -1,
    member: str = "",
    **fields: Any,
) -> list[tuple[Any, dict[int, int]]]:
    """(topic, error by partition) of each topic in the answer."""
    topics = [
        _Topic(topic_id=key, partitions=list(found))
        if isinstance(key, UUID)
        else _Topic(name=key, partitions=list(found))
        for key, found in wanted.items()
    ]
    request = Commit(
        version=version,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=topics,
        **fields,
    )
    answer = ask(broker, request)
    named = "topic_id" if version >= 10 else "name"
    return [
        (topic[named], {one["partition_index"]: one["error_code"] for one in topic["partitions"]})
        for topic in answer["topics"]
    ]


def committed(groups: Any, group: str = "g") -> dict[tuple[str, int], CommittedOffset]:
    table = groups.groups[group].offsets
    return {(topic, index): found for topic, offsets in table.topics() for index, found in offsets.items()}


@pytest.mark.parametrize("version", range(2, 10))
def test_offsets_are_kept_with_what_the_version_says(version: int) -> None:
    broker, groups = broker_with_groups()
    wanted = {"orders": [partition(2, 5, 17, "note"), partition(0, 6, metadata=None)]}
    assert commit(broker, version, wanted) == [("orders", {2: 0, 0: 0})]
    topic_id = broker.topics.get("orders").id
    epoch = 17 if version >= 6 else -1
    assert committed(groups) == {
        ("orders", 2): CommittedOffset(5, epoch, "note", NOW_MS, topic_id=topic_id),
        ("orders", 0): CommittedOffset(6, -1, "", NOW_MS, topic_id=topic_id),
    }
    assert groups.writes == 1


def test_topics_by_id() -> None:
    broker, groups = broker_with_groups()
    orders = UUID(bytes=broker.topics.get("orders").id)
    wanted = {orders: [partition(1, 9), partition(3, 9)], STRANGER: [partition(0, 1)]}
    assert commit(broker, 10, wanted) == [(orders, {3: 3, 1: 0}), (STRANGER, {0: 100})]
    assert list(committed(groups)) == [("orders", 1)]


def test_what_does_not_exist_is_refused_and_the_rest_committed() -> None:
    broker, groups = broker_with_groups()
    wanted = {
        "payments": [partition(0, 1)],
        "nowhere": [partition(0, 1)],
        "orders": [partition(-1, 1), partition(0, 2), partition(3, 1)],
    }
    assert commit(broker, 8, wanted) == [
        ("nowhere", {0: 3}),
        ("orders", {-1: 3, 3: 3, 0: 0}),
        ("payments", {0: 0}),
    ]
    assert {key: found.offset for key, found in committed(groups).items()} == {
        ("payments", 0): 1,
        ("orders", 0): 2,
    }


def test_without_a_partition_that_exists_the_group_is_not_looked_at() -> None:
    broker, groups = broker_with_groups()
    groups.loading = True
    assert commit(broker, 8, {"nowhere": [partition(0, 1)]}) == [("nowhere", {0: 3})]
    assert commit(broker, 8, {}) == []
    assert commit(broker, 8, {"orders": []}) == []
    assert commit(broker, 8, {"orders": [partition(0, 1)]}) == [("orders", {0: 14})]


@pytest.mark.parametrize(
    ("version", "retention", "expires"),
    [
        (2, -1, -1),
        (4, 1000, NOW_MS + 1000),
        (4, 0, NOW_MS),
        (4, (1 << 63) - 1, (1 << 63) - 1),
        (3, -5, NOW_MS - 5),
    ],
)
def test_a_retention_time_of_its_own(version: int, retention: int, expires: int) -> None:
    broker, groups = broker_with_groups()
    commit(broker, version, {"orders": [partition(0, 1)]}, retention_time_ms=retention)
    assert committed(groups)["orders", 0].expire_timestamp_ms == expires


def test_metadata_is_bounded_per_offset() -> None:
    broker, groups = broker_with_groups()
    fits, too_large = "x" * OFFSET_METADATA_MAX_BYTES, "x" * (OFFSET_METADATA_MAX_BYTES + 1)
    wanted = {"orders": [partition(0, 1, metadata=too_large), partition(1, 2, metadata=fits)]}
    assert commit(broker, 8, wanted) == [("orders", {0: 12, 1: 0})]
    assert list(committed(groups)) == [("orders", 1)]
    # A group of which nothing was committed does not come to be.
    wanted = {"orders": [partition(0, 1, metadata=too_large)]}
    assert commit(broker, 8, wanted, group="other") == [("orders", {0: 12})]
    assert list(groups.groups) == ["g"]


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.ILLEGAL_GENERATION), (8, ErrorCode.ILLEGAL_GENERATION), (9, 69)]
)
def test_a_generation_of_a_group_that_is_not_there(version: int, code: int) -> None:
    broker, groups = broker_with_groups()
    wanted = {"orders": [partition(0, 1)]}
    assert commit(broker, version, wanted, generation=3, member="m") == [("orders", {0: code})]
    assert groups.groups == {}


@pytest.mark.parametrize(
    ("member", "generation", "instance", "code"),
    [
        ("m", 7, "i", ErrorCode.NONE),
        ("m", 7, None, ErrorCode.NONE),
        ("m", 6, None, ErrorCode.ILLEGAL_GENERATION),
        ("m", -1, None, ErrorCode.ILLEGAL_GENERATION),
        ("other", 7, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("other", 7, "i", ErrorCode.FENCED_INSTANCE_ID),
        ("m", 7, "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, None, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_commit_for_a_group_with_members(
    member: str, generation: int, instance: str | None, code: ErrorCode
) -> None:
    broker, groups = broker_with_groups()
    groups.add("g", protocol_type="consumer", member=member_of("orders", instance_id="i"))
    wanted = {"orders": [partition(0, 1)], "nowhere": [partition(0, 1)]}
    answer = commit(broker, 8, wanted, generation=generation, member=member, group_instance_id=instance)
    assert answer == [("nowhere", {0: 3}), ("orders", {0: code})]
    assert groups.writes == (code is ErrorCode.NONE)


def test_what_cannot_be_written_is_said_of_every_partition() -> None:
    broker, groups = broker_with_groups()
    groups.failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    wanted = {"orders": [partition(0, 1), partition(1, 1, metadata="x" * 5000)], "nowhere": [partition(0, 1)]}
    assert commit(broker, 8, wanted) == [("nowhere", {0: 3}), ("orders", {0: 15, 1: 15})]
    assert groups.groups == {}
    groups.failure = None
    assert commit(broker, 8, {"orders": [partition(0, 1)]}) == [("orders", {0: 0})]
    groups.failure = KafkaError(ErrorCode.NOT_COORDINATOR)
    assert commit(broker, 8, {"orders": [partition(0, 2)]}) == [("orders", {0: 16})]
    assert committed(groups)["orders", 0].offset == 1


def test_the_empty_group_id_is_a_group() -> None:
    broker, groups = broker_with_groups()
    assert commit(broker, 8, {"orders": [partition(0, 1)]}, group="") == [("orders", {0: 0})]
    assert list(groups.groups) == [""]


def test_a_topic_that_is_named_twice() -> None:
    broker, groups = broker_with_groups()
    topics = [
        _Topic(name="orders", partitions=[partition(0, 1)]),
        _Topic(name="orders", partitions=[partition(0, 2), partition(1, 3)]),
    ]
    request = Commit(version=8, group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics)
    answer = ask(broker, request)
    assert [(topic["name"], len(topic["partitions"])) for topic in answer["topics"]] == [
        ("orders", 1),
        ("orders", 2),
    ]
    assert {key: found.offset for key, found in committed(groups).items()} == {
        ("orders", 0): 2,
        ("orders", 1): 3,
    }
