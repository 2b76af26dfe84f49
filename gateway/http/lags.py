"""How far a group is behind in a partition: in offsets, and in seconds where that is in memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from gateway.groups.lag import Moment, lag_elsewhere
from gateway.log.partition import PartitionState
from gateway.log.segments_elsewhere import segment_at
from gateway.peers.heard import UNKNOWN
from wireproto.records.header import NO_TIMESTAMP, read_header

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.groups.records import CommittedOffset
    from gateway.log.partition import Partition
    from gateway.peers.heard import HeardEnds


class PartitionLag(NamedTuple):
    """`lag` and `seconds` are None where they are not known; so are the ends where something is `missing`."""

    start: int | None = None
    end: int | None = None
    lag: int | None = None
    seconds: float | None = None
    behind_start: bool = False
    missing: str | None = None


def partition_lag(
    broker: Broker, name: str, index: int, committed: CommittedOffset | None, now_ms: int
) -> PartitionLag:
    """Both ends of what is led here are read in one turn of the loop, and a lag is never below 0."""
    topic = broker.topics.get(name)
    if topic is None:
        return PartitionLag(missing="topic")
    if not 0 <= index < len(topic.partitions):
        return PartitionLag(missing="partition")
    partition = topic.partitions[index]
    if partition.state is PartitionState.ELSEWHERE:
        heard = broker.log_ends.of(partition)
        return PartitionLag() if heard is None else _lag_elsewhere(broker, partition, heard, committed)
    if partition.state is PartitionState.RECOVERING:
        return PartitionLag()
    start, end = partition.log_start_offset, partition.high_watermark
    if committed is None:
        return PartitionLag(start, end)
    lag = max(0, end - committed.offset)
    seconds = 0.0 if not lag else _age(partition, committed.offset, now_ms)
    return PartitionLag(start, end, lag, seconds, committed.offset < start)


def _lag_elsewhere(
    broker: Broker, partition: Partition, heard: HeardEnds, committed: CommittedOffset | None
) -> PartitionLag:
    """By what the partition's leader has said last; its records are not in this process, so their age is by
    the time when they were heard of.
    """
    start = None if heard.start == UNKNOWN else heard.start
    if committed is None:
        return PartitionLag(start, heard.end)
    moment = Moment(trio.current_time(), broker.context.now_ms() / 1000)
    found = lag_elsewhere(
        heard, committed.offset, moment, partial(segment_at, broker.context.catalog, partition)
    )
    lag = max(0, heard.end - committed.offset)
    return PartitionLag(start, heard.end, lag, round(found.seconds, 1), found.lost > 0)


def _age(partition: Partition, offset: int, now_ms: int) -> float | None:
    """Seconds since the time of the first record from `offset` on, as its batch has it; None if that batch
    is not in memory or has no time.
    """
    batches = partition.read_hot(offset, 1, whole=True)
    if not batches:
        return None
    timestamp = read_header(batches[0]).max_timestamp
    return None if timestamp == NO_TIMESTAMP else round(max(0, now_ms - timestamp) / 1000, 1)
