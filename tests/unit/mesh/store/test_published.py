"""The values of a segment's offsets: each a record, empty where there is no value, never past its piece."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.ingest import Ingest
from mesh.store import keys
from mesh.store import published as published_module
from mesh.store.damage import BadRange, Damage
from mesh.store.db import Database
from mesh.store.published import PublishedRecords
from tests.entries import entry_of
from tests.unit.mesh.store.sample import ADDRESS, STORE, announcement, settle
from wireproto.dafka.additions import AbortedSpan, OpenEntry, PublishEntry, Request
from wireproto.dafka.messages import Record
from wireproto.records.batch import assign_offsets
from wireproto.records.builder import build_batch
from wireproto.records.control import EndMarker, marker_batch
from wireproto.records.header import HEADER_BYTES, TRANSACTIONAL_FLAG
from wireproto.records.values import values_of

ZSTD = 4


def batch(offset: int, values: list[bytes | None], producer_id: int = -1, codec: int = 0) -> bytes:
    attributes = TRANSACTIONAL_FLAG if producer_id >= 0 else 0
    made = build_batch(
        [(b"key", value, [("h", b"x")], 1000) for value in values],
        codec=codec,
        producer_id=producer_id,
        attributes=attributes,
    )
    return at(made, offset)


def at(content: bytes, offset: int) -> bytes:
    made = bytearray(content)
    assign_offsets(made, offset, 0)
    return bytes(made)


CONTENTS = [
    batch(0, [b"0", b"1"], codec=ZSTD),
    batch(2, [b"aborted", b"aborted"], producer_id=7),
    batch(4, [b"4"], producer_id=8),
    at(marker_batch(7, 0, EndMarker(is_commit=False, coordinator_epoch=0), 1000), 5),
    batch(6, [None, b"7"], producer_id=7),
    batch(11, [b"11"]),
]
"""A compaction has removed 8 to 10."""
VALUES = [b"0", b"1", b"", b"", b"4", b"", b"", b"7", b"", b"", b"", b"11"]
ABORTED = (AbortedSpan(7, 2, 5),)


class Segment(NamedTuple):
    database: Database
    ingest: Ingest
    damage: Damage
    records: PublishedRecords

    def read(self, first: int, last: int, upto: int = 11) -> list[bytes]:
        piece = PublishEntry("p", "d", "t.values", ADDRESS, 0, upto, 0, True, ABORTED)
        return self.records.read(piece, first, last)

    def read_on(self, first: int, last: int, upto: int = 11) -> list[bytes]:
        """As one read after the other gives it."""
        found: list[bytes] = []
        while first + len(found) <= last and (more := self.read(first + len(found), last, upto)):
            found += more
        return found

    def close(self, end: int) -> None:
        self.ingest.on_request(Request(b"C", STORE, "R2", (entry_of(b"C", ADDRESS, end),)))
        settle(self.ingest, self.database)


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[Segment]:
    database = Database(tmp_path / "db")
    ingest = Ingest(STORE, database)
    ingest.on_request(Request(b"O", STORE, "R1", (OpenEntry(announcement()).pack(),)))
    for sequence, content in enumerate(CONTENTS):
        ingest.on_record(Record(ADDRESS, "orders", sequence, content), 0.0)
    settle(ingest, database)
    damage = Damage()
    yield Segment(database, ingest, damage, PublishedRecords(database, ingest, damage))
    database.close()


def test_every_range_has_a_record_for_each_offset(segment: Segment) -> None:
    for first in range(12):
        for last in range(first, 12):
            assert segment.read_on(first, last) == VALUES[first : last + 1]


def test_nothing_behind_the_piece_is_read(segment: Segment) -> None:
    for upto in range(12):
        assert segment.read_on(0, 1 << 40, upto=upto) == VALUES[: upto + 1]


def test_what_is_not_here_yet_is_no_gap(segment: Segment) -> None:
    """A store may lag behind what others have, and what the leader told."""
    assert segment.read(12, 20, upto=20) == []
    assert segment.read(10, 20, upto=20) == VALUES[10:]


def test_behind_the_last_record_of_a_whole_segment_is_nothing_but_gaps(segment: Segment) -> None:
    segment.close(len(CONTENTS) - 1)
    assert segment.read(12, 14, upto=20) == [b"", b"", b""]
    assert segment.read(10, 20, upto=20) == VALUES[10:]


def test_a_segment_that_becomes_whole_during_a_read_has_no_gaps(
    segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment.close(len(CONTENTS) - 1)
    state = segment.ingest.known(ADDRESS)
    assert state is not None
    heads = [len(CONTENTS) - 2]

    class Growing:
        """As the loop makes it, between any two looks of the thread."""

        def __getattr__(self, name: str) -> object:
            return heads.pop() if name == "head" and heads else getattr(state, name)

    monkeypatch.setattr(segment.ingest, "known", lambda _address: Growing())
    assert segment.read(11, 11) == [b"11"]


def test_a_closed_segment_that_lacks_records_has_no_gaps(segment: Segment) -> None:
    segment.close(len(CONTENTS))
    assert segment.read(12, 14, upto=20) == []


def test_one_read_is_bounded(segment: Segment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_module, "READ_RECORDS", 3)
    assert [segment.read(first, 11) for first in (0, 8)] == [VALUES[:3], VALUES[8:11]]
    monkeypatch.setattr(published_module, "READ_RECORDS", 100)
    monkeypatch.setattr(published_module, "READ_BYTES", 1)
    assert segment.read(0, 11) == VALUES[:2], "one batch"


def test_a_batch_is_split_once_while_it_is_read(segment: Segment, monkeypatch: pytest.MonkeyPatch) -> None:
    split: list[int] = []

    def counting(content: bytes) -> list[tuple[int, bytes]]:
        values = values_of(content)
        split.append(values[0][0])
        return values

    monkeypatch.setattr(published_module, "values_of", counting)
    for _ in range(2):
        for offset in range(12):
            assert segment.read(offset, offset) == [VALUES[offset]]
    assert split == [0, 4, 6, 11], "and never what nobody is shown"
    monkeypatch.setattr(published_module, "SPLIT_BYTES", 1)
    segment.records._split.clear()
    segment.records._split_bytes = 0
    segment.read(0, 11)
    assert len(segment.records._split) == 1
    counted = published_module.BATCH_BYTES + published_module.VALUE_BYTES + len(b"11")
    assert segment.records._split_bytes == counted


def test_a_segment_that_is_not_here_gives_nothing(segment: Segment) -> None:
    piece = PublishEntry("p", "d", "t.values", "elsewhere", 0, 11, 0, True)
    assert segment.records.read(piece, 0, 11) == []
    segment.ingest.on_record(Record("native", "orders", 0, b"0"), 0.0)
    settle(segment.ingest, segment.database)
    assert segment.records.read(piece._replace(segment="native"), 0, 11) == []
    segment.ingest.on_request(Request(b"X", STORE, "R3", (entry_of(b"X", ADDRESS, -1),)))
    settle(segment.ingest, segment.database)
    assert segment.read(0, 11) == []


def test_nobody_gets_what_is_damaged(segment: Segment) -> None:
    segment.damage.mark(ADDRESS, BadRange(5, 5, "a bit"))
    assert segment.read(0, 7, upto=7) == VALUES[:8]
    with pytest.raises(StoreCorrupt, match="damaged"):
        segment.read(11, 11)


def test_a_batch_that_is_gone_is_said(segment: Segment) -> None:
    number = keys.sequence_bytes(0)
    segment.database._db.delete(keys.record_prefix(ADDRESS) + number)
    with pytest.raises(StoreCorrupt, match="missing"):
        segment.read(0, 0)


def test_a_batch_that_nobody_can_read_is_empty(segment: Segment, caplog: pytest.LogCaptureFixture) -> None:
    key = keys.record_prefix(ADDRESS) + keys.sequence_bytes(0)
    broken = bytearray(CONTENTS[0])
    broken[HEADER_BYTES] ^= 0xFF
    segment.database._db[key] = bytes(broken)
    assert segment.read(0, 4) == [b"", b"", b"", b"", b"4"]
    assert "batch 0 has no records to read" in caplog.text
