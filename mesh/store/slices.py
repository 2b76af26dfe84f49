"""Pieces of an address as its disk gives them, also where it gives only some. For worker threads."""

from typing import NamedTuple

from mesh.protocol.address_state import AddressState
from mesh.protocol.disk import StoreCorrupt
from mesh.store import keys, ranges
from mesh.store.checking import AddressCheck
from mesh.store.db import Database
from wireproto.records.errors import InvalidBatch
from wireproto.records.row import ROW_BYTES, Row

SLICE_BYTES = 256 * 1024
"""Read and checked at once, in a worker thread; a record that is larger is a slice of its own."""

SLICE_RECORDS = 256
"""Records in a slice, however small."""

UNKNOWN_BYTES = SLICE_BYTES // 16
"""What a record counts in a slice of which neither content nor row can be read."""


class Slice(NamedTuple):
    """Records from `first` on with their rows; None for what cannot be read. `trouble` is the disk's word for
    the first of those.
    """

    first: int
    records: list[tuple[bytes | None, bytes | None]]
    trouble: str

    @property
    def last(self) -> int:
        return self.first + len(self.records) - 1


def read_slice(database: Database, state: AddressState, first: int) -> Slice:
    """The records from `first` on, as many as a slice takes, one at least."""
    last = min(state.head, first + SLICE_RECORDS - 1)
    try:
        contents = ranges.read_records(database, state.address, first, last, SLICE_BYTES)
        rows = ranges.read_rows(database, state.address, first, first + len(contents) - 1)
    except StoreCorrupt as error:
        return _read_each(database, state.address, first, last, str(error))
    split = [rows[at : at + ROW_BYTES] for at in range(0, len(rows), ROW_BYTES)]
    if len(split) != len(contents) or len(rows) % ROW_BYTES:
        return _read_each(database, state.address, first, last, "a row is of another size")
    return Slice(first, list(zip(contents, split, strict=True)), "")


def _read_each(database: Database, address: str, first: int, last: int, trouble: str) -> Slice:
    """One by one: of what lies together on the disk only some may be unreadable."""
    records: list[tuple[bytes | None, bytes | None]] = []
    size = 0
    for sequence in range(first, last + 1):
        number = keys.sequence_bytes(sequence)
        content = _value(database, keys.record_prefix(address) + number)
        row = _value(database, keys.row_prefix(address) + number)
        records.append((content, row))
        size += len(content) if content is not None else _size_told(row)
        if size >= SLICE_BYTES:
            break
    return Slice(first, records, trouble)


def _size_told(row: bytes | None) -> int:
    """How large a content is that cannot be read: a slice of such must not be more than others can give."""
    try:
        return UNKNOWN_BYTES if row is None else Row.unpack(row).size
    except InvalidBatch:
        return UNKNOWN_BYTES


def _value(database: Database, key: bytes) -> bytes | None:
    try:
        return database.get(key)
    except StoreCorrupt:
        return None


def row_at(database: Database, state: AddressState, sequence: int) -> bytes | None:
    """The row of a record, b"" before the first and behind the last one, None if it cannot be read."""
    if not 0 <= sequence <= state.head:
        return b""
    row = _value(database, keys.row_prefix(state.address) + keys.sequence_bytes(sequence))
    return row if row is not None and len(row) == ROW_BYTES else None


def checked_digest(database: Database, state: AddressState, first: int, last: int) -> bytes:
    """The digest of these records, each of which has passed its checks; b"" if they are too many for one
    answer. Raises `StoreCorrupt` when one cannot be read, or does not pass.
    """
    contents = ranges.read_records(database, state.address, first, last, ranges.MAX_RANGE_BYTES)
    if len(contents) != last - first + 1:
        return b""
    rows = ranges.read_rows(database, state.address, first, last)
    check = AddressCheck(state)
    before = row_at(database, state, first - 1)
    if before is None:
        raise StoreCorrupt(f"address {state.address}: the row of sequence {first - 1} cannot be read")
    if before:
        check.begin_behind(first - 1, before)
    for number, content in enumerate(contents):
        row = rows[number * ROW_BYTES : (number + 1) * ROW_BYTES]
        wrong = check.take(first + number, content, row)
        if wrong:
            raise StoreCorrupt(f"address {state.address}: sequence {first + number}: {wrong}")
    return bytes.fromhex(check.digest)
