"""TxnOffsetCommit: who may commit what, and what becomes of the errors of both coordinators."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from gateway.journal.lane import TransactionOf
from gateway.produce.verification import ASKED_AT_MOST
from gateway.security.access import Question
from gateway.security.acls import Operation, ResourceType
from gateway.security.principal import Principal
from gateway.transactions.verifier import Producing
from tests.unit.gateway.api.asking import ALICE, NOW_MS, FakeBroker, allowed, ask, request_class
from tests.unit.gateway.api.needs import Need, Scene, check_needs, versions
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

Commit = request_class(28)
NONE = ErrorCode.NONE
PID, EPOCH = 7, 3
PLACE = ("__consumer_offsets", 17)

Answered = dict[str, dict[int, int]]


class Coordinators:
    """That of the groups, and that of the transactional id: what they were asked, and say."""

    def __init__(self, broker: FakeBroker) -> None:
        self.partition = broker.add(PLACE[0], 18).partitions[17]
        self.partition.topic = SimpleNamespace(name=PLACE[0])
        self.asked: list[tuple[Producing, list[Any]]] = []
        self.answer = NONE
        self.meanwhile: Callable[[], object] = int
        self.group_error = NONE
        self.written: list[tuple[TransactionOf, dict[Any, Any]]] = []
        self.members: list[tuple[Any, ...]] = []
        self.principals: list[Principal | None] = []
        broker.groups = SimpleNamespace(  # type: ignore[assignment]
            partition_of=self._partition_of,
            for_transactional_commit=self._group,
            transactional=SimpleNamespace(begin_commit=self._begin),
            journal=SimpleNamespace(group_commit=SimpleNamespace(durable=self._durable)),
            drop_soon_if_unused=lambda _group: None,
        )
        broker.verifier = SimpleNamespace(check=self._check, cost=lambda *_, **__: 0)  # type: ignore[attr-defined]

    def _partition_of(self, group_id: str) -> Any:
        assert group_id == "g"
        return self.partition

    async def _check(self, who: Producing, places: Collection[Any], _client: str) -> dict[Any, ErrorCode]:
        self.asked.append((who, list(places)))
        await trio.lowlevel.checkpoint()
        self.meanwhile()
        return dict.fromkeys(places, self.answer)

    def _group(self, group_id: str, *who: Any) -> Any:
        self.members.append((group_id, *who[:3]))
        self.principals.append(who[-1])
        if self.group_error is not NONE:
            raise KafkaError(self.group_error)
        return SimpleNamespace(group_id=group_id)

    def _begin(self, _group: Any, part_of: TransactionOf, offsets: Mapping[Any, Any]) -> object:
        self.written.append((part_of, dict(offsets)))
        return object()

    async def _durable(self, _pending: object) -> None:
        await trio.lowlevel.checkpoint()


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.add("t", 2)
    return made


@pytest.fixture
def both(broker: FakeBroker) -> Coordinators:
    return Coordinators(broker)


def request_of(version: int, *offsets: tuple[str, int, str | None], group: str = "g", **fields: Any) -> Any:
    """Each (topic, partition, metadata) gets offset 5."""
    of = Commit.TxnOffsetCommitRequestTopic
    topics: dict[str, list[Any]] = {}
    for name, index, metadata in offsets:
        epoch = {"committed_leader_epoch": 4} if version >= 2 else {}
        one = of.TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=5, committed_metadata=metadata, **epoch
        )
        topics.setdefault(name, []).append(one)
    return Commit(
        version=version,
        transactional_id="tx",
        group_id=group,
        producer_id=PID,
        producer_epoch=EPOCH,
        topics=[of(name=name, partitions=ones) for name, ones in topics.items()],
        **fields,
    )


def commit(
    broker: FakeBroker, version: int, *offsets: tuple[str, int, str | None], **fields: Any
) -> Answered:
    """The errors by topic and partition."""
    return {
        topic["name"]: {one["partition_index"]: one["error_code"] for one in topic["partitions"]}
        for topic in ask(broker, request_of(version, *offsets, **fields))["topics"]
    }


@pytest.mark.parametrize("version", range(6))
def test_what_is_written_is_part_of_the_producers_transaction(
    broker: FakeBroker, both: Coordinators, version: int
) -> None:
    member: dict[str, Any] = (
        {"generation_id": 9, "member_id": "m", "group_instance_id": "i"} if version >= 3 else {}
    )
    assert commit(broker, version, ("t", 1, "note"), ("t", 0, None), **member) == {"t": {1: 0, 0: 0}}
    ((part_of, offsets),) = both.written
    assert (part_of.producer_id, part_of.producer_epoch) == (PID, EPOCH)
    found = {key: (one.offset, one.metadata, one.leader_epoch) for key, one in offsets.items()}
    epoch = 4 if version >= 2 else -1
    assert found == {("t", 1): (5, "note", epoch), ("t", 0): (5, "", epoch)}
    assert {one.commit_timestamp_ms for one in offsets.values()} == {NOW_MS}
    assert both.members == [("g", "m", "i", 9) if version >= 3 else ("g", "", None, -1)]
    assert both.asked == [(Producing("tx", PID, EPOCH, adds=version >= 5), [PLACE])]
    assert len(both.partition.producers.guards) == 0


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, dict.fromkeys(range(6), ErrorCode.INVALID_PRODUCER_EPOCH)),
        (
            ErrorCode.TRANSACTION_ABORTABLE,
            dict.fromkeys(range(4), ErrorCode.INVALID_TXN_STATE)
            | dict.fromkeys((4, 5), ErrorCode.TRANSACTION_ABORTABLE),
        ),
        (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            dict.fromkeys(range(2), ErrorCode.COORDINATOR_NOT_AVAILABLE)
            | dict.fromkeys(range(2, 6), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ),
        *(
            (ErrorCode(code), dict.fromkeys(range(6), ErrorCode(code)))
            for code in (15, 16, 42, 49, 51)
        ),
    ],
)  # fmt: skip
def test_what_the_transactions_coordinator_says(
    broker: FakeBroker, both: Coordinators, said: ErrorCode, told: dict[int, ErrorCode], version: int
) -> None:
    both.answer = said
    assert commit(broker, version, ("t", 0, None)) == {"t": {0: told[version]}}
    assert both.written == []
    assert len(both.partition.producers.guards) == 0


@pytest.mark.parametrize("code", [22, 25, 82, 15])
def test_what_the_groups_coordinator_says(broker: FakeBroker, both: Coordinators, code: int) -> None:
    both.group_error = ErrorCode(code)
    assert commit(broker, 3, ("t", 0, None), ("t", 1, None)) == {"t": {0: code, 1: code}}
    assert both.written == []


def test_partitions_are_judged_one_by_one(broker: FakeBroker, both: Coordinators) -> None:
    found = commit(broker, 3, ("t", 0, "x" * 4097), ("t", 9, None), ("nowhere", 0, None), ("t", 1, None))
    too_large, unknown = ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == {"t": {0: too_large, 9: unknown, 1: 0}, "nowhere": {0: unknown}}
    assert [list(offsets) for _, offsets in both.written] == [[("t", 1)]]


def test_without_any_that_can_be_committed_nobody_is_asked(broker: FakeBroker, both: Coordinators) -> None:
    assert commit(broker, 3, ("t", 9, None)) == {"t": {9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}}
    assert both.asked == []


def test_a_group_has_a_name(broker: FakeBroker, both: Coordinators) -> None:
    assert commit(broker, 3, ("t", 0, None), group="") == {"t": {0: ErrorCode.INVALID_GROUP_ID}}
    assert both.asked == []


def test_of_an_open_transaction_nobody_is_asked(broker: FakeBroker, both: Coordinators) -> None:
    state = both.partition.producers.state
    state.applied(PID, EPOCH, 0, 0, 1, NOW_MS, NOW_MS, is_transactional=True)
    both.answer = ErrorCode.PRODUCER_FENCED
    assert commit(broker, 3, ("t", 0, None)) == {"t": {0: 0}}
    assert both.asked == []


def test_the_marker_that_was_waited_for_refuses_nothing(broker: FakeBroker, both: Coordinators) -> None:
    def marker() -> None:
        both.partition.producers.guards.void(PID)
        both.meanwhile = int

    both.meanwhile = marker
    assert commit(broker, 5, ("t", 0, None)) == {"t": {0: 0}}
    assert len(both.asked) == 2
    assert len(both.written) == 1


def test_what_changes_each_time_is_to_be_sent_again(broker: FakeBroker, both: Coordinators) -> None:
    both.meanwhile = lambda: both.partition.producers.guards.void(PID)
    assert commit(broker, 5, ("t", 0, None)) == {"t": {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}}
    assert len(both.asked) == ASKED_AT_MOST
    assert both.written == []
    assert len(both.partition.producers.guards) == 0


# what it needs ----------------------------------------------------------------------------------------------

WRITE_ID: Question = (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "tx")
READ_GROUP: Question = (Operation.READ, ResourceType.GROUP, "g")
READ_TOPIC: Question = (Operation.READ, ResourceType.TOPIC, "t")


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    broker = FakeBroker()
    broker.add("t", 2)
    coordinators = Coordinators(broker)
    await trio.lowlevel.checkpoint()
    yield Scene(broker, lambda: (list(coordinators.asked), list(coordinators.written)))


@pytest.mark.parametrize("version", versions(28))
def test_offsets_are_committed_by_who_may_use_the_id_and_read_the_group_and_the_topic(version: int) -> None:
    of = RESPONSE_CLASSES[28].TxnOffsetCommitResponseTopic

    def refused(error: ErrorCode) -> Any:
        partitions = [
            of.TxnOffsetCommitResponsePartition(partition_index=i, error_code=error) for i in (1, 9)
        ]
        return RESPONSE_CLASSES[28](throttle_time_ms=0, topics=[of(name="t", partitions=partitions)])

    needs = [
        Need(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, (WRITE_ID,), refused),
        Need(ErrorCode.GROUP_AUTHORIZATION_FAILED, (READ_GROUP,), refused),
        Need(ErrorCode.TOPIC_AUTHORIZATION_FAILED, (READ_TOPIC,), refused),
    ]
    trio.run(check_needs, scene, request_of(version, ("t", 1, ""), ("t", 9, "")), needs)


@pytest.mark.parametrize("version", versions(28))
def test_topics_that_may_not_be_read_are_left_out_of_the_commit(
    broker: FakeBroker, both: Coordinators, version: int
) -> None:
    broker.add("hidden")
    broker.access = allowed(WRITE_ID, READ_GROUP, READ_TOPIC)
    hidden, missing = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wanted = [("hidden", 0, ""), ("hidden", 9, ""), ("t", 1, ""), ("t", 9, ""), ("nowhere", 0, "")]
    assert commit(broker, version, *wanted) == {
        "hidden": {0: hidden, 9: hidden},
        "t": {1: 0, 9: missing},
        "nowhere": {0: hidden},
    }
    assert [list(offsets) for _, offsets in both.written] == [[("t", 1)]]


@pytest.mark.parametrize("version", versions(28))
def test_what_is_refused_whole_is_answered_as_it_is_named(broker: FakeBroker, version: int) -> None:
    broker.access = allowed(READ_GROUP, READ_TOPIC)
    request = request_of(version, ("t", 1, ""), ("t", 1, ""))
    request.topics = [*request.topics, *request.topics]
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    partitions = [{"partition_index": 1, "error_code": refused}] * 2
    assert ask(broker, request)["topics"] == [{"name": "t", "partitions": partitions}] * 2


@pytest.mark.parametrize("version", versions(28))
def test_the_group_is_told_who_commits_where_it_makes_a_difference(
    broker: FakeBroker, both: Coordinators, version: int
) -> None:
    commit(broker, version, ("t", 0, ""))
    broker.access = allowed(WRITE_ID, READ_GROUP, READ_TOPIC)
    commit(broker, version, ("t", 0, ""))
    assert both.principals == [None, ALICE]
