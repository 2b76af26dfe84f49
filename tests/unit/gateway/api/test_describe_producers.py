"""DescribeProducers: what a partition knows of its idempotent producers."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from gateway.api import describe_producers
from gateway.common.costs import COUNTED, ELEMENT
from gateway.common.work import Work
from gateway.log.idempotence.state import PRODUCER_ID_EXPIRATION_MS
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from tests.unit.gateway.api.asking import NOW_MS, FakeBroker, allowed, ask, request_class, reserved_for
from wireproto.kafka.errors import ErrorCode
from wireproto.records.control import EndMarker

Describe = request_class(61)


def describe(broker: FakeBroker, *topics: tuple[str, list[int]]) -> list[tuple[str, int, int, list[Any]]]:
    """(topic, partition, error, producers) in order."""
    made = [Describe.TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics]
    answer = ask(broker, Describe(version=0, topics=made))
    return [
        (topic["name"], one["partition_index"], one["error_code"], one["active_producers"])
        for topic in answer["topics"]
        for one in topic["partitions"]
    ]


def test_producers_with_their_last_batch() -> None:
    broker = FakeBroker()
    state = broker.add("t", 2).partitions[1].producers.state
    state.applied(9, 0, 0, 1, 2, 5000, NOW_MS)
    state.applied(9, 1, 7, 4, 3, 6000, NOW_MS)
    state.applied(8, 0, 0, 5, 1, 7000, NOW_MS - PRODUCER_ID_EXPIRATION_MS)
    state.applied(7, 3, 2, 6, 1, 8000, NOW_MS - PRODUCER_ID_EXPIRATION_MS + 1)

    def producer(producer_id: int, epoch: int, sequence: int, timestamp: int) -> dict[str, int]:
        return {
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "last_sequence": sequence,
            "last_timestamp": timestamp,
            "coordinator_epoch": -1,
            "current_txn_start_offset": -1,
        }

    assert describe(broker, ("t", [1, 0])) == [
        ("t", 1, 0, [producer(7, 3, 2, 8000), producer(9, 1, 9, 6000)]),
        ("t", 0, 0, []),
    ]


def test_producers_with_transactions() -> None:
    """One is open, one has ended, one is known by its marker alone; one that is open does not expire."""
    broker = FakeBroker()
    state = broker.add("t").partitions[0].producers.state
    commit = EndMarker(is_commit=True, coordinator_epoch=12)
    for producer_id, heard_ms in ((5, NOW_MS), (6, NOW_MS), (8, NOW_MS - 2 * PRODUCER_ID_EXPIRATION_MS)):
        state.applied(producer_id, 0, 0, 10 * producer_id, 1, 5000, heard_ms, is_transactional=True)
    state.applied(5, 0, 1, 85, 2, 6000, NOW_MS, is_transactional=True)
    state.ended(6, 1, commit, 90, 7000, NOW_MS)
    state.ended(7, 3, commit, 91, 8000, NOW_MS)
    ((_, _, _, found),) = describe(broker, ("t", [0]))
    assert [tuple(one.values()) for one in found] == [
        (5, 0, 2, 6000, -1, 50),
        (6, 1, -1, 7000, 12, -1),
        (7, 3, -1, 8000, 12, -1),
        (8, 0, 0, 5000, -1, 80),
    ]
    assert list(found[0]) == [
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_timestamp",
        "coordinator_epoch",
        "current_txn_start_offset",
    ]


def test_partitions_that_are_not_there() -> None:
    broker = FakeBroker()
    broker.add("t", 2).partitions[1].available = False
    found = describe(broker, ("t", [2, -1, 1]), ("nowhere", [0]), ("a/b", [0]))
    assert [(name, index, error) for name, index, error, _ in found] == [
        ("t", 2, 3),
        ("t", -1, 3),
        ("t", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("nowhere", 0, 3),
        ("a/b", 0, 17),
    ]


def test_an_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_producers, "MAX_PRODUCERS_PER_ANSWER", 5)
    broker = FakeBroker()
    state = broker.add("t").partitions[0].producers.state
    for producer_id in range(2):
        state.applied(producer_id, 0, 0, 1, 2, 5000, NOW_MS)
    found = describe(broker, ("t", [0, 0, 0, 0]))
    assert [(error, len(producers)) for _, _, error, producers in found] == [(0, 2), (0, 2), (44, 0), (44, 0)]


@pytest.mark.parametrize("age_ms", [0, PRODUCER_ID_EXPIRATION_MS], ids=["alive", "expired"])
def test_producers_are_charged_also_those_that_are_not_in_the_answer(
    monkeypatch: pytest.MonkeyPatch, age_ms: int
) -> None:
    """A request of 200 KB names a partition 50,000 times: with 2,000 producers that is 16 seconds of work."""
    broker = FakeBroker()
    state = broker.add("t").partitions[0].producers.state
    for producer_id in range(100):
        state.applied(producer_id, 0, 0, producer_id, 1, 5000, NOW_MS - age_ms)
    charged: list[int] = []
    before = Work.before

    async def noted(work: Work, cost: int) -> None:
        charged.append(cost)
        await before(work, cost)

    monkeypatch.setattr(Work, "before", noted)
    assert [len(producers) for _, _, _, producers in describe(broker, ("t", [0, 0]))] == [
        100 if age_ms == 0 else 0
    ] * 2
    assert sum(charged) >= 2 * 100 * COUNTED
    charged.clear()
    describe(broker, ("t", [1, -1]), ("nowhere", [0]))
    assert sum(charged) == 5 * ELEMENT + 3 * COUNTED


def test_large_answers_take_from_the_memory_of_large_answers() -> None:
    """Many connections may ask for one at once, with requests of a hundred bytes."""
    broker = FakeBroker()
    state = broker.add("t").partitions[0].producers.state
    for producer_id in range(400):
        state.applied(producer_id, 0, 0, producer_id, 1, 5000, NOW_MS)

    async def reserved(*indexes: int) -> int:
        asked = Describe(version=0, topics=[Describe.TopicRequest(name="t", partition_indexes=indexes)])
        return await reserved_for(broker, asked)

    async def main() -> None:
        assert await reserved(0) == 400 * describe_producers.PRODUCER_BYTES
        assert await reserved(0, 0) == 800 * describe_producers.PRODUCER_BYTES
        assert await reserved(1) == 0

    trio.run(main)


INVALID_NAME, UNKNOWN, DENIED = 17, 3, 29
READ_T = (Operation.READ, ResourceType.TOPIC, "t")
READ_NONE = (Operation.READ, ResourceType.TOPIC, "nowhere")
OTHERS = (
    (Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME),
    (Operation.WRITE, ResourceType.TOPIC, "t"),
)


@pytest.mark.parametrize(
    ("rights", "t", "nowhere"),
    [
        ((), DENIED, DENIED),
        (OTHERS, DENIED, DENIED),
        ((READ_T,), 0, DENIED),
        ((READ_NONE,), DENIED, UNKNOWN),
        ((READ_T, READ_NONE), 0, UNKNOWN),
    ],
    ids=["nothing", "other rights", "one topic", "one that is not there", "both"],
)
def test_who_may_know_of_producers(rights: Any, t: int, nowhere: int) -> None:
    """An invalid name is that for everybody, and what is not told takes no memory."""
    broker = FakeBroker()
    state = broker.add("t").partitions[0].producers.state
    for producer_id in range(300):
        state.applied(producer_id, 0, 0, 1, 2, NOW_MS, NOW_MS)
    broker.access = allowed(*rights)
    found = describe(broker, ("t", [0, 7]), ("nowhere", [0]), ("a/b", [0]))
    assert [(name, index, code, len(producers)) for name, index, code, producers in found] == [
        ("t", 0, t, 0 if t else 300),
        ("t", 7, t or UNKNOWN, 0),
        ("nowhere", 0, nowhere, 0),
        ("a/b", 0, INVALID_NAME, 0),
    ]
    topics = [Describe.TopicRequest(name="t", partition_indexes=[0])]
    reserved = trio.run(reserved_for, broker, Describe(version=0, topics=topics))
    assert bool(reserved) is (t == 0)
