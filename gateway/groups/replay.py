"""What a partition of `__consumer_offsets` says of its groups: of each key the last record counts.

Pure. A partition may have a million records, of which a thousand count, so it is fed by batches, and only
what counts is decoded, at the end. Both are done in slices: who does them lets others have their turn at each
`yield`. Nothing else looks at a replay before it is finished.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.groups.metadata import GroupMetadata
from gateway.groups.offsets import OffsetTable
from gateway.groups.records import (
    LEGACY_OFFSET_KEY,
    PARTITION_BYTES,
    GroupRecord,
    OffsetRecord,
    decode_record,
    plain_offset,
)
from gateway.journal.fields import MalformedRecord, UnknownRecord
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import BatchHeader
from wireproto.records.keyed import Keyed, keyed_slices

SLICE: Final = 250
"""Records that are gone through, or decoded, before others have their turn: half a millisecond."""

MEMBERS_BYTES: Final = 1024
"""So many bytes of a record take as long as another one: there are members in them."""

Slices: TypeAlias = Iterator[None]
"""Work that may be much: others may have their turn whenever it gives control."""

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
        self._legacy = False
        """An offset may be there in an older format, too: then records count in the log's order."""
        self._since_slice = 0
        self.groups: dict[str, LoadedGroup] = {}
        """What was found, once it is finished."""
        self._passed_over = 0
        self.unreadable_batches = 0
        """Batches that could not be read, so far."""

    @property
    def keys(self) -> int:
        """How many records count, so far."""
        return len(self._latest)

    def feed(self, header: BatchHeader, body: bytes, first_offset: int) -> Slices:
        """Take the records of a batch from `first_offset` on; `body` are its records, inflated. One that
        cannot be read has none.
        """
        slices: deque[list[Keyed]] = deque()
        try:
            for records in keyed_slices(header, body, SLICE):
                slices.append(records)
                if self._is_slice(len(records)):
                    yield
        except InvalidBatch as error:
            self.set_aside(header, error)
            return
        latest = self._latest
        while slices:
            for offset, key, value in slices.popleft():
                if offset >= first_offset:
                    if key is not None and key.startswith(LEGACY_OFFSET_KEY):
                        self._legacy = True
                    if self._legacy:
                        latest.pop(key, None)  # what comes last is last in the order of the keys, too
                    latest[key] = offset, value
            if self._is_slice(SLICE // 4):
                yield

    def finish(self) -> Slices:
        """What there is at the end: groups with metadata, offsets, or both; `groups` are there then."""
        for key, (offset, value) in self._latest.items():
            try:
                if not self._take_quickly(key, value):
                    self._take(key, decode_record(key, value))
            except (UnknownRecord, MalformedRecord) as error:
                self._pass_over(offset, error)
            if self._is_slice(1 + len(value or b"") // MEMBERS_BYTES):
                yield
        groups = self.groups
        for group_id, metadata in self._metadata.items():
            groups[group_id] = LoadedGroup(metadata, self._offsets.get(group_id) or OffsetTable())
            if self._is_slice(1):
                yield
        for group_id, offsets in self._offsets.items():
            if group_id not in groups and not offsets.is_empty():
                groups[group_id] = LoadedGroup(None, offsets)
            if self._is_slice(1):
                yield
        while self._latest:  # a million at once would take a tenth of a second
            self._latest.popitem()
            if self._is_slice(1):
                yield

    def _is_slice(self, records: int) -> bool:
        """So many more are done: whether others are to have their turn."""
        self._since_slice += records
        if self._since_slice < SLICE:
            return False
        self._since_slice = 0
        return True

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

    def set_aside(self, header: BatchHeader, error: InvalidBatch) -> None:
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
