"""What a job tells while it runs and when it is done: lines for people, or JSON objects, one a line.

On a terminal progress is one line that is redrawn in place; elsewhere (a file, a journal) it is a line
now and then. Whoever else wants to know (the metrics) listens.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol, TextIO

PROGRESS_SECONDS: Final = 5.0
"""At least so long between two lines of progress where there is no terminal: a day of them can be read."""
REDRAW_SECONDS: Final = 0.1
"""At least so long between two drawings on a terminal."""
ERASE: Final = "\r\x1b[K"
"""Back to the first column, and clear to the end of the line."""


@dataclass(frozen=True)
class Progress:
    """How far a job is.

    done, total: records (or offsets, where holes are not known yet); total None where there is no end.
    rows_per_second: since the step before.
    lag_records: what waits in Kafka; lag_seconds: how old the oldest of it is. None where nobody knows.
    rows_lost: recorded as gaps, by this job so far.
    phases: how long the parts of the last step took, in seconds; empty where there was no step, only a look.
    by_topic: how many of `done` are of which topic, where that is known.
    """

    done: int
    total: int | None = None
    rows_per_second: float = 0.0
    lag_records: int | None = None
    lag_seconds: float | None = None
    rows_lost: int = 0
    phases: dict[str, float] = field(default_factory=dict)
    by_topic: Mapping[str, int] = field(default_factory=dict)

    @property
    def seconds_left(self) -> float | None:
        """Until all that waits is done, at the present rate; None where nobody knows."""
        left = self.lag_records if self.total is None else self.total - self.done
        if left is None or left < 0 or self.rows_per_second <= 0:
            return None
        return left / self.rows_per_second


class Listener(Protocol):
    """Hears what a job tells."""

    def progressed(self, progress: Progress) -> None: ...

    def waits(self, waiting: bool) -> None: ...

    def retried(self) -> None: ...


class Report:
    """One job's voice, usable from any thread. With `as_json` each line is an object with `event` and its
    facts.

    Args:
        job: its name, in each object.
        out: where lines go, standard error by default.
        hide: takes secrets out of a text.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        job: str,
        *,
        as_json: bool = False,
        out: TextIO | None = None,
        hide: Callable[[str], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self.as_json = as_json
        self._out = out or sys.stderr
        self._hide = hide
        self._clock = clock
        self._live = not as_json and self._out.isatty()
        self._listeners: list[Listener] = []
        self._lock = threading.RLock()
        self._drawn = ""
        self._told_at: float | None = None
        self._untold: Progress | None = None
        self.last_progress: Progress | None = None

    def listen(self, listener: Listener) -> None:
        """Have somebody hear what follows."""
        self._listeners.append(listener)

    def say(self, text: str, **facts: Any) -> None:
        """Something that happened, told once."""
        self._line("said", text, facts)

    def waiting(self, text: str, **facts: Any) -> None:
        """Kafka is away, and the job waits for it; may be told several times."""
        for listener in self._listeners:
            listener.waits(True)
        self._line("waiting", text, facts)

    def went_on(self, text: str, **facts: Any) -> None:
        """Kafka is back."""
        for listener in self._listeners:
            listener.waits(False)
        self._line("said", text, facts)

    def retrying(self, text: str, **facts: Any) -> None:
        """A part of the job failed and is done again."""
        for listener in self._listeners:
            listener.retried()
        self._line("retrying", text, facts)

    def progress(self, progress: Progress) -> None:
        """How far the job is; called after each step, however often."""
        with self._lock:
            self.last_progress = progress
            for listener in self._listeners:
                listener.progressed(progress)
            now = self._clock()
            often = 0.0 if self.as_json else REDRAW_SECONDS if self._live else PROGRESS_SECONDS
            if self._told_at is not None and now - self._told_at < often:
                self._untold = progress
                return
            self._told_at = now
            self._tell(progress)

    def result(self, text: str, **facts: Any) -> None:
        """What came out of it, at the end, on standard output."""
        with self._lock:
            self.close()
            print(self._json("result", facts) if self.as_json else self._hide(text), flush=True)

    def failed(self, error: Exception, exit_code: int) -> None:
        """The end of a job that failed. Told as JSON alone: people get it from the command line."""
        self.close()
        if self.as_json:
            facts = {"failure": type(error).__name__, "exit_code": exit_code}
            self._line("failed", str(error), facts)

    def close(self) -> None:
        """Tell the last progress, if it was not, and leave the terminal's line."""
        with self._lock:
            if self._untold is not None:
                self._tell(self._untold)
            if self._drawn:
                self._write("\n")
                self._drawn = ""

    def _tell(self, progress: Progress) -> None:
        self._untold = None
        if self.as_json:
            facts = {**asdict(progress), "seconds_left": progress.seconds_left}
            self._line("progress", progress_text(progress), facts)
        elif self._live:
            # One column stays free: in the last one some terminals begin the next line.
            self._drawn = progress_text(progress)[: self._width() - 1]
            self._write(ERASE + self._drawn)
        else:
            self._line("progress", progress_text(progress), {})

    def _line(self, event: str, text: str, facts: dict[str, Any]) -> None:
        with self._lock:
            if self.as_json:
                line = self._json(event, {"text": text, **facts})
            else:
                line = f"{time.strftime('%H:%M:%S')} {self._hide(text)}"
            self._write(f"{ERASE}{line}\n{self._drawn}" if self._drawn else f"{line}\n")

    def _json(self, event: str, facts: Mapping[str, Any]) -> str:
        """An object whose first three keys are always there; no fact stands in for one of them."""
        head = {"event": event, "job": self._job, "time": time.time()}
        more = {name: _hidden(fact, self._hide) for name, fact in facts.items() if name not in head}
        return json.dumps(head | more)

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._out.fileno()).columns or 80
        except (OSError, ValueError):
            return 80


def progress_text(progress: Progress) -> str:
    """One line for people: `12,000 of 50,000 records, 3,000 a second, 38,000 wait (12 s old), 13 s left`."""
    of = f" of {progress.total:,}" if progress.total is not None else ""
    parts = [f"{progress.done:,}{of} records", f"{progress.rows_per_second:,.0f} a second"]
    if progress.lag_records is not None:
        old = f" ({duration(progress.lag_seconds)} old)" if progress.lag_seconds else ""
        parts.append(f"{progress.lag_records:,} wait{old}")
    if progress.rows_lost:
        parts.append(f"{progress.rows_lost:,} lost")
    if progress.seconds_left:
        parts.append(f"{duration(progress.seconds_left)} left")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """`12 s`, `3 min 20 s`, `5 h 10 min`, `2 d 4 h`: the two largest units."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def _hidden(fact: Any, hide: Callable[[str], str]) -> Any:
    """A fact as JSON has it, with `hide` applied to each text in it."""
    if isinstance(fact, Mapping):
        return {str(name): _hidden(one, hide) for name, one in fact.items()}
    if isinstance(fact, list | tuple | set | frozenset):
        return [_hidden(one, hide) for one in fact]
    if fact is None or isinstance(fact, bool | int | float):
        return fact
    return hide(str(fact))
