"""The committer's thread: fsyncs what was written, and only then reports it to the loop.

Rule: under `--fsync always` a commit is reported after the fsync of the log has returned; an error is
reported instead of the commit, and after one nothing more is written. Commits are made one at a time, in
order; what arrives meanwhile waits and goes into the next one together (group commit).

The write itself is done on the loop: rocksdict keeps the interpreter's lock during it wherever it runs, so a
thread would only add two switches. The fsync gives the lock up, and has the thread.
"""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from mesh import crash_points
from mesh.protocol.commit import Commit
from mesh.store.db import Database, StoreFailed

JOIN_SECONDS = 10.0
"""Longest wait for the thread at shutdown."""


class Fsync(Enum):
    """When a commit counts as durable: after its fsync, or after its write with an fsync now and then, or
    none.
    """

    ALWAYS = "always"
    INTERVAL = "interval"
    NEVER = "never"


@dataclass
class CommitStatistics:
    """Counters since the start; seconds are of wall time."""

    commits: int = 0
    bytes: int = 0
    stalls: int = 0
    fsyncs: int = 0
    fsync_seconds: float = 0.0
    slowest_fsync_seconds: float = 0.0
    observe_fsync: Callable[[float], None] = field(default=lambda _seconds: None)
    """Told of each fsync, from the committer's thread."""


class Committer:
    """`report(commit, error)` is called from the thread when a commit's fsync is done or has failed."""

    def __init__(
        self,
        database: Database,
        fsync: Fsync,
        interval_seconds: float,
        report: Callable[[Commit, StoreFailed | None], None],
    ) -> None:
        self.statistics = CommitStatistics()
        self.fsync = fsync
        self._database = database
        self._interval = interval_seconds
        self._report = report
        self._queue: queue.SimpleQueue[Commit | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="store committer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def write(self, commit: Commit) -> bool:
        """Write a commit; true if it is durable by that alone, false if its report will follow.

        Raises WriteStalled (nothing was written: try again) and StoreFailed.
        """
        self._database.write(commit)
        self.statistics.commits += 1
        self.statistics.bytes += commit.bytes
        crash_points.reach("after-write")
        if self.fsync is Fsync.ALWAYS:
            self._queue.put(commit)
            return False
        self._database.count_written()
        return True

    def stop(self) -> None:
        """Finish what was written and end the thread. Blocks, up to `JOIN_SECONDS`."""
        self._queue.put(None)
        self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        commit = Commit()
        try:
            while True:
                try:
                    following = self._queue.get(
                        timeout=self._interval if self.fsync is Fsync.INTERVAL else None
                    )
                except queue.Empty:
                    self._flush()
                    continue
                if following is None:
                    return
                commit = following
                self._flush()
                crash_points.reach("after-fsync")
                if commit.sealing:
                    crash_points.reach("during-seal")
                crash_points.reach("before-ack")
                self._report(commit, None)
        except StoreFailed as error:
            self._report(commit, error)

    def _flush(self) -> None:
        started = time.monotonic()
        self._database.flush()
        took = time.monotonic() - started
        statistics = self.statistics
        statistics.observe_fsync(took)
        statistics.fsyncs += 1
        statistics.fsync_seconds += took
        statistics.slowest_fsync_seconds = max(statistics.slowest_fsync_seconds, took)
