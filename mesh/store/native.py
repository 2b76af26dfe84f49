"""A store for native peers: what it answers to them, and how long it keeps their records.

Rules: only addresses that nobody announced are native. Of Kafka's segments native consumers are shown what
the leaders of their partitions have told that it may be (`mesh.protocol.publications`), because a store may
hold records of them that no reader may see yet, or that a recovery will cut off. Nothing beyond the durable head
is served. C consumers are deaf to what is only told once, so each answered FETCH is followed by the head: one
that lacks more asks again.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import trio

from mesh.node import Node
from mesh.protocol.address_state import Phase
from mesh.protocol.commit import Commit
from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.ingest import Ingest
from mesh.protocol.native_keeping import NATIVE_KEY_BYTES, Chunk, Kept, NativeKeeping, Trim
from mesh.protocol.native_late import LateBeginnings
from mesh.protocol.native_resends import Resends
from mesh.protocol.native_watchers import NativeWatchers
from mesh.protocol.publications import Publication, Publications
from mesh.store import ranges
from mesh.store.db import Database, StoreFailed, WriteStalled
from mesh.store.published import PublishedRecords
from mesh.store.reclaimer import Reclaimer
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    STATUS_BEGINS_LATER,
    AddressStatus,
    Answer,
    End,
    PublishEntry,
    Request,
)
from wireproto.dafka.messages import (
    ConsumerHello,
    DirectHead,
    DirectRecordEncoder,
    Fetch,
    GetHeads,
    Head,
    StoreHello,
)

NATIVE_READERS = 2
"""Native readers that are answered at once; others wait in the queue."""

MAX_QUEUED_NATIVE_READS = 256
"""FETCHes and requests for heads of native readers that wait; further ones are dropped, and come again."""

MAX_NATIVE_FETCH_RECORDS = 100_000
"""Records for one FETCH: C consumers ask for so many, and not for the rest before something new comes."""

NATIVE_SEND_RECORDS = 256
NATIVE_SEND_BYTES = 1024 * 1024
"""Records and bytes sent at a time; then the sender rests, so that the reader's queue does not overflow and
others get their turn."""

NATIVE_RECORDS_PER_SECOND = 100_000
NATIVE_BYTES_PER_SECOND = 128 * 1024 * 1024
"""The fastest that one native reader is sent records."""

HEADS_AT_ONCE = 256
"""DIRECT-HEADs sent at a time."""

KEEP_SECONDS = 1.0
"""How often is looked what is to go, and counts are written."""

COUNTS_WRITTEN_AT_ONCE = 256
"""Addresses whose counts are written in one turn."""

RECLAIM_BYTES = 64 * 1024 * 1024
"""The space of an address is given back after so much of it was dropped, or when all of it was."""

MAX_GAPS_TOLD = 4096
"""Addresses that the log has told of; behind them it begins anew."""

logger = logging.getLogger(__name__)


class NativeStore:
    """The native side of one store. `load` before `run`; `committed` after each commit.

    `on_failed` is told when the disk fails.
    """

    def __init__(
        self,
        node: Node,
        incarnation: str,
        ingest: Ingest,
        database: Database,
        reclaimer: Reclaimer,
        keeping: NativeKeeping,
        published: PublishedRecords,
        on_failed: Callable[[StoreFailed], None],
    ) -> None:
        self.keeping = keeping
        self.publications = Publications()
        self.published_records = 0
        """Records of partitions that native readers were sent, empty ones too."""
        self._published = published
        self.reads = 0
        self.dropped = 0
        """Requests that found the queue full."""
        self._node = node
        self._incarnation = incarnation
        self._ingest = ingest
        self._database = database
        self._reclaimer = reclaimer
        self._on_failed = on_failed
        self._under_way: dict[tuple[str, str], Fetch] = {}
        self._again: dict[tuple[str, str], Fetch] = {}
        self._trims: dict[str, int] = {}
        self._gone: dict[str, None] = {}
        """What was decided and is not on the disk yet."""
        self._emptied: dict[str, None] = {}
        """Addresses whose space is to be given back."""
        self._dropped_bytes: dict[str, int] = {}
        """Bytes of an address dropped since its space was last given back."""
        self._queue, self._work = trio.open_memory_channel[GetHeads | Fetch](MAX_QUEUED_NATIVE_READS)
        self.resends = Resends()
        self.begun_later = 0
        """Addresses that are kept from a later record on than their first."""
        self._late = LateBeginnings()
        self._watchers = NativeWatchers()
        self._told: set[str] = set()
        """Addresses of which the log says that records are missing."""
        for everybodys in (ids.FETCH, ids.GET_HEADS):
            node.subscribe(everybodys)
        for our_own in (ids.DIRECT_HEAD, ids.CONSUMER_HELLO):
            node.subscribe(our_own + incarnation.encode())
        node.on_subscribed(self._on_subscribed)

    # at a start -------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read what the disk keeps of native addresses, and count what was not counted. Blocking: for a
        thread, before anything is written.
        """
        try:
            for address, value in self._database.native_addresses():
                self._load(address, value)
        except StoreCorrupt as error:
            logger.error("%s: native addresses behind it are not told of", error)

    def _load(self, address: str, value: bytes) -> None:
        try:
            state = self._database.load(address)
            if state is None or state.phase is not Phase.NATIVE or state.head < 0:
                return
            kept = Kept.unpack(address, state.subject, value)
            self._count(kept, state.head)
        except (StoreCorrupt, ValueError) as error:
            logger.error("what is kept of native address %s cannot be read: %s", address, error)
            return
        self.keeping.add(kept)

    def _count(self, kept: Kept, head: int) -> None:
        """Count the records that came just before the process died."""
        while kept.head < head:
            contents = ranges.read_records(
                self._database, kept.address, kept.head + 1, head, ranges.MAX_RANGE_BYTES
            )
            kept.head += len(contents)
            size = sum(map(len, contents)) + NATIVE_KEY_BYTES * len(contents)
            now = time.time()
            kept.chunks.append(Chunk(kept.head, size, now, now))

    # what is kept -----------------------------------------------------------------------------------------

    def committed(self, commit: Commit) -> None:
        """A commit is durable."""
        now = time.time()
        heads: dict[tuple[str, str], int] = {}
        for state, sequence, content, row, _ in commit.records:
            if not row and state.phase is Phase.NATIVE:
                self.keeping.wrote(state.address, state.subject, sequence, len(content), now)
                heads[state.address, state.subject] = sequence
        if heads and self._watchers:
            self._tell_watchers(heads)
        if commit.metas and len(self.keeping):
            announced = [address for address in commit.metas if self.keeping.forget(address)]
            if announced:
                self._write({}, [], announced, whole=False)

    def _tell_watchers(self, heads: Mapping[tuple[str, str], int]) -> None:
        now = trio.current_time()
        for (address, subject), head in heads.items():
            for requester in self._watchers.of(subject, now):
                self._node.send(DirectHead(requester, address, subject, head))

    async def run(self) -> None:
        """Answer and keep, for ever."""
        async with trio.open_nursery() as nursery:
            for _ in range(NATIVE_READERS):
                nursery.start_soon(self._serve)
            while True:
                await trio.sleep(KEEP_SECONDS)
                self.keep(time.time())
                self.publications.expire(trio.current_time())
                self._tell_published_heads()

    def keep(self, now: float) -> None:
        """Drop what is to go, and write the counts."""
        keeping = self.keeping
        for address in keeping.too_many():
            if self._ingest.drop_native(address):
                keeping.forget(address)
                self._gone[address] = None
        counts = {}
        for trim in keeping.due(now):
            counts[trim.address] = self._trim(trim)
        counts |= keeping.take_changed(COUNTS_WRITTEN_AT_ONCE)
        # One that has begun anew since is another.
        gone = [address for address in self._gone if keeping.get(address) is None]
        trims = [Trim(address, first) for address, first in self._trims.items() if address not in self._gone]
        if not self._write(counts, trims, gone, whole=True):
            keeping.put_off(counts)
            return
        for address in {*gone, *self._emptied}:
            self._reclaimer.add(address)
        self._gone.clear()
        self._trims.clear()
        self._emptied.clear()

    def _trim(self, trim: Trim) -> bytes:
        kept = self.keeping.get(trim.address)
        assert kept is not None, "due names what is kept"
        before = kept.size
        count = self.keeping.trimmed(trim)
        self._trims[trim.address] = trim.first
        dropped = self._dropped_bytes.pop(trim.address, 0) + before - kept.size
        if dropped >= RECLAIM_BYTES or not kept.size:
            self._emptied[trim.address] = None
        else:
            self._dropped_bytes[trim.address] = dropped
        return count

    def _write(
        self, counts: dict[str, bytes], trims: Sequence[Trim], gone: Sequence[str], *, whole: bool
    ) -> bool:
        """False if the disk would not now, or not at all."""
        if not (counts or trims or gone):
            return True
        try:
            self._database.write_native(counts, trims, gone, whole=whole)
        except WriteStalled:
            return False
        except StoreFailed as error:
            self._on_failed(error)
            return False
        return True

    # what is asked ----------------------------------------------------------------------------------------

    def _on_subscribed(self, prefix: bytes) -> None:
        """A consumer that waits for hellos is linked."""
        if prefix[:1] == ids.STORE_HELLO and len(prefix) > 1:
            try:
                self._node.send(StoreHello(prefix[1:].decode(), self._incarnation))
            except ValueError:
                return  # not a consumer's name

    def on_hello(self, hello: ConsumerHello) -> None:
        """A consumer asks for the heads of several."""
        if hello.store == self._incarnation:
            for subject in hello.subjects:
                self._put(GetHeads(subject, hello.requester))

    def on_get_heads(self, asked: GetHeads) -> None:
        """A consumer, a gateway or another store asks for the heads of a subject."""
        if asked.requester == self._incarnation:
            return
        if self._ingest.is_gateways(asked.requester):
            self._watchers.asked(asked.subject, asked.requester, trio.current_time())
        self._put(asked)

    def _put(self, asked: GetHeads | Fetch) -> bool:
        try:
            self._queue.send_nowait(asked)
        except trio.WouldBlock:
            self.dropped += 1
            return False
        return True

    # what partitions have ---------------------------------------------------------------------------------

    def on_publish(self, request: Request, nonce: bytes) -> None:
        """A leader tells what may be shown. Raises `MalformedMessage` for entries that cannot be read."""
        now = trio.current_time()
        statuses = []
        for entry in map(PublishEntry.unpack, request.entries):
            status = self.publications.told(entry, now)
            statuses.append(AddressStatus(entry.piece, status, -1))
        answer_id = ids.answer_id(request.id)
        self._node.send(Answer(answer_id, request.requester, self._incarnation, tuple(statuses), nonce))
        self._tell_published_heads()

    def _tell_published_heads(self) -> None:
        for publication in self.publications.heads_due(trio.current_time()):
            self._node.send(Head(publication.address, publication.subject, publication.head))

    def _on_fetch_published(self, fetch: Fetch, publication: Publication) -> None:
        begins = publication.start
        if fetch.sequence < begins and self._node.publisher.subscribed(ids.END + fetch.requester.encode()):
            self._send_begins_later(fetch, begins)
        elif fetch.sequence < begins or self.publications.answers(fetch):
            self._put_fetch(fetch)

    # what is fetched --------------------------------------------------------------------------------------

    def allowed(self, fetch: Fetch) -> Fetch | None:
        """A FETCH of this store's own as it may be sent, or None: native producers are not all to be asked.

        `take_asks` is to be called behind it.
        """
        state = self._ingest.known(fetch.address)
        if fetch.store or state is None or state.phase is not Phase.NATIVE:
            return fetch
        allowed = self.resends.allowed(fetch, trio.current_time())
        if allowed is None and fetch.address not in self._told:
            if len(self._told) >= MAX_GAPS_TOLD:
                self._told.clear()
            self._told.add(fetch.address)
            logger.warning(
                "records of native address %s (subject %s) are missing from sequence %d on, and its producer "
                "would send wrong ones again: they are kept if another store has them",
                fetch.address,
                fetch.subject,
                fetch.sequence,
            )
        return allowed

    def take_asks(self, now: float) -> list[GetHeads]:
        """What is to be asked of the other stores at `now` (trio's clock)."""
        return [GetHeads(subject, self._incarnation) for subject in self.resends.take_subjects(now)]

    def on_end(self, end: End) -> None:
        """A store has not what this one has asked for of an address, because it begins later there."""
        if end.last.status != STATUS_BEGINS_LATER:
            return
        first = self._late.on_told(end.last.address, end.last.sequence)
        if first is not None and self._ingest.begin_native(end.last.address, first, trio.current_time()):
            self.begun_later += 1
            logger.info("native address %s is kept from sequence %d on", end.last.address, first)

    def on_direct_head(self, head: DirectHead) -> None:
        """Another store's answer to what `take_asks` asked."""
        if head.requester == self._incarnation:
            self.resends.on_head(head.address, head.sequence)

    # ------------------------------------------------------------------------------------------------------

    def on_fetch(self, fetch: Fetch) -> None:
        """A FETCH that is not directed at one store."""
        publication = self.publications.get(fetch.address)
        if publication is not None:
            self._on_fetch_published(fetch, publication)
            return
        kept = self.keeping.get(fetch.address)
        if kept is None or kept.subject != fetch.subject or fetch.requester == self._incarnation:
            return
        if fetch.sequence < kept.first:
            self._send_begins_later(fetch, kept.first)
        elif fetch.sequence <= kept.head and fetch.count > 0:
            self._put_fetch(fetch)

    def _send_begins_later(self, fetch: Fetch, first: int) -> None:
        begins = AddressStatus(fetch.address, STATUS_BEGINS_LATER, first)
        self._node.send(End(fetch.requester, self._incarnation, begins))

    def _put_fetch(self, fetch: Fetch) -> None:
        """Have it answered, behind what is under way for the same reader and address."""
        key = fetch.requester, fetch.address
        under_way = self._under_way.get(key)
        if under_way is None:
            if self._put(fetch):
                self._under_way[key] = fetch
        elif under_way != fetch:
            self._again[key] = fetch

    # answers ----------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        async for asked in self._work:
            self.reads += 1
            if isinstance(asked, GetHeads):
                await self._tell_heads(asked)
                continue
            key = asked.requester, asked.address
            try:
                if asked.address in self.publications:
                    await self._send_published(asked)
                else:
                    await self._send_range(asked)
            except StoreCorrupt as error:
                logger.error("a native reader is not answered: %s", error)
            finally:
                del self._under_way[key]
                again = self._again.pop(key, None)
            if again is not None:
                self.on_fetch(again)

    async def _tell_heads(self, asked: GetHeads) -> None:
        heads = self.keeping.heads(asked.subject) + self.publications.heads(asked.subject)
        for number, (address, head) in enumerate(heads, 1):
            self._node.send(DirectHead(asked.requester, address, asked.subject, head))
            if number % HEADS_AT_ONCE == 0:
                await trio.sleep(HEADS_AT_ONCE / NATIVE_RECORDS_PER_SECOND)

    async def _send_range(self, asked: Fetch) -> None:
        """Raises `StoreCorrupt`."""
        address, following = asked.address, asked.sequence
        last = following + min(asked.count, MAX_NATIVE_FETCH_RECORDS) - 1
        encoder = DirectRecordEncoder(asked.requester, "", address, asked.subject)
        while True:
            kept = self.keeping.get(address)
            if kept is None or following < kept.first:
                return
            end = min(last, kept.head, following + NATIVE_SEND_RECORDS - 1)
            if following > end:
                break
            contents = await trio.to_thread.run_sync(
                partial(ranges.read_records, self._database, address, following, end, NATIVE_SEND_BYTES)
            )
            following = await self._send_records(encoder, following, contents)
        self._node.send(DirectHead(asked.requester, address, asked.subject, kept.head))

    async def _send_published(self, asked: Fetch) -> None:
        """Raises `StoreCorrupt`."""
        address, following = asked.address, asked.sequence
        last = following + min(asked.count, MAX_NATIVE_FETCH_RECORDS) - 1
        encoder = DirectRecordEncoder(asked.requester, "", address, asked.subject)
        while (publication := self.publications.get(address)) is not None and following <= last:
            if following < publication.start:
                # A C program reads from the first record on, or not at all.
                contents = [b""] * min(
                    last + 1 - following, publication.start - following, NATIVE_SEND_RECORDS
                )
            elif (piece := publication.piece_at(following)) is None:
                break
            else:
                contents = await trio.to_thread.run_sync(
                    partial(self._published.read, piece, following, last)
                )
            if not contents:
                break
            for start in range(0, len(contents), NATIVE_SEND_RECORDS):
                some = contents[start : start + NATIVE_SEND_RECORDS]
                following = await self._send_records(encoder, following, some)
            self.published_records += len(contents)
        if publication is not None and publication.head >= 0:
            self._node.send(DirectHead(asked.requester, address, asked.subject, publication.head))

    async def _send_records(
        self, encoder: DirectRecordEncoder, following: int, contents: Sequence[bytes]
    ) -> int:
        """Send some, and rest; the sequence behind them."""
        # A read that was under way when the store was stopped ends here: the sockets may be closed.
        await trio.lowlevel.checkpoint_if_cancelled()
        for content in contents:
            self._node.publisher.send(encoder.frames(following, content))
            following += 1
        size = sum(map(len, contents))
        await trio.sleep(max(len(contents) / NATIVE_RECORDS_PER_SECOND, size / NATIVE_BYTES_PER_SECOND))
        return following
