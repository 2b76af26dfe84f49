"""What waits for a store's disk, in order: records, and between them what requests changed."""

from collections import deque
from itertools import chain, islice

from mesh.protocol.address_state import AddressState
from mesh.protocol.commit import Accepted, Commit
from mesh.protocol.writer import RECORD_OVERHEAD_BYTES

MAX_COMMIT_BYTES = 8 * 1024 * 1024
"""Content in one commit: bounds the time of one write and so the latency of what comes after it."""

MAX_COMMIT_RECORDS = 2048
"""Records in one commit: each costs the write some microseconds, however small it is, and as many more when
it is acknowledged, all of them in one stretch."""


class CommitQueue:
    """`here`, then change `latest`; `take` hands out one commit at a time, `written` ends it."""

    def __init__(self) -> None:
        self.records: list[Accepted] = []
        """Appended to for each record that is accepted."""
        self._waiting: deque[Commit] = deque()
        """What requests changed and no commit has yet: an entry for each place in the queue of records."""
        self._taken = 0
        """Records that were handed out in commits."""
        self._writing: list[Accepted] = []
        """The records of the commit that the shell has."""
        self._barriers = 0
        """How many of `_waiting` are barriers."""

    def here(self) -> Commit:
        """Where to put what is to be written after the records that are in the queue now."""
        behind = self._taken + len(self.records)
        if not self._waiting or self.latest.behind < behind:
            self._waiting.append(Commit(behind))
        return self.latest

    @property
    def latest(self) -> Commit:
        """Where the request at hand puts what it changes."""
        return self._waiting[-1]

    def end_commit(self) -> None:
        """Have later records in a later commit than what the request at hand changes."""
        self._barriers += not self.latest.barrier
        self.latest.barrier = True

    def take(self) -> Commit | None:
        """What is to be made durable next, or None."""
        queue, waiting = self.records, self._waiting
        if not queue and not waiting:
            return None
        commit = Commit()
        size = taken = 0
        limit = len(queue)
        if self._barriers:
            limit = min(limit, next(later.behind for later in waiting if later.barrier) - self._taken)
        for entry in islice(queue, limit):
            size += len(entry.content)
            taken += 1
            if taken == MAX_COMMIT_RECORDS or size + taken * RECORD_OVERHEAD_BYTES >= MAX_COMMIT_BYTES:
                break
        commit.records = self._writing = queue[:taken]
        commit.bytes = size
        del queue[:taken]
        self._taken += taken
        while waiting and waiting[0].behind <= self._taken:
            self._barriers -= waiting[0].barrier
            commit.take_over(waiting.popleft())
        return commit or None

    def written(self) -> None:
        """What was taken is durable."""
        self._writing = []

    def find(self, state: AddressState, sequence: int) -> Accepted | None:
        """A record that waits, or is being written."""
        for entry in chain(reversed(self.records), reversed(self._writing)):
            if entry.state is state and entry.sequence == sequence:
                return entry
        return None
