"""What a store reads for others: ranges of records, rows, and searches among rows. Blocking: for worker
threads.

Records lie at consecutive keys, so a range is a multi-get of known keys; the rows, read first, tell how many
records fit the asker's byte cap. Base offsets and running maximum timestamps never go down along an address,
so a search is by sections: `PROBES` rows at a time, each round dividing what is left by so many.
"""

import math
from collections.abc import Callable

from mesh.protocol.disk import StoreCorrupt
from mesh.store import keys
from mesh.store.db import Database
from wireproto.dafka.additions import LOOKUP_MAX_TIMESTAMP, LOOKUP_OFFSET
from wireproto.records.batch import InvalidBatch
from wireproto.records.row import Row

MAX_RANGE_RECORDS = 2048
MAX_RANGE_BYTES = 32 * 1024 * 1024
"""One answer to a directed FETCH. Below the sockets' high-water mark, times the readers served at once."""

MAX_ROWS = 65_536
"""Rows in one answer to ROWS."""

FIRST_ROWS = 16
"""Rows looked at first to learn how many records fit an answer."""

ROWS_AT_ONCE = 4096
"""Rows of one multi-get, where many are wanted."""

PROBES = 32
"""Rows that a round of a search looks at."""

NATIVE_RECORDS_AT_ONCE = 64
"""Records read at once where nothing tells their size."""


def read_records(database: Database, address: str, first: int, last: int, byte_cap: int) -> list[bytes]:
    """The contents from `first` to `last`, at least one, stopping at the one that passes `byte_cap`.

    Raises `StoreCorrupt` when one that must be there is not.
    """
    rows = rows_within(database, address, first, last, byte_cap)
    if not rows:
        return read_native(database, address, first, last, byte_cap)
    return read_all(database, address, first, len(rows))


def read_all(database: Database, address: str, first: int, count: int) -> list[bytes]:
    """So many contents from `first` on. Raises `StoreCorrupt`."""
    return _whole(_get(database, keys.record_prefix(address), first, first + count - 1), address, first)


def rows_within(database: Database, address: str, first: int, last: int, byte_cap: int) -> list[Row]:
    """The rows of the records from `first` to `last` that fit `byte_cap` and one answer, at least one; none
    for an address without rows. Raises `StoreCorrupt`.

    Batches are mostly large, so few rows are looked at first, and more each time that all of them fit.
    """
    last = min(last, first + MAX_RANGE_RECORDS - 1)
    byte_cap = min(byte_cap, MAX_RANGE_BYTES)
    size = 0
    found: list[Row] = []
    at_once = FIRST_ROWS
    while (start := first + len(found)) <= last:
        rows = _get(database, keys.row_prefix(address), start, min(last, start + at_once - 1))
        if not found and rows[0] is None:
            return []
        for sequence, data in enumerate(_whole(rows, address, start), start):
            row = _parsed(data, address, sequence)
            size += row.size
            if found and size > byte_cap:
                return found
            found.append(row)
        at_once *= 4
    return found


def read_native(
    database: Database, address: str, first: int, last: int, byte_cap: int, largest: float = math.inf
) -> list[bytes]:
    """As `read_records`, of an address without rows, none of whose records has more than `largest` bytes.
    Raises `StoreCorrupt`.
    """
    last = min(last, first + MAX_RANGE_RECORDS - 1)
    byte_cap = min(byte_cap, MAX_RANGE_BYTES)
    at_once = max(NATIVE_RECORDS_AT_ONCE, int(byte_cap // max(largest, 1)))
    found: list[bytes] = []
    size = 0
    while first <= last and size < byte_cap:
        end = min(last, first + at_once - 1)
        contents = _whole(_get(database, keys.record_prefix(address), first, end), address, first)
        found += contents
        size += sum(map(len, contents))
        first = end + 1
    return found


def read_rows(database: Database, address: str, first: int, last: int) -> bytes:
    """The rows from `first` to `last`, joined, `MAX_ROWS` at most. Raises `StoreCorrupt`."""
    last = min(last, first + MAX_ROWS - 1)
    parts: list[bytes] = []
    for start in range(first, last + 1, ROWS_AT_ONCE):
        end = min(last, start + ROWS_AT_ONCE - 1)
        parts += _whole(_get(database, keys.row_prefix(address), start, end), address, start)
    return b"".join(parts)


def search(database: Database, address: str, kind: int, target: int, bound: int) -> tuple[int, bytes]:
    """The first row up to `bound` that satisfies a LOOKUP: (sequence, row), or (-1, b""). Raises
    `StoreCorrupt`.
    """
    if bound < 0:
        return -1, b""
    if kind == LOOKUP_MAX_TIMESTAMP:
        target = _row(database, address, bound).running_max_timestamp
    satisfied: Callable[[Row], bool] = (
        (lambda row: row.last_offset >= target)
        if kind == LOOKUP_OFFSET
        else (lambda row: row.running_max_timestamp >= target)
    )
    low, high = 0, bound + 1
    while low < high:
        step = max(1, (high - low) // PROBES)
        probes = list(range(low, high, step))
        rows = _whole(_probe(database, address, probes), address, low)
        for probe, data in zip(probes, rows, strict=True):
            if satisfied(_parsed(data, address, probe)):
                high = probe
                break
            low = probe + 1
    if high > bound:
        return -1, b""
    return high, _row(database, address, high).pack()


def _row(database: Database, address: str, sequence: int) -> Row:
    return _parsed(_whole(_probe(database, address, [sequence]), address, sequence)[0], address, sequence)


def _parsed(row: bytes, address: str, sequence: int) -> Row:
    try:
        return Row.unpack(row)
    except InvalidBatch as error:
        raise StoreCorrupt(f"address {address}: row {sequence} cannot be read: {error}") from None


def _probe(database: Database, address: str, sequences: list[int]) -> list[bytes | None]:
    prefix = keys.row_prefix(address)
    return database.get_many([prefix + keys.sequence_bytes(sequence) for sequence in sequences])


def _get(database: Database, prefix: bytes, first: int, last: int) -> list[bytes | None]:
    return database.get_many(keys.keys_between(prefix, first, last))


def _whole(values: list[bytes | None], address: str, first: int) -> list[bytes]:
    whole = [value for value in values if value is not None]
    if len(whole) != len(values):
        missing = first + values.index(None)
        raise StoreCorrupt(f"address {address}: what is stored near sequence {missing} is missing")
    return whole
