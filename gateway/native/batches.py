"""Native records as Kafka batches. Pure.

A record's value is its content; its key is nothing, or the address; its time is when it was taken up; and two
headers say where it comes from: `dafka.address`, and `dafka.sequence` in decimal digits. Records of an
address of which stores were found to have one with two contents have a third: `dafka.rewritten`, the sequence
of that one.
"""

from __future__ import annotations

from itertools import islice
from typing import Final, NamedTuple

from gateway.native.positions import left_in_epoch, position_of
from mesh.protocol.native_order import Run
from wireproto.records.alike import AlikeRecords
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
    """Bytes of a batch whose offset is to be given, and how many of the run's records are in it."""

    content: bytearray
    records: int


def batch_of(
    run: Run,
    producer_id: int,
    now_ms: int,
    max_bytes: int,
    *,
    with_key: bool = False,
    rewritten: int | None = None,
) -> NativeBatch | None:
    """A batch of the first of these; None: the first one is too large for a batch of `max_bytes`.
    `with_key`: the address is their key; `rewritten`: the record of the address of which two contents are
    known.
    """
    position = position_of(run.sequence)
    most = min(MAX_BATCH_RECORDS, left_in_epoch(run.sequence))
    cap = min(max_bytes, MAX_BATCH_BYTES)
    address = run.address.encode()
    marks = () if rewritten is None else ((REWRITTEN_HEADER, b"%d" % rewritten),)
    records = AlikeRecords(
        address if with_key else None, ((ADDRESS_HEADER, address),), SEQUENCE_HEADER, marks
    )
    room = cap - RECORD_BYTES - len(address) * (2 if with_key else 1)
    batch = GrowingBatch()
    for index, content in enumerate(islice(run.contents, most)):
        if index and batch.size + len(content) > room:
            break
        batch.append_encoded(records.encoded(index, content, b"%d" % (run.sequence + index)), now_ms)
    if batch.size > max_bytes:
        return None
    content = batch.finish(
        producer_id=producer_id, producer_epoch=position.epoch, base_sequence=position.sequence
    )
    return NativeBatch(bytearray(content), batch.count)
