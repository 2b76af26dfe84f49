"""Every expected answer was measured on Apache Kafka 4.3.1, with the same records."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest
import trio

from tests.unit.gateway.api.asking import FakeBroker, FakePartition, ask, request_class
from wireproto.kafka.errors import ErrorCode, KafkaError

ListOffsets = request_class(2)
Topic = ListOffsets.ListOffsetsTopic
VERSIONS = range(1, 12)
TIMESTAMPS = [1000, 3000, 2000, 5000, 4000, 5000]
Asked: TypeAlias = tuple[str, list[tuple[int, ...]]]
NOTHING = (0, -1, -1, -1)
END = (0, -1, 6, 2)
START = (0, -1, 0, 2)


def broker() -> FakeBroker:
    fake = FakeBroker()
    topic = fake.add("t", 2)
    topic.partitions[0].timestamps = list(TIMESTAMPS)
    for partition in topic.partitions:
        partition.leader_epoch = 2
    return fake


def partition_of(fake: FakeBroker, index: int = 0) -> FakePartition:
    partition: FakePartition = fake.topics.get("t").partitions[index]
    return partition


def offsets(
    version: int,
    *topics: Asked,
    fake: FakeBroker | None = None,
    isolation: int = 0,
    replica: int = -1,
) -> list[tuple[str, dict[int, tuple[int, int, int, int]]]]:
    """For (partition, timestamp[, current leader epoch]): (error, timestamp, offset, leader epoch).

    The leader epoch of versions that do not have one is taken for 2, or -1 without an offset.
    """
    asked = []
    for name, partitions in topics:
        one = Topic.ListOffsetsPartition
        asked.append(
            Topic(
                name=name,
                partitions=[
                    one(partition_index=p[0], timestamp=p[1])
                    if len(p) == 2
                    else one(partition_index=p[0], timestamp=p[1], current_leader_epoch=p[2])
                    for p in partitions
                ],
            )
        )
    fields: dict[str, Any] = {"isolation_level": isolation} if version >= 2 else {}
    if version >= 10:
        fields["timeout_ms"] = 1000
    answer = ask(fake or broker(), ListOffsets(version=version, replica_id=replica, topics=asked, **fields))
    assert answer.get("throttle_time_ms", 0) == 0
    found = []
    for topic in answer["topics"]:
        by_partition = {}
        for p in topic["partitions"]:
            epoch = p.get("leader_epoch", 2 if p["offset"] >= 0 else -1)
            by_partition[p["partition_index"]] = (p["error_code"], p["timestamp"], p["offset"], epoch)
        assert len(by_partition) == len(topic["partitions"]) or isolation not in {0, 1}
        found.append((topic["name"], by_partition))
    return found


def one(version: int, timestamp: int, fake: FakeBroker | None = None) -> tuple[int, int, int, int]:
    ((_, found),) = offsets(version, ("t", [(0, timestamp)]), fake=fake)
    return found[0]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0, (0, 1000, 0, 2)),
        (1000, (0, 1000, 0, 2)),
        (1001, (0, 3000, 1, 2)),
        (2500, (0, 3000, 1, 2)),
        (3001, (0, 5000, 3, 2)),
        (4500, (0, 5000, 3, 2)),
        (5000, (0, 5000, 3, 2)),
        (5001, NOTHING),
        (2**63 - 1, NOTHING),
    ],
)
def test_the_first_record_at_or_after_a_timestamp(
    version: int, timestamp: int, expected: tuple[int, int, int, int]
) -> None:
    assert one(version, timestamp) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_special_timestamps_need_their_version(version: int) -> None:
    unsupported = (35, -1, -1, -1)
    since = {
        -1: (1, END),
        -2: (1, START),
        -3: (7, (0, 5000, 3, 2)),
        -4: (8, START),
        -5: (9, NOTHING),
        -6: (11, NOTHING),
        -7: (99, NOTHING),
        -100: (99, NOTHING),
        -(2**63): (99, NOTHING),
    }
    for timestamp, (needed, expected) in since.items():
        assert one(version, timestamp) == (expected if version >= needed else unsupported), timestamp


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_log(version: int) -> None:
    found = offsets(version, ("t", [(1, -1)]))
    assert found == [("t", {1: START})]
    assert offsets(version, ("t", [(1, -2)])) == found
    assert offsets(version, ("t", [(1, 1000)])) == [("t", {1: NOTHING})]
    if version >= 7:
        assert offsets(version, ("t", [(1, -3)])) == [("t", {1: NOTHING})]


def test_the_log_may_start_later() -> None:
    fake = broker()
    partition_of(fake).log_start_offset = 4
    assert one(11, -2, fake) == (0, -1, 4, 2)
    partition_of(fake).log_start_offset = 6
    assert one(11, -2, fake) == (0, -1, 6, 2)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_unknown(version: int) -> None:
    asked: list[Asked] = [
        ("nope", [(0, -1)]),
        ("t", [(2, -1), (-1, -1), (0, -1)]),
        ("", [(0, 5)]),
        ("a/b", [(0, -2)]),
    ]
    unknown = (3, -1, -1, -1)
    assert offsets(version, *asked) == [
        ("nope", {0: unknown}),
        ("t", {2: unknown, -1: unknown, 0: END}),
        ("", {0: unknown}),
        ("a/b", {0: unknown}),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_doubles_are_refused_once_and_topics_merged(version: int) -> None:
    refused = (42, -1, -1, -1)
    asked: list[Asked] = [("t", [(0, -1), (1, -1), (0, -2)]), ("t", [(1, 1000)]), ("nope", [])]
    assert offsets(version, *asked) == [("t", {0: refused, 1: refused})]
    assert offsets(version, ("t", [(0, 1000), (0, 1000)])) == [("t", {0: refused})]
    assert offsets(version, ("t", [(0, -1)]), ("t", [(1, -1)])) == [("t", {0: END, 1: START})]
    assert offsets(version) == []


@pytest.mark.parametrize("version", range(2, 12))
@pytest.mark.parametrize(("isolation", "good"), [(0, True), (1, True), (2, False), (-1, False)])
def test_isolation_levels(version: int, isolation: int, good: bool) -> None:
    asked: list[Asked] = [("t", [(0, -1)]), ("nope", [(0, -1)])]
    broken = (-1, -1, -1, -1)
    assert offsets(version, *asked, isolation=isolation) == [
        ("t", {0: END if good else broken}),
        ("nope", {0: (3, -1, -1, -1) if good else broken}),
    ]


@pytest.mark.parametrize("version", range(4, 12))
@pytest.mark.parametrize(("epoch", "error"), [(-1, 0), (2, 0), (1, 74), (-2, 74), (3, 75), (100, 75)])
@pytest.mark.parametrize("timestamp", [-1, -2, 1000])
def test_the_clients_leader_epoch_is_checked(version: int, epoch: int, error: int, timestamp: int) -> None:
    ((_, found),) = offsets(version, ("t", [(0, timestamp, epoch)]))
    assert found[0][0] == error
    assert (found[0][2] >= 0) == (not error)
    # What this version does not know and what is not there come before the epoch.
    assert offsets(version, ("t", [(0, -100, epoch), (9, -1, epoch)])) == [
        ("t", {0: (35, -1, -1, -1), 9: (3, -1, -1, -1)})
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("replica", [-2, 0, 1, 5])
def test_replica_ids_make_no_difference(version: int, replica: int) -> None:
    assert offsets(version, ("t", [(0, -1)]), replica=replica) == [("t", {0: END})]


@pytest.mark.parametrize("version", VERSIONS)
def test_until_a_partition_is_recovered_only_its_start_is_known(version: int) -> None:
    fake = broker()
    partition_of(fake).available = False
    unavailable = (78 if version >= 5 else 5, -1, -1, -1)
    assert one(version, -2, fake) == START
    assert one(version, -1, fake) == unavailable
    assert one(version, 1000, fake) == unavailable
    if version >= 7:
        assert one(version, -3, fake) == unavailable
    assert partition_of(fake).asked == (3 if version >= 7 else 2)


def test_of_what_no_store_has_confirmed_not_even_the_start_is_told() -> None:
    fake = broker()
    partition = partition_of(fake)
    partition.available, partition.withheld = False, True
    assert one(11, -2, fake) == (78, -1, -1, -1)
    assert partition.asked == 1


def test_a_failed_look_up_is_the_partitions_error() -> None:
    fake = broker()
    partition_of(fake).failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    assert offsets(11, ("t", [(0, 1000), (1, 1000)]), fake=fake) == [("t", {0: (56, -1, -1, -1), 1: NOTHING})]


def test_look_ups_of_one_request_wait_together() -> None:
    fake = FakeBroker()
    topic = fake.add("t", 40)
    for partition in topic.partitions:
        partition.timestamps = [0] * 40
    at_once = most = 0

    async def slow(timestamp: int) -> tuple[int, int, int]:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await trio.testing.wait_all_tasks_blocked()
        at_once -= 1
        return timestamp, timestamp, 0

    for partition in topic.partitions:
        partition.offset_for_timestamp = slow
    ((_, found),) = offsets(11, ("t", [(index, index) for index in range(40)]), fake=fake)
    assert found == {index: (0, index, index, 0) for index in range(40)}
    assert most == 16
