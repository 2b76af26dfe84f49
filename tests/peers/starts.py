"""How long a server takes from its process to its first answer."""

from __future__ import annotations

import time
from typing import Protocol

from tests.peers.probe import broker_count
from tests.peers.process import START_TIMEOUT_SECONDS


class Started(Protocol):
    """A server process with an address."""

    started_at: float

    @property
    def bootstrap(self) -> str: ...

    def tail(self) -> str: ...


def await_first_metadata(server: Started) -> float:
    """Seconds since the process was made, once a Metadata answer names a broker.

    Raises AssertionError when none does in time.
    """
    host, port = server.bootstrap.rsplit(":", 1)
    while not broker_count(host, int(port)):
        if time.monotonic() - server.started_at > START_TIMEOUT_SECONDS:
            raise AssertionError(f"{server.bootstrap} names no broker in Metadata:\n{server.tail()}")
        time.sleep(0.005)
    return time.monotonic() - server.started_at
