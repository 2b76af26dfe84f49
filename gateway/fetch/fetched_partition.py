"""One partition of a Fetch, from what is asked of it to what the client is told."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from gateway.fetch.session import SessionPartition
from gateway.log.partition import Partition
from gateway.log.transactions.aborted_reading import Aborted
from gateway.log.transactions.open_transactions import UNDECIDED
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.fetch import FetchPartition, FetchPartitionResult

JOIN_ABOVE_BUFFERS = 64
"""More batches than so many for one partition are small ones: one copy is cheaper than as many write vectors.
"""


class FetchedPartition:
    """One partition of a Fetch, and what was found for it. `place` is its place in a session, if any."""

    __slots__ = (
        "aborted",
        "ask",
        "end",
        "error",
        "limit",
        "partition",
        "place",
        "records",
        "size",
        "whole",
    )

    def __init__(
        self,
        ask: FetchPartition,
        partition: Partition | None,
        error: ErrorCode,
        place: SessionPartition | None = None,
    ) -> None:
        self.ask = ask
        self.partition = partition
        self.error = error
        self.place = place
        self.records: Sequence[Any] = ()
        self.size = 0
        """Bytes of `records`, also while these are let go; those that may come while they are to be read from
        a store."""
        self.limit = 0
        self.whole = False
        """The last read: how many bytes it might give, and whether one batch however large."""
        self.end = 0
        """Up to which offset it was visible then."""
        self.aborted: Aborted = []
        """The aborted transactions that `records` are part of, for who reads what is committed."""

    def result(self, *, committed: bool) -> FetchPartitionResult:
        """What the client is told."""
        partition = self.partition
        if partition is not None and committed and partition.last_stable_offset == UNDECIDED:
            self.error = self.error or ErrorCode.NOT_LEADER_OR_FOLLOWER  # since the records were read
        if partition is None or self.error is not ErrorCode.NONE:
            # As Kafka: nothing of what is not there, and none beside what is found inside of a log.
            is_nowhere = partition is None and self.error is not ErrorCode.INCONSISTENT_TOPIC_ID
            return FetchPartitionResult(self.ask.index, self.error, aborted=() if is_nowhere else None)
        records = self.records
        if records:
            partition.topic.fetched_bytes += bytes_of(records)
        if len(records) > JOIN_ABOVE_BUFFERS:
            records = (b"".join(records),)
        high_watermark = partition.high_watermark
        return FetchPartitionResult(
            self.ask.index,
            ErrorCode.NONE,
            high_watermark,
            partition.last_stable_offset,
            partition.log_start_offset,
            records,
            self.aborted if committed else None,
        )


def missing_rank(wanted: FetchedPartition) -> int:
    """Where a partition comes in an answer: 0 if it exists, 1 if its topic's id is not known, and last, 2, if
    its topic does not have it (`KafkaApis.handleFetchRequest`).
    """
    if wanted.partition is not None or wanted.error is ErrorCode.INCONSISTENT_TOPIC_ID:
        return 0
    return 1 if wanted.error is ErrorCode.UNKNOWN_TOPIC_ID else 2


def bytes_of(records: Sequence[Any]) -> int:
    """Bytes of these batches."""
    return sum(map(len, records))


def within(records: Sequence[Any], limit: int) -> Sequence[Any]:
    """The first of `records`, `limit` bytes of them at most."""
    for count, size in enumerate(accumulate(map(len, records))):
        if size > limit:
            return records[:count]
    return records
