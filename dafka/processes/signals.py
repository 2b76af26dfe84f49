"""Signals: the first SIGTERM or SIGINT stops the gateway in an orderly way, the second one at once. SIGHUP
has it read again what may change in files.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable

import trio

from dafka.first_process import STOP_SIGNALS, end_at_stop_signals

logger = logging.getLogger(__name__)


async def watch_signals(
    stop: Callable[[], object],
    read_again: Callable[[], object] = lambda: None,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Calls `stop` at the first SIGTERM or SIGINT, then returns; from then on either ends the process. Before
    that it calls `read_again` at each SIGHUP.

    The second signal gets the system's own action, so that it works even if the event loop hangs, or in the
    first process of a container a handler that does the same; the exit status is then 128 + its number, and
    nothing is lost that was acknowledged. SIGHUP, which a terminal
    sends when it is closed, too, ends nothing from here on. Only for the main thread.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with trio.open_signal_receiver(*STOP_SIGNALS, signal.SIGHUP) as received:
        task_status.started()
        while (number := await anext(received)) == signal.SIGHUP:
            read_again()
        end_at_stop_signals()
    # Leaving the receiver restored the old handlers; they must not come back either.
    end_at_stop_signals()
    logger.info("%s: stopping; a second one stops at once", signal.Signals(number).name)
    stop()
