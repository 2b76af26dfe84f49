"""What who may not see topics is told of them: Metadata, DescribeTopicPartitions, ListOffsets and
OffsetForLeaderEpoch.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from gateway.answers.answer_cache import AnswerCache
from gateway.api import metadata
from gateway.security.access import UNRESTRICTED
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from tests.unit.gateway.api.asking import FakeBroker, allowed, ask, request_class

Metadata, ListOffsets, Epochs, Describe = map(request_class, (3, 2, 23, 75))
DENIED, UNKNOWN, UNKNOWN_ID = 29, 3, 100
SEES = allowed(
    (Operation.DESCRIBE, ResourceType.TOPIC, "seen"), (Operation.DESCRIBE, ResourceType.TOPIC, "new")
)
CREATES = (Operation.DESCRIBE, ResourceType.TOPIC, "new"), (Operation.CREATE, ResourceType.TOPIC, "new")
OF_CLUSTER = Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME
NAMES = ["hidden", "seen", "no-such", "new"]


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "_cache", AnswerCache())


def two(access: Any = SEES) -> FakeBroker:
    broker = FakeBroker()
    for name in ("hidden", "seen"):
        broker.add(name, 2)
    broker.access = access
    return broker


def topics_of(broker: FakeBroker, version: int, names: list[str] | None, **fields: Any) -> Any:
    wanted = None if names is None else [Metadata.MetadataRequestTopic(name=name) for name in names]
    if version == 0 and wanted is None:
        wanted = []
    if version >= 4:
        fields.setdefault("allow_auto_topic_creation", False)
    return ask(broker, Metadata(version=version, topics=wanted, **fields))


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_topics_that_are_named(version: int) -> None:
    broker = two()
    broker.settings.auto_create_topics = False
    told = topics_of(broker, version, NAMES)["topics"]
    assert [(one["name"], one["error_code"], len(one["partitions"])) for one in told] == [
        ("hidden", DENIED, 0),
        ("seen", 0, 2),
        ("no-such", DENIED, 0),
        ("new", UNKNOWN, 0),
    ]
    if version >= 10:
        assert [one["topic_id"] is None for one in told] == [True, False, True, True]


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_all_topics_leaves_out_what_is_hidden(version: int) -> None:
    broker = two()
    assert [one["name"] for one in topics_of(broker, version, None)["topics"]] == ["seen"]
    broker.access = allowed()
    assert topics_of(broker, version, None)["topics"] == []
    broker.access = UNRESTRICTED
    assert [one["name"] for one in topics_of(broker, version, None)["topics"]] == ["hidden", "seen"]


@pytest.mark.parametrize("version", [12, 13])
def test_metadata_by_id_hides_the_name_and_no_id(version: int) -> None:
    broker = two()
    ids = [UUID(bytes=broker.topics.topics[name].id) for name in ("hidden", "seen")] + [UUID(int=1)]
    wanted = [Metadata.MetadataRequestTopic(name=None, topic_id=one) for one in ids]
    told = ask(broker, Metadata(version=version, topics=wanted))["topics"]
    assert [(one["topic_id"], one["name"], one["error_code"]) for one in told] == [
        (ids[0], None, DENIED),
        (ids[1], "seen", 0),
        (ids[2], None, UNKNOWN_ID),
    ]


def test_the_same_question_of_somebody_else_has_another_answer() -> None:
    broker = two()
    for _ in range(3):
        for access, codes in ((SEES, [DENIED, 0]), (UNRESTRICTED, [0, 0]), (allowed(), [DENIED, DENIED])):
            broker.access = access
            told = topics_of(broker, 12, ["hidden", "seen"])["topics"]
            assert [one["error_code"] for one in told] == codes


@pytest.mark.parametrize(
    ("allowances", "codes", "created"),
    [
        (CREATES, [DENIED, UNKNOWN, DENIED], ["new"]),
        (CREATES[:1], [DENIED, DENIED, DENIED], []),
        (CREATES[1:], [DENIED, DENIED, DENIED], []),
        ((CREATES[0], OF_CLUSTER), [DENIED, UNKNOWN, DENIED], ["new"]),
    ],
)
def test_metadata_creates_what_may_be_seen_and_created(
    allowances: Any, codes: list[int], created: list[str]
) -> None:
    broker = two(allowed(*allowances))
    told = topics_of(broker, 12, ["other", "new", "hidden"], allow_auto_topic_creation=True)["topics"]
    assert [one["error_code"] for one in told] == codes
    broker.create_automatically()
    assert sorted(set(broker.topics.topics) - {"hidden", "seen"}) == created


@pytest.mark.parametrize("version", [8, 9, 10])
def test_metadata_tells_what_may_be_done(version: int) -> None:
    broker = two(
        allowed(
            (Operation.WRITE, ResourceType.TOPIC, "seen"),
            (Operation.READ, ResourceType.TOPIC, "hidden"),
            (Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME),
            OF_CLUSTER,
        )
    )
    asked = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
    told = topics_of(broker, version, ["seen", "no-such"], **asked)
    assert told["authorized_operations"] == {Operation.DESCRIBE, Operation.CREATE}
    assert [one["authorized_operations"] for one in told["topics"]] == [
        {Operation.DESCRIBE, Operation.WRITE},
        None,
    ]
    broker.access = SEES
    told = topics_of(broker, version, ["seen", "no-such"], **asked)
    assert told["authorized_operations"] == set()
    assert [one["authorized_operations"] for one in told["topics"]] == [{Operation.DESCRIBE}, None]


def describe(broker: FakeBroker, names: list[str], limit: int = 2000) -> list[tuple[str, int, int]]:
    topics = [Describe.TopicRequest(name=name) for name in names]
    told = ask(broker, Describe(version=0, topics=topics, response_partition_limit=limit, cursor=None))
    return [(one["name"], one["error_code"], one["topic_authorized_operations"]) for one in told["topics"]]


def test_describe_topic_partitions_tells_last_of_what_is_hidden() -> None:
    none = -(1 << 31)
    assert describe(two(), NAMES) == [
        ("new", UNKNOWN, 1 << 8),
        ("seen", 0, 1 << 8),
        ("hidden", DENIED, none),
        ("no-such", DENIED, none),
    ]
    assert describe(two(), []) == [("seen", 0, 1 << 8)]
    # What is hidden counts for no page.
    assert describe(two(), ["seen", "z-hidden"], limit=1) == [("seen", 0, 1 << 8), ("z-hidden", DENIED, none)]


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize("timestamp", [-1, -2, 1000])
def test_list_offsets(version: int, timestamp: int) -> None:
    topics = [
        ListOffsets.ListOffsetsTopic(
            name=name,
            partitions=[
                ListOffsets.ListOffsetsTopic.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                for index in range(3)
            ],
        )
        for name in ("hidden", "seen", "new", "no-such")
    ]
    told = ask(two(), ListOffsets(version=version, replica_id=-1, topics=topics))["topics"]
    assert {
        one["name"]: [(p["partition_index"], p["error_code"]) for p in one["partitions"]] for one in told
    } == {
        "hidden": [(0, DENIED), (1, DENIED), (2, DENIED)],
        "seen": [(0, 0), (1, 0), (2, UNKNOWN)],
        "new": [(0, UNKNOWN), (1, UNKNOWN), (2, UNKNOWN)],
        "no-such": [(0, DENIED), (1, DENIED), (2, DENIED)],
    }
    twice = ListOffsets.ListOffsetsTopic(name="hidden", partitions=2 * topics[0].partitions[:1])
    told = ask(two(), ListOffsets(version=version, replica_id=-1, topics=[twice]))["topics"]
    assert [p["error_code"] for one in told for p in one["partitions"]] == [DENIED, DENIED]
    told = ask(two(), ListOffsets(version=version, replica_id=-1, topics=topics))["topics"]
    denied = [p["offset"] for one in told if one["name"] == "hidden" for p in one["partitions"]]
    assert denied == [-1, -1, -1]


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("access", "codes"),
    [
        (SEES, [DENIED, 0, DENIED, UNKNOWN]),
        (allowed((Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)), [0, 0, UNKNOWN, UNKNOWN]),
    ],
)
def test_the_end_of_an_epoch(version: int, access: Any, codes: list[int]) -> None:
    asked = Epochs.OffsetForLeaderTopic
    topics = [
        asked(
            topic=name,
            partitions=[asked.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)],
        )
        for name in NAMES
    ]
    fields: dict[str, Any] = {"replica_id": -2} if version >= 3 else {}
    told = ask(two(access), Epochs(version=version, topics=topics, **fields))["topics"]
    assert [(one["topic"], one["partitions"][0]["error_code"]) for one in told] == list(
        zip(NAMES, codes, strict=True)
    )
