"""What happened to a mixed group: what its members said, what the server showed, what its log holds.

A *process* is the name of a member's process, which is its `client.id` as well. Offsets are of the topic that
the group reads, `position` is a place in the partition of `__consumer_offsets` that has the group.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

OBSERVER = "observer"
SERVER = "server"
"""By these names those fail who are no members: who looks from outside, and the server, by its log."""

# what members say -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Assigned:
    """All that a member owns from now on, in a generation."""

    process: str
    generation: int
    member: str
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class Revoked:
    """Partitions that a member owns no more; `lost` when it was told so after the fact."""

    process: str
    partitions: tuple[int, ...]
    lost: bool = False


@dataclass(frozen=True)
class Consumed:
    """A record that a member has read. `generation` is that of its last assignment."""

    process: str
    generation: int
    partition: int
    offset: int
    value: str


@dataclass(frozen=True)
class Committing:
    """A member is about to commit; `offsets` are pairs of partition and offset."""

    process: str
    number: int
    generation: int
    member: str
    offsets: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Committed:
    """That commit was acknowledged."""

    process: str
    number: int


@dataclass(frozen=True)
class Refused:
    """That commit was not acknowledged; an earlier try of it may have been kept."""

    process: str
    number: int
    error: str


@dataclass(frozen=True)
class Failed:
    """Something else that a member has to tell."""

    process: str
    error: str


# what the log holds -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoggedMember:
    """A member in the record of a generation; `partitions` None: its assignment cannot be read."""

    member: str
    instance: str | None
    partitions: tuple[int, ...] | None


@dataclass(frozen=True)
class LoggedGeneration:
    """The record of a generation."""

    position: int
    generation: int
    protocol: str | None
    members: tuple[LoggedMember, ...]


@dataclass(frozen=True)
class LoggedOffset:
    """The record of a committed offset; the members' `metadata` is PROCESS/GENERATION/NUMBER."""

    position: int
    partition: int
    offset: int
    metadata: str


@dataclass(frozen=True)
class LoggedTombstone:
    """The record that the group, or an offset of it, is gone: nobody here deletes anything."""

    position: int
    what: str


# what the server shows --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """OffsetFetch: a committed offset, in the order of the answers."""

    partition: int
    offset: int


@dataclass(frozen=True)
class Described:
    """DescribeGroups: each member's id with its partitions."""

    state: str
    members: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class StaleCommit:
    """A commit in the name of a member of a generation that was over by the log; `error` is the answer."""

    generation: int
    member: str
    error: int


@dataclass(frozen=True)
class End:
    """Where a partition ends when all is over."""

    partition: int
    offset: int


@dataclass(frozen=True)
class Done:
    """What was done to members and the server."""

    what: str


Event: TypeAlias = (
    Assigned
    | Revoked
    | Consumed
    | Committing
    | Committed
    | Refused
    | Failed
    | LoggedGeneration
    | LoggedOffset
    | LoggedTombstone
    | Shown
    | Described
    | StaleCommit
    | End
    | Done
)
KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Assigned, Revoked, Consumed, Committing, Committed, Refused, Failed, LoggedGeneration, LoggedOffset,
        LoggedTombstone, Shown, Described, StaleCommit, End, Done,
    )
}  # fmt: skip


class Events:
    """In the order in which they were told; any thread may tell."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._times: list[float] = []
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def add(self, *events: Event) -> None:
        with self._lock:
            self._events += events
            self._times += [time.monotonic() - self._began] * len(events)

    def times(self, kind: type[Event]) -> list[float]:
        """When those of a kind were told, in seconds."""
        with self._lock:
            return [at for at, one in zip(self._times, self._events, strict=True) if isinstance(one, kind)]

    def __iter__(self) -> Iterator[Event]:
        with self._lock:
            return iter(list(self._events))

    def __len__(self) -> int:
        return len(self._events)

    def save(self, path: Path) -> None:
        """A file to read after a run failed, one JSON object a line."""
        with path.open("w") as file:
            for at, event in zip(self._times, self, strict=True):
                fields = {"at": round(at, 3), "kind": type(event).__name__, **asdict(event)}
                file.write(json.dumps(fields) + "\n")

    @classmethod
    def load(cls, path: Path) -> Events:
        events = cls()
        for line in path.read_text().splitlines():
            fields = {name: _tuples(value) for name, value in json.loads(line).items()}
            del fields["at"]
            kind = KINDS[fields.pop("kind")]
            if kind is LoggedGeneration:
                fields["members"] = tuple(LoggedMember(**one) for one in fields["members"])
            events.add(kind(**fields))
        return events


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_tuples(one) for one in value)
    if isinstance(value, dict):
        return {name: _tuples(one) for name, one in value.items()}
    return value
