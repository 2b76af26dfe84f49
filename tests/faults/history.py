"""What a test did and saw, one operation after the other; written as JSON, one a line.

A produce is *invoked* first, then it is `ok` (acknowledged, with its offset), `fail` (the server says it did
not happen) or `unknown` (no answer: it may have happened). Reads and watermarks are what the server showed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Sent:
    """A record handed to a producer. Its content is known by its hash."""

    producer: str
    number: int
    partition: int
    digest: str


@dataclass(frozen=True)
class Result:
    """What became of a record: `outcome` is ok, fail or unknown; the offset is -1 unless that is ok, and the
    client has heard where.
    """

    producer: str
    number: int
    outcome: str
    offset: int = -1
    why: str = ""
    """What a client said of a record that it gave up."""


@dataclass(frozen=True)
class Seen:
    """A record that was read. `digest` is empty when its content is not what it says of itself."""

    partition: int
    offset: int
    producer: str
    number: int
    digest: str
    reader: str = "end"
    """Members of a group have its name, a slash, and what differs with each assignment."""


@dataclass(frozen=True)
class Asked:
    """A server was asked what it says next: what others had said before that, it knows."""

    server: str


@dataclass(frozen=True)
class Watermark:
    """A partition's high watermark as the server told it: the only one, or one that was `Asked`."""

    partition: int
    offset: int
    server: str = ""


@dataclass(frozen=True)
class Epoch:
    """A partition's leader epoch as one server told it."""

    partition: int
    epoch: int
    server: str


@dataclass(frozen=True)
class Led:
    """A batch that was read at the end: the epoch of the leader that has appended it, and what it says of the
    producer.
    """

    partition: int
    offset: int
    epoch: int
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1


@dataclass(frozen=True)
class Event:
    """Something that was done to the server, for whoever reads the file: killed, restarted."""

    what: str


Operation = Sent | Result | Seen | Asked | Watermark | Epoch | Led | Event
KINDS: dict[str, type[Operation]] = {
    kind.__name__: kind for kind in (Sent, Result, Seen, Asked, Watermark, Epoch, Led, Event)
}


class History:
    """Operations in the order in which they were told; any thread may tell."""

    def __init__(self) -> None:
        self._operations: list[Operation] = []
        self._lock = threading.Lock()

    def add(self, *operations: Operation) -> None:
        with self._lock:
            self._operations += operations

    def __iter__(self) -> Iterator[Operation]:
        with self._lock:
            return iter(list(self._operations))

    def __len__(self) -> int:
        return len(self._operations)

    def save(self, path: Path) -> None:
        """A file to read after a test failed."""
        with path.open("w") as file:
            for operation in self:
                file.write(json.dumps({"kind": type(operation).__name__, **asdict(operation)}) + "\n")

    @classmethod
    def load(cls, path: Path) -> History:
        history = cls()
        for line in path.read_text().splitlines():
            fields = json.loads(line)
            history.add(KINDS[fields.pop("kind")](**fields))
        return history
