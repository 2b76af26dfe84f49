"""Adding what is written to, while the transaction before ends: some clients send again seconds later."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from gateway.log.idempotence.guards import Guards
from gateway.produce.verification import ASKED_AT_MOST, Verification
from gateway.transactions.verifier import Producing
from tests.differential.batches import TRANSACTIONAL, batch_of
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.header import read_header

PRODUCER_ID, EPOCH = 1001, 3
BATCH = memoryview(
    batch_of(b"x", attributes=TRANSACTIONAL, producer_id=PRODUCER_ID, producer_epoch=EPOCH, base_sequence=0)
)
NONE, BUSY = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS


class _Producers:
    """The producer has no open transaction there."""

    def __init__(self) -> None:
        self.guards = Guards()

    def is_open(self, *_: object) -> bool:
        return False

    def is_known(self, *_: object) -> bool:
        return False

    def refused(self, *_: object, **__: object) -> None:
        pass


class _Partition:
    available = True
    topic = SimpleNamespace(name="orders")

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.producers = _Producers()

    def void(self) -> None:
        """A marker is appended."""
        self.producers.guards.void(PRODUCER_ID)


class _Verifier:
    """Says what is planned, one answer after the other; the last one again and again."""

    def __init__(
        self,
        *plan: dict[int, ErrorCode],
        marker: Callable[[], None] = lambda: None,
        each_time: bool = False,
    ) -> None:
        self._plan, self._marker, self._each_time = list(plan), marker, each_time
        self.asked: list[list[int]] = []

    async def check(
        self, who: Producing, partitions: Collection[tuple[str, int]], _client: str
    ) -> dict[tuple[str, int], ErrorCode]:
        assert who[:3] == ("t", PRODUCER_ID, EPOCH)
        self.asked.append(sorted(index for _, index in partitions))
        await trio.lowlevel.checkpoint()
        answer = self._plan.pop(0) if len(self._plan) > 1 else self._plan[0]
        if len(self.asked) == 1 or self._each_time:
            self._marker()
        return {place: answer[place[1]] for place in partitions}


def _ask(
    partitions: list[_Partition], verifier: _Verifier, version: int = 12
) -> tuple[list[ErrorCode], float]:
    """What each batch is told, and after how many seconds."""
    verification = Verification("t", version, "client")
    for partition in partitions:
        verification.take(cast("Any", partition), BATCH)

    async def main() -> float:
        await verification.ask(cast("Any", verifier))
        return trio.current_time()

    seconds = trio.run(main, clock=MockClock(autojump_threshold=0))
    told = []
    for partition in partitions:
        try:
            verification.check(cast("Any", partition), read_header(BATCH))
        except KafkaError as error:
            told.append(error.code)
        else:
            told.append(NONE)
    verification.close()
    assert not any(len(partition.producers.guards) for partition in partitions)
    return told, seconds


def test_the_marker_that_was_waited_for_refuses_nothing() -> None:
    """It comes after the coordinator was asked, which waits for it: the guard from before is void."""
    partition = _Partition()
    verifier = _Verifier({0: NONE, 1: NONE}, {0: NONE}, marker=partition.void)
    told, seconds = _ask([partition, _Partition(1)], verifier)
    assert (told, seconds) == ([NONE, NONE], 0.0)
    assert verifier.asked == [[0, 1], [0]], "what holds is not asked for again"


def test_what_happens_each_time_is_sent_again() -> None:
    partition = _Partition()
    verifier = _Verifier({0: NONE}, marker=partition.void, each_time=True)
    assert _ask([partition], verifier)[0] == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert verifier.asked == [[0]] * ASKED_AT_MOST


def test_what_takes_longer_than_the_coordinator_waits_is_told() -> None:
    verifier = _Verifier({0: BUSY})
    assert _ask([_Partition()], verifier)[0] == [BUSY]
    assert verifier.asked == [[0]]


def test_what_is_only_verified_is_told_at_once() -> None:
    """Its producer added the partition before, or was not told yet that it is."""
    verifier = _Verifier({0: BUSY})
    assert _ask([_Partition()], verifier, version=11)[0] == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert verifier.asked == [[0]]


@pytest.mark.parametrize("error", [ErrorCode.PRODUCER_FENCED, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_other_errors_are_told_at_once(error: ErrorCode) -> None:
    verifier = _Verifier({0: error})
    assert _ask([_Partition()], verifier)[0] != [NONE]
    assert verifier.asked == [[0]]
