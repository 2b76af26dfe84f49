"""Servers that show what is left when a server does next to nothing: what a client and the system cost alone.

The sink acknowledges and drops (go/sink.go). librdkafka's mock cluster keeps the newest of what it is sent in
memory, and its topics have four partitions. `python -m tests.bench.ceilings` is the mock as a process.
"""

from __future__ import annotations

import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from confluent_kafka import Producer

from tests.bench.generator import program
from tests.peers.process import ServerProcess

READY = re.compile(r"^Kafka is ready on (\S+)", re.MULTILINE)
MOCK_PARTITIONS = 4
METADATA_SECONDS = 10.0


class Ceiling(ServerProcess):
    """A context manager around such a process, which says where it serves."""

    def __init__(self, command: Sequence[str], partitions: int | None) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="bench-ceiling-")))
        self.bootstrap = ""
        self.partitions = partitions
        """How many a topic has; None: as many as somebody creates."""
        self._command = command

    def __enter__(self) -> Self:
        self._spawn(self._command)
        try:
            ready = self._wait_until(lambda: READY.search(self.stdout_path.read_text(errors="replace")))
        except BaseException:
            self.__exit__()
            raise
        self.bootstrap = ready[1]
        return self

    def __exit__(self, *_exc: object) -> None:
        self.kill9()
        shutil.rmtree(self.directory, ignore_errors=True)


def sink() -> Ceiling:
    return Ceiling([str(program()), "sink"], None)


def mock() -> Ceiling:
    return Ceiling([sys.executable, "-m", "tests.bench.ceilings"], MOCK_PARTITIONS)


def main() -> None:
    producer = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = producer.list_topics(timeout=METADATA_SECONDS).brokers.values()
    print(f"Kafka is ready on {broker.host}:{broker.port}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
