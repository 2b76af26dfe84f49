"""What a partition of `__consumer_offsets` says of its groups: its records, one after the other, the last one
of each key counts.

Pure. A partition may have a million records, so it is fed by ranges, and `Replay.feed` may run in a worker
thread: nothing else looks at a replay before it is finished.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.groups.metadata import GroupMetadata
from gateway.groups.offsets import OffsetTable
from gateway.groups.records import GroupRecord, MalformedRecord, OffsetRecord, UnknownRecord, decode_record
from gateway.log.tail_cache import Batch
from wireproto.records.header import read_header
from wireproto.records.iteration import Record, iter_records

MAX_INFLATED_BYTES = 64 * 1024 * 1024
"""A batch is inflated up to here. What the gateway writes is not compressed; tools may have written there."""

LOGGED_RECORDS = 10
"""Records of a partition that could not be read are named in the log up to here."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedGroup:
    """A group as the log has it. Without metadata it never had members: a simple group."""

    metadata: GroupMetadata | None
    offsets: OffsetTable


class Replay:
    """The groups of one partition, as far as it was fed."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._metadata: dict[str, GroupMetadata] = {}
        self._offsets: dict[str, OffsetTable] = {}
        self.records = 0
        self.passed_over = 0
        """Records that are of no known kind, or malformed."""

    def feed(self, batches: Sequence[Batch], first_offset: int) -> None:
        """Take the records of these batches from `first_offset` on. Raises InvalidBatch: a batch is
        damaged.
        """
        for batch in batches:
            header = read_header(batch)
            if header.is_control or header.is_transactional:
                self.passed_over += header.count
                continue
            for record in iter_records(batch, MAX_INFLATED_BYTES):
                if record.offset >= first_offset:
                    self._take(record)

    def finish(self) -> dict[str, LoadedGroup]:
        """What there is at the end: groups with metadata, offsets, or both."""
        groups = {
            group_id: LoadedGroup(metadata, self._offsets.get(group_id) or OffsetTable())
            for group_id, metadata in self._metadata.items()
        }
        for group_id, offsets in self._offsets.items():
            if group_id not in groups and not offsets.is_empty():
                groups[group_id] = LoadedGroup(None, offsets)
        return groups

    def _take(self, record: Record) -> None:
        self.records += 1
        try:
            decoded = decode_record(record.key, record.value)
        except (UnknownRecord, MalformedRecord) as error:
            self._pass_over(record, error)
            return
        if isinstance(decoded, OffsetRecord):
            self._take_offset(decoded)
        else:
            self._take_group(decoded)

    def _take_offset(self, record: OffsetRecord) -> None:
        table = self._offsets.get(record.group_id)
        if table is None:
            if record.value is None:
                return
            table = self._offsets[record.group_id] = OffsetTable()
        table.put(record.topic, record.partition, record.value)
        if table.is_empty():
            del self._offsets[record.group_id]

    def _take_group(self, record: GroupRecord) -> None:
        if record.value is None:
            self._metadata.pop(record.group_id, None)
        else:
            self._metadata[record.group_id] = record.value

    def _pass_over(self, record: Record, error: Exception) -> None:
        """One record that cannot be read must not take all other groups of the partition away."""
        self.passed_over += 1
        if self.passed_over <= LOGGED_RECORDS:
            logger.warning(
                "__consumer_offsets-%d: the record at offset %d is passed over: %s",
                self._partition,
                record.offset,
                error,
            )
