"""The servers that clients are run against: one process of ours, several gateways, or Apache Kafka."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from tests.peers.gateways import Gateways
from tests.peers.standalone import Standalone


class Server(Protocol):
    """What `tests.peers` starts."""

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of each broker, comma-separated."""
        ...

    def restart(self) -> object:
        """SIGKILL, and start it again on the same ports and data; it serves once this returns."""
        ...


def ours(gateways: int, *arguments: str) -> AbstractContextManager[Standalone | Gateways]:
    """One process that is everything, or so many gateways."""
    return Gateways(gateways, *arguments) if gateways > 1 else Standalone(None, *arguments)
