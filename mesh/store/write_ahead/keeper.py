"""The thread that gives full files of the write-ahead log back, and has the next one ready.

Rule: a file is free again only after a flush of RocksDB that began when the file was full has returned: then
all its commits are in tables, fsynced.

Files are not closed before the log is: another thread may be about to fsync one.
"""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from mesh.store.write_ahead.files import LogFile, make

logger = logging.getLogger(__name__)

JOIN_SECONDS = 10.0
"""Longest wait for a flush that is under way when the log is closed."""


class Keeper:
    """`take`, `make_one` and `close` are for one thread, that of the log."""

    failure = ""
    """Why a flush failed; the store must not go on then."""

    def __init__(self, directory: Path, free: deque[LogFile], flush: Callable[[], None]) -> None:
        self._directory = directory
        self._free = free
        self._flush = flush
        self._asked: queue.SimpleQueue[LogFile | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self.waiting: list[LogFile] = []
        """Files that are full, and not yet free."""

    def take(self, file: LogFile) -> None:
        """A file is full."""
        self._ask(file)

    def make_one(self) -> None:
        """The file that is being written is half full, and no other one is free."""
        self._ask(None)

    def _ask(self, file: LogFile | None) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="write-ahead log", daemon=True)
            self._thread.start()
        self._asked.put(file)

    def close(self) -> None:
        """End the thread. What is full stays so: the next open reads it, and finds it in tables or not."""
        if self._thread is None:
            return
        self._is_closing = True
        self._asked.put(None)
        self._thread.join(JOIN_SECONDS)
        while not self._asked.empty():
            left = self._asked.get()
            if left is not None:
                self.waiting.append(left)

    def _run(self) -> None:
        while True:
            file = self._asked.get()
            if self._is_closing:
                return
            if file is None:
                self._make()
                continue
            self.waiting.append(file)
            while not self._asked.empty():
                # One flush is enough for all that were full before it.
                more = self._asked.get()
                if more is not None:
                    self.waiting.append(more)
            if not self._give_back():
                return

    def _give_back(self) -> bool:
        """False if the store cannot go on."""
        try:
            self._flush()
            for file in self.waiting:
                file.shrink()
        except Exception as error:  # noqa: BLE001  rocksdict raises nothing more specific
            self.failure = str(error) or repr(error)
            return False
        self._free.extend(self.waiting)
        self.waiting = []
        return True

    def _make(self) -> None:
        """Have a file ready. Without room for one the log makes its own, or says that there is none."""
        if self._free:
            return
        try:
            file = make(self._directory)
        except OSError as error:
            logger.debug("no file of the write-ahead log was made ahead: %s", error)
            return
        try:
            file.fill()
        except OSError as error:
            logger.debug("a file of the write-ahead log is not filled ahead: %s", error)
        self._free.append(file)
