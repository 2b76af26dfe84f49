"""Committed offsets that lie beyond what is restored: the records that set them to the ends. Pure.

All of a backup needs none: nobody can have committed what was not there. A restore to an earlier time, or
one that accepts a loss, cuts logs, and commits are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gateway.groups.records import (
    CommittedOffset,
    OffsetRecord,
    decode_record,
    offset_key,
    offset_value,
)
from gateway.journal.fields import MalformedRecord, UnknownRecord
from wireproto.records.builder import build_batch
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import Buffer, read_header
from wireproto.records.keyed import keyed_records

COMMITS_TOPIC: Final = "__consumer_offsets"

RECORDS_IN_BATCH: Final = 500
"""Commits in one batch: some tens of kilobytes."""

Commit = tuple[str, str, int]
"""Group, topic, partition."""


class Commits:
    """What a partition of `__consumer_offsets` says in the end."""

    def __init__(self) -> None:
        self._last: dict[Commit, CommittedOffset] = {}

    def feed(self, batches: Iterable[Buffer]) -> None:
        """The next batches of it. What cannot be read is passed over, as the gateway does that loads it."""
        for batch in batches:
            try:
                if read_header(batch).is_control:
                    continue
                records = keyed_records(batch)
            except InvalidBatch:
                continue
            for _, key, value in records:
                try:
                    record = decode_record(key, value)
                except (MalformedRecord, UnknownRecord):
                    continue
                if isinstance(record, OffsetRecord):
                    self._take(record)

    def _take(self, record: OffsetRecord) -> None:
        commit = record.group_id, record.topic, record.partition
        if record.value is None:
            self._last.pop(commit, None)
        else:
            self._last[commit] = record.value

    def beyond(self, ends: Mapping[tuple[str, int], int]) -> dict[Commit, CommittedOffset]:
        """The commits above the end of their partition, each set to it; none of other partitions."""
        return {
            commit: value._replace(offset=end, leader_epoch=-1)
            for commit, value in self._last.items()
            if (end := ends.get(commit[1:], value.offset)) < value.offset
        }


def batches_of(
    commits: Mapping[Commit, CommittedOffset], base_offset: int, leader_epoch: int, now_ms: int
) -> list[bytes]:
    """These commits as batches of a log that goes on at `base_offset`."""
    records = [
        (offset_key(*commit), offset_value(value), (), now_ms) for commit, value in sorted(commits.items())
    ]
    return [
        build_batch(
            records[start : start + RECORDS_IN_BATCH],
            base_offset=base_offset + start,
            leader_epoch=leader_epoch,
        )
        for start in range(0, len(records), RECORDS_IN_BATCH)
    ]
