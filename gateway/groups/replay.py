"""What a partition of `__consumer_offsets` says of its groups.

Pure. See `gateway.journal.replay`: of each key the last record counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from gateway.groups.internal_topic import OFFSETS_TOPIC
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
from gateway.journal import replay
from gateway.journal.fields import MalformedRecord, UnknownRecord
from gateway.journal.replay import Slices

MEMBERS_BYTES: Final = 1024
"""So many bytes of a record take as long as another one: there are members in them."""


@dataclass(frozen=True, slots=True)
class LoadedGroup:
    """A group as the log has it. Without metadata it never had members: a simple group."""

    metadata: GroupMetadata | None
    offsets: OffsetTable


class Replay(replay.Replay):
    """The groups of one partition, as far as it was fed."""

    def __init__(self, partition: int) -> None:
        # An offset may be there in an older format, too: then records count in the log's order.
        super().__init__(f"{OFFSETS_TOPIC}-{partition}", LEGACY_OFFSET_KEY)
        self._metadata: dict[str, GroupMetadata] = {}
        self._offsets: dict[str, OffsetTable] = {}
        self._places: dict[bytes, tuple[OffsetTable, str]] = {}
        """What comes before the partition in the keys so far -> whose table and which topic that is."""
        self._topic_ids: dict[bytes, bytes] = {}
        """The ids that offsets name: each once, and not again for every offset."""
        self.groups: dict[str, LoadedGroup] = {}
        """What was found, once it is finished."""

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
        yield from self._take_pending()
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
        yield from self._forget_records()

    def _take_pending(self) -> Slices:
        """The offsets of transactions that are open, in the order of the log."""
        pending = [
            (offset, producer_id, key, value)
            for producer_id, records in self._pending.items()
            for key, (offset, value) in records.items()
        ]
        for offset, producer_id, key, value in sorted(pending, key=itemgetter(0)):
            try:
                record = decode_record(key, value)
            except (UnknownRecord, MalformedRecord) as error:
                self._pass_over(offset, error)
                continue
            if isinstance(record, OffsetRecord) and record.value is not None:
                known = self._latest.get(key)
                is_later = known is not None and known[0] > offset
                self._table(record.group_id).load_pending(
                    producer_id, (record.topic, record.partition), record.value, superseded=is_later
                )
            if self._is_slice(1):
                yield

    def _table(self, group_id: str) -> OffsetTable:
        table = self._offsets.get(group_id)
        if table is None:
            table = self._offsets[group_id] = OffsetTable()
        return table

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
            table = self._table(record.group_id)
            table.put(record.topic, record.partition, record.value)
            if key is not None and not key.startswith(LEGACY_OFFSET_KEY):
                self._places[key[:-PARTITION_BYTES]] = table, record.topic
        elif record.value is not None:
            self._metadata[record.group_id] = record.value
