"""The bytes of the write-ahead log: what is written is read again, and nothing else is."""

from __future__ import annotations

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.store.logged_batch import LoggedBatch
from mesh.store.write_ahead.entries import (
    DELETE,
    DELETE_RANGE,
    FILE_HEADER_BYTES,
    JOINED_BYTES,
    PUT,
    SMALL_BYTES,
    Entry,
    apply,
    changes,
    entry_at,
    entry_parts,
    file_header,
    read_file_header,
)

SALT = b"01234567"


class Rocks:
    """As `rocksdict.WriteBatch`."""

    def __init__(self) -> None:
        self.operations: list[tuple[int, bytes, bytes]] = []

    def put(self, key: bytes, value: bytes) -> None:
        self.operations.append((PUT, key, value))

    def delete(self, key: bytes) -> None:
        self.operations.append((DELETE, key, b""))

    def delete_range(self, first: bytes, end: bytes) -> None:
        self.operations.append((DELETE_RANGE, first, end))


def logged(*operations: tuple[int, bytes, bytes]) -> LoggedBatch:
    batch = LoggedBatch(Rocks())
    for kind, key, second in operations:
        if kind == PUT:
            batch.put(key, second)
        elif kind == DELETE:
            batch.delete(key)
        else:
            batch.delete_range(key, second)
    return batch


def entry_of(batch: LoggedBatch, number: int = 7, fsynced: int = 5, salt: bytes = SALT) -> bytes:
    return b"".join(entry_parts(salt, number, fsynced, sum(map(len, batch.changes)), batch.changes))


def test_an_entry_byte_by_byte() -> None:
    batch = logged((PUT, b"key", b"value"), (DELETE, b"k", b""), (DELETE_RANGE, b"a", b"bc"))
    rest = (
        bytes.fromhex("27000000 0700000000000000 0500000000000000")
        + bytes.fromhex("01 0300 05000000") + b"keyvalue"
        + bytes.fromhex("02 0100 00000000") + b"k"
        + bytes.fromhex("03 0100 02000000") + b"abc"
    )  # fmt: skip
    rest = rest.replace(b"\x27", len(rest[20:]).to_bytes(1, "little"), 1)
    assert entry_of(batch) == SALT + google_crc32c.value(SALT + rest).to_bytes(4, "little") + rest
    assert batch.batch.operations == [
        (PUT, b"key", b"value"),
        (DELETE, b"k", b""),
        (DELETE_RANGE, b"a", b"bc"),
    ]


def test_a_files_header_byte_by_byte() -> None:
    head = b"dafkalog" + SALT + bytes.fromhex("0900000000000000")
    header = file_header(SALT, 9)
    assert header == head + google_crc32c.value(head).to_bytes(4, "little")
    assert len(header) == FILE_HEADER_BYTES
    assert read_file_header(header + b"more") == (SALT, 9)


@pytest.mark.parametrize("place", range(FILE_HEADER_BYTES))
def test_a_header_with_another_bit_is_none(place: int) -> None:
    header = bytearray(file_header(SALT, 9))
    header[place] ^= 4
    assert read_file_header(bytes(header)) is None
    assert read_file_header(bytes(header[:place])) is None


operations = st.tuples(
    st.sampled_from([PUT, DELETE_RANGE, DELETE]), st.binary(max_size=300), st.binary(max_size=9000)
).map(lambda one: (one[0], one[1], b"" if one[0] == DELETE else one[2]))


@given(st.lists(operations, max_size=30), st.integers(1, 2**60), st.binary(max_size=100), st.data())
def test_what_is_written_is_read(
    wanted: list[tuple[int, bytes, bytes]], number: int, before: bytes, data: st.DataObject
) -> None:
    batch = logged(*wanted)
    content = before + entry_of(batch, number) + b"behind it"
    entry = entry_at(content, len(before), SALT)
    assert entry == Entry(len(before), len(content) - 9, number, 5)
    assert list(changes(content, entry)) == wanted
    replayed = Rocks()
    apply(content, entry, replayed.put, replayed.delete, replayed.delete_range)
    assert replayed.operations == batch.batch.operations
    place = data.draw(st.integers(len(before), entry.end - 1))
    damaged = bytearray(content)
    damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    assert entry_at(bytes(damaged), len(before), SALT) is None
    assert entry_at(content[:place], len(before), SALT) is None
    assert entry_at(content, len(before), b"another!") is None


@pytest.mark.parametrize(
    "size", [SMALL_BYTES - 1, SMALL_BYTES, JOINED_BYTES - 8, JOINED_BYTES, 10 * JOINED_BYTES]
)
@pytest.mark.parametrize("count", [1, 3])
def test_large_values_are_not_copied_and_the_bytes_are_the_same(size: int, count: int) -> None:
    values = [bytes([number]) * size for number in range(count)]
    batch = logged(*((PUT, b"key", value) for value in values))
    total = sum(map(len, batch.changes))
    parts = entry_parts(SALT, 1, 0, total, batch.changes)
    assert b"".join(parts)[28 + 4 :] == b"".join(batch.changes)
    if total > JOINED_BYTES:
        assert [part for part in parts if any(part is value for value in values)] == [
            value for value in values if size >= SMALL_BYTES
        ]
    content = b"".join(parts)
    entry = entry_at(content, 0, SALT)
    assert entry is not None
    assert [value for _, _, value in changes(content, entry)] == values


def test_a_change_that_nobody_here_writes_is_refused() -> None:
    content = entry_of(logged((PUT, b"key", b"value")))
    entry = entry_at(content, 0, SALT)
    assert entry is not None
    other = bytearray(content)
    other[entry.changes_start] = 9
    rocks = Rocks()
    with pytest.raises(ValueError, match="commit 7 of the write-ahead log has a change of kind 9"):
        apply(bytes(other), entry, rocks.put, rocks.delete, rocks.delete_range)
