"""The reading side of a gateway's node: ranges of records, rows and look-ups from one member of a segment at
a time, and what one store knows of logs.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import trio

from mesh.address_requests import AddressRequests
from mesh.protocol.range_read import RangeRefused, judge
from mesh.requests import REPEAT_LAST_SECONDS, Requests
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    STATUS_ANSWER_FULL,
    STATUS_DONE,
    STATUS_NOT_HERE,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    Announcement,
    Beginning,
    GetRows,
    ListSegments,
    Lookup,
    Ping,
    Recall,
    Recalled,
    Verified,
    Verify,
)
from wireproto.dafka.errors import MalformedMessage
from wireproto.dafka.messages import Fetch

ANSWER_SECONDS = 5.0
"""How long one member may take before the next one is asked."""

MAX_RANGES_AT_ONCE = 64
"""Ranges asked for at once by one gateway: times the largest range, what may be in memory for readers."""

LIST_COUNT = 128
"""Announcements asked for in one LIST."""

ROWS_COUNT = 16_384
"""Rows asked for in one ROWS."""

VERIFY_COUNT = 1024
"""Logs asked about in one VERIFY."""

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class NotServed(Exception):
    """No member gave the range; `storage_error` when one of them could not read its disk.

    `silent` are the members that did not answer in time: they may have it.
    """

    def __init__(self, text: str, *, storage_error: bool = False, silent: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.storage_error = storage_error
        self.silent = tuple(silent)


UNKNOWN_BYTES = -1
"""A size that a store does not know of its disk."""


class Disk(NamedTuple):
    """A store's disk, in bytes; UNKNOWN_BYTES for what the store does not know."""

    total_bytes: int
    free_bytes: int


class Reader:
    """Asks the members of a segment, in order, until one answers. `run` asks what goes out in lists."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._beginnings = AddressRequests(requests, ids.BEGINNINGS)
        self._limit = trio.CapacityLimiter(MAX_RANGES_AT_ONCE)

    @property
    def refused_answers(self) -> int:
        """Answers that nobody waited for, or that were not of what was asked."""
        return self._requests.refused_answers

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

    async def run(self) -> None:
        """Ask for beginnings, for ever."""
        await self._beginnings.run()

    async def beginning(self, members: Sequence[str], address: str, last: int) -> Beginning:
        """What OPEN announced of one segment, and its first rows, up to sequence `last` or fewer.

        Many that are asked for at the same time share requests. Raises `NotServed`.
        """
        entry = AddressStatus(address, STATUS_DONE, last).pack()

        async def from_one(member: str) -> Beginning:
            answer = await self._beginnings.answer(member, address, entry)
            while answer.status == STATUS_ANSWER_FULL:
                answer = await self._beginnings.answer(member, address, entry)
            try:
                return Beginning.unpack(_checked(answer).row)
            except MalformedMessage as error:
                raise RangeRefused(
                    STATUS_NOT_HERE, f"store {member} answers BEGINNINGS with what cannot be read ({error})"
                ) from None

        return await self._first_of(members, address, from_one)

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

    async def disk(self, member: str) -> Disk:
        """How large one store's disk is, and what is free. Waits for ever for one that does not answer."""
        pong = await self._requests.ask(member, partial(Ping, member))
        return Disk(pong.disk_bytes or UNKNOWN_BYTES, pong.free_bytes or UNKNOWN_BYTES)

    async def segment(self, member: str, address: str) -> tuple[Announcement, AddressStatus] | None:
        """What one store keeps of a segment, as `segments`; None if nothing was announced to it.

        Waits for ever for a store that does not answer.
        """
        listed = await self._requests.ask(member, partial(_list_segments, member, address, 1))
        if not listed.segments or listed.segments[0][0].address != address:
            return None
        found: tuple[Announcement, AddressStatus] = listed.segments[0]
        return found

    async def verify(self, member: str, entries: Sequence[tuple[str, str]]) -> list[Verified]:
        """What one store knows of (log, address or "") each, in the same order.

        Waits for ever for a store that does not answer, or not what was asked.
        """
        found: list[Verified] = []
        for start in range(0, len(entries), VERIFY_COUNT):
            found += await self._verify_piece(member, tuple(entries[start : start + VERIFY_COUNT]))
        return found

    async def _verify_piece(self, member: str, asked: tuple[tuple[str, str], ...]) -> list[Verified]:
        said = False
        while True:
            rows = await self._requests.ask(member, partial(_verify, member, asked))
            try:
                found = Verified.unpack_all(rows.content)
                if len(found) == len(asked):
                    return found
                wrong = f"tells of {len(found)} logs, not of {len(asked)}"
            except MalformedMessage as error:
                wrong = f"answers VERIFY with what cannot be read ({error})"
            if not said:
                logger.warning("store %s %s: it is asked again", member, wrong)
                said = True
            await trio.sleep(REPEAT_LAST_SECONDS)

    async def recall(self, member: str, after: str) -> Recalled:
        """What one store keeps of the gateways' catalog: entries after this key ("": from the first on).

        Waits for ever for a store that does not answer.
        """
        recalled: Recalled = await self._requests.ask(
            member, lambda requester: Recall(member, requester, after)
        )
        return recalled

    async def _first_of(
        self, members: Sequence[str], address: str, from_one: Callable[[str], Awaitable[Result]]
    ) -> Result:
        storage_error = False
        silent: list[str] = []
        said: list[str] = []
        for member in members:
            with trio.move_on_after(ANSWER_SECONDS):
                try:
                    return await from_one(member)
                except RangeRefused as refused:
                    storage_error = storage_error or refused.status == STATUS_STORAGE_ERROR
                    said.append(str(refused))
                    continue
            silent.append(member)
            said.append(f"store {member} did not answer in {ANSWER_SECONDS:g} s")
        raise NotServed(
            f"no member gave address {address}: {', '.join(said)}", storage_error=storage_error, silent=silent
        )


def _list_segments(member: str, first: str, count: int, requester: str) -> ListSegments:
    return ListSegments(member, requester, first, count)


def _verify(member: str, entries: tuple[tuple[str, str], ...], requester: str) -> Verify:
    return Verify(member, requester, entries)


def _checked(status: AddressStatus) -> AddressStatus:
    if status.status != STATUS_DONE:
        raise RangeRefused(status.status, f"address {status.address}: status {status.status}")
    return status
