"""What all connections of one server share."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import trio

from gateway.budget import Budget, Gate
from gateway.connection_limits import Limits
from gateway.dispatch import Dispatcher
from gateway.metrics import Metrics

LOG_LINES = 20
"""Lines about misbehaving clients within LOG_SECONDS; the others are counted and summed up in one line."""

DECODING_AT_ONCE = 1
"""Large requests that are decoded at the same time: the interpreter works on one, whatever the threads."""

LOG_SECONDS = 10.0
"""See LOG_LINES. A scanner or a broken client would otherwise fill the disk with log."""


class LogLimit:
    """A logger that writes at most LOG_LINES lines in LOG_SECONDS."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._began = -LOG_SECONDS
        self._lines = 0

    def warning(self, message: str, *args: object) -> None:
        """Logs as `logging.Logger.warning` does, if there were not too many lines lately."""
        now = trio.current_time()
        if now - self._began >= LOG_SECONDS:
            if self._lines > LOG_LINES:
                self._logger.warning("%d more such lines were left out", self._lines - LOG_LINES)
            self._began, self._lines = now, 0
        self._lines += 1
        if self._lines <= LOG_LINES:
            self._logger.warning(message, *args)


@dataclass(slots=True)
class ConnectionContext:
    """`broker` is handed to the handlers; `shutting_down` is set when the gateway stops.

    Requests from BIG_FRAME_BYTES on take from `request_memory` before they are received, others from
    `small_request_memory` once they are here: no client can hold that without being served.
    """

    dispatcher: Dispatcher
    broker: Any
    limits: Limits
    metrics: Metrics
    request_memory: Budget
    small_request_memory: Budget
    response_memory: Budget
    produce_gate: Gate
    log: LogLimit
    shutting_down: trio.Event = field(default_factory=trio.Event)
    decoding: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(DECODING_AT_ONCE))
