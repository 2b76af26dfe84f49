"""Native records as Kafka batches. Pure.

A record's value is its content; its key is nothing, or the address; its time is when it was taken up; and two
headers say where it comes from: `dafka.address`, and `dafka.sequence` in decimal digits. Records of an
address of which stores were found to have one with two contents have a third: `dafka.rewritten`, the sequence
of that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gateway.native.positions import left_in_epoch, position_of
from mesh.protocol.native_order import Delivery
from wireproto.records.builder import GrowingBatch

ADDRESS_HEADER: Final = "dafka.address"
SEQUENCE_HEADER: Final = "dafka.sequence"
REWRITTEN_HEADER: Final = "dafka.rewritten"

MAX_BATCH_RECORDS: Final = 1_000
"""Records of one batch: a thousand are put together in about two milliseconds."""

MAX_BATCH_BYTES: Final = 256 * 1024
"""A batch that has as many is ended; a larger record is a batch of its own."""

RECORD_BYTES: Final = 128
"""What a record takes besides content and address, at the most: lengths, deltas, headers' names, digits."""


class NativeBatch(NamedTuple):
    """Bytes of a batch whose offset is to be given, and how many of the deliveries are in it."""

    content: bytearray
    records: int


def batch_of(
    deliveries: Sequence[Delivery],
    producer_id: int,
    now_ms: int,
    max_bytes: int,
    *,
    with_key: bool = False,
    rewritten: int | None = None,
) -> NativeBatch | None:
    """A batch of the first of these, all of one address and each the next one of that before it, up to the
    first that is not; None: the first is too large for a batch of `max_bytes`. `with_key`: the address is
    their key; `rewritten`: the record of the address of which two contents are known.
    """
    first = deliveries[0].sequence
    position = position_of(first)
    most = min(len(deliveries), MAX_BATCH_RECORDS, left_in_epoch(first))
    cap = min(max_bytes, MAX_BATCH_BYTES)
    address = deliveries[0].address.encode()
    key = address if with_key else None
    from_whom = (ADDRESS_HEADER, address)
    marks = () if rewritten is None else ((REWRITTEN_HEADER, b"%d" % rewritten),)
    name_bytes = len(address) * (2 if with_key else 1)
    batch = GrowingBatch()
    for index in range(most):
        delivery = deliveries[index]
        size = len(delivery.content) + name_bytes + RECORD_BYTES
        if delivery.sequence != first + index or (index and batch.size + size > cap):
            break
        headers = (from_whom, (SEQUENCE_HEADER, b"%d" % delivery.sequence), *marks)
        batch.append((key, delivery.content, headers, now_ms))
    if batch.size > max_bytes:
        return None
    content = batch.finish(
        producer_id=producer_id, producer_epoch=position.epoch, base_sequence=position.sequence
    )
    return NativeBatch(bytearray(content), batch.count)
