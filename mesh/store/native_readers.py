"""What native readers get of one store: heads and records of native addresses, and the values of partitions.

Rules: nothing beyond the durable head is sent, and of a partition only what its leader has told that it may
be shown (`mesh.protocol.publications`): a store may hold records of it that no reader may see yet, or that a
recovery will cut off. C consumers are deaf to what is only told once, so each answered FETCH is followed by
the head: one that lacks more asks again.

Theory of operation: what is asked waits in one queue, and `NATIVE_READERS` answer at once, each at a bounded
pace. Of one reader and address one FETCH is answered at a time, and the latest one behind it.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial

import trio

from mesh.node import Node
from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.native_keeping import NativeKeeping
from mesh.protocol.publications import Publication, Publications
from mesh.store import ranges
from mesh.store.db import Database
from mesh.store.native_sending import NATIVE_RECORDS_PER_SECOND, NATIVE_SEND_BYTES, NativeSending, hears_names
from mesh.store.published import PublishedRecords
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    STATUS_BEGINS_LATER,
    AddressStatus,
    Answer,
    End,
    PublishEntry,
    Request,
)
from wireproto.dafka.messages import DirectHead, Fetch, GetHeads, Head

NATIVE_READERS = 2
"""Native readers that are answered at once; others wait in the queue."""

MAX_QUEUED_NATIVE_READS = 256
"""FETCHes and requests for heads of native readers that wait; further ones are dropped, and come again."""

MAX_NATIVE_FETCH_RECORDS = 100_000
"""Records for one FETCH: C consumers ask for so many, and not for the rest before something new comes."""

HEADS_AT_ONCE = 256
"""DIRECT-HEADs sent at a time."""

MAX_SAID = 4096
"""Addresses of which the log has said that they cannot be read; behind them it begins anew."""

logger = logging.getLogger(__name__)


class NativeReaders:
    """Of one store. `serve` in `NATIVE_READERS` tasks, and `look` every second or so."""

    def __init__(
        self,
        node: Node,
        incarnation: str,
        keeping: NativeKeeping,
        database: Database,
        published: PublishedRecords,
    ) -> None:
        self.publications = Publications()
        self.published_records = 0
        """Records of partitions that were sent, empty ones too."""
        self.reads = 0
        self.dropped = 0
        """Requests that found the queue full."""
        self.on_corrupt: Callable[[str], None] = lambda _segment: None
        """Called with a segment of which something could not be read."""
        self._said: set[str] = set()
        """Addresses of which the log says that they cannot be read."""
        self._node = node
        self._incarnation = incarnation
        self._keeping = keeping
        self._database = database
        self._published = published
        self._under_way: dict[tuple[str, str], Fetch] = {}
        self._again: dict[tuple[str, str], Fetch] = {}
        self._queue, self._work = trio.open_memory_channel[GetHeads | Fetch](MAX_QUEUED_NATIVE_READS)

    def look(self, now: float) -> None:
        """Forget partitions of which nobody tells anything, and say how far the others go."""
        self.publications.expire(now)
        self._tell_heads_of(self.publications.heads_due(now))

    # what leaders tell ------------------------------------------------------------------------------------

    def on_publish(self, request: Request, nonce: bytes) -> None:
        """A leader tells what may be shown. Raises `MalformedMessage` for entries that cannot be read."""
        now = trio.current_time()
        statuses = []
        addresses: dict[str, None] = {}
        for entry in map(PublishEntry.unpack, request.entries):
            status = self.publications.told(entry, now)
            statuses.append(AddressStatus(entry.piece, status, -1))
            addresses[entry.address] = None
        answer_id = ids.answer_id(request.id)
        self._node.send(Answer(answer_id, request.requester, self._incarnation, tuple(statuses), nonce))
        self._tell_heads_of(self.publications.heads_due(now, addresses))

    def _tell_heads_of(self, partitions: Iterable[Publication]) -> None:
        for publication in partitions:
            self._node.send(Head(publication.address, publication.subject, publication.head))

    # what is asked ----------------------------------------------------------------------------------------

    def put(self, asked: GetHeads | Fetch) -> bool:
        """Have it answered. False if too much waits."""
        try:
            self._queue.send_nowait(asked)
        except trio.WouldBlock:
            self.dropped += 1
            return False
        return True

    def on_fetch(self, fetch: Fetch) -> None:
        """A FETCH that is not directed at one store."""
        if fetch.requester == self._incarnation:
            return
        publication = self.publications.get(fetch.address)
        if publication is not None:
            self._on_fetch_of_partition(fetch, publication)
            return
        kept = self._keeping.get(fetch.address)
        if kept is None or kept.subject != fetch.subject:
            return
        if fetch.sequence < kept.first:
            self._send_begins_later(fetch, kept.first)
        elif fetch.sequence <= kept.head and fetch.count > 0:
            self._put_fetch(fetch)

    def _on_fetch_of_partition(self, fetch: Fetch, publication: Publication) -> None:
        if fetch.sequence >= publication.start:
            if self.publications.answers(fetch, trio.current_time()):
                self._put_fetch(fetch)
        elif self._hears_ends(fetch):
            self._send_begins_later(fetch, publication.start)
        elif publication.answers_at_head:
            self._put_fetch(fetch)

    def _hears_ends(self, fetch: Fetch) -> bool:
        """Whether a reader can be told where a partition begins. C programs cannot: they read from the first
        record on, or not at all.
        """
        return self._node.publisher.subscribed(ids.END + fetch.requester.encode())

    def _send_begins_later(self, fetch: Fetch, first: int) -> None:
        begins = AddressStatus(fetch.address, STATUS_BEGINS_LATER, first)
        self._node.send(End(fetch.requester, self._incarnation, begins))

    def _put_fetch(self, fetch: Fetch) -> None:
        """Have it answered, behind what is under way for the same reader and address."""
        key = fetch.requester, fetch.address
        under_way = self._under_way.get(key)
        if under_way is None:
            if self.put(fetch):
                self._under_way[key] = fetch
        elif under_way != fetch:
            self._again[key] = fetch

    # answers ----------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Answer what waits, for ever."""
        async for asked in self._work:
            self.reads += 1
            if isinstance(asked, GetHeads):
                await self._tell_heads(asked)
                continue
            key = asked.requester, asked.address
            try:
                if asked.address in self.publications:
                    await self._send_values(asked)
                else:
                    await self._send_range(asked)
            except StoreCorrupt as error:
                self._met(error, asked.address)
            finally:
                del self._under_way[key]
                again = self._again.pop(key, None)
            if again is not None:
                self.on_fetch(again)

    def _met(self, error: StoreCorrupt, address: str) -> None:
        """Something cannot be read. A reader asks again and again: said once."""
        if len(self._said) >= MAX_SAID:
            self._said.clear()
        if address not in self._said:
            self._said.add(address)
            logger.error("a native reader is not answered: %s", error)

    def name_for(self, requester: str) -> str:
        """What this store calls itself in an answer to a reader: "" to one that takes none.

        Of a reader whose link is new, ZeroMQ may have applied subscriptions that are not seen here yet: it
        would hear an answer, and take it for a C store's.
        """
        publisher = self._node.publisher
        if not hears_names(publisher, requester):
            publisher.follow_subscriptions()
        return self._incarnation if hears_names(publisher, requester) else ""

    async def _tell_heads(self, asked: GetHeads) -> None:
        heads = self._keeping.heads(asked.subject) + self.publications.heads(asked.subject)
        said = self.name_for(asked.requester)
        for number, (address, head) in enumerate(heads, 1):
            self._node.send(DirectHead(asked.requester, address, asked.subject, head, said))
            if number % HEADS_AT_ONCE == 0:
                await trio.sleep(HEADS_AT_ONCE / NATIVE_RECORDS_PER_SECOND)
                said = self.name_for(asked.requester)

    def _send_head(self, asked: Fetch, head: int) -> None:
        """Behind the records that answer a FETCH."""
        said = self.name_for(asked.requester)
        self._node.send(DirectHead(asked.requester, asked.address, asked.subject, head, said))

    async def _send_range(self, asked: Fetch) -> None:
        """Raises `StoreCorrupt`."""
        address, following = asked.address, asked.sequence
        last = _last_of(asked)
        sending = NativeSending(self._node.publisher, self.name_for(asked.requester), asked)
        while True:
            kept = self._keeping.get(address)
            if kept is None or following < kept.first:
                return
            end = min(last, kept.head, following + sending.at_once - 1)
            if following > end or sending.full:
                break
            contents = await trio.to_thread.run_sync(
                partial(
                    ranges.read_native,
                    self._database,
                    address,
                    following,
                    end,
                    NATIVE_SEND_BYTES,
                    kept.largest,
                )
            )
            following = await sending.send(following, contents)
        self._send_head(asked, kept.head)

    async def _send_values(self, asked: Fetch) -> None:
        """Those of a partition. Raises `StoreCorrupt`."""
        address, following, last = asked.address, asked.sequence, _last_of(asked)
        sending = NativeSending(self._node.publisher, self.name_for(asked.requester), asked)
        while following <= last and not sending.full:
            publication = self.publications.get(address)
            if publication is None or publication.subject != asked.subject:
                return
            contents = await self._values(asked, publication, following, last)
            if not contents:
                break
            before = following
            following = await sending.send(following, contents)
            self.published_records += following - before
        publication = self.publications.get(address)
        if publication is not None and publication.head >= 0:
            self._send_head(asked, publication.head)

    async def _values(self, asked: Fetch, publication: Publication, first: int, last: int) -> list[bytes]:
        """Some of the records from `first` to `last`; none if the first one is not here. Raises
        `StoreCorrupt`.
        """
        if first < publication.start:
            if self._hears_ends(asked):
                return []  # the log start has moved: it asks again
            return [b""] * min(last + 1 - first, publication.start - first, ranges.MAX_RANGE_RECORDS)
        piece = publication.piece_at(first)
        if piece is None:
            return []
        try:
            return await trio.to_thread.run_sync(partial(self._published.read, piece, first, last))
        except StoreCorrupt:
            self.on_corrupt(piece.segment)
            raise


def _last_of(asked: Fetch) -> int:
    """The last sequence that a FETCH is answered with."""
    return asked.sequence + min(asked.count, MAX_NATIVE_FETCH_RECORDS) - 1
