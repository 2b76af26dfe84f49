"""Idempotent producers of other clients than librdkafka, each a process of its own.

Arguments: BOOTSTRAP TOPIC TIMEOUT, the latter in milliseconds, for one record with everything that is tried
again. Standard input: a record a line, its number, partition and value, parted by tabs. Standard output, as
soon as it is known, in any order: the number and the offset, or the number, "error" and why. At the end of
its input the process waits for all results, and ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.peers.go import built
from tests.peers.java import SHORT_LIVED, client_command

SOURCES = Path(__file__).parent
CLIENTS = ("java", "franz-go", "kafka-python")


def sender_command(client: str) -> list[str]:
    """The command line of one of `CLIENTS`, compiled if need be; arguments go behind it."""
    if client == "java":
        return client_command("Sender", sources=SOURCES, heap="128m", options=SHORT_LIVED)
    if client == "franz-go":
        return [str(built(SOURCES / "go", "faults-sender"))]
    return [sys.executable, "-m", "tests.faults.senders.kafka_python"]
