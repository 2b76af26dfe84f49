"""Log lines for what clients cause, which must not fill the disk.

`LogLimit` writes so many lines in a while, and counts the others: for what tells of one client. `warn_once`
writes one line in the life of the process: for what one line explains for good.
"""

from __future__ import annotations

import logging

import trio

LOG_LINES = 20
"""Lines about misbehaving clients within LOG_SECONDS; the others are counted and summed up in one line."""

LOG_SECONDS = 10.0
"""See LOG_LINES. A scanner or a broken client would otherwise fill the disk with log."""


class LogLimit:
    """At most `lines` lines in LOG_SECONDS."""

    def __init__(self, logger: logging.Logger, lines: int = LOG_LINES) -> None:
        self._logger = logger
        self._most = lines
        self._began = -LOG_SECONDS
        self._lines = 0

    def warning(self, message: str, *args: object) -> None:
        """Logs as `logging.Logger.warning` does, if there were not too many lines lately."""
        self._log(logging.WARNING, message, args)

    def info(self, message: str, *args: object) -> None:
        """As `warning`, for what is not amiss."""
        self._log(logging.INFO, message, args)

    def exception(self, message: str, *args: object) -> None:
        """As `logging.Logger.exception`, in an exception handler."""
        self._log(logging.ERROR, message, args, with_traceback=True)

    def _log(
        self, level: int, message: str, args: tuple[object, ...], *, with_traceback: bool = False
    ) -> None:
        now = trio.current_time()
        if now - self._began >= LOG_SECONDS:
            if self._lines > self._most:
                self._logger.log(level, "%d more such lines were left out", self._lines - self._most)
            self._began, self._lines = now, 0
        self._lines += 1
        if self._lines <= self._most:
            self._logger.log(level, message, *args, exc_info=with_traceback or None)


_said: set[str] = set()


def warn_once(logger: logging.Logger, message: str, *args: object) -> None:
    """Log a warning the first time that this message (not these arguments) comes up in the process."""
    if message not in _said:
        _said.add(message)
        logger.warning(message, *args)
