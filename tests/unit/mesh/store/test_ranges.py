"""A search finds the first row that satisfies it, wherever that is, as a look at every row does."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.ingest import Ingest
from mesh.store import keys
from mesh.store.db import Database
from mesh.store.ranges import NATIVE_RECORDS_AT_ONCE, PROBES, read_native, read_records, read_rows, search
from tests.unit.mesh.store.sample import ADDRESS, STORE, request, settle
from wireproto.dafka.additions import LOOKUP_MAX_TIMESTAMP, LOOKUP_OFFSET, LOOKUP_TIMESTAMP
from wireproto.dafka.messages import Record
from wireproto.records.batch import assign_offsets
from wireproto.records.builder import build_batch
from wireproto.records.row import ROW_BYTES, Row

BATCHES = 2 * PROBES + 7
"""More than one round of a search looks at."""


def contents() -> list[bytes]:
    """Batches of one to three records; compaction has left out some offsets, timestamps go up and down."""
    made, offset = [], 0
    for number in range(BATCHES):
        count = 1 + number % 3
        timestamp = 1000 + 10 * (number % 9) + number
        content = bytearray(build_batch([(None, b"v", [], timestamp)] * count))
        assign_offsets(content, offset, 0)
        made.append(bytes(content))
        offset += count + (number % 5 == 4)
    return made


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = Database(Path(tmp_path_factory.mktemp("store")) / "db")
    ingest = Ingest(STORE, database)
    ingest.on_request(request(b"O"))
    for sequence, content in enumerate(contents()):
        ingest.on_record(Record(ADDRESS, "orders", sequence, content), 0.0)
    settle(ingest, database)
    yield database
    database.close()


def rows(database: Database) -> list[Row]:
    joined = read_rows(database, ADDRESS, 0, BATCHES - 1)
    return [Row.unpack(joined[at : at + ROW_BYTES]) for at in range(0, len(joined), ROW_BYTES)]


def found(database: Database, kind: int, target: int, bound: int) -> tuple[int, Row | None]:
    sequence, row = search(database, ADDRESS, kind, target, bound)
    return sequence, Row.unpack(row) if row else None


@pytest.mark.parametrize("bound", [0, 1, PROBES, BATCHES - 1])
def test_every_offset_is_found_in_the_batch_that_holds_it_or_the_next_one(
    database: Database, bound: int
) -> None:
    all_rows = rows(database)
    for offset in range(all_rows[-1].last_offset + 2):
        right = next(
            ((number, row) for number, row in enumerate(all_rows[: bound + 1]) if row.last_offset >= offset),
            (-1, None),
        )
        assert found(database, LOOKUP_OFFSET, offset, bound) == right


def test_every_timestamp_is_found_where_it_is_reached_first(database: Database) -> None:
    all_rows = rows(database)
    highest = max(row.max_timestamp for row in all_rows)
    for timestamp in range(990, highest + 2):
        right = next(
            ((number, row) for number, row in enumerate(all_rows) if row.max_timestamp >= timestamp),
            (-1, None),
        )
        assert found(database, LOOKUP_TIMESTAMP, timestamp, BATCHES - 1) == right
    first = next(number for number, row in enumerate(all_rows) if row.max_timestamp == highest)
    assert found(database, LOOKUP_MAX_TIMESTAMP, 0, BATCHES - 1) == (first, all_rows[first])


@pytest.mark.parametrize("missing", [0, 3, BATCHES - 1])
def test_a_range_with_something_missing_is_corrupt_and_never_shorter(tmp_path: Path, missing: int) -> None:
    database = Database(tmp_path / "db")
    ingest = Ingest(STORE, database)
    ingest.on_request(request(b"O"))
    for sequence, content in enumerate(contents()):
        ingest.on_record(Record(ADDRESS, "orders", sequence, content), 0.0)
    settle(ingest, database)
    database._db.delete(keys.record_prefix(ADDRESS) + keys.sequence_bytes(missing))
    with pytest.raises(StoreCorrupt, match=f"near sequence {missing} is missing"):
        read_records(database, ADDRESS, 0, BATCHES - 1, 1 << 20)
    assert read_records(database, ADDRESS, 1, 2, 1 << 20) == contents()[1:3]
    database.close()


class NativeDatabase:
    """Records of one size, and how many were read at once."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.read: list[int] = []

    def get_many(self, wanted: list[bytes]) -> list[bytes | None]:
        self.read.append(len(wanted))
        return [key[-8:].ljust(self.size, b".") for key in wanted]


@pytest.mark.parametrize(
    ("size", "largest", "at_once"),
    [
        (100, math.inf, NATIVE_RECORDS_AT_ONCE),
        (100, 100, 1000),
        (8, 0, 1000),
        (100, 1_000, 100),
        (100, 1 << 30, NATIVE_RECORDS_AT_ONCE),
    ],
)
def test_as_many_native_records_are_read_at_once_as_are_known_to_fit(
    size: int, largest: float, at_once: int
) -> None:
    database = NativeDatabase(size)
    read = read_native(cast("Database", database), ADDRESS, 5, 1004, 100_000, largest)
    assert read == [keys.sequence_bytes(sequence).ljust(size, b".") for sequence in range(5, 1005)]
    assert set(database.read[:-1]) <= {at_once}
    assert max(database.read) == at_once
