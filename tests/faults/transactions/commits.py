"""What the workers of a process have committed, read from its file as that grows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.faults.transactions.history import Begun, Ended, Event, Operation, parsed


class Commits:
    """Of one life. A file is read once, however often somebody looks at it."""

    def __init__(self, path: Path, workers: Iterable[str]) -> None:
        self._path, self._at = path, 0
        self._workers = frozenset(workers)
        self._ever = _Left(self._workers)
        self._since_drain: _Left | None = None

    def left(self) -> set[str]:
        """Workers that have committed nothing yet."""
        self._go_on()
        return self._ever.workers

    def left_since_drain(self) -> set[str]:
        """Those that have committed nothing that they began after the process knew that it is to drain."""
        self._go_on()
        return set(self._workers) if self._since_drain is None else self._since_drain.workers

    def _go_on(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # the rest of it comes later
                self._at += len(line)
                self._take(parsed(line.decode()))

    def _take(self, one: Operation) -> None:
        if isinstance(one, Event) and one.what == "draining":
            self._since_drain = _Left(self._workers)
        for left in (self._ever, self._since_drain):
            if left is not None:
                left.take(one)


class _Left:
    """Workers that have committed nothing that they began since this is here."""

    def __init__(self, workers: Iterable[str]) -> None:
        self.workers = set(workers)
        self._begun: set[str] = set()

    def take(self, one: Operation) -> None:
        if isinstance(one, Begun):
            self._begun.add(one.transaction)
        elif isinstance(one, Ended) and one.commit and one.outcome == "ok" and one.transaction in self._begun:
            self.workers.discard(one.transaction.split("/")[0])
