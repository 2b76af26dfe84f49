"""A commit is reported after its fsync, or its error is; after an error nothing is."""

from __future__ import annotations

import threading
from typing import Any, cast

from mesh.protocol.commit import Commit
from mesh.store.committer import Committer, Fsync
from mesh.store.db import Database, StoreFailed

PATIENCE_SECONDS = 20.0


class Disk:
    """In the database's place. `events` tells in order what happened; `bad` fsyncs fail, by their number."""

    def __init__(self, *, bad: int = -1) -> None:
        self.events: list[str] = []
        self.reported = threading.Semaphore(0)
        self._bad = bad
        self._flushes = 0
        self.committer = Committer(cast(Database, self), Fsync.ALWAYS, 1.0, self._report)

    def write(self, commit: Commit) -> None:
        self.events.append(f"written {commit.bytes}")

    def flush(self) -> None:
        self._flushes += 1
        if self._flushes == self._bad:
            self.events.append("EIO")
            raise StoreFailed("input/output error")
        self.events.append("fsynced")

    def _report(self, commit: Commit, error: StoreFailed | None) -> None:
        self.events.append(f"reported {commit.bytes}" if error is None else f"{error} of {commit.bytes}")
        self.reported.release()

    def write_and_wait(self, number: int) -> None:
        assert not self.committer.write(numbered(number))
        assert self.reported.acquire(timeout=PATIENCE_SECONDS)


def numbered(number: int) -> Any:
    commit = Commit()
    commit.bytes = number
    return commit


def test_each_is_reported_after_its_own_fsync() -> None:
    disk = Disk()
    disk.committer.start()
    for number in range(3):
        disk.write_and_wait(number)
    disk.committer.stop()
    assert disk.events == [
        event for number in range(3) for event in (f"written {number}", "fsynced", f"reported {number}")
    ]


def test_what_was_written_before_the_end_is_fsynced_and_reported() -> None:
    disk = Disk()
    for number in range(3):
        disk.committer.write(numbered(number))
    disk.committer.start()
    disk.committer.stop()
    assert disk.events[3:] == [event for number in range(3) for event in ("fsynced", f"reported {number}")]


def test_an_fsync_that_fails_is_reported_and_nothing_after_it() -> None:
    disk = Disk(bad=2)
    for number in range(4):
        disk.committer.write(numbered(number))
    disk.committer.start()
    disk.committer.stop()
    assert disk.events[4:] == ["fsynced", "reported 0", "EIO", "input/output error of 1"]
