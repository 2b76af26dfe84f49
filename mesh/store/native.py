"""A store for native peers: how long it keeps their records, and what it asks others for.

Rule: only addresses that nobody announced are native. What readers get, also of the partitions of Kafka's
topics, is `mesh.store.native_readers`.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

import trio

from mesh.log_bounds import LogBounds
from mesh.node import Node
from mesh.protocol.address_state import Phase
from mesh.protocol.commit import STATE_OF, Commit
from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.ingest import Ingest
from mesh.protocol.native_keeping import (
    MAX_NATIVE_ADDRESSES,
    NATIVE_KEY_BYTES,
    Chunk,
    Kept,
    NativeKeeping,
    Trim,
)
from mesh.protocol.native_late import LateBeginnings
from mesh.protocol.native_resends import Resends
from mesh.protocol.native_watchers import NativeWatchers
from mesh.store import ranges
from mesh.store.db import Database, StoreFailed, WriteStalled
from mesh.store.native_readers import NATIVE_READERS, NativeReaders
from mesh.store.published import PublishedRecords
from mesh.store.reclaimer import Reclaimer
from wireproto.dafka import ids
from wireproto.dafka.additions import STATUS_BEGINS_LATER, End, TakenUp
from wireproto.dafka.messages import (
    ConsumerHello,
    DirectHead,
    DirectRecord,
    Fetch,
    GetHeads,
    StoreHello,
    named_heads_prefix,
)

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
        self.readers = NativeReaders(node, incarnation, keeping, database, published)
        self._node = node
        self._incarnation = incarnation
        self._ingest = ingest
        self._database = database
        self._reclaimer = reclaimer
        self._on_failed = on_failed
        self._trims: dict[str, int] = {}
        """What was decided and is not on the disk yet."""
        self._emptied: dict[str, None] = {}
        """Addresses whose space is to be given back."""
        self._dropped_bytes: dict[str, int] = {}
        """Bytes of an address dropped since its space was last given back."""
        self.resends = Resends()
        self.begun_later = 0
        """Addresses that are kept from a later record on than their first."""
        self._late = LateBeginnings()
        self._watchers = NativeWatchers()
        self._told: set[str] = set()
        """Addresses of which the log says that records are missing."""
        self._wants_changed = False
        """Which topics have subjects is not on the disk yet."""
        self._untaken_log = LogBounds()
        for everybodys in (ids.FETCH, ids.GET_HEADS, ids.TAKEN_UP):
            node.subscribe(everybodys)
        for our_own in (ids.DIRECT_HEAD, ids.CONSUMER_HELLO):
            node.subscribe(our_own + incarnation.encode())
        node.subscribe(named_heads_prefix(incarnation))
        node.on_subscribed(self._on_subscribed)

    # at a start -------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read what the disk keeps of native addresses, and count what was not counted. Blocking: for a
        thread, before anything is written.
        """
        try:
            self.keeping.wanted.load(self._database.native_wanted())
        except (StoreCorrupt, ValueError) as error:
            self.keeping.wanted.distrust()
            logger.error(
                "which topics take up native records cannot be read, so all are kept until gateways tell: %s",
                error,
            )
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
            kept.chunks.append(Chunk(kept.head, size, now))

    # what is kept -----------------------------------------------------------------------------------------

    def committed(self, commit: Commit) -> None:
        """A commit is durable."""
        now = time.time()
        heads: dict[tuple[str, str], int] = {}
        for state, entries in groupby(commit.records, key=STATE_OF):
            if state.phase is not Phase.NATIVE:
                continue
            written = [(entry.sequence, len(entry.content)) for entry in entries if not entry.row]
            if written:
                self.keeping.wrote_all(state.address, state.subject, written, now)
                heads[state.address, state.subject], _ = written[-1]
        if heads and self._watchers:
            self._tell_watchers(heads)
        if commit.metas and len(self.keeping):
            announced = [address for address in commit.metas if self.keeping.forget(address)]
            if announced:
                self._write({}, [], announced, whole=False)

    def _tell_watchers(self, heads: Mapping[tuple[str, str], int]) -> None:
        now = trio.current_time()
        said: dict[str, str] = {}
        for (address, subject), head in heads.items():
            for requester in self._watchers.of(subject, now):
                if requester not in said:
                    said[requester] = self.readers.name_for(requester)
                self._node.send(DirectHead(requester, address, subject, head, said[requester]))

    async def run(self) -> None:
        """Answer and keep, for ever."""
        async with trio.open_nursery() as nursery:
            for _ in range(NATIVE_READERS):
                nursery.start_soon(self.readers.serve)
            while True:
                await trio.sleep(KEEP_SECONDS)
                self.keep(time.time())
                self.readers.look(trio.current_time())

    def keep(self, now: float) -> None:
        """Drop what is to go, and write the counts."""
        keeping = self.keeping
        self._forget(keeping.too_many(), f"there are more than {MAX_NATIVE_ADDRESSES} native addresses")
        counts = {}
        for trim in keeping.due(now):
            counts[trim.address] = self._trim(trim)
        counts |= keeping.take_changed(COUNTS_WRITTEN_AT_ONCE)
        trims = list(self._trims.items())
        wanted = keeping.wanted.pack() if self._wants_changed else None
        if not self._write(counts, trims, [], whole=True, wanted=wanted):
            keeping.put_off(counts)
            return
        self._wants_changed = False
        for address in self._emptied:
            self._reclaimer.add(address)
        self._trims.clear()
        self._emptied.clear()

    def _forget(self, addresses: Sequence[str], why: str) -> None:
        """Drop these altogether, on the disk and here in one turn: what comes next of them is another
        beginning. Those of which records are on their way to the disk have to wait, and so have all while it
        stalls.
        """
        addresses = [address for address in addresses if self._ingest.may_drop_native(address)]
        if not addresses or not self._write({}, [], addresses, whole=True):
            return
        for address in addresses:
            self._ingest.drop_native(address)
            kept = self.keeping.get(address)
            if self.keeping.forget_all_of(address) and kept is not None:
                self._say_untaken(kept, why)
            self._trims.pop(address, None)
            self._emptied.pop(address, None)
            self._dropped_bytes.pop(address, None)
            self._reclaimer.add(address)

    def _trim(self, trim: Trim) -> bytes:
        kept = self.keeping.get(trim.address)
        assert kept is not None, "due names what is kept"
        if trim.untaken:
            self._say_untaken(
                kept, f"there are more than {self.keeping.quota_bytes} bytes of them (--native-bytes)"
            )
        before = kept.size
        count = self.keeping.trimmed(trim)
        self._trims[trim.address] = trim.first
        dropped = self._dropped_bytes.pop(trim.address, 0) + before - kept.size
        if dropped >= RECLAIM_BYTES or not kept.size:
            self._emptied[trim.address] = None
        else:
            self._dropped_bytes[trim.address] = dropped
        return count

    def _say_untaken(self, kept: Kept, why: str) -> None:
        if self._untaken_log.may(kept.subject, kept.subject):
            logger.warning(
                "native records of subject %s go before the topics that take it up have them: %s. See to it "
                "that a gateway runs and its topics take records (dafka doctor --data says what keeps them)",
                kept.subject,
                why,
            )

    def _write(
        self,
        counts: dict[str, bytes],
        trims: Sequence[tuple[str, int]],
        gone: Sequence[str],
        *,
        whole: bool,
        wanted: bytes | None = None,
    ) -> bool:
        """False if the disk would not now, or not at all."""
        if not (counts or trims or gone or wanted is not None):
            return True
        try:
            self._database.write_native(counts, trims, gone, whole=whole, wanted=wanted)
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
                self.readers.put(GetHeads(subject, hello.requester))

    def on_get_heads(self, asked: GetHeads) -> None:
        """A consumer, a gateway or another store asks for the heads of a subject."""
        if asked.requester == self._incarnation:
            return
        if self._ingest.is_gateways(asked.requester):
            self._watchers.asked(asked.subject, asked.requester, trio.current_time())
        self.readers.put(asked)

    def on_taken_up(self, told: TakenUp) -> None:
        """A gateway tells which topics have subjects, and how far addresses have come into them."""
        ours = self._ingest.cluster_id
        if ours and told.cluster_id != ours:
            return
        if self.keeping.told(told.topics, trio.current_time()):
            self._wants_changed = True
        for topic, address, following in told.addresses:
            self.keeping.took(told.topics[topic], address, following)

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
        self.resends.on_begins(end.last.address, end.last.sequence, end.store, trio.current_time())
        first = self._late.on_told(end.last.address, end.last.sequence)
        if first is None:
            return
        if self._ingest.begin_native(end.last.address, first, trio.current_time()):
            self.begun_later += 1
            logger.info("native address %s is kept from sequence %d on", end.last.address, first)
        elif self._lacks(end.last.address, first):
            # With its next record it is one that came late.
            self._forget([end.last.address], "others have dropped what follows")
            logger.info(
                "native address %s is kept anew: what follows here is nowhere any more", end.last.address
            )

    def _lacks(self, address: str, first: int) -> bool:
        """Whether others have dropped what follows here, which topics have, and all that is here, too."""
        state, kept = self._ingest.known(address), self.keeping.get(address)
        return (
            state is not None
            and state.phase is Phase.NATIVE
            and kept is not None
            and first > state.accepted + 1
            and self.keeping.is_taken(address)
        )

    def on_direct_head(self, head: DirectHead) -> None:
        """Another store's answer to what `take_asks` asked."""
        if head.requester == self._incarnation:
            self.resends.on_head(head.address, head.sequence, head.store, trio.current_time())

    def takes(self, record: DirectRecord) -> bool:
        """Whether an answer to this store is to be believed, as `Resends.takes` has it."""
        state = self._ingest.known(record.address)
        if state is not None and state.phase is not Phase.NATIVE:
            return True
        return self.resends.takes(record, trio.current_time(), self._node.is_from_store)
