"""What a store serves to readers: directed FETCH, LOOKUP, ROWS, BEGINNINGS, DIGEST, VERIFY, LIST, RECALL.
Disk reads happen in worker threads.

Rule: nothing beyond the durable head is served, nothing beyond an agreed end, and nothing that is known to be
damaged. A read that meets corruption is answered with STATUS_STORAGE_ERROR, never with less than was asked
for.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import trio

from mesh.links import Publisher
from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.copying import is_unfinished
from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.ingest import Ingest
from mesh.store import ranges
from mesh.store.batches import BatchReads
from mesh.store.catalog_memory import read_page
from mesh.store.damage import Damage
from mesh.store.db import Database
from mesh.store.slices import checked_digest
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    KEPT_DONE,
    KEPT_STORAGE_ERROR,
    LOOKUP_MAX_TIMESTAMP,
    NOTHING_REMEMBERED,
    STATUS_ANSWER_FULL,
    STATUS_DONE,
    STATUS_NOT_HERE,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    Announcement,
    Answer,
    Beginning,
    Digest,
    Digested,
    End,
    Found,
    GetRows,
    Listed,
    ListSegments,
    Lookup,
    Recall,
    Recalled,
    Request,
    Rows,
    Verified,
    Verify,
)
from wireproto.dafka.messages import DirectRecordEncoder, Fetch, Frames

READ_THREADS = 2
"""Reads from the disk at once: two keep a disk busy without taking the processors from the writers."""

MAX_QUEUED_READS = 1024
"""Reads that wait; beyond it the asker hears nothing and asks again, or asks another member."""

LIST_COUNT = 512
"""Announcements in one answer to LIST."""

BEGINNING_ROWS = 4096
"""Rows of one segment in an answer to BEGINNINGS; who wants more asks for ROWS."""

BEGINNINGS_BYTES = 4 * 1024 * 1024
"""Bytes of rows and announcements in one answer to BEGINNINGS; the segments after these are put off to the
next one."""

logger = logging.getLogger(__name__)


class Server:
    """Serves reads of one store. `incarnation` is the sender in every answer, `nonce` that of its start."""

    def __init__(
        self,
        publisher: Publisher,
        incarnation: str,
        ingest: Ingest,
        database: Database,
        damage: Damage | None = None,
        nonce: bytes = b"",
    ) -> None:
        self.on_corrupt: Callable[[str], None] = lambda _address: None
        """Called with an address of which something could not be read."""
        self.reads = 0
        self.storage_errors = 0
        self.dropped = 0
        self._publisher = publisher
        self._incarnation = incarnation
        self._nonce = nonce
        self._ingest = ingest
        self._database = database
        self._batches = BatchReads(database)
        self._damage = damage or Damage()
        self._corrupt: deque[str] = deque()
        """Addresses in which worker threads met corruption."""
        self._pending: set[tuple[Callable[[Any], list[Frames]], Any]] = set()
        """Requests that wait or are being read for: who waits asks again, and is answered once."""
        self._queue: trio.MemorySendChannel[tuple[Callable[[Any], list[Frames]], Any]]
        self._work: trio.MemoryReceiveChannel[tuple[Callable[[Any], list[Frames]], Any]]
        self._queue, self._work = trio.open_memory_channel(MAX_QUEUED_READS)

    def _enqueue(self, answer: Callable[[Any], list[Frames]], request: Any) -> None:
        """Take a request, if it is meant for this store."""
        if request.store != self._incarnation:
            return
        asked = answer, request
        if asked in self._pending:
            return
        try:
            self._queue.send_nowait(asked)
        except trio.WouldBlock:
            self.dropped += 1
        else:
            self._pending.add(asked)

    def on_fetch(self, fetch: Fetch) -> None:
        """A FETCH that is directed at one store."""
        self._enqueue(self._fetch, fetch)

    def on_beginnings(self, request: Request) -> None:
        """A BEGINNINGS; other requests of its type are not for reading."""
        self._enqueue(self._beginnings, request)

    def on_lookup(self, request: Lookup) -> None:
        self._enqueue(self._lookup, request)

    def on_get_rows(self, request: GetRows) -> None:
        self._enqueue(self._rows, request)

    def on_digest(self, request: Digest) -> None:
        self._enqueue(self._digest, request)

    def on_verify(self, request: Verify) -> None:
        self._enqueue(self._verify, request)

    def on_list(self, request: ListSegments) -> None:
        self._enqueue(self._list, request)

    def on_recall(self, request: Recall) -> None:
        self._enqueue(self._recall, request)

    async def run(self) -> None:
        """Serve for ever."""
        async with trio.open_nursery() as nursery:
            for _ in range(READ_THREADS):
                nursery.start_soon(self._serve)

    async def _serve(self) -> None:
        async for asked in self._work:
            answer, request = asked
            self.reads += 1
            try:
                answers = await trio.to_thread.run_sync(answer, request)
            finally:
                self._pending.discard(asked)
            # A read that was under way when the store was stopped ends here: the sockets may be closed.
            await trio.lowlevel.checkpoint_if_cancelled()
            while self._corrupt:
                self.on_corrupt(self._corrupt.popleft())
            for frames in answers:
                self._publisher.send(frames)

    # in worker threads ------------------------------------------------------------------------------------

    def _bounds(self, address: str) -> AddressState | None:
        """What may be served of an address, or None. Raises `StoreCorrupt`.

        The disk's head is trusted only for an address that is not in memory: one that is may have a commit
        under way.
        """
        state = self._ingest.known(address) or self._database.load(address)
        return None if state is None or state.phase is Phase.DELETED else state

    def _fetch(self, request: Fetch) -> list[Frames]:
        def end(status: int, last: int) -> Frames:
            last_sent = AddressStatus(request.address, status, last)
            return End(request.requester, self._incarnation, last_sent).frames()

        try:
            state = self._bounds(request.address)
            if state is None or request.sequence > state.head or request.count < 1:
                return [end(STATUS_NOT_HERE, -1 if state is None else state.head)]
            last = min(state.head, request.sequence + request.count - 1)
            contents = self._batches.read(state, request.sequence, last, request.byte_cap)
            self._damage.refuse(request.address, request.sequence, request.sequence + len(contents) - 1)
        except StoreCorrupt as error:
            return [end(self._met(error, request.address), -1)]
        encoder = DirectRecordEncoder(request.requester, self._incarnation, request.address, request.subject)
        answers = [
            encoder.frames(sequence, content) for sequence, content in enumerate(contents, request.sequence)
        ]
        answers.append(end(STATUS_DONE, request.sequence + len(contents) - 1))
        return answers

    def _lookup(self, request: Lookup) -> list[Frames]:
        status, sequence, row = STATUS_DONE, -1, b""
        try:
            state = self._bounds(request.address)
            if state is None:
                status = STATUS_NOT_HERE
            else:
                self._damage.refuse(request.address, 0, state.head)
                bound = min(state.head, request.bound)
                sequence, row = ranges.search(
                    self._database, request.address, request.kind, request.target, bound
                )
                if bound < request.bound and (sequence < 0 or request.kind == LOOKUP_MAX_TIMESTAMP):
                    # What is missing here may have it: only who has all of it can tell.
                    status, sequence, row = STATUS_NOT_HERE, -1, b""
        except StoreCorrupt as error:
            status = self._met(error, request.address)
        found = AddressStatus(request.address, status, sequence, row)
        return [Found(request.requester, self._incarnation, found).frames()]

    def _rows(self, request: GetRows) -> list[Frames]:
        status, last, content = STATUS_DONE, -1, b""
        try:
            state = self._bounds(request.address)
            if state is None or request.sequence > state.head or request.count < 1:
                status = STATUS_NOT_HERE
            else:
                last = min(state.head, request.sequence + min(request.count, ranges.MAX_ROWS) - 1)
                self._damage.refuse(request.address, request.sequence, last)
                content = ranges.read_rows(self._database, request.address, request.sequence, last)
        except StoreCorrupt as error:
            status = self._met(error, request.address)
        answered = AddressStatus(request.address, status, last)
        return [Rows(request.requester, self._incarnation, answered, content, self._nonce).frames()]

    def _beginnings(self, request: Request) -> list[Frames]:
        statuses: list[AddressStatus] = []
        size = 0
        for asked in map(AddressStatus.unpack, request.entries):
            if size < BEGINNINGS_BYTES:
                statuses.append(self._beginning(asked.address, asked.sequence))
                size += len(statuses[-1].row)
            else:
                statuses.append(AddressStatus(asked.address, STATUS_ANSWER_FULL, -1))
        begun = Answer(ids.BEGUN, request.requester, self._incarnation, tuple(statuses), self._nonce)
        return [begun.frames()]

    def _beginning(self, address: str, last: int) -> AddressStatus:
        """What the segment's OPEN announced, and its rows up to `last`, as far as they are here."""
        try:
            state = self._bounds(address)
            if state is None or state.announcement is None:
                return AddressStatus(address, STATUS_NOT_HERE, -1)
            last = min(state.head, last, BEGINNING_ROWS - 1)
            self._damage.refuse(address, 0, last)
            rows = ranges.read_rows(self._database, address, 0, last)
        except StoreCorrupt as error:
            return AddressStatus(address, self._met(error, address), -1)
        return AddressStatus(address, STATUS_DONE, last, Beginning(state.announcement, rows).pack())

    def _digest(self, request: Digest) -> list[Frames]:
        status, last, digest = STATUS_NOT_HERE, -1, b""
        wanted = request.sequence + request.count - 1
        try:
            state = self._bounds(request.address)
            if (
                state is not None
                and state.announcement is not None
                and request.sequence <= wanted <= state.head
            ):
                self._damage.refuse(request.address, request.sequence, wanted)
                digest = checked_digest(self._database, state, request.sequence, wanted)
                if digest:
                    status, last = STATUS_DONE, wanted
        except StoreCorrupt as error:
            status = self._met(error, request.address)
        digested = AddressStatus(request.address, status, last, digest)
        return [Digested(request.requester, self._incarnation, digested).frames()]

    def _verify(self, request: Verify) -> list[Frames]:
        """What is on the disk of each log: the epochs in one multi-get, or one by one if that cannot be
        read.
        """
        epochs: list[tuple[int, str] | None]
        try:
            epochs = list(self._database.highest_epochs([log for log, _ in request.entries]))
        except StoreCorrupt:
            epochs = [None] * len(request.entries)
        found = [
            self._verified(log, address, epoch)
            for (log, address), epoch in zip(request.entries, epochs, strict=True)
        ]
        answered = AddressStatus(self._incarnation, STATUS_DONE, -1)
        content = Verified.pack_all(found)
        return [Rows(request.requester, self._incarnation, answered, content, self._nonce).frames()]

    def _verified(self, log: str, address: str, epoch: tuple[int, str] | None) -> Verified:
        try:
            highest, life = self._database.highest_epoch(log) if epoch is None else epoch
            state = self._database.load(address) if address else None
            newest = self._database.newest_segment(log)
        except StoreCorrupt as error:
            return Verified(self._met(error, address), -1, "", Phase.NATIVE)
        phase = Phase.NATIVE if state is None else state.phase
        return Verified(STATUS_DONE, highest, life, phase, *newest)

    def _recall(self, request: Recall) -> list[Frames]:
        """Entries of the gateways' catalog that are kept here."""
        cluster_id = self._ingest.cluster_id
        answer = Recalled(
            request.requester,
            self._incarnation,
            KEPT_STORAGE_ERROR,
            cluster_id,
            NOTHING_REMEMBERED,
            nonce=self._nonce,
        )
        try:
            head, entries, more = read_page(self._database, request.after)
        except StoreCorrupt as error:
            self._met(error, "")
            return [answer.frames()]
        return [answer._replace(status=KEPT_DONE, memory=head.memory, entries=entries, more=more).frames()]

    def _list(self, request: ListSegments) -> list[Frames]:
        """Segments that cannot be read are left out, and logged: without an answer the asker would ask for
        ever.
        """
        found: list[tuple[Announcement, AddressStatus]] = []
        wanted = min(max(request.count, 1), LIST_COUNT)
        first, page, behind = request.first, wanted, False
        try:
            while len(found) < wanted:
                addresses = self._database.addresses(first, page, behind=behind)
                for address in addresses:
                    entry = self._listed(address)
                    if entry is not None and len(found) < wanted:
                        found.append(entry)
                if len(addresses) < page:
                    break
                first, page, behind = addresses[-1], LIST_COUNT, True
        except StoreCorrupt as error:
            self._met(error, "")
        return [Listed(request.requester, self._incarnation, tuple(found), self._nonce).frames()]

    def _listed(self, address: str) -> tuple[Announcement, AddressStatus] | None:
        """What LIST says of one address; None if it was never announced, or deleted."""
        try:
            state = self._database.load(address)
        except StoreCorrupt as error:
            self._met(error, address)
            return None
        if state is None or state.announcement is None:
            return None
        head, row = state.head, state.last_row
        if is_unfinished(state) or self._damage.overlap(address, head, head):
            head, row = state.end, b""  # where it ends is known, what is there is not
        return state.announcement, AddressStatus(address, state.phase, head, row)

    def _met(self, error: StoreCorrupt, address: str) -> int:
        self.storage_errors += 1
        logger.error("%s", error)
        if address:
            self._corrupt.append(address)
        return STATUS_STORAGE_ERROR
