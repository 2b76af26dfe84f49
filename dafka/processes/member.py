"""One process of `dafka standalone --gateways`: `python -m dafka.processes.member NAME`, settings on its
standard input.

Whoever has started it (`dafka.processes.supervisor`) reads its standard output for the line that says that it
serves, and its standard error for its log. It ends when that process does.
"""

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from dafka.settings import GatewaySettings, MeshStoreSettings, TowerSettings

STOP_SECONDS = 20.0
"""Longer than any process takes to stop in order."""

EXIT_ENVIRONMENT = 2


def main() -> int:
    """Serve until a signal, or until the supervisor ends; the exit code."""
    from dafka.cli import OWNERS_ALONE
    from dafka.commands.exits import explain
    from dafka.commands.logs import logger, set_up_logs, tell
    from dafka.processes.interpreter import loading

    os.umask(OWNERS_ALONE)
    settings = pickle.load(sys.stdin.buffer)  # noqa: S301 - of the process that has started this one
    threading.Thread(target=_end_with_supervisor, daemon=True).start()
    set_up_logs(settings.log_level, settings.log_format)
    try:
        with loading():
            run = _run_of(settings)
        return run(settings)
    except Exception as error:  # noqa: BLE001 - the last place, as in `dafka.cli`
        code, text = explain(error)
        logger.debug("exit code %d", code, exc_info=True)
        tell(code, text)
        return code


def _end_with_supervisor() -> None:
    """Standard input ends when whoever started this process does: then this one stops, in order if it can."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_SECONDS)
    os._exit(EXIT_ENVIRONMENT)


def _run_of(settings: Any) -> Callable[[Any], int]:
    match settings:
        case GatewaySettings():
            from dafka.processes import gateway

            return gateway.run
        case MeshStoreSettings():
            from dafka.processes import store

            return store.run
        case TowerSettings():
            from dafka.processes import tower

            return tower.run
    raise TypeError(f"no process has {type(settings).__name__}")


if __name__ == "__main__":
    sys.exit(main())
