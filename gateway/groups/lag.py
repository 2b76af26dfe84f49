"""How far consumer groups are behind the ends of the logs: in records, and in seconds.

Of what this gateway leads both ends of the difference are in this process and are read in one turn; of what
others lead the end is what they have said last (`gateway.peers.log_ends`). Lag is never negative, and where
it is not known it is in no sum. The lag in seconds is the age of the first record that the group has not
committed: 0 when there is none. It needs no timestamps of records (`gateway.log.append_times`); for what was
appended before this gateway started, or asked the leader first, the times of segments have to do.

A partition without a committed offset has no lag: nobody knows from where the group would read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from gateway.log.append_times import AppendTimes
from gateway.log.partition import Partition

if TYPE_CHECKING:
    from gateway.log.segment import Segment
    from gateway.peers.heard import HeardEnds

MAX_WATCHED_PARTITIONS: Final = 20_000
"""Partitions whose append times are remembered, a kibibyte each at most; of others the lag in seconds goes by
the times of their segments."""


@dataclass(slots=True)
class TopicLag:
    """One group's lag in one topic. `seconds` is the worst partition's, the rest are sums over partitions."""

    records: int = 0
    seconds: float = 0.0
    lost: int = 0
    """Records that went before the group read them: those between its offset and the log's start."""
    position: int = 0
    """The sum of its committed offsets."""
    partitions: int = 0
    """Those whose lag is known."""
    unknown: int = 0
    """Partitions that it has committed in and whose end nobody knows at present: they are in no sum."""

    def add(self, lag: PartitionLag) -> None:
        self.records += lag.records
        self.seconds = max(self.seconds, lag.seconds)
        self.lost += lag.lost
        self.position += lag.committed
        self.partitions += 1

    def add_unknown(self, committed: int) -> None:
        """A partition of which nobody knows where its log ends."""
        self.position += committed
        self.unknown += 1


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One group's lag in one partition."""

    records: int
    seconds: float
    lost: int
    committed: int


class Moment(NamedTuple):
    """`now` is in seconds of a clock that only goes forward, `wall` the same moment since 1970."""

    now: float
    wall: float


SegmentAt: TypeAlias = Callable[[int], "Segment | None"]


class LagClock:
    """The append times of the partitions that groups have committed offsets of.

    A round is: `begin`, then `lag` for each committed offset, then `end`, which forgets partitions that were
    not asked for. What comes in between may take as long as it likes.
    """

    def __init__(self) -> None:
        self._times: dict[Partition, AppendTimes] = {}
        self._lowest: dict[Partition, int] = {}
        """The lowest offset that was asked for in this round, and in the one before it."""
        self._lowest_before: dict[Partition, int] = {}

    def __len__(self) -> int:
        return len(self._times)

    def begin(self) -> None:
        self._lowest_before, self._lowest = self._lowest, {}

    def end(self) -> None:
        for partition in self._times.keys() - self._lowest.keys():
            del self._times[partition]

    def lag(self, partition: Partition, committed: int, moment: Moment) -> PartitionLag:
        """The lag of a group that has committed `committed`."""
        now, wall = moment
        end, start = partition.high_watermark, partition.log_start_offset
        times = self._times_of(partition, committed, end, now)
        unread = max(committed, start)
        if unread >= end:
            return PartitionLag(0, 0.0, max(0, start - committed), committed)
        appended = None if times is None else times.appended(unread)
        if appended is None:
            first = None if times is None else times.first
            segment = partition.chain.segment_at(unread)
            appended = _by_segment(segment, unread, first or (end, now), now - wall)
        return PartitionLag(end - unread, max(0.0, now - appended), max(0, start - committed), committed)

    def _times_of(self, partition: Partition, committed: int, end: int, now: float) -> AppendTimes | None:
        lowest = self._lowest.get(partition)
        times = self._times.get(partition)
        if lowest is None:  # the first one to ask in this round
            if times is None:
                if len(self._times) >= MAX_WATCHED_PARTITIONS:
                    return None
                times = self._times[partition] = AppendTimes()
            times.floor = self._lowest_before.get(partition, 0)
            times.note(end, now)
        self._lowest[partition] = committed if lowest is None else min(lowest, committed)
        return times


def lag_elsewhere(heard: HeardEnds, committed: int, moment: Moment, segment_at: SegmentAt) -> PartitionLag:
    """The same in a partition that another gateway leads, by what that one has said last. `segment_at`: the
    segment that an offset is in, as the catalog has it.
    """
    records, lost = heard.lag(committed), heard.lost(committed)
    if not records:
        return PartitionLag(0, 0.0, lost, committed)
    unread = max(committed, heard.start)
    appended = heard.times.appended(unread)
    if appended is None:
        if heard.before is None or heard.before[0] != unread:
            first = heard.times.first or (heard.end, heard.heard_at)
            heard.before = unread, _by_segment(segment_at(unread), unread, first, moment.now - moment.wall)
        appended = heard.before[1]
    return PartitionLag(records, max(0.0, moment.now - appended), lost, committed)


def _by_segment(segment: Segment | None, offset: int, known: tuple[int, float], shift: float) -> float:
    """When `offset` was appended, by the time when its segment was opened, and when what came after it was
    there: `known`, or the time when the segment was closed. `shift` is what to add to a time since 1970.
    """
    if segment is None:
        return known[1]
    opened = segment.opened_ms / 1000 + shift
    end, by = known
    if segment.end_offset is not None and segment.end_offset <= end:
        end = segment.end_offset
        if segment.closed_ms:
            by = min(by, segment.closed_ms / 1000 + shift)
    if end <= segment.start_offset or by <= opened:
        return min(opened, by)
    return opened + min(1.0, (offset - segment.start_offset + 1) / (end - segment.start_offset)) * (
        by - opened
    )
