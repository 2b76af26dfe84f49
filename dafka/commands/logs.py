"""Log lines on standard error: for people, or one JSON object a line."""

import json
import logging
import sys
import time
from typing import Final

logger = logging.getLogger("dafka")
"""The command line's own voice, whichever of its modules speaks."""

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has; anything beyond it was given as `extra` and belongs into the JSON."""


def set_up_logs(level: str, log_format: str) -> None:
    """Sends the root logger's records of `level` ("debug" ...) and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if log_format == "json" else _Text())
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(level.upper())
    logging.captureWarnings(capture=True)


def tell(code: int, message: str) -> None:
    """The last line of a process that fails: plain, or a JSON object where the log is one."""
    handlers = logging.root.handlers
    if handlers and isinstance(handlers[0].formatter, _Json):
        logger.critical(message, extra={"exit_code": code})
    else:
        print(f"dafka: {message}", file=sys.stderr)  # noqa: T201


class _Text(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802
        return _timestamp(record)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        fields |= {
            key: value for key, value in vars(record).items() if key not in _STANDARD and key not in fields
        }
        return json.dumps(fields, default=str, ensure_ascii=False)


def _timestamp(record: logging.LogRecord) -> str:
    """UTC with milliseconds, as RFC 3339 has it."""
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"
