"""The reading side of a gateway's node: ranges of records, rows and look-ups from one member of a segment at
a time.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import trio

from mesh.protocol.range_read import RangeRefused, judge
from mesh.requests import Requests
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_NOT_HERE,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    Announcement,
    GetRows,
    ListSegments,
    Lookup,
)
from wireproto.dafka.messages import Fetch

ANSWER_SECONDS = 5.0
"""How long one member may take before the next one is asked."""

MAX_RANGES_AT_ONCE = 64
"""Ranges asked for at once by one gateway: times the largest range, what may be in memory for readers."""

LIST_COUNT = 128
ROWS_COUNT = 16_384

Result = TypeVar("Result")


class NotServed(Exception):
    """No member gave the range; `storage_error` when one of them could not read its disk."""

    def __init__(self, text: str, *, storage_error: bool = False) -> None:
        super().__init__(text)
        self.storage_error = storage_error


class Reader:
    """Asks the members of a segment, in order, until one answers."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._limit = trio.CapacityLimiter(MAX_RANGES_AT_ONCE)

    async def read(
        self, members: Sequence[str], address: str, subject: str, first: int, count: int, byte_cap: int
    ) -> list[bytes]:
        """Contents from sequence `first` on, without gaps, one at least. Raises `NotServed`."""

        async def from_one(member: str) -> list[bytes]:
            records, end = await self._requests.ask_range(
                member, lambda requester: Fetch(address, requester, subject, first, count, member, byte_cap)
            )
            return judge(address, first, count, records, end)

        async with self._limit:
            contents = await self._first_of(members, address, from_one)
        if not contents:
            raise NotServed(f"no member has address {address} from sequence {first}")
        return contents

    async def lookup(
        self, members: Sequence[str], address: str, kind: int, target: int, bound: int
    ) -> AddressStatus | None:
        """The first row up to `bound` that satisfies (`kind`, `target`); None if there is none. Raises
        `NotServed`.
        """

        async def from_one(member: str) -> AddressStatus:
            found = await self._requests.ask(
                member, lambda requester: Lookup(member, requester, address, kind, target, bound)
            )
            return _checked(found.found)

        found = await self._first_of(members, address, from_one)
        return found if found.sequence >= 0 else None

    async def rows(self, members: Sequence[str], address: str, first: int, last: int) -> bytes:
        """The rows from `first` to `last`, joined. Raises `NotServed`."""
        parts: list[bytes] = []
        while first <= last:
            count = min(ROWS_COUNT, last - first + 1)
            status, content = await self._first_of(
                members, address, partial(self._rows_from, address, first, count)
            )
            if not content or status.sequence < first:
                raise NotServed(f"the rows of address {address} end before sequence {last}")
            parts.append(content)
            first = status.sequence + 1
        return b"".join(parts)

    async def _rows_from(
        self, address: str, first: int, count: int, member: str
    ) -> tuple[AddressStatus, bytes]:
        rows = await self._requests.ask(
            member, lambda requester: GetRows(member, requester, address, first, count)
        )
        return _checked(rows.status), rows.content

    async def announcement(self, members: Sequence[str], address: str) -> Announcement:
        """What OPEN announced of one segment. Raises `NotServed`."""

        async def from_one(member: str) -> Announcement:
            listed = await self._requests.ask(member, partial(_list_segments, member, address, 1))
            if not listed.segments or listed.segments[0][0].address != address:
                raise RangeRefused(STATUS_NOT_HERE, f"store {member} has no announcement of {address}")
            found: Announcement = listed.segments[0][0]
            return found

        return await self._first_of(members, address, from_one)

    async def segments(self, member: str) -> list[tuple[Announcement, AddressStatus]]:
        """Every announcement that one store keeps, with its phase (`status`) and head (`sequence`)."""
        found: list[tuple[Announcement, AddressStatus]] = []
        first = ""
        while True:
            listed = await self._requests.ask(member, partial(_list_segments, member, first, LIST_COUNT))
            found += [entry for entry in listed.segments if entry[0].address != first]
            if len(listed.segments) < LIST_COUNT:
                return found
            first = listed.segments[-1][0].address

    async def _first_of(
        self, members: Sequence[str], address: str, from_one: Callable[[str], Awaitable[Result]]
    ) -> Result:
        storage_error = False
        for member in members:
            with trio.move_on_after(ANSWER_SECONDS):
                try:
                    return await from_one(member)
                except RangeRefused as refused:
                    storage_error = storage_error or refused.status == STATUS_STORAGE_ERROR
        raise NotServed(f"no member of address {address} answered", storage_error=storage_error)


def _list_segments(member: str, first: str, count: int, requester: str) -> ListSegments:
    return ListSegments(member, requester, first, count)


def _checked(status: AddressStatus) -> AddressStatus:
    if status.status != STATUS_DONE:
        raise RangeRefused(status.status, f"address {status.address}: status {status.status}")
    return status
