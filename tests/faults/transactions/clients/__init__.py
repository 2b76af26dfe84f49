"""Transactional programs on three clients, each a process with several workers.

Arguments: BOOTSTRAP NAME LIFE WORKERS SEED. Each worker has a transactional id of its own, `NAME-number`, and
is a member of one of two groups. It writes a few records to `inputs` (seldom many: what ends in few
partitions takes the servers less), copies what its group reads there to the same partition of
`copies-GROUP`, and sends the group's offsets along; then it commits, or now and then aborts.
What it does goes to standard output, in the lines of `tests.faults.transactions.history`.

Standard input: a line "drain" says that nothing new is to be written to `inputs`; its end, that the process
is to end. A worker that has lost its producer makes another one, its next life.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.peers.go import built
from tests.peers.java import SHORT_LIVED, client_command

SOURCES: Final = Path(__file__).parent
CLIENTS: Final = ("librdkafka", "java", "franz-go")

INPUTS: Final = "inputs"
PARTITIONS: Final = 4
HUNG: Final = 3
"""The exit code of a process of which the client hangs by a defect of its own: it is started again."""

KEY_BYTES: Final = 600
"""Of each record, so that segments are full soon; a key says nothing else."""

GROUPS: Final = ("g0", "g1")


def copies_of(group: str) -> str:
    """Its topic."""
    return f"copies-{group}"


TOPICS: Final = (INPUTS, *map(copies_of, GROUPS))


def client_process(client: str) -> list[str]:
    """The command line of one of `CLIENTS`, compiled if need be; arguments go behind it."""
    if client == "java":
        return client_command("Transactions", sources=SOURCES, heap="192m", options=SHORT_LIVED)
    if client == "franz-go":
        return [str(built(SOURCES / "go", "faults-transactions"))]
    return [sys.executable, "-m", "tests.faults.transactions.clients.librdkafka"]
