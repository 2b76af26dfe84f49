"""What a store keeps beside a batch, so that recovery and look-ups need not read the batches themselves.

A fixed-size binary struct, big-endian, of ``ROW_BYTES``::

    base offset, last offset, max timestamp, running max timestamp, producer id  int64
    producer epoch int16 | base sequence int32 | attributes int16 | size int32
"""

from struct import Struct
from typing import Final, NamedTuple

from wireproto.records.errors import corrupt
from wireproto.records.header import Buffer, read_header

_ROW: Final = Struct(">qqqqqhihi")

MAX_OFFSET: Final = (1 << 63) - 1
"""Largest offset that a row has room for."""
MAX_SIZE_BYTES: Final = (1 << 31) - 1
"""Largest size in bytes that a row has room for."""

ROW_BYTES: Final = _ROW.size
"""Bytes of a packed row."""


class Row(NamedTuple):
    """One batch in a store's index. Timestamps in ms; ``size`` is the whole batch's, in bytes.

    ``running_max_timestamp`` is the largest max timestamp of this batch and all before it in the segment: it
    never goes down, so that the first batch that can hold a timestamp is found by halving.
    """

    base_offset: int
    last_offset: int
    max_timestamp: int
    running_max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    attributes: int
    size: int

    def pack(self) -> bytes:
        """The bytes of the disk. Raises struct.error for what has no room, which ``row_of`` never gives."""
        return _ROW.pack(*self)

    @classmethod
    def unpack(cls, data: Buffer) -> "Row":
        """The row that ``pack`` made.

        Raises :class:`InvalidBatch`: CORRUPT_MESSAGE; not ``ROW_BYTES`` long.
        """
        if len(data) != ROW_BYTES:
            raise corrupt(f"{len(data)} bytes are no row of {ROW_BYTES}")
        return cls._make(_ROW.unpack(data))


def row_of(content: Buffer, previous_running_max: int) -> Row:
    """The row of the batch ``content``, from its header alone.

    ``content`` is exactly one batch with its offsets assigned, ``previous_running_max`` the row before's
    ``running_max_timestamp``, or ``header.NO_TIMESTAMP`` for the first row.

    Raises :class:`InvalidBatch`: CORRUPT_MESSAGE; not one whole batch of format v2 by its header, or with
    offsets or a size that a row has no room for. The CRC is not checked.
    """
    header = read_header(content)
    size, last_offset = header.size, header.last_offset
    if size != len(content):
        raise corrupt(f"a batch of {size} bytes in {len(content)}")
    if header.last_offset_delta < 0:
        raise corrupt(f"a last offset delta of {header.last_offset_delta}")
    if last_offset > MAX_OFFSET or size > MAX_SIZE_BYTES:
        raise corrupt(f"{size} bytes up to offset {last_offset}: no row can say that")
    return Row(
        header.base_offset,
        last_offset,
        header.max_timestamp,
        max(previous_running_max, header.max_timestamp),
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.attributes,
        size,
    )
