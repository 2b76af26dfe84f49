"""How far a group is behind: both numbers of one moment, and an age that needs no timestamps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from gateway.groups import lag as lag_module
from gateway.groups.lag import LagClock, PartitionLag, TopicLag
from gateway.log.chain import SegmentChain
from gateway.log.partition import Partition
from gateway.log.segment import Segment

WALL = 1_000_000.0
"""Seconds since 1970 at second 0 of the other clock."""


@dataclass(eq=False)
class Log:
    """As much of a partition as is asked."""

    high_watermark: int = 0
    log_start_offset: int = 0
    chain: SegmentChain = field(default_factory=SegmentChain)


class Watch:
    """Rounds of a clock on one log, one for each commit that is told."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.clock = LagClock()

    def look(self, committed: int, now: float) -> PartitionLag:
        self.clock.begin()
        found = self.clock.lag(cast("Partition", self.log), committed, now, WALL + now)
        self.clock.end()
        return found


def test_a_group_that_keeps_up_has_no_lag() -> None:
    watch = Watch(Log(high_watermark=7))
    assert watch.look(7, 1.0) == PartitionLag(0, 0.0, 0, 7)


def test_a_commit_beyond_the_end_is_no_negative_lag() -> None:
    watch = Watch(Log(high_watermark=7))
    assert watch.look(9, 1.0) == PartitionLag(0, 0.0, 0, 9)


def test_the_lag_in_seconds_is_the_age_of_the_first_unread_record() -> None:
    log = Log(high_watermark=10)
    watch = Watch(log)
    watch.look(10, 100.0)
    log.high_watermark = 20
    watch.look(10, 101.0)
    log.high_watermark = 30
    found = watch.look(15, 160.0)
    assert (found.records, found.committed) == (15, 15)
    assert found.seconds == pytest.approx(160 - 100.6)


def test_what_lies_before_the_start_of_the_log_is_lost_and_not_to_be_read() -> None:
    found = Watch(Log(high_watermark=50, log_start_offset=40)).look(15, 3.0)
    assert (found.records, found.lost) == (10, 25)


def test_after_a_restart_the_times_of_segments_tell() -> None:
    log = Log(high_watermark=200)
    opened, closed = int((WALL - 1000) * 1000), int((WALL - 500) * 1000)
    first = Segment("a", 1, 0, ("s",), 1, opened, end_offset=100, last_sequence=9, closed_ms=closed)
    second = Segment("b", 1, 100, ("s",), 1, closed, end_offset=200, last_sequence=9)
    log.chain.load([first, second])
    watch = Watch(log)
    assert watch.look(49, 0.0).seconds == pytest.approx(750)
    assert watch.look(149, 0.0).seconds == pytest.approx(250)
    assert watch.look(0, 10.0).seconds == pytest.approx(1005)


def test_a_log_without_segments_is_as_old_as_the_first_look() -> None:
    watch = Watch(Log(high_watermark=5))
    assert watch.look(0, 1.0).seconds == 0
    assert watch.look(0, 9.0).seconds == 8


def test_a_partition_that_nobody_asks_for_is_forgotten() -> None:
    watch = Watch(Log(high_watermark=5))
    watch.look(0, 1.0)
    assert len(watch.clock) == 1
    watch.clock.begin()
    watch.clock.end()
    assert len(watch.clock) == 0


def test_beyond_the_bound_segments_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_module, "MAX_WATCHED_PARTITIONS", 0)
    watch = Watch(Log(high_watermark=5))
    assert watch.look(2, 1.0) == PartitionLag(3, 0.0, 0, 2)
    assert len(watch.clock) == 0


def test_the_slowest_group_decides_what_is_remembered() -> None:
    log = Log()
    clock = LagClock()
    slow = PartitionLag(0, 0.0, 0, 0)
    for second in range(30):
        log.high_watermark = 10 * second
        clock.begin()
        fast = clock.lag(cast("Partition", log), 10 * second, second, WALL + second)
        slow = clock.lag(cast("Partition", log), 20, second, WALL + second)
        clock.end()
        assert fast.seconds == 0
    assert slow.seconds == pytest.approx(29 - 2.1)


def test_a_topic_is_as_late_as_its_worst_partition() -> None:
    lag = TopicLag()
    lag.add(PartitionLag(5, 2.0, 0, 10))
    lag.add(PartitionLag(1, 9.0, 3, 20))
    assert lag == TopicLag(records=6, seconds=9.0, lost=3, position=30, partitions=2)
