"""Power losses at any moment, again and again: what was fsynced is there, whatever the disk made of the rest.

The log is the real one, on real files that are small; what it writes is noted. A power loss leaves of each
write that no fsync covers any sectors, in any order, and of the page `come-to` any state it has had.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from mesh.store.write_ahead import files, log, replaying
from mesh.store.write_ahead.entries import PUT, changes, pack_change
from mesh.store.write_ahead.files import LogFile
from mesh.store.write_ahead.log import WriteAheadLog
from mesh.store.write_ahead.mark import NAME
from mesh.store.write_ahead.replaying import begin, cut, examine, replayed

SECTOR = 512
FILE_BYTES = 4 * SECTOR
MEMORY = Path("/dev/shm")


@dataclass
class Write:
    path: Path
    position: int
    data: bytes


@dataclass
class Disk:
    """What is fsynced, and what was written since."""

    durable: dict[Path, bytes] = field(default_factory=dict)
    since: list[Write] = field(default_factory=list)
    pages: list[bytes] = field(default_factory=list)

    def fsync(self, path: Path) -> None:
        for write in self.since:
            if write.path == path:
                self._put(write, None)
        self.since = [write for write in self.since if write.path != path]

    def _put(self, write: Write, random: Random | None) -> None:
        content = bytearray(self.durable.get(write.path, b""))
        is_there = True
        for place in range(len(write.data)):
            at = write.position + place
            if place == 0 or at % SECTOR == 0:
                is_there = random is None or random.random() < 0.5
            if is_there:
                content.extend(bytes(max(at + 1 - len(content), 0)))
                content[at] = write.data[place]
        self.durable[write.path] = bytes(content)

    def lose_power(self, directory: Path, random: Random) -> None:
        for write in self.since:
            self._put(write, random)
        self.since = []
        for path in files.names(directory):
            path.unlink()
        for path, content in self.durable.items():
            path.write_bytes(content)
        page = random.choice(self.pages) if self.pages else b""
        (directory / NAME).write_bytes(page[:64].ljust(4096, b"\0"))
        self.pages = [page]


class Keeper:
    """As the thread's, but when the test says so."""

    failure = ""

    def __init__(self, _directory: Path, free: deque[LogFile], flush: Callable[[], None]) -> None:
        self.free, self.flush = free, flush
        self.waiting: list[LogFile] = []

    def take(self, file: LogFile) -> None:
        self.waiting.append(file)

    def make_one(self) -> None:
        pass

    def work(self) -> None:
        self.flush()
        self.free.extend(self.waiting)
        self.waiting = []

    def close(self) -> None:
        pass


class Store:
    """A log and the tables beside it. `contents`: commit -> its value."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self.directory, self.disk = directory, disk
        self.contents: dict[int, bytes] = {}
        self.tables = self.fsynced = self.number = 0
        self.log: Any = None

    def open(self) -> None:
        examined = examine(self.directory, self.tables)
        verdict = examined.verdict
        assert verdict.kind != "corrupt", verdict.cause
        assert max(self.fsynced, self.tables) <= verdict.last <= self.number
        expected = self.tables
        for content, entry in replayed(examined):
            expected += 1
            assert list(changes(content, entry)) == [(PUT, b"key", self.contents[expected])]
            assert entry.number == expected
        assert expected == verdict.last
        cut(examined)
        self.disk.since = []
        again = examine(self.directory, verdict.last).verdict
        assert (again.kind, again.last, again.replayed) == ("none", verdict.last, ())
        self.number = self.tables = self.fsynced = verdict.last
        self.contents = {number: value for number, value in self.contents.items() if number <= self.number}
        for path in files.names(self.directory):
            self.disk.durable[path] = path.read_bytes()
        free = begin(self.directory)
        self.disk.durable = {path: self.disk.durable[path] for path in files.names(self.directory)}
        self.log = WriteAheadLog(self.directory, free, self.flush)
        self.note()

    def flush(self) -> None:
        self.tables = self.number

    def append(self, value: bytes) -> None:
        self.number += 1
        self.contents[self.number] = value
        self.log.append(self.number, [pack_change(PUT, 3, len(value)), b"key", value])
        self.note()

    def fsync(self) -> None:
        self.log.fsync(self.number)
        self.fsynced = self.number
        self.note()

    def note(self) -> None:
        self.disk.pages.append(bytes(self.log._mark._page[:128]))

    def lose_power(self, random: Random) -> None:
        self.log.close()
        # Memtables go into tables by themselves, too.
        if random.random() < 0.5:
            self.tables = random.randint(self.tables, self.number)
        self.disk.lose_power(self.directory, random)


steps = st.sampled_from([100, 100, 400, 700, 1500, None, None, "flush"])
"""Bytes that are appended, an fsync, or RocksDB's flush. Few sizes: entries of one life stand where others
did."""


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.lists(steps, min_size=1, max_size=40), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_what_was_fsynced_outlives_power_losses(lives: list[list[Any]], random: Random, large: bool) -> None:
    disk = Disk()
    real_write, real_fsync, real_make = LogFile.write, LogFile.fsync, files.make

    def write(self: LogFile, parts: list[bytes], position: int) -> None:
        disk.since.append(Write(self.path, position, b"".join(parts)))
        real_write(self, parts, position)

    def fsync(self: LogFile) -> None:
        real_fsync(self)
        disk.fsync(self.path)

    def make(directory: Path) -> LogFile:
        file = real_make(directory)
        disk.durable[file.path] = b""
        return file

    with (
        tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder,
        patch.object(LogFile, "write", write),
        patch.object(LogFile, "fsync", fsync),
        patch.object(log, "make", make),
        patch.object(log, "Keeper", Keeper),
        patch.object(log, "FILE_BYTES", FILE_BYTES),
    ):
        store = Store(Path(folder) / "log", disk)
        (Path(folder) / "log").mkdir()
        for life in lives:
            store.open()
            for step in life:
                if step is None:
                    store.fsync()
                elif step == "flush":
                    store.log.keeper.work()
                else:
                    size = step + (3 * FILE_BYTES if large and random.random() < 0.1 else 0)
                    store.append(os.urandom(size))
            store.lose_power(random)
        store.open()
        store.log.close()
        assert len(store.log._free) <= replaying.FILES_KEPT
