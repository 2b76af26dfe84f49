"""What was read: every acknowledged record, as sent; each member from where the group was, without gaps."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mixed_groups.events import (
    Assigned,
    Committed,
    Committing,
    Consumed,
    Event,
    LoggedGeneration,
    LoggedOffset,
    Revoked,
)
from tests.faults.checker import Problem
from tests.faults.history import Operation, Result, Sent
from tests.faults.workloads import read_value

Key = tuple[str, int]


def check(events: Sequence[Event], operations: Sequence[Operation]) -> Iterator[Problem]:
    yield from _content(events, operations)
    yield from _places(events)


def _content(events: Iterable[Event], operations: Iterable[Operation]) -> Iterator[Problem]:
    sent: dict[Key, Sent] = {}
    acked: dict[Key, int] = {}
    for operation in operations:
        if isinstance(operation, Sent):
            sent[operation.producer, operation.number] = operation
        elif isinstance(operation, Result) and operation.outcome == "ok":
            acked[operation.producer, operation.number] = operation.offset
    holds: dict[tuple[int, int], str] = {}
    for read in events:
        if not isinstance(read, Consumed):
            continue
        if (first := holds.setdefault((read.partition, read.offset), read.value)) != read.value:
            yield Problem("consumed otherwise", f"{read}, first {first}")
    for (partition, offset), value in holds.items():
        producer, number, digest = read_value(value.encode())
        one = sent.get((producer, number))
        if one is None or (one.partition, one.digest) != (partition, digest):
            yield Problem("phantom", f"{partition}/{offset}: {value}, sent {one}")
    for key, offset in acked.items():
        found = holds.get((sent[key].partition, offset))
        if found is None:
            yield Problem("not consumed", f"{key} at {sent[key].partition}/{offset}")
        elif read_value(found.encode())[:2] != key:
            yield Problem("consumed otherwise", f"{key} acknowledged at {offset}, which held {found}")


# from where, and without gaps -------------------------------------------------------------------------------


class _Log:
    """Where the group was when a generation began, and where it came to in it."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.starts: dict[int, int] = {}
        """Generation -> position of its first record."""
        self._commits: dict[int, list[LoggedOffset]] = defaultdict(list)
        for one in events:
            if isinstance(one, LoggedGeneration):
                self.starts.setdefault(one.generation, one.position)
            elif isinstance(one, LoggedOffset):
                self._commits[one.partition].append(one)

    def before(self, generation: int, partition: int) -> int:
        """What was committed when the generation began; 0 without a commit."""
        commits = self._commits[partition]
        index = bisect_left(commits, self.starts[generation], key=lambda one: one.position)
        return commits[index - 1].offset if index else 0

    def since(self, generation: int, partition: int) -> set[int]:
        """What was committed after the generation began: by its owner, and by those of later generations."""
        began = self.starts[generation]
        return {one.offset for one in self._commits[partition] if one.position > began}


@dataclass
class _Reader:
    """A member: partition -> the generation in which it came to it, or the offset that it reads next."""

    fresh: dict[int, int] = field(default_factory=dict)
    next: dict[int, int] = field(default_factory=dict)
    acknowledged: dict[int, int] = field(default_factory=dict)
    commits: dict[int, Committing] = field(default_factory=dict)


def _places(events: Sequence[Event]) -> Iterator[Problem]:
    log = _Log(events)
    readers: dict[str, _Reader] = defaultdict(_Reader)
    for one in events:
        match one:
            case Assigned():
                reader = readers[one.process]
                for partition in set(one.partitions) - reader.next.keys():
                    reader.fresh[partition] = one.generation
            case Revoked():
                for partition in one.partitions:
                    readers[one.process].fresh.pop(partition, None)
                    readers[one.process].next.pop(partition, None)
            case Committing():
                readers[one.process].commits[one.number] = one
            case Committed():
                reader = readers[one.process]
                reader.acknowledged.update(reader.commits[one.number].offsets)
            case Consumed():
                yield from _read(one, readers[one.process], log)


def _read(one: Consumed, reader: _Reader, log: _Log) -> Iterator[Problem]:
    if one.partition in reader.next:
        expected = reader.next[one.partition]
        if one.offset != expected:
            yield Problem("skipped" if one.offset > expected else "read again", f"{one}, expected {expected}")
    elif (generation := reader.fresh.pop(one.partition, -1)) in log.starts:
        # It may have committed, lost the partition and got it back, all in one generation; and one that was
        # stopped before it asked goes on where others have come to.
        right = {log.before(generation, one.partition)} | log.since(generation, one.partition)
        least = reader.acknowledged.get(one.partition, 0)
        if one.offset not in right or one.offset < least:
            yield Problem("started elsewhere", f"{one}, expected one of {sorted(right)}, {least} at least")
    reader.next[one.partition] = one.offset + 1
