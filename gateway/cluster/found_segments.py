"""What several stores say of one segment, and what follows from it, for a catalog that is rebuilt. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from gateway.cluster.entry_check import check_details
from gateway.log.segment import UNKNOWN, Segment
from mesh.protocol.address_state import Phase
from wireproto.dafka.additions import AddressStatus, Announcement
from wireproto.records.row import ROW_BYTES, Row


class CannotRebuild(Exception):
    """The stores contradict each other, or have not what is needed; the text says why and what to do."""


class End(NamedTuple):
    """The last sequence of a segment (-1: it is empty), and its row."""

    sequence: int
    row: bytes


class FoundSegment:
    """One announced segment. Of the details the idempotence state is left out: it may be large."""

    def __init__(self, announcement: Announcement) -> None:
        """Raises ValueError: what was announced cannot be read."""
        try:
            self.details: dict[str, Any] = json.loads(announcement.details)
            check_details(self.details)
        except (TypeError, RecursionError) as error:
            raise ValueError(str(error)) from None
        self.details.pop("producers", None)
        self.announcement = announcement._replace(details=b"")
        self.told: dict[str, AddressStatus] = {}
        """Store -> its phase, head (where it is closed: end) and last row (where it is closed and lacks
        something: none)."""
        self.deleted_at: set[str] = set()
        self._versions: dict[tuple[str, ...], set[str]] = {}
        """Members, as announced: -> who says so. They differ after a replacement."""

    def add(self, store: str, announcement: Announcement, status: AddressStatus) -> None:
        """What one more store says. Raises CannotRebuild."""
        if announcement[:6] != self.announcement[:6]:
            raise CannotRebuild(
                f"store {store} tells another segment of address {announcement.address} than others: start "
                "without one of them"
            )
        check_row(status.row, announcement.address, store)
        self.told[store] = status
        self._versions.setdefault(announcement.members, set()).add(store)

    @property
    def opened_ms(self) -> int:
        return int(self.details["opened_ms"])

    @property
    def members(self) -> tuple[str, ...]:
        """The members: of several lists the one that most of those who have the segment are in."""
        return max(self._versions, key=lambda members: (len(self.told.keys() & set(members)), members))

    def holders(self) -> list[str]:
        """The stores that may have all of it, those that say so first."""
        return sorted(self.told, key=lambda store: (not self.told[store].row, -self.told[store].sequence))

    def closed_end(self) -> int | None:
        """The end that stores were told by CLOSE, None if none here was. Raises CannotRebuild."""
        ends = {store: told.sequence for store, told in self.told.items() if told.status == Phase.CLOSED}
        if len(set(ends.values())) > 1:
            said = ", ".join(f"store {store}: {end}" for store, end in sorted(ends.items()))
            raise CannotRebuild(
                f"stores know different ends of segment {self.announcement.address}: {said}. Start without "
                "those that are wrong"
            )
        return next(iter(ends.values()), None)

    def row_at(self, sequence: int) -> bytes | None:
        """The row of a sequence, if it is some store's last one."""
        return next((told.row for told in self.told.values() if told.sequence == sequence and told.row), None)

    def end_before(self, offset: int) -> End | None:
        """The end, if some store's last row is the one before `offset`."""
        for told in self.told.values():
            if told.row and Row.unpack(told.row).last_offset == offset - 1:
                return End(told.sequence, told.row)
        return None

    def untold(self, end: End) -> list[str]:
        """The members that have not closed all of it at this end, as far as is known."""
        whole = AddressStatus(self.announcement.address, Phase.CLOSED, end.sequence)
        return [
            member
            for member in self.members
            if (told := self.told.get(member)) is None or not told.row or told._replace(row=b"") != whole
        ]

    def segment(self, end: End | None) -> Segment:
        """As the catalog keeps it."""
        announced = self.announcement
        segment = Segment(
            announced.address,
            announced.epoch,
            announced.start,
            self.members,
            announced.w,
            self.opened_ms,
            announced=len(self.told) >= max(announced.w, len(self.members) - announced.w + 1),
            confirmed=tuple(member for member in self.members if member in self.told),
            first_unstable=self.details.get("first_unstable", UNKNOWN),
        )
        if "compaction" in self.details:
            # How far it is clean is not told: all of the log counts as dirty.
            segment = replace(segment, cleaned_to=0)
        if end is None:
            return segment
        row = Row.unpack(end.row)
        return segment.closed(row.last_offset + 1, end.sequence, row.running_max_timestamp)


def check_row(row: bytes, address: str, *stores: str) -> None:
    """Whether the row that one of these stores tells, if it does, can be read. Raises CannotRebuild."""
    if row and len(row) != ROW_BYTES:
        raise CannotRebuild(
            f"store {' or '.join(stores)} tells of segment {address} a row that cannot be read ({len(row)} "
            "bytes): start without it"
        )


def superseded_by_compactions(found: Mapping[str, FoundSegment]) -> set[str]:
    """The addresses that a compaction has left behind: what it replaced, or what it wrote itself.

    It tells w members of each of its segments where that ends before it has anything deleted. So where no
    store knows one as closed, everything that it was to replace is still there.
    """
    runs: dict[str, list[FoundSegment]] = {}
    for segment in found.values():
        if "compaction" in segment.details:
            runs.setdefault(segment.details["compaction"], []).append(segment)
    superseded: set[str] = set()
    for outputs in runs.values():
        if any(told.status == Phase.CLOSED for segment in outputs for told in segment.told.values()):
            superseded.update(outputs[0].details["replaces"])
        else:
            superseded.update(segment.announcement.address for segment in outputs)
    return superseded


def check_chain(name: str, segments: Sequence[FoundSegment], ends: Sequence[End | None]) -> None:
    """Whether each segment ends where the next one begins. Raises CannotRebuild."""
    for segment, end, following in zip(segments, ends, segments[1:], strict=False):
        ends_at = None if end is None else Row.unpack(end.row).last_offset + 1
        if ends_at != following.announcement.start:
            raise CannotRebuild(
                f"segment {segment.announcement.address} of {name} ends at offset {ends_at}, and the next "
                f"one begins at {following.announcement.start}: a store that is missing has what is "
                "between them. Start it too"
            )
