"""How far a group is behind in a partition: in offsets, and in seconds where that is in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gateway.log.partition import PartitionState
from wireproto.records.header import NO_TIMESTAMP, read_header

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.groups.records import CommittedOffset
    from gateway.log.partition import Partition


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
    """Both ends are read in one turn of the loop, and a lag is never below 0."""
    topic = broker.topics.get(name)
    if topic is None:
        return PartitionLag(missing="topic")
    if not 0 <= index < len(topic.partitions):
        return PartitionLag(missing="partition")
    partition = topic.partitions[index]
    if partition.state is PartitionState.ELSEWHERE:
        return PartitionLag()  # its leader knows
    start, end = partition.log_start_offset, partition.high_watermark
    if committed is None:
        return PartitionLag(start, end)
    lag = max(0, end - committed.offset)
    seconds = 0.0 if not lag else _age(partition, committed.offset, now_ms)
    return PartitionLag(start, end, lag, seconds, committed.offset < start)


def _age(partition: Partition, offset: int, now_ms: int) -> float | None:
    """Seconds since the time of the first record from `offset` on, as its batch has it; None if that batch
    is not in memory or has no time.
    """
    batches = partition.read_hot(offset, 1, whole=True)
    if not batches:
        return None
    timestamp = read_header(batches[0]).max_timestamp
    return None if timestamp == NO_TIMESTAMP else round(max(0, now_ms - timestamp) / 1000, 1)
