"""The producers of a partition as bytes, for the OPEN of a segment.

After a crash the state is this snapshot and the rows of the one segment it opened. All numbers are
big-endian:

::

    snapshot  version u8 = 1, number of producers u32, producers (heard from longest ago first)
    producer  id i64, epoch i16, last heard i64 (ms since 1970), number of batches u8 (1 to 5), oldest first
    batch     last sequence u32, records before it u32, last offset i64, maximum timestamp i64 (ms)

A reader refuses a version that it does not know: what a newer gateway left out or added would make it
wrong about duplicates, and nobody would notice.
"""

import struct
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from gateway.log.idempotence.producer import BATCHES_KEPT, MAX_PRODUCERS, MAX_SEQUENCE, Batch, Producer

VERSION: Final = 1

_HEAD: Final = struct.Struct(">BI")
_PRODUCER: Final = struct.Struct(">qhqB")
_BATCH: Final = struct.Struct(">IIqq")

MAX_SNAPSHOT_BYTES: Final = _HEAD.size + MAX_PRODUCERS * (_PRODUCER.size + BATCHES_KEPT * _BATCH.size)
"""The largest snapshot that `encode` makes, 278,005 bytes: what an OPEN must have room for."""


class InvalidSnapshot(Exception):
    """The bytes are not a snapshot that this version can read."""


def encode(producers: Mapping[int, Producer]) -> bytes:
    """`producers` by id, as bytes."""
    parts = [_HEAD.pack(VERSION, len(producers))]
    for producer_id, producer in producers.items():
        parts.append(_PRODUCER.pack(producer_id, producer.epoch, producer.used_ms, len(producer.batches)))
        parts.extend(
            _BATCH.pack(
                batch.last_sequence, batch.last_offset - batch.base_offset, batch.last_offset, batch.timestamp
            )
            for batch in producer.batches
        )
    return b"".join(parts)


def decode(snapshot: bytes) -> OrderedDict[int, Producer]:
    """The producers by id.

    Raises:
        InvalidSnapshot: Another version, cut short, too long, or with numbers that `encode` does not write.
    """
    producers: OrderedDict[int, Producer] = OrderedDict()
    try:
        version, count = _HEAD.unpack_from(snapshot)
        if version != VERSION:
            raise InvalidSnapshot(f"version {version} of the idempotence state is not known here")
        position = _HEAD.size
        for _ in range(count):
            producer_id, epoch, used_ms, kept = _PRODUCER.unpack_from(snapshot, position)
            position += _PRODUCER.size
            if producer_id < 0 or producer_id in producers or not 1 <= kept <= BATCHES_KEPT:
                raise InvalidSnapshot(f"producer {producer_id} with {kept} batches at byte {position}")
            batches = [_batch(*_BATCH.unpack_from(snapshot, position + i * _BATCH.size)) for i in range(kept)]
            position += kept * _BATCH.size
            producers[producer_id] = Producer(epoch, used_ms, batches)
    except struct.error as error:
        raise InvalidSnapshot(f"cut short at {len(snapshot)} bytes") from error
    if position != len(snapshot):
        raise InvalidSnapshot(f"{len(snapshot) - position} bytes left over")
    return producers


def _batch(last_sequence: int, span: int, last_offset: int, timestamp: int) -> Batch:
    if last_sequence > MAX_SEQUENCE or span > MAX_SEQUENCE or last_offset < span:
        raise InvalidSnapshot(f"a batch of {span + 1} records up to offset {last_offset}")
    first_sequence = (last_sequence - span) & MAX_SEQUENCE
    return Batch(first_sequence, last_sequence, last_offset - span, last_offset, timestamp)
