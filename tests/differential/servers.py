"""The two servers of a session: started here, or named by the environment for a quicker loop at work.

`KAFKA_BOOTSTRAP=HOST:PORT` is a running Apache Kafka 4.3.1, `DAFKA_BOOTSTRAP=HOST:PORT` one of ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.peers.apache_kafka import ApacheKafka
from tests.peers.standalone import Standalone

Server = ApacheKafka | Standalone

AS_THE_PEER = ("--group-initial-rebalance-delay-ms", "0")
"""As the peer has it: groups need not wait three seconds for more members."""


def running_kafka() -> str | None:
    """The Apache Kafka that the environment names, if it does."""
    return os.environ.get("KAFKA_BOOTSTRAP")


@contextmanager
def kafka_bootstrap() -> Iterator[str]:
    """Apache Kafka's address, for as long as the context lasts."""
    running = running_kafka()
    if running:
        yield running
        return
    with ApacheKafka() as kafka:
        yield kafka.bootstrap


def our_server(data: Path | None = None, *arguments: str, directory: Path | None = None) -> Server:
    """The server under test, not yet started, for tests that kill it: `with our_server() as server`.

    A `dafka standalone` that fsyncs always. With `SERVER_UNDER_TEST=kafka` in the environment it is an Apache
    Kafka that flushes every message instead: a test that fails there is wrong itself.
    """
    if os.environ.get("SERVER_UNDER_TEST") == "kafka":
        return ApacheKafka(flush_every_message=True)
    return Standalone(data, *arguments, directory=directory)


@contextmanager
def our_bootstrap(*arguments: str) -> Iterator[str]:
    """The address of a fresh `dafka standalone`, or of the running one that the environment names."""
    running = os.environ.get("DAFKA_BOOTSTRAP")
    if running:
        yield running
        return
    with our_server(None, *arguments) as ours:
        yield ours.bootstrap
