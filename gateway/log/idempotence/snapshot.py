"""The producers of a partition as bytes, for the OPEN of a segment.

After a crash the state is this snapshot and the rows of the one segment it opened. All numbers are
big-endian:

::

    snapshot  version u8, number of producers u32, producers (heard from longest ago first)
    producer  id i64, epoch i16, last heard i64 (ms since 1970), number of batches u8, oldest first
    batch     last sequence u32, records before it u32, last offset i64, maximum timestamp i64 (ms)

In version 1 each producer has 1 to 5 batches, and no transaction. Version 2 is written where one has, or had:
a producer may be without a batch, and between its number of batches and these stand ::

    coordinator epoch i32, first offset of the open transaction i64 (-1: none), last offset of a batch or
    marker i64, maximum timestamp of that one i64 (ms)

A reader refuses a version that it does not know: what a newer gateway left out or added would make it
wrong about duplicates, and nobody would notice.
"""

import struct
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from gateway.log.idempotence.producer import (
    BATCHES_KEPT,
    MAX_PRODUCERS,
    MAX_SEQUENCE,
    NO_COORDINATOR_EPOCH,
    NOTHING_OPEN,
    Batch,
    Producer,
)

WITHOUT_TRANSACTIONS: Final = 1
WITH_TRANSACTIONS: Final = 2
"""Versions."""

_HEAD: Final = struct.Struct(">BI")
_PRODUCER: Final = struct.Struct(">qhqB")
_TRANSACTION: Final = struct.Struct(">iqqq")
_BATCH: Final = struct.Struct(">IIqq")

MAX_SNAPSHOT_BYTES: Final = _HEAD.size + MAX_PRODUCERS * (
    _PRODUCER.size + _TRANSACTION.size + BATCHES_KEPT * _BATCH.size
)
"""The largest snapshot that `encode` makes of so many producers, 334,005 bytes: what an OPEN must have room
for."""


class InvalidSnapshot(Exception):
    """The bytes are not a snapshot that this version can read."""


def encode(producers: Mapping[int, Producer]) -> bytes:
    """`producers` by id, as bytes."""
    version = WITH_TRANSACTIONS if any(map(_has_transactions, producers.values())) else WITHOUT_TRANSACTIONS
    parts = [_HEAD.pack(version, len(producers))]
    for producer_id, producer in producers.items():
        parts.append(_PRODUCER.pack(producer_id, producer.epoch, producer.used_ms, len(producer.batches)))
        if version == WITH_TRANSACTIONS:
            parts.append(
                _TRANSACTION.pack(
                    producer.coordinator_epoch,
                    producer.first_offset,
                    producer.last_offset,
                    producer.timestamp,
                )
            )
        parts.extend(
            _BATCH.pack(
                batch.last_sequence, batch.last_offset - batch.base_offset, batch.last_offset, batch.timestamp
            )
            for batch in producer.batches
        )
    return b"".join(parts)


def _has_transactions(producer: Producer) -> bool:
    """Whether it has one, or had. A marker without a coordinator's epoch leaves a producer without batches,
    or with an offset that is none of theirs.
    """
    return (
        producer.has_open
        or producer.coordinator_epoch != NO_COORDINATOR_EPOCH
        or not producer.batches
        or producer.last_offset != producer.batches[-1].last_offset
    )


def first_open(snapshot: bytes) -> int | None:
    """The first offset of the oldest open transaction; None: none is open. Raises InvalidSnapshot."""
    producers = decode(snapshot).values() if snapshot else ()
    return min((one.first_offset for one in producers if one.has_open), default=None)


def decode(snapshot: bytes) -> OrderedDict[int, Producer]:
    """The producers by id.

    Raises:
        InvalidSnapshot: Another version, cut short, too long, or with numbers that `encode` does not write.
    """
    producers: OrderedDict[int, Producer] = OrderedDict()
    try:
        version, count = _HEAD.unpack_from(snapshot)
        if version not in {WITHOUT_TRANSACTIONS, WITH_TRANSACTIONS}:
            raise InvalidSnapshot(f"version {version} of the idempotence state is not known here")
        position = _HEAD.size
        for _ in range(count):
            producer_id, producer, position = _producer(snapshot, position, version)
            if producer_id < 0 or producer_id in producers:
                raise InvalidSnapshot(f"producer {producer_id} at byte {position}")
            producers[producer_id] = producer
    except struct.error as error:
        raise InvalidSnapshot(f"cut short at {len(snapshot)} bytes") from error
    if position != len(snapshot):
        raise InvalidSnapshot(f"{len(snapshot) - position} bytes left over")
    begun = [producer.first_offset for producer in producers.values() if producer.has_open]
    if len(set(begun)) != len(begun):
        raise InvalidSnapshot("two open transactions begin at one offset")
    return producers


def _producer(snapshot: bytes, position: int, version: int) -> tuple[int, Producer, int]:
    """The producer at this byte: its id, itself, and where it ends. Raises InvalidSnapshot, struct.error."""
    producer_id, epoch, used_ms, kept = _PRODUCER.unpack_from(snapshot, position)
    position += _PRODUCER.size
    if not (version == WITHOUT_TRANSACTIONS) <= kept <= BATCHES_KEPT:
        raise InvalidSnapshot(f"producer {producer_id} with {kept} batches at byte {position}")
    transaction = None
    if version == WITH_TRANSACTIONS:
        transaction = _TRANSACTION.unpack_from(snapshot, position)
        position += _TRANSACTION.size
    batches = [_batch(*_BATCH.unpack_from(snapshot, position + i * _BATCH.size)) for i in range(kept)]
    producer = Producer(epoch, used_ms, batches)
    if transaction is not None:
        _set_transaction(producer, *transaction)
    return producer_id, producer, position + kept * _BATCH.size


def _set_transaction(
    producer: Producer, coordinator_epoch: int, first_offset: int, last_offset: int, timestamp: int
) -> None:
    """Raises InvalidSnapshot."""
    if not NOTHING_OPEN <= first_offset <= last_offset or last_offset < producer.last_offset:
        raise InvalidSnapshot(f"a transaction from offset {first_offset}, and nothing behind {last_offset}")
    producer.coordinator_epoch, producer.first_offset = coordinator_epoch, first_offset
    producer.last_offset, producer.timestamp = last_offset, timestamp


def _batch(last_sequence: int, span: int, last_offset: int, timestamp: int) -> Batch:
    if last_sequence > MAX_SEQUENCE or span > MAX_SEQUENCE or last_offset < span:
        raise InvalidSnapshot(f"a batch of {span + 1} records up to offset {last_offset}")
    first_sequence = (last_sequence - span) & MAX_SEQUENCE
    return Batch(first_sequence, last_sequence, last_offset - span, last_offset, timestamp)
