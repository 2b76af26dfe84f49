"""Whether the catalog is older than its stores, asked of them before anything that it says is believed.

A catalog that was restored from a backup describes a shorter log. Nothing in it says so; the stores know.

Rule: the catalog is written first, and the stores are told after that. An OPEN is sent when the epoch that
it announces is used up in the catalog (`next_epoch` lies above it), a CLOSE when the end is in the catalog, a
DELETE when the segment has left its chain or the topic is buried. So a crash, wherever it comes, may leave
the catalog ahead of the stores: a segment that nobody was told of, an end that no member has heard. It never
leaves a store ahead of the catalog. `next_epoch` goes back only when no store has taken an OPEN, to what it
was before. The epoch that a partition will write under says nothing here: it comes from the counter of all
partitions (`gateway.log.epoch_counter`), and leaves gaps. So none of these comes from a crash, and each means
that the catalog is not the newest one:

1. a store was told of an epoch that the catalog has not used yet;
2. the newest epoch was announced by another gateway life than the one whose segments of that epoch are in
   the chain: two catalogs have used the same epoch;
3. a store was told the end, or the deletion, of a segment that is open in the catalog;
4. a store was told to delete the last closed segment of the chain;
5. a store keeps a segment that begins at the end of what the catalog has of the log, or that has records
   beyond it, and the catalog knows it nowhere: not in the chain, not as a compaction's, not among those that
   are to be deleted. One that ends before may be left over at a store that was no member when it was deleted.
   So may one that was announced to other stores alone: a directory that became another store (`dafka store
   restored`) has what the old one kept, of which the catalog forgot when that one was removed.

The third tells a catalog from before a roll, where the next segment has the same epoch
and the same life. It is reliable, because w members have heard the end of a segment before the next one of
that epoch holds a record (`gateway.log.closer`). A life that recovers gives its next segment a new epoch, and
so does one that leaves a segment whose members are not there to hear its end.

The fifth, and it alone, tells a catalog that has lost the rows of the chain's last segments; what is lost
before another one is seen without the stores (`gateway.log.recovery.chain_check`).

--accept-loss opens a closed segment again in memory only: what counts here is what the catalog says.
A rebuilt catalog takes its epochs from the stores (`gateway.cluster.rebuild`): segments that have left their
chain have left epochs behind.

What was announced or closed is known to w of its members at least, so n-w+1 answers of the members of the
last segment, or of those that the next one would have, meet one that was told. With more stores than a log
has members, the newest segment of the true catalog may have had others: those that are there are asked too,
and waited for a moment. One answer takes a point read for each partition and each open segment.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio

from gateway.catalog.keys import log_name
from mesh.protocol.address_state import Phase, life_of
from wireproto.dafka.additions import STATUS_DONE, Verified

if TYPE_CHECKING:
    from gateway.log.neighbours import LogStores
    from gateway.log.partition import Partition
    from mesh.reader import Reader

RESTORE = (
    "restore the newest catalog (the directory gateway/) that belongs to this store, or start once with"
    " --rebuild-catalog"
)

ANSWER_SECONDS = 5.0
"""How long a store may take to say to whom a segment was announced."""

logger = logging.getLogger(__name__)

SEE_THE_STORE = "look at what that store logs, and put back its data"


class CatalogRefuted(Exception):
    """The catalog is not as it was: it contradicts itself, or a store knows more. The text says what, and
    what to do. `news` is the store with the address of a segment, where the catalog knows nothing of that.
    """

    def __init__(self, text: str, news: "tuple[str, str] | None" = None) -> None:
        super().__init__(text)
        self.news = news


class CatalogUnverified(Exception):
    """Too few stores could read what they know; the text says which, and what to do."""


class Asked(NamedTuple):
    """What the stores are asked of one partition.

    `addresses` are the segments that count (`Known`). Answers of `needed` of the `members` are enough.
    """

    addresses: Sequence[str]
    members: Sequence[str]
    needed: int


class Known(NamedTuple):
    """What the catalog says of one log, as it was loaded.

    `unended` are the segments of which it knows no end: those that it has open, and those that a compaction
    had begun. `last_closed` is the address of the last one with an end, "" without one. The log is known to
    reach to the offset `end`; a segment that begins at `beyond` or after it, or has something beyond `end`,
    would be news, if it `is_known` nowhere.
    """

    unended: Sequence[str]
    last_closed: str
    end: int
    beyond: int
    is_known: Callable[[str], bool]

    @property
    def addresses(self) -> Sequence[str]:
        """Those that the stores are asked about."""
        return (*self.unended, self.last_closed) if self.last_closed else self.unended


class Verification:
    """One round: what the stores say of some partitions. `run` asks them."""

    def __init__(self, reader: "Reader", stores: "LogStores", asked: Mapping["Partition", Asked]) -> None:
        self._reader = reader
        self._stores = stores
        self._asked = asked
        self._entries: list[tuple[Partition, str]] = [
            (partition, address) for partition, entry in asked.items() for address in entry.addresses or ("",)
        ]
        self._known: dict[Partition, list[tuple[str, str, Verified]]] = {p: [] for p in asked}
        """(store, address or "", what it said) of each partition."""
        self._unreadable: dict[Partition, set[str]] = {p: set() for p in asked}
        self._all = set(stores.incarnations)
        self._all.update(member for entry in asked.values() for member in entry.members)
        self._answered: set[str] = set()
        self._left_over: set[tuple[str, str]] = set()
        """(store, address) of segments that say nothing: they were announced to other stores alone."""

    async def run(self, told: Callable[[], None]) -> None:
        """Ask every store, until all have answered. `told` is called with each answer."""
        async with trio.open_nursery() as nursery:
            for store in sorted(self._all):
                nursery.start_soon(self._ask, store, told)

    async def _ask(self, store: str, told: Callable[[], None]) -> None:
        entries = [(log_name(p.topic.id, p.index), address) for p, address in self._entries]
        answers = await self._reader.verify(store, entries)
        for (partition, address), verified in zip(self._entries, answers, strict=True):
            self._known[partition].append((store, address, verified))
            if verified.status != STATUS_DONE:
                self._unreadable[partition].add(store)
        self._answered.add(store)
        told()

    @property
    def highest_epoch(self) -> int:
        """The highest leader epoch that a store knows of one of the logs, -1 for none."""
        answers = (verified for known in self._known.values() for _, _, verified in known)
        return max((one.epoch for one in answers if one.status == STATUS_DONE), default=-1)

    def decidable(self, partition: "Partition") -> bool:
        """Enough members have answered, or too few ever can."""
        entry, unreadable = self._asked[partition], self._unreadable[partition]
        known = self._answered.intersection(entry.members) - unreadable
        return len(known) >= entry.needed or self._unverifiable(partition)

    def _unverifiable(self, partition: "Partition") -> bool:
        entry, unreadable = self._asked[partition], self._unreadable[partition]
        return len(set(entry.members) - unreadable) < entry.needed

    @property
    def complete(self) -> bool:
        """Every store that is there has answered."""
        return all(store in self._answered or not self._stores.live(store) for store in self._all)

    def missing(self, partition: "Partition") -> set[str]:
        """The members that have not answered."""
        return set(self._asked[partition].members) - self._answered

    def check(self, partition: "Partition", known: Known) -> None:
        """Raises `CatalogRefuted`, `CatalogUnverified`. The partition is as it was loaded, not yet changed by
        its recovery.
        """
        for store, address, verified in self._known[partition]:
            if verified.status != STATUS_DONE:
                continue
            why, news = _newer(partition, verified) or _further(address, verified, known), None
            if why is None and (store, verified.newest) not in self._left_over:
                why, news = _unknown(verified, known), (store, verified.newest)
            if why is not None:
                raise CatalogRefuted(f"the catalog is older than store {store}, which {why}; {RESTORE}", news)
        if self._unverifiable(partition):
            names = ", ".join(sorted(self._unreadable[partition]))
            raise CatalogUnverified(f"store {names} cannot read what it knows of this log; {SEE_THE_STORE}")

    async def check_closely(self, partition: "Partition", known: Known) -> None:
        """As `check`, but asks a store whose segment the catalog does not know to whom that was announced."""
        while True:
            try:
                self.check(partition, known)
            except CatalogRefuted as refuted:
                log = log_name(partition.topic.id, partition.index)
                if refuted.news is None or await self._was_announced(log, *refuted.news):
                    raise
                self._left_over.add(refuted.news)
            else:
                return

    async def _was_announced(self, log: str, store: str, address: str) -> bool:
        """Whether a store is a member of a segment of this log by its announcement; true if it does not say,
        unless it has deleted it since it was asked: then the catalog has forgotten it, too.
        """
        with trio.move_on_after(ANSWER_SECONDS):
            listed = await self._reader.segment(store, address)
            if listed is None:
                (now,) = await self._reader.verify(store, [(log, "")])
                return now.newest == address
            if store in listed[0].members:
                return True
            logger.warning(
                "store %s keeps segment %s of the store that it was before, which has left its log: it "
                "counts for nothing",
                self._stores.name(store), address,
            )  # fmt: skip
            return False
        return True


def _newer(partition: "Partition", verified: Verified) -> str | None:
    """What a store knows of newer epochs than the catalog, if it does."""
    newest = partition.next_epoch - 1
    if verified.epoch > newest:
        known = f"the catalog knows {newest}" if newest >= 0 else "the catalog knows of nothing written"
        return f"knows leader epoch {verified.epoch}, and {known}"
    if verified.epoch == newest and verified.life:
        lives = {life_of(segment.address) for segment in partition.chain.closed if segment.epoch == newest}
        if lives and verified.life not in lives:
            return f"knows leader epoch {newest} of another gateway life ({verified.life})"
    return None


def _further(address: str, verified: Verified, known: Known) -> str | None:
    """What a store knows of the log's segments that the catalog does not, if it does."""
    if verified.phase >= Phase.CLOSED and address in known.unended:
        was = "deleted" if verified.phase == Phase.DELETED else "closed"
        return f"has segment {address} {was}, and the catalog knows no end of it"
    if verified.phase == Phase.DELETED and address == known.last_closed:
        return f"has segment {address} deleted, and the catalog has it in its log"
    return None


def _unknown(verified: Verified, known: Known) -> str | None:
    """What a store has at the end of the log of which the catalog knows nothing, if it does."""
    is_news = verified.newest_start >= known.beyond or verified.newest_end > known.end
    if is_news and not known.is_known(verified.newest):
        return (
            f"has segment {verified.newest}, which begins at offset {verified.newest_start}, and the catalog "
            "does not know it"
        )
    return None
