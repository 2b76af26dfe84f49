"""How far a group is behind: both numbers of one moment, and an age that needs no timestamps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from gateway.groups import lag as lag_module
from gateway.groups.lag import LagClock, Moment, PartitionLag, TopicLag, lag_elsewhere
from gateway.log.chain import SegmentChain
from gateway.log.partition import Partition
from gateway.log.segment import Segment
from gateway.peers.heard import HeardEnds

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
        found = self.clock.lag(cast("Partition", self.log), committed, Moment(now, WALL + now))
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
        fast = clock.lag(cast("Partition", log), 10 * second, Moment(second, WALL + second))
        slow = clock.lag(cast("Partition", log), 20, Moment(second, WALL + second))
        clock.end()
        assert fast.seconds == 0
    assert slow.seconds == pytest.approx(29 - 2.1)


def test_a_topic_is_as_late_as_its_worst_partition() -> None:
    lag = TopicLag()
    lag.add(PartitionLag(5, 2.0, 0, 10))
    lag.add(PartitionLag(1, 9.0, 3, 20))
    assert lag == TopicLag(records=6, seconds=9.0, lost=3, position=30, partitions=2)


def test_a_partition_whose_end_is_not_known_is_in_no_sum_but_its_position_is() -> None:
    lag = TopicLag()
    lag.add(PartitionLag(5, 2.0, 0, 10))
    lag.add_unknown(20)
    assert lag == TopicLag(records=5, seconds=2.0, position=30, partitions=1, unknown=1)


# what others lead -----------------------------------------------------------------------------------------


def heard_of(*ends: tuple[int, float], start: int = 0) -> HeardEnds:
    """What was heard: (end, when)."""
    heard = HeardEnds(0.0)
    heard.start = start
    for end, now in ends:
        heard.hear_end(end, now)
    return heard


def no_segment(_offset: int) -> None:
    return None


def test_what_was_appended_since_it_was_asked_for_has_its_age_by_when_that_was_heard() -> None:
    heard = heard_of((10, 100.0), (20, 101.0), (30, 102.0))
    found = lag_elsewhere(heard, 15, Moment(160.0, WALL + 160), no_segment)
    assert (found.records, found.lost, found.committed) == (15, 0, 15)
    assert found.seconds == pytest.approx(160 - 100.6)


@pytest.mark.parametrize("committed", [30, 31, 400])
def test_who_has_read_all_that_was_heard_of_has_no_lag(committed: int) -> None:
    found = lag_elsewhere(heard_of((30, 1.0)), committed, Moment(9.0, WALL), no_segment)
    assert found == PartitionLag(0, 0.0, 0, committed)


def test_what_was_there_before_has_its_age_by_the_segments_of_the_catalog_found_once() -> None:
    asked: list[int] = []

    def segment_at(offset: int) -> Segment:
        asked.append(offset)
        opened = int((WALL - 1000) * 1000)
        return Segment("a", 1, 0, ("s",), 1, opened, end_offset=100, closed_ms=opened + 500_000)

    heard = heard_of((200, 0.0), start=40)
    for now in (0.0, 10.0):
        found = lag_elsewhere(heard, 49, Moment(now, WALL + now), segment_at)
        assert found.records == 151
        assert found.seconds == pytest.approx(750 + now)
    assert asked == [49]
    found = lag_elsewhere(heard, 3, Moment(10.0, WALL + 10), segment_at)
    assert (found.records, found.lost) == (160, 37)
    assert found.seconds == pytest.approx(805)
    assert asked == [49, 40]


def test_without_a_segment_it_is_as_old_as_what_was_heard_first() -> None:
    found = lag_elsewhere(heard_of((5, 3.0), (7, 4.0)), 2, Moment(9.0, WALL), no_segment)
    assert (found.records, found.seconds) == (5, 6.0)
