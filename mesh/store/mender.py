"""Compares a range of a closed segment with the other members, and writes it again from one that has it good.

`mesh.protocol.scrubbing` decides; here is asked, fetched, checked and written.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import trio

from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.commit import Repair
from mesh.protocol.copying import rows_between, sources_of
from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.ingest import Ingest
from mesh.protocol.range_read import RangeRefused, judge
from mesh.protocol.scrubbing import AskDigests, Decided, RangeScrub, Take, Verdict
from mesh.requests import Requests
from mesh.store.checking import digest_of
from mesh.store.db import Database
from mesh.store.refill import refill
from mesh.store.slices import checked_digest, row_at
from wireproto.dafka.additions import STATUS_DONE, STATUS_STORAGE_ERROR, Digest, Digested
from wireproto.dafka.fields import MAX_TOPIC_BYTES
from wireproto.dafka.messages import Fetch, directed_topic
from wireproto.records.errors import InvalidBatch

ANSWER_SECONDS = 5.0
"""A member that says nothing for so long is silent."""

SILENT_SECONDS = 60.0
"""How long a silent member is not asked again: a pass has thousands of questions."""

FETCH_BYTES = 1024 * 1024
"""Content asked for at once; the record that passes it is the last one."""

logger = logging.getLogger(__name__)


@dataclass
class _Taken:
    """Records that were fetched, and the rows made of them: none if they may not be written."""

    contents: list[bytes]
    rows: list[bytes]


class Mender:
    """One store's. `pump` has it write what `Ingest` has; `is_linked` says whether another store hears us."""

    def __init__(
        self,
        database: Database,
        ingest: Ingest,
        requests: Requests,
        is_linked: Callable[[str], bool],
        pump: Callable[[], None],
    ) -> None:
        self.bad_copies = 0
        """Ranges that another member gave and that failed their checks."""
        self._database = database
        self._ingest = ingest
        self._requests = requests
        self._is_linked = is_linked
        self._pump = pump
        self._silent_until: dict[str, float] = {}
        self._written: dict[tuple[str, int], trio.Event] = {}
        """(address, first) of repairs that are on their way to the disk."""

    def on_durable(self, repairs: Sequence[Repair]) -> None:
        """These are on the disk."""
        for repair in repairs:
            written = self._written.get((repair.state.address, repair.first))
            if written is not None:
                written.set()

    async def compare(self, state: AddressState, first: int, last: int, own: bytes) -> Decided:
        """Compare these records, good here and with the digest `own`, with the other members'."""
        scrub = RangeScrub(own, self._members(state))
        return await self._run(scrub, state, first, last, _Taken([], []))

    async def refill(self, state: AddressState, member: str) -> Phase | None:
        """Have another member copy a segment that is whole here and that it lacks. Gives what it knew of it
        before; None if it was not asked to.
        """
        return await refill(self._requests, state, member) if self._is_linked(member) else None

    async def mend(self, state: AddressState, first: int, last: int) -> Decided:
        """Write these records, damaged here, again. `Verdict.GOOD`: they are on the disk, and read back."""
        taken = _Taken([], [])
        scrub = RangeScrub(b"", self._members(state))
        decided = await self._run(scrub, state, first, last, taken)
        if decided.verdict is not Verdict.MENDABLE:
            return decided
        if not await self._write(state.address, first, taken):
            return Decided(Verdict.LATER, "the segment changed meanwhile")
        try:
            digest = await trio.to_thread.run_sync(checked_digest, self._database, state, first, last)
        except StoreCorrupt as error:
            return Decided(Verdict.LATER, f"it was written again, and does not read back: {error}")
        if digest != digest_of(taken.contents):
            return Decided(Verdict.LATER, "it was written again, and other bytes are read back")
        return decided._replace(verdict=Verdict.GOOD)

    async def _write(self, address: str, first: int, taken: "_Taken") -> bool:
        """One commit; true when it is durable, false if it is not to be made."""
        if not self._ingest.on_repair(address, first, taken.contents, taken.rows):
            return False
        key = address, first
        written = self._written[key] = trio.Event()
        try:
            self._pump()
            await written.wait()
        finally:
            del self._written[key]
        return True

    def _members(self, state: AddressState) -> list[str]:
        sources = sources_of(state, self._ingest.incarnation)
        return [one for one in sources if len(directed_topic(one, state.address)) <= MAX_TOPIC_BYTES]

    async def _run(
        self, scrub: RangeScrub, state: AddressState, first: int, last: int, taken: "_Taken"
    ) -> Decided:
        """Do what the machine says. What was taken, and is good, is put into `taken`."""
        while True:
            step = scrub.next_step()
            if isinstance(step, AskDigests):
                async with trio.open_nursery() as nursery:
                    for member in step.members:
                        nursery.start_soon(self._ask_digest, scrub, member, state.address, first, last)
            elif isinstance(step, Take):
                taken.contents = await self._take(step.source, state, first, last)
                taken.rows = await self._rows(step.source, state, first, taken.contents)
                scrub.on_taken(step.source, digest_of(taken.contents) if taken.rows else b"")
            else:
                return step

    async def _ask_digest(self, scrub: RangeScrub, member: str, address: str, first: int, last: int) -> None:
        now = trio.current_time()
        if not self._is_linked(member) or self._silent_until.get(member, 0.0) > now:
            scrub.on_silent(member)
            return
        answer: Digested | None = None
        with trio.move_on_after(ANSWER_SECONDS):
            answer = await self._requests.ask(
                member, lambda requester: Digest(member, requester, address, first, last - first + 1)
            )
        if answer is None:
            self._silent_until[member] = now + SILENT_SECONDS
            scrub.on_silent(member)
        elif (told := answer.digested).address != address:
            scrub.on_absent(member)
        elif told.status == STATUS_DONE and told.sequence == last:
            scrub.on_digest(member, told.row)
        elif told.status == STATUS_STORAGE_ERROR:
            scrub.on_damaged(member)
        else:
            scrub.on_absent(member)

    # taking -----------------------------------------------------------------------------------------------

    async def _take(self, source: str, state: AddressState, first: int, last: int) -> list[bytes]:
        """These records as `source` has them, all of them, else none."""
        contents: list[bytes] = []
        while len(contents) <= last - first:
            begin = first + len(contents)
            found: list[bytes] = []
            with trio.move_on_after(ANSWER_SECONDS):
                found = await self._fetch(source, state, begin, last)
            if not found:
                return []
            contents += found
        return contents

    async def _rows(
        self, source: str, state: AddressState, first: int, contents: Sequence[bytes]
    ) -> list[bytes]:
        """The rows of what was taken, none if it may not stand there."""
        if not contents:
            return []
        neighbours = await trio.to_thread.run_sync(self._neighbours, state, first, len(contents))
        if neighbours is None or state.announcement is None:
            return []
        try:
            return rows_between(state.announcement, *neighbours, contents)
        except InvalidBatch as error:
            self.bad_copies += 1
            logger.error(
                "store %s gave a bad copy of %s, sequence %d on: %s", source, state.address, first, error
            )
            return []

    def _neighbours(self, state: AddressState, first: int, count: int) -> tuple[bytes, bytes] | None:
        """The rows of the records before and behind. Without the one before no row can be made: it has the
        maximum of all timestamps so far. The one behind may be damaged itself.
        """
        before = row_at(self._database, state, first - 1)
        after = row_at(self._database, state, first + count)
        return None if before is None else (before, after or b"")

    async def _fetch(self, source: str, state: AddressState, first: int, last: int) -> list[bytes]:
        count = last - first + 1
        records, end = await self._requests.ask_range(
            source,
            lambda requester: Fetch(
                state.address, requester, state.subject, first, count, source, FETCH_BYTES
            ),
        )
        try:
            return judge(state.address, first, count, records, end)
        except RangeRefused:
            return []
