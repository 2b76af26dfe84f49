"""What a job tells while it runs and when it is done: lines for people, or JSON objects, one a line."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any, TextIO


@dataclass(frozen=True)
class Progress:
    """How far a job is.

    done, total: records (or offsets, where holes are not known yet); total None where there is no end.
    rows_per_second: since the step before.
    lag_records: what waits in Kafka; lag_seconds: how old the oldest of it is. None where nobody knows.
    phases: how long the parts of the last step took, in seconds.
    """

    done: int
    total: int | None = None
    rows_per_second: float = 0.0
    lag_records: int | None = None
    lag_seconds: float | None = None
    rows_lost: int = 0
    phases: dict[str, float] = field(default_factory=dict)


class Report:
    """One job's voice. With `as_json` each line is an object with `event` and its facts."""

    def __init__(self, job: str, *, as_json: bool = False, out: TextIO | None = None) -> None:
        self._job = job
        self._as_json = as_json
        self._out = out or sys.stderr
        self.last_progress: Progress | None = None

    def say(self, text: str, **facts: Any) -> None:
        """Something that happened, told once."""
        self._line("said", text, facts)

    def progress(self, progress: Progress) -> None:
        """How far the job is; called after each step."""
        self.last_progress = progress
        of = f" of {progress.total:,}" if progress.total is not None else ""
        text = f"{progress.done:,}{of} records, {progress.rows_per_second:,.0f} a second"
        if progress.lag_records is not None:
            text += f", {progress.lag_records:,} wait"
        self._line("progress", text, asdict(progress))

    def result(self, text: str, **facts: Any) -> None:
        """What came out of it, at the end, on standard output."""
        if self._as_json:
            print(json.dumps({"event": "result", "job": self._job, **facts}, default=str))
        else:
            print(text)

    def _line(self, event: str, text: str, facts: dict[str, Any]) -> None:
        if self._as_json:
            line = json.dumps(
                {"event": event, "job": self._job, "time": time.time(), "text": text, **facts}, default=str
            )
        else:
            line = f"{time.strftime('%H:%M:%S')} {text}"
        print(line, file=self._out, flush=True)
