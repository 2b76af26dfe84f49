"""The first process of a container, where signals have no actions of their own.

The system ignores a signal to process 1 that it has no handler for, so a SIGTERM while it starts, or the
second one while it stops, would do nothing until the container is killed. It gets handlers that end it.
"""

import os
import signal
from types import FrameType
from typing import NoReturn

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

FIRST_PROCESS = 1


def end_at_stop_signals() -> None:
    """From now on either stop signal ends this process at once, whichever process it is; see `_end`."""
    action = _end if os.getpid() == FIRST_PROCESS else signal.SIG_DFL
    for number in STOP_SIGNALS:
        signal.signal(number, action)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """With the status that a shell would report of it. Nothing is lost that was acknowledged."""
    os._exit(128 + number)
