"""Notes about segments leave the catalog: ends that all members have heard, segments that all have forgotten,
and what compactions have begun.

A note belongs to whoever leads the partition that it is about: its transaction compares the partition
(`gateway.log.fences`), or the tombstone of a topic that was deleted, and the note itself with what was read
of it. Notes that an older version has put do not say whose they are, and are compared by themselves alone; so
is what comes in their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed, unchanged
from gateway.log.fences import Overtaken

if TYPE_CHECKING:
    from gateway.catalog.interface import Entry
    from gateway.log.context import LogContext
    from gateway.log.partition import Partition


NOTES_AT_ONCE: Final = 28
"""Notes that leave in one transaction: each is four of its 120 compares at most (itself, its partition, the
topic, and who leads it)."""


class Note(NamedTuple):
    """`puts` come in its place. `log` is "" where nobody knows it."""

    key: str
    revision: int
    log: str
    puts: Mapping[str, bytes] = MappingProxyType({})

    @classmethod
    def of(cls, entry: Entry) -> Note:
        """As it was read."""
        return cls(entry.key, entry.mod_revision, keys.noted_log(entry.value))


def tombstone(address: str, log: str, epoch: int, members: Sequence[str], **more: Any) -> dict[str, bytes]:
    """The note that a segment has left its chain, and is to be deleted by its members.

    `log` is its log's name ("": not known), `epoch` the segment's own (-1: not known), `more` what the
    deletion waits for.
    """
    value = {"members": members, "log": log, "epoch": epoch}
    return {keys.segment_tombstone_key(address): keys.pack(value | more)}


async def take_notes(context: LogContext, notes: Iterable[Note]) -> None:
    """Take these out of the catalog, in as few transactions as may be. One that was put anew since it was
    read stays, and one whose partition another gateway has changed.
    """
    left = {note.key: note for note in notes}
    while True:
        # Those of logs that this gateway leads no more are their leader's to take.
        left = {key: note for key, note in left.items() if not note.log or context.leads_log(note.log)}
        if not left:
            return
        partitions = {log: context.fences.partition(log) for log in {note.log for note in left.values()}}
        busy = [one for one in partitions.values() if one and one.fence.under_way is not None]
        waits = {one.log for one in busy}
        now = list(islice((note for note in left.values() if note.log not in waits), NOTES_AT_ONCE))
        if now:
            await _take(context, now, partitions, left)
        else:
            # Not all of them: of a thousand logs that are written to some partition is always busy.
            await context.fences.free(busy[:1])


async def _take(
    context: LogContext, now: list[Note], logs: Mapping[str, Partition | None], left: dict[str, Note]
) -> None:
    """One transaction; what needs no other one is taken from `left`."""
    compares = [Compare(note.key, note.revision) for note in now]
    partitions: dict[Partition, None] = {}
    for log in dict.fromkeys(note.log for note in now):
        partition = logs[log]
        if partition is not None:
            partitions[partition] = None
        elif log:
            compares += context.fences.of_deleted(log)
    puts: dict[str, bytes] = {}
    for note in now:
        puts |= note.puts
        if not note.log:
            compares += unchanged(context.catalog, note.puts)
    try:
        compares = list(dict.fromkeys(compares))
        await context.fences.transact(partitions, puts, [note.key for note in now], compares)
    except CompareFailed as failed:
        left.pop(failed.key, None)  # or a topic was deleted meanwhile: that is looked at anew
    except Overtaken as overtaken:
        for note in now:
            partition = logs[note.log]
            # What a deleted topic has left belongs to its tombstone: it is tried again with that.
            if partition in overtaken.partitions and partition is not None and not partition.deleted:
                del left[note.key]
    else:
        for note in now:
            del left[note.key]
