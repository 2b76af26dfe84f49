"""Where operations of this process are told: into a file, from any thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults.transactions.history import Event, Operation, load, save, written


class Told:
    """A history that grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("w")
        self._lock = threading.Lock()

    def add(self, *operations: Operation) -> None:
        lines = "".join(map(written, operations))
        with self._lock:
            self._file.write(lines)

    def event(self, what: str) -> None:
        self.add(Event(what, time.monotonic_ns()))

    def flush(self) -> None:
        with self._lock:
            self._file.flush()

    def close(self) -> None:
        with self._lock:
            self._file.close()


class Histories:
    """Files of several tellers, as one history: each one's operations are in their order."""

    def __init__(self) -> None:
        self.files: list[Path] = []

    def __iter__(self) -> Iterator[Operation]:
        for file in self.files:
            yield from load(file)

    def save(self, path: Path) -> None:
        """One file of all of them."""
        save(self, path)
