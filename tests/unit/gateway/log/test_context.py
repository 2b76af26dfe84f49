"""Who is told of what happens to logs: one each, and nobody at first."""

from __future__ import annotations

import pytest

from gateway.log.partition import Partition
from tests.unit.gateway.log.fake_log import FakeLog


def test_one_recovers_partitions_and_one_deletes_segments() -> None:
    context, partition = (log := FakeLog()).context, log.partition
    told: list[Partition | str] = []
    context.recover_again(partition)
    context.segments_dropped()
    context.on_recovery(told.append, told.append)
    context.on_segments_dropped(lambda: told.append("dropped"))
    with pytest.raises(RuntimeError):
        context.on_recovery(told.append, told.append)
    with pytest.raises(RuntimeError):
        context.on_segments_dropped(lambda: None)
    context.recover_again(partition)
    context.segments_dropped()
    assert told == [partition, "dropped"]


def test_a_producer_writes_one_log() -> None:
    log = FakeLog()
    with pytest.raises(RuntimeError):
        log.producer.connect(log.context)


@pytest.mark.parametrize(
    ("members", "min_insync_replicas", "w"),
    [
        (1, 1, 1),
        (2, 1, 2),
        (3, 1, 2),
        (4, 1, 3),
        (5, 1, 3),
        (6, 1, 4),
        (7, 1, 4),
        (3, 3, 3),
        (4, 4, 4),
        (5, 4, 4),
        (3, 5, 3),  # a log of fewer stores than the topic asks for is still written
    ],
)
def test_a_batch_counts_on_a_majority_or_as_many_as_the_topic_asks_for(
    members: int, min_insync_replicas: int, w: int
) -> None:
    log = FakeLog(configs={"min.insync.replicas": str(min_insync_replicas)})
    assert log.context.w_for(log.partition, [f"store {number}" for number in range(members)]) == w
