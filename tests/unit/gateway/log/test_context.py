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
    context.on_segment_lost(told.append)
    context.on_segments_dropped(lambda: told.append("dropped"))
    with pytest.raises(RuntimeError):
        context.on_segment_lost(told.append)
    with pytest.raises(RuntimeError):
        context.on_segments_dropped(lambda: None)
    context.recover_again(partition)
    context.segments_dropped()
    assert told == [partition, "dropped"]


def test_a_producer_writes_one_log() -> None:
    log = FakeLog()
    with pytest.raises(RuntimeError):
        log.producer.connect(log.context)
