"""The committer's thread: writes a commit, fsyncs it, and only then reports it to the loop.

Rule: under `--fsync always` a commit is reported after `flush_wal(True)` has returned; an error is reported instead of
the commit, and after one the thread takes no more work. Commits are made one at a time, in order; what arrives
meanwhile waits and goes into the next one together (group commit).
"""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from mesh import crash_points
from mesh.protocol.ingest import Commit
from mesh.store.db import Database, WriteStalled

STALL_RETRY_SECONDS = 0.005
"""Pause before a stalled write is tried again; the queue fills meanwhile and holds the writers back."""

JOIN_SECONDS = 10.0
"""Longest wait for the thread at shutdown."""


class Fsync(Enum):
    """When a commit counts as durable: after its fsync, or after its write with an fsync now and then, or none."""

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


class Committer:
    """`submit` hands a commit over; `report(commit, error)` is called from the thread when it is durable or failed."""

    def __init__(
        self,
        database: Database,
        fsync: Fsync,
        interval_seconds: float,
        report: Callable[[Commit, Exception | None], None],
    ) -> None:
        self.statistics = CommitStatistics()
        self._database = database
        self._fsync = fsync
        self._interval = interval_seconds
        self._report = report
        self._queue: queue.SimpleQueue[Commit | None] = queue.SimpleQueue()
        self._dirty_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="store committer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, commit: Commit) -> None:
        self._queue.put(commit)

    def stop(self) -> None:
        """Finish what was submitted and end the thread. Blocks, up to `JOIN_SECONDS`."""
        self._queue.put(None)
        self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        commit: Commit | None = None
        try:
            while True:
                try:
                    commit = self._queue.get(timeout=self._patience())
                except queue.Empty:
                    self._flush()
                    continue
                if commit is None:
                    return
                self._make_durable(commit)
                crash_points.reach("before-ack")
                self._report(commit, None)
        except Exception as error:  # the loop ends the process with it
            self._report(commit or Commit(), error)

    def _make_durable(self, commit: Commit) -> None:
        while True:
            try:
                self._database.write(commit)
                break
            except WriteStalled:
                self.statistics.stalls += 1
                time.sleep(STALL_RETRY_SECONDS)
        self.statistics.commits += 1
        self.statistics.bytes += commit.bytes
        crash_points.reach("after-write")
        if self._fsync is Fsync.ALWAYS:
            self._flush()
        elif self._fsync is Fsync.INTERVAL:
            now = time.monotonic()
            if self._dirty_since is None:
                self._dirty_since = now
            elif now - self._dirty_since >= self._interval:
                self._flush()
        crash_points.reach("after-fsync")
        if commit.sealing:
            crash_points.reach("during-seal")

    def _patience(self) -> float | None:
        """How long to wait for work before an interval's fsync is due, in seconds; None for ever."""
        if self._fsync is not Fsync.INTERVAL or self._dirty_since is None:
            return None
        return max(0.0, self._interval - (time.monotonic() - self._dirty_since))

    def _flush(self) -> None:
        started = time.monotonic()
        self._database.flush()
        took = time.monotonic() - started
        statistics = self.statistics
        statistics.fsyncs += 1
        statistics.fsync_seconds += took
        statistics.slowest_fsync_seconds = max(statistics.slowest_fsync_seconds, took)
        self._dirty_since = None
