"""The records of `__transaction_state`, as Apache Kafka 4.3.1 writes them (``TransactionLog``).

::

    key   = version int16 (0) | transactional id
    value = version int16 (0, 1) | producer id int64 | epoch int16 | timeout ms int32 | state int8
            | partitions, null without a transaction: topic, indexes int32 | last update int64
            | start int64 | from version 1 on tagged fields; a record without a value is a tombstone
    tags  = 0 previous producer id int64 | 1 next producer id int64 | 2 client's version int16
            | 3 next producer's epoch int16 | 1000 last epoch int16

Version 1, which is written, is flexible (compact fields and tags). Tag 1000 is ours, and Kafka passes over it
as over every tag that it does not know: Kafka forgets the last epoch when another coordinator takes over, and
fences a producer that asks for its next epoch once more because the first answer was lost (KAFKA-20357).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from struct import Struct
from typing import Final

from gateway.journal.fields import FieldReader, MalformedRecord, UnknownRecord, text
from gateway.transactions.metadata import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    STORED_STATES,
    TopicPartition,
    TransactionMetadata,
    TransactionState,
)
from wireproto.kafka.primitives import compact_string, uvarint

MAX_LOADED_PARTITIONS: Final = 100_000
"""Partitions of one transaction that are read. More do not fit into a record of the largest
`max.message.bytes` that the topic may reasonably have."""

_KEY_VERSION: Final = 0
_VALUE_VERSION: Final = 1
_FLEXIBLE_SINCE: Final = 1

_PREVIOUS_ID_TAG: Final = 0
_NEXT_ID_TAG: Final = 1
_CLIENT_VERSION_TAG: Final = 2
_NEXT_EPOCH_TAG: Final = 3
_LAST_EPOCH_TAG: Final = 1000

_SMALLEST_TOPIC_BYTES: Final = 2
_PARTITION_BYTES: Final = 4

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_HEAD: Final = Struct(">hqhib")
_AFTER_VERSION: Final = Struct(">qhib")
_TIMES: Final = Struct(">qq")
_NO_TAGS: Final = b"\x00"

_STATES: Final = {int(state): state for state in STORED_STATES}
_NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """What is known of a transactional id; without metadata it is forgotten."""

    transactional_id: str
    metadata: TransactionMetadata | None


# writing ----------------------------------------------------------------------------------------------------


def transaction_key(transactional_id: str) -> bytes:
    """The key of a transactional id. Raises TooLong."""
    return _INT16.pack(_KEY_VERSION) + text(transactional_id)


def transaction_value(metadata: TransactionMetadata, version: int = _VALUE_VERSION) -> bytes:
    """The value of a transactional id. Version 0 lacks what is in the tags. Raises TooLong."""
    head = _HEAD.pack(
        version, metadata.producer_id, metadata.producer_epoch, metadata.timeout_ms, metadata.state
    )
    compact = version >= _FLEXIBLE_SINCE
    times = _TIMES.pack(metadata.last_update_ms, metadata.start_ms)
    return head + _partitions(metadata, compact=compact) + times + (_tags(metadata) if compact else b"")


def _partitions(metadata: TransactionMetadata, *, compact: bool) -> bytes:
    if metadata.state is TransactionState.EMPTY:
        return b"\x00" if compact else _INT32.pack(-1)
    topics = [(topic, list(ones)) for topic, ones in groupby(sorted(metadata.partitions), _topic)]
    pieces = [_count(len(topics), compact=compact)]
    for topic, partitions in topics:
        pieces.append(compact_string(topic) if compact else text(topic))
        pieces.append(_count(len(partitions), compact=compact))
        pieces.extend(_INT32.pack(index) for _, index in partitions)
        if compact:
            pieces.append(_NO_TAGS)
    return b"".join(pieces)


def _topic(partition: TopicPartition) -> str:
    return partition[0]


def _count(count: int, *, compact: bool) -> bytes:
    return uvarint(count + 1) if compact else _INT32.pack(count)


def _tags(metadata: TransactionMetadata) -> bytes:
    """Those of fields that differ from what they are without one."""
    fields = (
        (_PREVIOUS_ID_TAG, _INT64, metadata.previous_producer_id, NO_PRODUCER_ID),
        (_NEXT_ID_TAG, _INT64, metadata.next_producer_id, NO_PRODUCER_ID),
        (_CLIENT_VERSION_TAG, _INT16, metadata.client_version, 0),
        (_NEXT_EPOCH_TAG, _INT16, metadata.next_producer_epoch, NO_EPOCH),
        (_LAST_EPOCH_TAG, _INT16, metadata.last_producer_epoch, NO_EPOCH),
    )
    tags = [
        uvarint(tag) + uvarint(kind.size) + kind.pack(value)
        for tag, kind, value, without in fields
        if value != without
    ]
    return uvarint(len(tags)) + b"".join(tags)


# reading ----------------------------------------------------------------------------------------------------


def decode_key(key: bytes | None) -> str:
    """Whose record it is. Raises UnknownRecord, and MalformedRecord."""
    if key is None:
        raise MalformedRecord("a record without a key")
    reader = FieldReader(key)
    version = reader.int16()
    if version != _KEY_VERSION:
        raise UnknownRecord(f"a key of version {version}")
    transactional_id = reader.text()
    reader.end()
    return transactional_id


def decode_record(key: bytes | None, value: bytes | None) -> TransactionRecord:
    """What a record of `__transaction_state` says. Raises UnknownRecord, and MalformedRecord."""
    transactional_id = decode_key(key)
    return TransactionRecord(transactional_id, None if value is None else _metadata(value))


def _metadata(value: bytes) -> TransactionMetadata:
    reader = FieldReader(value)
    version = reader.int16()
    if not 0 <= version <= _VALUE_VERSION:
        raise UnknownRecord(f"a value of version {version}")
    reader.compact = version >= _FLEXIBLE_SINCE
    producer_id, epoch, timeout_ms, state = reader.fixed(_AFTER_VERSION)
    partitions = _read_partitions(reader)
    last_update_ms, start_ms = reader.fixed(_TIMES)
    tags = reader.tags() if reader.compact else {}
    reader.end()
    return TransactionMetadata(
        producer_id,
        epoch,
        timeout_ms,
        _state(state),
        last_update_ms,
        partitions,
        start_ms,
        _tagged(tags, _PREVIOUS_ID_TAG, _INT64, NO_PRODUCER_ID),
        _tagged(tags, _NEXT_ID_TAG, _INT64, NO_PRODUCER_ID),
        _tagged(tags, _NEXT_EPOCH_TAG, _INT16, NO_EPOCH),
        _tagged(tags, _LAST_EPOCH_TAG, _INT16, NO_EPOCH),
        _tagged(tags, _CLIENT_VERSION_TAG, _INT16, 0),
    )


def _state(number: int) -> TransactionState:
    state = _STATES.get(number)
    if state is None:
        raise MalformedRecord(f"a transaction in state {number}")
    return state


def _read_partitions(reader: FieldReader) -> frozenset[TopicPartition]:
    topics = reader.nullable_count("topics", _SMALLEST_TOPIC_BYTES)
    if not topics:
        return _NO_PARTITIONS
    found: set[TopicPartition] = set()
    for _ in range(topics):
        topic = reader.text()
        count = reader.count("partitions", _PARTITION_BYTES)
        if len(found) + count > MAX_LOADED_PARTITIONS:
            raise MalformedRecord(f"a transaction of more than {MAX_LOADED_PARTITIONS} partitions")
        found.update((topic, reader.int32()) for _ in range(count))
        if reader.compact:
            reader.tags()
    return frozenset(found)


def _tagged(tags: dict[int, bytes], tag: int, kind: Struct, without: int) -> int:
    value = tags.get(tag)
    if value is None:
        return without
    if len(value) != kind.size:
        raise MalformedRecord(f"tagged field {tag} has {len(value)} bytes, not {kind.size}")
    (number,) = kind.unpack(value)
    return int(number)
