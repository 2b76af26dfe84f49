"""WriteTxnMarkers: what is given to the partitions, and what each is answered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from gateway.api.write_txn_markers import AT_ONCE, WAITS_SECONDS
from gateway.cluster.feature_levels import TRANSACTION_VERSION
from gateway.common.marker import Marker
from tests.unit.gateway.api.asking import FakeBroker, ask_async, request_class
from wireproto.kafka.errors import ErrorCode

Write = request_class(27)
NONE = ErrorCode.NONE

Given = tuple[tuple[str, int], Marker, int]


class Partitions:
    """Says for each marker what is planned for its partition, no error without that."""

    def __init__(self, seconds: float = 0.0, **plan: ErrorCode) -> None:
        self.given: list[Given] = []
        self._plan = plan
        self._seconds = seconds

    async def write(self, partition: tuple[str, int], marker: Marker, leader_epoch: int) -> ErrorCode:
        self.given.append((partition, marker, leader_epoch))
        await trio.sleep(self._seconds)
        return self._plan.get(partition[0], NONE)


def marker(producer_id: int = 7, *, topics: dict[str, list[int]], epochs: Any = None, **fields: Any) -> Any:
    of = Write.WritableTxnMarker
    made = []
    for name, indexes in topics.items():
        known = {} if epochs is None else {"leader_epochs": epochs}
        made.append(of.WritableTxnMarkerTopic(name=name, partition_indexes=indexes, **known))
    fields = {"producer_epoch": 3, "transaction_result": True, "coordinator_epoch": 5} | fields
    return of(producer_id=producer_id, topics=made, **fields)


def write(
    target: Partitions, *markers: Any, version: int = 2, level: int = 2
) -> dict[int, dict[str, dict[int, int]]]:
    """By producer, topic and partition: the error."""
    broker = FakeBroker()
    broker.markers_here = target  # type: ignore[attr-defined]
    broker.features = SimpleNamespace(level={TRANSACTION_VERSION: level}.get)  # type: ignore[assignment]

    async def main() -> Any:
        return await ask_async(broker, Write(version=version, markers=list(markers)))

    answer = trio.run(main, clock=MockClock(autojump_threshold=0))
    return {
        one.producer_id: {
            topic.name: {found.partition_index: found.error_code for found in topic.partitions}
            for topic in one.topics
        }
        for one in answer.markers
    }


@pytest.mark.parametrize(("version", "level"), [(1, 0), (2, 2)])
def test_each_partition_is_given_the_marker_and_answered_for_itself(version: int, level: int) -> None:
    target = Partitions(gone=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    fields = {"transaction_version": 2} if version > 1 else {}
    found = write(target, marker(topics={"t": [1, 0], "gone": [4]}, **fields), version=version)
    assert found == {7: {"t": {1: 0, 0: 0}, "gone": {4: ErrorCode.NOT_LEADER_OR_FOLLOWER}}}
    expected = Marker(7, 3, 5, is_commit=True, transaction_version=level)
    assert target.given == [(place, expected, -1) for place in (("t", 1), ("t", 0), ("gone", 4))]


def test_another_gateway_says_which_transaction_it_is_and_which_leader_it_means() -> None:
    target = Partitions()
    write(target, marker(topics={"t": [1, 0, 2]}, epochs=[8, 9], number=12))
    assert [(given.number, epoch) for _, given, epoch in target.given] == [(12, 8), (12, 9), (12, -1)]


@pytest.mark.parametrize(
    "field", [{"producer_id": -1}, {"producer_epoch": -1}, {"transaction_version": -1}], ids=str
)
def test_what_nobody_is_gets_no_marker(field: dict[str, int]) -> None:
    target = Partitions()
    producer_id = field.pop("producer_id", 7)
    found = write(target, marker(producer_id, topics={"t": [0]}, **field))
    assert (found, target.given) == ({producer_id: {"t": {0: ErrorCode.INVALID_REQUEST}}}, [])


def test_gateways_of_an_older_release_would_not_know_what_it_leaves() -> None:
    target = Partitions()
    found = write(target, marker(topics={"t": [0, 1]}), level=0)
    assert found == {7: {"t": dict.fromkeys((0, 1), ErrorCode.UNSUPPORTED_VERSION)}}
    assert target.given == []


def test_one_producer_is_answered_once_and_who_names_nothing_is_not() -> None:
    found = write(
        Partitions(),
        marker(topics={"t": [0]}),
        marker(topics={"t": [1], "u": [0]}, transaction_result=False),
        marker(8, topics={}),
        marker(9, topics={"t": []}),
    )
    assert found == {7: {"t": {0: 0, 1: 0}, "u": {0: 0}}}


def test_what_has_waited_too_long_is_not_begun() -> None:
    """Its sender has given it up, and sends it again: this one would come in between."""
    target = Partitions(seconds=WAITS_SECONDS + 1)
    found = write(target, marker(topics={"t": list(range(AT_ONCE + 3))}))
    assert [place for place, _, _ in target.given] == [("t", index) for index in range(AT_ONCE)]
    late = dict.fromkeys(range(AT_ONCE, AT_ONCE + 3), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert found == {7: {"t": dict.fromkeys(range(AT_ONCE), 0) | late}}
