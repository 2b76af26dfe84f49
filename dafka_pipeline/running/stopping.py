"""A graceful end on SIGTERM and SIGINT: what runs may finish within a deadline, else it is cancelled.

Either way nothing is lost.

A signal's handler only sets an event: calling Spark in it would re-enter Py4J, which breaks it. A thread of
its own waits for the event and, when the deadline is over, has Spark cancel the jobs that still run.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

DEADLINE_SECONDS: Final = 30.0
"""How long what runs may take to finish. Docker kills after 10 seconds and Kubernetes after 30: their grace
period must be set above this."""
POLL_SECONDS: Final = 0.5


class Stop:
    """Whether the job shall stop, and waits that end with it."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._over = threading.Event()
        self._catching = False

    @property
    def asked(self) -> bool:
        """Whether somebody asked for the end."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Ask for the end; from any thread."""
        self._asked.set()

    def catch_signals(self) -> dict[int, object]:
        """Have SIGTERM and SIGINT ask for the end; what handled them before."""
        self._catching = True

        def handle(number: int, _frame: FrameType | None) -> None:
            self.ask()
            signal.signal(number, signal.SIG_DFL)

        return {caught: signal.signal(caught, handle) for caught in (signal.SIGTERM, signal.SIGINT)}

    def catch_again(self) -> None:
        """When Spark has started: PySpark puts a handler of SIGINT in place that calls Spark in it."""
        if self._catching and not self.asked:
            self.catch_signals()

    def sleep(self, seconds: float) -> bool:
        """Wait so long, or until the end is asked for; True when it is."""
        return self._asked.wait(seconds)

    def finish(self) -> None:
        """The job has ended: nothing is cancelled any more."""
        self._over.set()

    def cancel_late(
        self,
        deadline_seconds: float,
        cancel: Callable[[], None],
        asked: Callable[[], None] = lambda: None,
    ) -> None:
        """Call `cancel` from a thread when the job still runs so long after the end was asked for.

        asked: called when the end is asked for while the job runs.
        """

        def watch() -> None:
            while not self._asked.wait(POLL_SECONDS):
                if self._over.is_set():
                    return
            if self._over.is_set():
                return
            asked()
            if not self._over.wait(deadline_seconds):
                cancel()

        threading.Thread(target=watch, name="cancel-late", daemon=True).start()


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """SIGTERM and SIGINT ask for the end; a second one ends the process at once, as it does without us."""
    stop = Stop()
    before = stop.catch_signals()
    try:
        yield stop
    finally:
        stop.finish()
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what `signal.signal` gave
