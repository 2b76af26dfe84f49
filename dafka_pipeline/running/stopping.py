"""A graceful end on SIGTERM and SIGINT: what runs may finish within a deadline, else it is cancelled.

Either way nothing is lost.

A signal's handler only notes that the end is asked for: calling Spark in it would re-enter Py4J, which breaks
it. A thread of its own waits for that and, when the deadline is over, has Spark cancel the jobs that still
run. A handler runs in the middle of anything its thread does, also of a wait for what it notes: so it wakes
the waiting by a `SimpleQueue`, whose `put` may interrupt a `get`. Setting a `threading.Event` within its own
`wait` would wait for ever for the lock that the interrupted `wait` holds.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

DEADLINE_SECONDS: Final = 30.0
"""How long what runs may take to finish. Docker kills after 10 seconds and Kubernetes after 30: their grace
period must be set above this."""
POLL_SECONDS: Final = 0.5


class Stop:
    """Whether the job shall stop, and waits that end with it."""

    def __init__(self) -> None:
        self._asked = False
        self._wakes = SimpleQueue[None]()
        """Not empty from when the end is asked for, but while somebody who waited wakes the next one."""
        self._over = threading.Event()
        self._catching = False

    @property
    def asked(self) -> bool:
        """Whether somebody asked for the end."""
        return self._asked

    def ask(self) -> None:
        """Ask for the end; from any thread, and from a signal's handler."""
        self._asked = True
        self._wakes.put(None)

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
        if not self._asked:
            with suppress(Empty):
                self._wakes.get(timeout=max(0.0, seconds))
                self._wakes.put(None)  # for whoever else waits
        return self._asked

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
            while not self.sleep(POLL_SECONDS):
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
