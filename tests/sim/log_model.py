"""A partition's log as one thing that does one thing at a time: what may be answered in which state.

What a batch has become is known when a schedule is over: it is in the log, at an offset, or nowhere. So an
append is one operation whose outcome is known, also where its producer was told nothing; and the state is no
more than where the log ends and begins, and the highest leader epoch that its leader has told.

Everything is strict: the high watermark that the leader tells is the end of what is durable in that moment,
neither less nor more. Only a gateway that has lost the partition, and goes on until it notices or its lease
is old, may answer as things were: at the earliest when it lost the partition (`LogHistory` gives such an
answer that time to have been right).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from tests.linearizable.search import Operation, Step

UNDEFINED = -1
"""Epoch and offset of an epoch that is not known."""


class Log(NamedTuple):
    """The state."""

    end: int
    """The high watermark."""
    start: int = 0
    epoch: int = UNDEFINED


class Append(NamedTuple):
    """A batch is durable. Answered with nothing more: its place is known."""

    base_offset: int
    end: int
    epoch: int


class MoveStart(NamedTuple):
    """The log start moves, as the catalog has it."""

    offset: int


class AskEnd(NamedTuple):
    """ListOffsets, latest: answered with (offset, leader epoch)."""


class AskStart(NamedTuple):
    """ListOffsets, earliest: answered with an offset."""


class DeleteRecords(NamedTuple):
    """Answered with the low watermark."""

    offset: int


class AskEpochEnd(NamedTuple):
    """OffsetForLeaderEpoch: answered with (epoch, end offset)."""

    epoch: int


class Read(NamedTuple):
    """Fetch: answered with the end of the last batch, or the offset itself where nothing is there yet, or
    `OUT_OF_RANGE`.
    """

    offset: int


OUT_OF_RANGE = "out of range"


def is_read(operation: Operation) -> bool:
    """Whether what changes nothing now changes nothing later: AskEnd's epoch never goes back."""
    return not isinstance(operation.asked, Append | MoveStart)


def log_model(entries: Iterable[Append]) -> Step[Log]:
    """The model of a log that holds these entries in the end, in any order."""
    begun: dict[int, int] = {}
    """Leader epoch -> the first offset that it has written."""
    for entry in sorted(entries):
        begun.setdefault(entry.epoch, entry.base_offset)
    epochs, starts = sorted(begun), [begun[epoch] for epoch in sorted(begun)]

    def step(log: Log, operation: Operation) -> tuple[bool, Log]:
        match operation.asked, operation.answered:
            case Append(base_offset, end, _), _:
                return base_offset == log.end, log._replace(end=end)
            case MoveStart(offset), _:
                return log.start < offset <= log.end, log._replace(start=offset)
            case AskEnd(), (offset, epoch):
                return offset == log.end and epoch >= log.epoch, log._replace(epoch=epoch)
            case AskStart(), start:
                return start == log.start, log
            case DeleteRecords(offset), low:
                return offset <= low == log.start, log
            case Read(offset), answered:
                return _may_be_read(log, offset, answered), log
            case AskEpochEnd(epoch), (floor, end):
                after = bisect_right(epochs, epoch)
                next_start = max(starts[after], log.start) if after < len(starts) else log.end
                return floor <= epoch and end == min(next_start, log.end), log
        raise AssertionError(operation)

    return step


def _may_be_read(log: Log, offset: int, answered: object) -> bool:
    if answered == OUT_OF_RANGE:
        return not log.start <= offset <= log.end
    assert isinstance(answered, int)
    if answered == offset:
        return offset >= log.end
    return log.start <= offset < answered <= log.end
