"""The entries of a write-ahead log laid over tables that are only read: what `mesh.store.db` asks of RocksDB,
of both together.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from mesh.store.write_ahead.entries import Entry, apply


class Ranges:
    """Ranges of keys, first to before end, joined where they touch."""

    def __init__(self) -> None:
        self._firsts: list[bytes] = []
        self._ends: list[bytes] = []

    def add(self, first: bytes, end: bytes) -> None:
        low = bisect_left(self._ends, first)
        high = bisect_right(self._firsts, end)
        if low < high:
            first, end = min(first, self._firsts[low]), max(end, self._ends[high - 1])
        self._firsts[low:high] = [first]
        self._ends[low:high] = [end]

    def __contains__(self, key: bytes) -> bool:
        place = bisect_right(self._firsts, key)
        return place > 0 and key < self._ends[place - 1]


class Overlay:
    """As an open `rocksdict.Rdict` that nobody writes to."""

    def __init__(self, tables: Any, entries: Iterable[tuple[bytes, Entry]]) -> None:
        """Raises OSError."""
        self._tables = tables
        self._changes: dict[bytes, bytes | None] = {}
        self._deleted = Ranges()
        operations: list[tuple[bytes, bytes | None, bytes | None]] = []
        for content, entry in entries:
            apply(
                content,
                entry,
                lambda key, value: operations.append((key, value, None)),
                lambda key: operations.append((key, None, None)),
                lambda first, end: operations.append((first, None, end)),
            )
        # The last change of a key counts, so the others are not looked at.
        for key, value, end in reversed(operations):
            if end is not None:
                self._deleted.add(key, end)
            elif key not in self._changes:
                self._changes[key] = None if key in self._deleted else value
        self._keys = sorted(key for key, value in self._changes.items() if value is not None)

    def hides(self, key: bytes) -> bool:
        """Whether what tables have of this key counts no more."""
        return key in self._changes or key in self._deleted

    def get(self, wanted: Sequence[bytes]) -> list[bytes | None]:
        found = self._tables.get(list(wanted))
        return [
            self._changes.get(key) if self.hides(key) else value
            for key, value in zip(wanted, found, strict=True)
        ]

    def iter(self, options: Any = None) -> "OverlayIterator":
        return OverlayIterator(self, self._tables.iter(options), self._keys)

    def value(self, key: bytes) -> bytes:
        value = self._changes[key]
        assert value is not None
        return value

    def close(self) -> None:
        self._tables.close()


class OverlayIterator:
    """As rocksdict's. `next` goes on from `seek` only. An upper bound is one of the tables alone."""

    def __init__(self, overlay: Overlay, tables: Any, keys: list[bytes]) -> None:
        self._overlay = overlay
        self._tables = tables
        self._keys = keys
        self._at = 0
        self._is_last = False
        """Whether the greater of both keys is the one that was asked for."""

    def seek(self, key: bytes) -> None:
        self._is_last = False
        self._tables.seek(key)
        self._pass_hidden()
        self._at = bisect_left(self._keys, key)

    def seek_for_prev(self, key: bytes) -> None:
        self._is_last = True
        self._tables.seek_for_prev(key)
        while self._tables.valid() and self._overlay.hides(self._tables.key()):
            self._tables.prev()
        self._at = bisect_right(self._keys, key) - 1

    def valid(self) -> bool:
        return self._in_tables() is not None or self._in_log() is not None

    def key(self) -> bytes:
        both = [key for key in (self._in_tables(), self._in_log()) if key is not None]
        return max(both) if self._is_last else min(both)

    def value(self) -> bytes:
        key = self.key()
        if key == self._in_log():
            return self._overlay.value(key)
        value: bytes = self._tables.value()
        return value

    def next(self) -> None:
        if self.key() == self._in_log():
            self._at += 1
        else:
            self._tables.next()
            self._pass_hidden()

    def status(self) -> None:
        self._tables.status()

    def _in_tables(self) -> bytes | None:
        return self._tables.key() if self._tables.valid() else None

    def _in_log(self) -> bytes | None:
        return self._keys[self._at] if 0 <= self._at < len(self._keys) else None

    def _pass_hidden(self) -> None:
        while self._tables.valid() and self._overlay.hides(self._tables.key()):
            self._tables.next()
