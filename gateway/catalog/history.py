"""The newest changes of a catalog, and the watches that follow them.

A watch is only a position in one shared, bounded list: however many there are and however slow, none of
them makes anything grow. One that has fallen off the end of the list is told so.
"""

from collections import deque
from collections.abc import Sequence
from typing import Self

import trio

from gateway.catalog.interface import HISTORY_BYTES, HISTORY_CHANGES, Change, HistoryLost


class History:
    """Changes in the order of revisions, the oldest forgotten first, whole revisions at a time."""

    def __init__(
        self, revision: int, *, max_changes: int = HISTORY_CHANGES, max_bytes: int = HISTORY_BYTES
    ) -> None:
        self.revision = revision
        self.first_kept = revision + 1
        """All changes from this revision on are here."""
        self._changes: deque[Change] = deque()
        self._bytes = 0
        self._max_changes = max_changes
        self._max_bytes = max_bytes
        self._advanced = trio.Event()
        self._failure: Exception | None = None

    def add(self, revision: int, changes: Sequence[Change]) -> None:
        """Adds the changes of newer revisions, up to `revision`, and wakes the watches."""
        if not changes:
            return
        self._changes.extend(changes)
        self._bytes += sum(_size(change) for change in changes)
        self.revision = revision
        while len(self._changes) > self._max_changes or self._bytes > self._max_bytes:
            self._forget_oldest()
        self._wake()

    def fail(self, failure: Exception) -> None:
        """Ends every watch with `failure` once it has given what there is."""
        self._failure = failure
        self._wake()

    async def since(self, from_revision: int) -> list[Change]:
        """The changes from `from_revision` on, waiting until there are some.

        Raises:
            HistoryLost: Some of them are forgotten.
        """
        await trio.lowlevel.checkpoint()
        while self.revision < from_revision:
            if self._failure is not None:
                raise self._failure
            await self._advanced.wait()
        return self.kept_since(from_revision)

    def kept_since(self, from_revision: int) -> list[Change]:
        """The changes from `from_revision` on that there are now. Raises HistoryLost as `since`."""
        if from_revision < self.first_kept:
            raise HistoryLost(self.revision)
        # Taken from the end: a watch is mostly up to date, and a deque is slow to reach into.
        found: list[Change] = []
        for change in reversed(self._changes):
            if change.revision < from_revision:
                break
            found.append(change)
        found.reverse()
        return found

    def _forget_oldest(self) -> None:
        revision = self._changes[0].revision
        while self._changes and self._changes[0].revision == revision:
            self._bytes -= _size(self._changes.popleft())
        self.first_kept = revision + 1

    def _wake(self) -> None:
        self._advanced.set()
        self._advanced = trio.Event()


class Watch:
    """The changes under a prefix, one after the other. Nothing needs closing."""

    def __init__(self, history: History, prefix: str, from_revision: int) -> None:
        self._history = history
        self._prefix = prefix
        self._from_revision = from_revision
        self._ready: deque[Change] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        while not self._ready:
            changes = await self._history.since(self._from_revision)
            # None, where the newest revisions have changed nothing here: others use the same etcd.
            self._from_revision = (changes[-1].revision if changes else self._history.revision) + 1
            self._ready.extend(change for change in changes if change.key.startswith(self._prefix))
        return self._ready.popleft()


def _size(change: Change) -> int:
    return len(change.key) + len(change.value or b"")
