"""What transactional clients did and saw, one operation after the other; written as JSON, one a line.

A transaction is named `worker/life/number`, a record by its value: its transaction, a slash, its number in
that; of a copy also what it is a copy of (`java-0/1.1/7/c2<go-1/3.1/4/0`). What is about to be done is told
first (`Begun`, `Sending`, `Ending`), so that what a client did before it was killed is known; then what
became of it.

Times are nanoseconds of CLOCK_MONOTONIC, which is one for all processes of a machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

COPY: Final = "<"
"""Parts a copy's own name and that of what it is a copy of."""

COMMITTED: Final = "read_committed"
UNCOMMITTED: Final = "read_uncommitted"


@dataclass(frozen=True)
class Begun:
    """A transaction is about to begin."""

    transaction: str
    at: int


@dataclass(frozen=True)
class Sending:
    """Records are about to be given to a producer: topic, partition, value."""

    transaction: str
    records: list[tuple[str, int, str]]
    at: int


@dataclass(frozen=True)
class Acked:
    """Records were acknowledged: topic, partition, value, and the offset, or -1: the client has not heard
    where.
    """

    transaction: str
    records: list[tuple[str, int, str, int]]
    at: int


@dataclass(frozen=True)
class Polled:
    """A member of a group has read, in a transaction: topic, partition, offset, value."""

    transaction: str
    reader: str
    """The group, a slash, and what differs with each assignment and each rewind."""
    records: list[tuple[str, int, int, str]]
    at: int


@dataclass(frozen=True)
class Offsets:
    """A group's offsets are about to be sent with a transaction: topic, partition, offset."""

    transaction: str
    group: str
    offsets: list[tuple[str, int, int]]
    at: int


@dataclass(frozen=True)
class Ending:
    """A commit or an abort is about to be asked for."""

    transaction: str
    commit: bool
    at: int


@dataclass(frozen=True)
class Ended:
    """What became of that: ok, fail (it did not happen) or unknown."""

    transaction: str
    commit: bool
    outcome: str
    at: int
    why: str = ""


@dataclass(frozen=True)
class Closed:
    """A producer cannot go on, so that another life of its worker begins."""

    worker: str
    life: str
    fatal: bool
    """The client says that the producer is of no use any more."""
    why: str
    at: int


@dataclass(frozen=True)
class From:
    """A reader begins at these offsets: topic, partition, offset."""

    reader: str
    isolation: str
    places: list[tuple[str, int, int]]


@dataclass(frozen=True)
class Read:
    """A reader that is in no group has read: topic, partition, offset, value."""

    reader: str
    records: list[tuple[str, int, int, str]]
    at: int


@dataclass(frozen=True)
class Asked:
    """A server is asked for last stable offsets: what others had said before that, it knows."""

    server: str
    at: int


@dataclass(frozen=True)
class Stable:
    """What it answered: topic, partition, the last stable offset."""

    server: str
    offsets: list[tuple[str, int, int]]
    at: int


@dataclass(frozen=True)
class Known:
    """A group's stable offsets as it is told to who asks: topic, partition, offset."""

    group: str
    offsets: list[tuple[str, int, int]]
    at: int


@dataclass(frozen=True)
class Stored:
    """What a partition holds in the end, by its batches: offset, value, `producer id/epoch`, and how the
    marker that follows has ended its transaction: "commit", "abort", or "" if none does.
    """

    topic: str
    partition: int
    records: list[tuple[int, str, str, str]]
    end: int


@dataclass(frozen=True)
class Event:
    """Something that was done to servers and clients, for whoever reads the file."""

    what: str
    at: int


OfTransaction = Begun | Sending | Acked | Polled | Offsets | Ending | Ended
Operation = OfTransaction | Closed | From | Read | Asked | Stable | Known | Stored | Event
KINDS: Final[dict[str, type[Operation]]] = {
    kind.__name__: kind
    for kind in (
        Begun,
        Sending,
        Acked,
        Polled,
        Offsets,
        Ending,
        Ended,
        Closed,
        From,
        Read,
        Asked,
        Stable,
        Known,
        Stored,
        Event,
    )
}


def written(operation: Operation) -> str:
    """Its line."""
    return json.dumps({"kind": type(operation).__name__, **asdict(operation)}, separators=(",", ":")) + "\n"


def save(operations: Iterable[Operation], path: Path) -> None:
    """A file to read after a test failed."""
    with path.open("w") as file:
        for operation in operations:
            file.write(written(operation))


def load(path: Path) -> Iterator[Operation]:
    """The operations of a file. A last line that was cut off by a kill is of something not begun."""
    with path.open() as file:
        for line in file:
            if line.endswith("\n"):
                yield parsed(line)


def parsed(line: str) -> Operation:
    """The operation of a line."""
    fields = json.loads(line)
    return KINDS[fields.pop("kind")](**{name: _tuples(value) for name, value in fields.items()})


def _tuples(value: Any) -> Any:
    """Lists in lists are tuples."""
    if isinstance(value, list):
        return [tuple(each) if isinstance(each, list) else each for each in value]
    return value


def transaction_of(value: str) -> str:
    """Which transaction has written a record."""
    return value.partition(COPY)[0].rpartition("/")[0]


def original_of(value: str) -> str | None:
    """What a record is a copy of."""
    return value.partition(COPY)[2] or None
