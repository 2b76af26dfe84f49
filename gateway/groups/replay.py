"""What a partition of `__consumer_offsets` says of its groups: of each key the last record counts.

Pure. A partition may have a million records, of which a thousand count, so it is fed by ranges, and only
what counts is decoded, at the end. `Replay.feed` and `Replay.finish` may run in a worker thread: nothing
else looks at a replay before it is finished.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.groups.metadata import GroupMetadata
from gateway.groups.offsets import OffsetTable
from gateway.groups.records import (
    LEGACY_OFFSET_KEY,
    PARTITION_BYTES,
    GroupRecord,
    MalformedRecord,
    OffsetRecord,
    UnknownRecord,
    decode_record,
    plain_offset,
)
from gateway.log.tail_cache import Batch
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import BatchHeader, read_header
from wireproto.records.keyed import keyed_records

MAX_INFLATED_BYTES = 64 * 1024 * 1024
"""A batch is inflated up to here. What the gateway writes is not compressed; tools may have written there."""

LOGGED_RECORDS = 10
"""Records and batches of a partition that could not be read are named in the log up to here."""

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
        self._latest: dict[bytes | None, tuple[int, bytes | None]] = {}
        """The last record of each key: its offset and value."""
        self._metadata: dict[str, GroupMetadata] = {}
        self._offsets: dict[str, OffsetTable] = {}
        self._places: dict[bytes, tuple[OffsetTable, str]] = {}
        """What comes before the partition in the keys so far -> whose table and which topic that is."""
        self._topic_ids: dict[bytes, bytes] = {}
        """The ids that offsets name: each once, and not again for every offset."""
        self._passed_over = 0
        self.unreadable_batches = 0
        """Batches that could not be read, so far."""

    @property
    def keys(self) -> int:
        """How many records count, so far."""
        return len(self._latest)

    def feed(self, batches: Sequence[Batch], first_offset: int) -> None:
        """Take the records of these batches from `first_offset` on; a batch that cannot be read has none."""
        latest = self._latest
        for batch in batches:
            header = read_header(batch)
            if header.is_control or header.is_transactional:
                continue  # nobody has transactions here
            try:
                records = keyed_records(batch, MAX_INFLATED_BYTES)
            except InvalidBatch as error:
                self._set_aside(header, error)
                continue
            for offset, key, value in records:
                if offset >= first_offset:
                    latest[key] = offset, value

    def finish(self) -> dict[str, LoadedGroup]:
        """What there is at the end: groups with metadata, offsets, or both."""
        for key, (offset, value) in self._in_order():
            try:
                if not self._take_quickly(key, value):
                    self._take(key, decode_record(key, value))
            except (UnknownRecord, MalformedRecord) as error:
                self._pass_over(offset, error)
        self._latest.clear()
        self._places.clear()
        self._topic_ids.clear()
        groups = {
            group_id: LoadedGroup(metadata, self._offsets.get(group_id) or OffsetTable())
            for group_id, metadata in self._metadata.items()
        }
        for group_id, offsets in self._offsets.items():
            if group_id not in groups and not offsets.is_empty():
                groups[group_id] = LoadedGroup(None, offsets)
        return groups

    def _in_order(self) -> Iterable[tuple[bytes | None, tuple[int, bytes | None]]]:
        """What counts; in the log's order if an offset may be there in an older format, too."""
        if any(key is not None and key.startswith(LEGACY_OFFSET_KEY) for key in self._latest):
            return sorted(self._latest.items(), key=lambda entry: entry[1][0])
        return self._latest.items()

    def _take_quickly(self, key: bytes | None, value: bytes | None) -> bool:
        """Take the offset of a group and topic that came before, written as we and Kafka write it."""
        if key is None or value is None:
            return False
        place = self._places.get(key[:-PARTITION_BYTES])
        offset = plain_offset(value, self._topic_ids)
        if place is None or offset is None:
            return False
        table, topic = place
        table.put(topic, int.from_bytes(key[-PARTITION_BYTES:], signed=True), offset)
        return True

    def _take(self, key: bytes | None, record: OffsetRecord | GroupRecord) -> None:
        if isinstance(record, OffsetRecord):
            table = self._offsets.get(record.group_id)
            if table is None:
                table = self._offsets[record.group_id] = OffsetTable()
            table.put(record.topic, record.partition, record.value)
            if key is not None and not key.startswith(LEGACY_OFFSET_KEY):
                self._places[key[:-PARTITION_BYTES]] = table, record.topic
        elif record.value is not None:
            self._metadata[record.group_id] = record.value

    def _pass_over(self, offset: int, error: Exception) -> None:
        """One record that cannot be read must not take all other groups of the partition away."""
        self._passed_over += 1
        if self._passed_over <= LOGGED_RECORDS:
            logger.warning(
                "__consumer_offsets-%d: the record at offset %d is passed over: %s",
                self._partition,
                offset,
                error,
            )

    def _set_aside(self, header: BatchHeader, error: InvalidBatch) -> None:
        """One batch that cannot be read must not keep a coordinator from all groups of the partition. It
        stays where it is: compaction leaves it alone.
        """
        self.unreadable_batches += 1
        if self.unreadable_batches <= LOGGED_RECORDS:
            logger.error(
                "__consumer_offsets-%d: the batch of %d bytes at offsets %d to %d cannot be read and is "
                "passed over; it stays in the log: %s",
                self._partition,
                header.size,
                header.base_offset,
                header.last_offset,
                error,
            )
