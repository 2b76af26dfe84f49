"""What a commit changes, for RocksDB and for the write-ahead log at once."""

from typing import Any

from mesh.store.write_ahead.entries import DELETE, DELETE_RANGE, PUT, pack_change


class LoggedBatch:
    """One atomic write (`mesh.store.changes.Batch`): `batch` is RocksDB's, `changes` are the bytes of the
    log.
    """

    __slots__ = ("batch", "changes")

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self.changes: list[bytes] = []

    def put(self, key: bytes, value: bytes, /) -> None:
        self.changes += (pack_change(PUT, len(key), len(value)), key, value)
        self.batch.put(key, value)

    def delete(self, key: bytes, /) -> None:
        self.changes += (pack_change(DELETE, len(key), 0), key)
        self.batch.delete(key)

    def delete_range(self, first: bytes, end: bytes, /) -> None:
        self.changes += (pack_change(DELETE_RANGE, len(first), len(end)), first, end)
        self.batch.delete_range(first, end)
