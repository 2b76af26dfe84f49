"""Much of a catalog as it is at one moment, read without holding up everything else.

A hundred thousand entries take some hundred milliseconds. So they are read piece by piece, with other tasks
between, and what has changed meanwhile is taken from the catalog's own list of changes at the end.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import trio

from gateway.catalog.interface import Catalog, HistoryLost

ENTRIES_AT_ONCE: Final = 2000
"""Entries that are read in one turn: some milliseconds."""


class Snapshot(NamedTuple):
    """What a catalog had under some prefixes at `revision`, in no order."""

    sequence: int
    entries: dict[str, bytes]


async def snapshot(catalog: Catalog, prefixes: Sequence[str]) -> Snapshot:
    """The entries under these prefixes, of which none begins with another."""
    while True:
        begun = catalog.revision
        entries: dict[str, bytes] = {}
        for prefix in prefixes:
            after = ""
            while page := catalog.range(prefix, after=after, limit=ENTRIES_AT_ONCE):
                entries.update((entry.key, entry.value) for entry in page)
                after = page[-1].key
                if len(page) < ENTRIES_AT_ONCE:
                    break
                await trio.lowlevel.checkpoint()
        try:
            changes = catalog.changes(begun + 1)
        except HistoryLost:
            continue  # more than is kept in memory: it is read again
        for change in changes:
            if change.key.startswith(tuple(prefixes)):
                if change.value is None:
                    entries.pop(change.key, None)
                else:
                    entries[change.key] = change.value
        return Snapshot(catalog.sequence, entries)
