"""What a cut of a damaged write-ahead log takes, said before it is done (`dafka store accept-loss DIR`).

A log that is damaged, or lacks what was acknowledged, is cut at its first bad byte: everything from there on
goes, also what is whole behind it, because a log with a hole is none. A database that is opened to be read
has what will be left: nothing of the store is changed. What goes is told by the whole entries behind the
damaged place; what the damaged place itself held, nobody here knows.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.copying import is_unfinished
from mesh.store import keys
from mesh.store.db import Database
from mesh.store.values import unpack_head
from mesh.store.write_ahead.entries import PUT, changes
from mesh.store.write_ahead.replaying import behind
from wireproto.dafka.additions import Announcement
from wireproto.records.errors import InvalidBatch
from wireproto.records.row import Row

NAMES_AT_ONCE = 1000
"""Addresses read at a time."""

NO_OFFSET = -1


@dataclass(frozen=True)
class Part:
    """One segment that may lose something. Offsets are the last ones, `NO_OFFSET` for none or not known.

    Of one whose announcement is gone the `log` is not known ("") and `start` is the first that was seen.
    """

    segment: str
    topic: str
    log: str
    start: int
    kept_to: int
    seen_to: int
    """What the log behind the damaged place tells of it."""


@dataclass(frozen=True)
class Look:
    """`parts`: every segment that the store does not have to its end, once the log is cut."""

    cause: str
    parts: list[Part]
    entries: int
    """Keys that are written or deleted behind the damaged place, of whatever kind."""


def look(path: Path) -> Look | None:
    """What is given up when the log of this database is cut; None if it is not damaged. The store must not
    run. Raises StoreFailed, OSError.
    """
    database = Database(path, read_only=True)
    try:
        examined = database.examined
        if examined.verdict.kind != "corrupt":
            return None
        seen: dict[str, _Seen] = {}
        entries = 0
        for content, entry in behind(examined):
            for kind, key, value in changes(content, entry):
                entries += 1
                if kind == PUT:
                    _see(seen, key, value)
        return Look(examined.verdict.cause, list(_parts(database, seen)), entries)
    finally:
        database.close()


@dataclass
class _Seen:
    """What the log behind the damaged place tells of one address."""

    subject: str = ""
    first: int = NO_OFFSET
    last: int = NO_OFFSET
    announcement: Announcement | None = None

    def row(self, row: bytes) -> None:
        """A row of it. Raises InvalidBatch."""
        if row:
            found = Row.unpack(row)
            self.last = max(self.last, found.last_offset)
            self.first = found.base_offset if self.first == NO_OFFSET else min(self.first, found.base_offset)


def _see(seen: dict[str, _Seen], key: bytes, value: bytes) -> None:
    """One key that is written behind the damaged place."""
    try:
        address = keys.name_of(key)
        one = seen.get(address) or _Seen()
        if key[:1] == b"a":
            state = AddressState.unpack(address, value, (-1, b"", -1, ""))
            one.announcement = state.announcement or one.announcement
        elif key[:1] == b"h":
            _, row, _, one.subject = unpack_head(value)
            one.row(row)
        elif key[:1] == b"r":
            one.row(value)
        else:
            return
    except (ValueError, IndexError, InvalidBatch, struct.error):
        return
    seen[address] = one


def _parts(database: Database, seen: dict[str, _Seen]) -> Iterator[Part]:
    left = dict(seen)
    for address in _addresses(database):
        state = database.load(address)
        one = left.pop(address, _Seen())
        if state is None or state.phase is Phase.DELETED:
            continue
        announcement = state.announcement or one.announcement
        if announcement is None or (state.phase is Phase.CLOSED and not is_unfinished(state)):
            continue
        kept_to = Row.unpack(state.last_row).last_offset if state.last_row else announcement.start - 1
        yield _part(announcement, kept_to, one)
    for address, one in left.items():
        if one.announcement is not None:
            yield _part(one.announcement, one.announcement.start - 1, one)
        elif one.last != NO_OFFSET:
            # Its announcement was in the damaged place, or is gone with it.
            yield Part(address, one.subject, "", one.first, one.first - 1, one.last)


def _part(announcement: Announcement, kept_to: int, one: _Seen) -> Part:
    return Part(
        announcement.address, announcement.subject, announcement.log, announcement.start, kept_to, one.last
    )


def _addresses(database: Database) -> Iterator[str]:
    last = ""
    while True:
        found = database.addresses(last, NAMES_AT_ONCE, behind=bool(last))
        yield from found
        if len(found) < NAMES_AT_ONCE:
            return
        last = found[-1]
