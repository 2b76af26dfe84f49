"""DeleteRecords: what is asked of the log starts, and how their outcomes are told."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from tests.unit.gateway.api.asking import FakeBroker, allowed, ask, request_class
from wireproto.kafka.errors import ErrorCode, KafkaError

Delete = request_class(21)


def broker(outcomes: dict[int, int | KafkaError], asked: list[list[tuple[int, int]]]) -> FakeBroker:
    """A broker whose topic "t" has four partitions, with these outcomes by index."""
    made = FakeBroker()
    partitions = [object() for _ in range(4)]
    made.add("t").partitions = partitions

    async def delete_records(wanted: Mapping[Any, int]) -> dict[Any, int | KafkaError]:
        await trio.lowlevel.checkpoint()
        by_index = [(partitions.index(partition), offset) for partition, offset in wanted.items()]
        asked.append(by_index)
        return {partition: outcomes[partitions.index(partition)] for partition in wanted}

    made.log_starts = SimpleNamespace(delete_records=delete_records)  # type: ignore[attr-defined]
    return made


def delete(made: FakeBroker, *topics: tuple[str, list[tuple[int, int]]], version: int = 2) -> Any:
    one = Delete.DeleteRecordsTopic
    wanted = [
        one(
            name=name,
            partitions=[one.DeleteRecordsPartition(partition_index=i, offset=o) for i, o in partitions],
        )
        for name, partitions in topics
    ]
    answer = ask(made, Delete(version=version, topics=wanted, timeout_ms=0))
    return [
        (topic["name"], one["partition_index"], one["low_watermark"], one["error_code"])
        for topic in answer["topics"]
        for one in topic["partitions"]
    ]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_all_partitions_move_together(version: int) -> None:
    asked: list[list[tuple[int, int]]] = []
    made = broker({0: 5, 2: KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)}, asked)
    found = delete(made, ("t", [(2, 9), (0, -1), (4, 1), (-1, 1)]), ("nowhere", [(0, 0)]), version=version)
    assert found == [
        ("t", 2, -1, 1),
        ("t", 0, 5, 0),
        ("t", 4, -1, 3),
        ("t", -1, -1, 3),
        ("nowhere", 0, -1, 3),
    ]
    assert asked == [[(2, 9), (0, -1)]]


def test_a_partition_that_is_there_twice_gets_its_last_offset_once() -> None:
    asked: list[list[tuple[int, int]]] = []
    made = broker({1: 7}, asked)
    assert delete(made, ("t", [(1, 3)]), ("t", [(1, 7)])) == [("t", 1, 7, 0)]
    assert asked == [[(1, 7)]]


UNKNOWN, DENIED = 3, 29
DELETE_T = (Operation.DELETE, ResourceType.TOPIC, "t")
DELETE_NONE = (Operation.DELETE, ResourceType.TOPIC, "nowhere")
OTHERS = (
    (Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME),
    (Operation.WRITE, ResourceType.TOPIC, "t"),
)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    ("rights", "there", "not_there", "nowhere"),
    [
        ((), DENIED, DENIED, DENIED),
        (OTHERS, DENIED, DENIED, DENIED),
        ((DELETE_T,), 0, UNKNOWN, DENIED),
        ((DELETE_NONE,), DENIED, DENIED, UNKNOWN),
        ((DELETE_T, DELETE_NONE), 0, UNKNOWN, UNKNOWN),
    ],
    ids=["nothing", "other rights", "one topic", "one that is not there", "both"],
)
def test_who_may_delete_records(version: int, rights: Any, there: int, not_there: int, nowhere: int) -> None:
    asked: list[list[tuple[int, int]]] = []
    made = broker({0: 5}, asked)
    made.access = allowed(*rights)
    found = delete(made, ("t", [(0, 5), (9, 1)]), ("nowhere", [(0, 0)]), ("t", [(0, 5)]), version=version)
    assert found == [
        ("t", 0, 5 if there == 0 else -1, there),
        ("t", 9, -1, not_there),
        ("nowhere", 0, -1, nowhere),
    ]
    assert asked == [[(0, 5)] if there == 0 else []]
