"""What a store keeps beside a batch, so that recovery and look-ups need not read the batches themselves.

A fixed-size binary struct, big-endian, of ``ROW_BYTES``::

    base offset, last offset, max timestamp, running max timestamp, producer id  int64
    producer epoch int16 | base sequence int32 | attributes int16 | size int32

A control batch has no sequence: where it ends a transaction, its row keeps the coordinator's epoch in the
place of one, and how it ended in two bits of the attributes that batches do not use.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from wireproto.records.control import EndMarker, read_marker
from wireproto.records.errors import InvalidBatch, corrupt
from wireproto.records.header import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader, Buffer, read_header

_ROW: Final = Struct(">qqqqqhihi")

_ABORTED: Final = 0x0100
_COMMITTED: Final = 0x0200
_ENDED: Final = _ABORTED | _COMMITTED

MAX_OFFSET: Final = (1 << 63) - 1
"""Largest offset that a row has room for."""
MAX_SIZE_BYTES: Final = (1 << 31) - 1
"""Largest size in bytes that a row has room for."""

ROW_BYTES: Final = _ROW.size
"""Bytes of a packed row."""
_ATTRIBUTES: Final = ROW_BYTES - 6
"""Where the attributes stand in it."""


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

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def marker(self) -> EndMarker | None:
        """How the batch ends a transaction of its producer; None: it ends none."""
        if not self.is_control or not self.attributes & _ENDED:
            return None
        return EndMarker(self.attributes & _COMMITTED != 0, self.base_sequence)

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


def unmarked(rows: bytes) -> Iterator[int]:
    """The places, from 0 on, of packed rows that are of control batches and say nothing of a marker."""
    low, high = rows[_ATTRIBUTES + 1 :: ROW_BYTES], rows[_ATTRIBUTES::ROW_BYTES]
    if not int.from_bytes(low) & int.from_bytes(bytes((CONTROL_FLAG,)) * len(low)):
        return  # as nearly always, and for thousands of rows at once
    for place, flags in enumerate(low):
        if flags & CONTROL_FLAG and not high[place] << 8 & _ENDED:
            yield place


def row_of(content: Buffer, previous_running_max: int) -> Row:
    """The row of the batch ``content``, from its header alone; of a control batch from its record, too.

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
    sequence, attributes = header.base_sequence, header.attributes
    if header.is_control:
        sequence, attributes = _as_marker(content, header)
    return Row(
        header.base_offset,
        last_offset,
        header.max_timestamp,
        max(previous_running_max, header.max_timestamp),
        header.producer_id,
        header.producer_epoch,
        sequence,
        attributes,
        size,
    )


def _as_marker(content: Buffer, header: BatchHeader) -> tuple[int, int]:
    """What the row of a control batch has for sequence and attributes."""
    try:
        marker = read_marker(content)
    except InvalidBatch:
        return header.base_sequence, header.attributes & ~_ENDED
    return marker.coordinator_epoch, header.attributes | (_COMMITTED if marker.is_commit else _ABORTED)
