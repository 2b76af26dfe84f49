"""A store's disk: the real `mesh.store.db` over a dictionary in the place of RocksDB.

A write is visible at once and durable with the next flush. A crash drops what was not flushed, or keeps it
(the page cache outlives a process; nothing outlives a power loss but what was fsynced). A full disk refuses
writes. `SimDatabase` is one process's handle: when the process is gone, it can do nothing any more.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

from mesh.protocol.disk import StoreCorrupt
from mesh.store import keys
from mesh.store.db import Database

Operation = tuple[bytes, bytes | None, bytes | None]
"""(key, value, None), (key, None, None) to delete it, or (first key, None, key behind the last)."""


class SimBatch:
    """As `rocksdict.WriteBatch`."""

    def __init__(self, *, raw_mode: bool) -> None:
        assert raw_mode, "anything else would be pickled"
        self.operations: list[Operation] = []

    def __len__(self) -> int:
        return len(self.operations)

    def put(self, key: bytes, value: bytes) -> None:
        self.operations.append((key, bytes(value), None))

    def delete(self, key: bytes) -> None:
        self.operations.append((key, None, None))

    def delete_range(self, first: bytes, behind: bytes) -> None:
        self.operations.append((first, None, behind))


class SimReadOptions:
    """As `rocksdict.ReadOptions`."""

    upper_bound: bytes | None = None

    def set_iterate_upper_bound(self, key: bytes) -> None:
        self.upper_bound = key


class SimRocks:
    """What `mesh.store.rocksdb` takes of the module `rocksdict` while a store runs."""

    WriteBatch = SimBatch
    ReadOptions = SimReadOptions


class Disk:
    """One directory. It outlives the processes."""

    def __init__(self) -> None:
        self.data: dict[bytes, bytes] = {}
        self.full = False
        self._undo: list[tuple[bytes, bytes | None]] = []

    def write(self, batch: SimBatch) -> None:
        if self.full:
            raise OSError("IO error: No space left on device")
        for key, value, behind in batch.operations:
            if behind is not None:
                for found in [found for found in self.data if key <= found < behind]:
                    self._set(found, None)
            else:
                self._set(key, value)

    def _set(self, key: bytes, value: bytes | None) -> None:
        self._undo.append((key, self.data.get(key)))
        if value is None:
            self.data.pop(key, None)
        else:
            self.data[key] = value

    def flush(self) -> None:
        self._undo.clear()

    def durable(self) -> dict[bytes, bytes]:
        """What a copy has that is made now: what is flushed."""
        copy = dict(self.data)
        for key, old in reversed(self._undo):
            if old is None:
                copy.pop(key, None)
            else:
                copy[key] = old
        return copy

    def crash(self, *, keep: bool) -> None:
        """The process, or the machine, is gone; `keep` what was written and not flushed."""
        if not keep:
            for key, old in reversed(self._undo):
                if old is None:
                    self.data.pop(key, None)
                else:
                    self.data[key] = old
        self._undo.clear()


class SimHandle:
    """As an open `rocksdict.Rdict`."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.dead = False

    def write(self, batch: SimBatch, _options: object) -> None:
        if self.dead:
            raise OSError("the process is gone")
        self.disk.write(batch)

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.disk.data.get(key) for key in keys]

    def iter(self, options: SimReadOptions | None = None) -> "SimIterator":
        return SimIterator(self.disk, None if options is None else options.upper_bound)

    def compact_range(self, *_: object) -> None:
        pass

    def flush(self) -> None:
        pass

    def cancel_all_background(self, _wait: bool) -> None:
        pass

    def close(self) -> None:
        pass


class SimIterator:
    """As rocksdict's."""

    def __init__(self, disk: Disk, upper_bound: bytes | None = None) -> None:
        self._disk = disk
        self._keys = sorted(key for key in disk.data if upper_bound is None or key < upper_bound)
        self._at = 0

    def seek(self, key: bytes) -> None:
        self._at = bisect_left(self._keys, key)

    def seek_for_prev(self, key: bytes) -> None:
        self._at = bisect_right(self._keys, key) - 1

    def valid(self) -> bool:
        return 0 <= self._at < len(self._keys)

    def key(self) -> bytes:
        return self._keys[self._at]

    def value(self) -> bytes:
        return self._disk.data[self._keys[self._at]]

    def next(self) -> None:
        self._at += 1

    def status(self) -> None:
        pass


class SimKeeper:
    """As `mesh.store.write_ahead.keeper.Keeper`."""

    failure = ""

    def close(self) -> None:
        pass


class SimLog:
    """As `mesh.store.write_ahead.log.WriteAheadLog`: what is fsynced is what the disk has of the database."""

    fsynced = 0

    def __init__(self, handle: SimHandle) -> None:
        self._handle = handle
        self.keeper = SimKeeper()

    def append(self, _number: int, _changes: list[bytes]) -> None:
        pass

    def fsync(self, number: int) -> None:
        if not self._handle.dead:
            self._handle.disk.flush()
            self.fsynced = number

    def count_written(self, number: int) -> None:
        pass

    def forget(self) -> None:
        pass

    def close(self) -> None:
        pass


class SimDatabase(Database):
    """One store process's database."""

    def __init__(self, disk: Disk) -> None:
        self.handle = SimHandle(disk)
        self._db: Any = self.handle
        self._log: Any = SimLog(self.handle)
        self._write_options: Any = None
        self._compaction: Any = None
        self._reclaiming = threading.Lock()
        self._closing = False

    def records(self, address: str) -> dict[int, bytes]:
        """What is here of an address, for the checks. Raises `StoreCorrupt` for a hole."""
        state = self.load(address)
        if state is None:
            return {}
        found: dict[int, bytes] = {}
        prefix = keys.record_prefix(address)
        for sequence in range(state.head + 1):
            content = self.get(prefix + keys.sequence_bytes(sequence))
            if content is None:
                raise StoreCorrupt(f"address {address}: record {sequence} of {state.head} is missing")
            found[sequence] = content
        return found
