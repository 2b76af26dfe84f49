"""Whether the catalog is older than its stores, asked of them before anything that it says is believed.

A catalog that was restored from a backup describes a shorter log. Nothing in it says so; the stores know.

Rule: the catalog is written first, and the stores are told behind that. An OPEN is sent when the epoch that
it announces is used up in the catalog (`next_epoch`), a CLOSE when the end is in the catalog, a DELETE when
the segment has left its chain or the topic is buried. So a crash, wherever it comes, may leave the catalog
ahead of the stores: a segment that nobody was told of, an end that no member has heard. It never leaves a
store ahead of the catalog. `next_epoch` goes back only when a store has refused an OPEN, and that one was
not told. So none of these comes from a crash (Rule: each means that the catalog is not the newest one):

1. a store was told of an epoch that the catalog has not used yet;
2. the newest epoch was announced by another gateway life than the one whose segments of that epoch are in
   the chain: two catalogs have used the same epoch;
3. a store was told the end, or the deletion, of a segment that is open in the catalog.

The third is the only one that tells a catalog from before a roll, where the next segment has the same epoch
and the same life. It is reliable, because w members have heard the end of a segment before the next one of
that life holds a record (`gateway.log.closer`). A life that recovers gives its next segment a new epoch.

--accept-loss opens a closed segment again in memory only: what counts here is what the catalog says.
A rebuilt catalog takes its epochs from the stores (`gateway.log.rebuild`): segments that have left their
chain have left epochs behind.

What was announced or closed is known to a majority of the stores at least, so `n - n // 2` answers meet one
that was told. One answer takes a point read for each partition and each open segment.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from gateway.log.opener import log_name
from mesh.protocol.address_state import Phase, life_of
from wireproto.dafka.additions import STATUS_DONE, Verified

if TYPE_CHECKING:
    from gateway.log.partition import Partition
    from mesh.reader import Reader

RESTORE = (
    "restore the newest catalog (the directory gateway/) that belongs to this store, or start once with"
    " --rebuild-catalog"
)

SEE_THE_STORE = "look at what that store logs, and put back its data"


class CatalogRefuted(Exception):
    """A store knows more than the catalog; the text says what, and what to do."""


class CatalogUnverified(Exception):
    """Too few stores could read what they know; the text says which, and what to do."""


class Verification:
    """One round: what the stores say of some partitions.

    `open_addresses` are the segments that the catalog has open.
    """

    def __init__(
        self, reader: "Reader", stores: Sequence[str], open_addresses: Mapping["Partition", Sequence[str]]
    ) -> None:
        self._reader = reader
        self._stores = stores
        self._needed = len(stores) - len(stores) // 2
        self._asked: list[tuple[Partition, str]] = [
            (partition, address)
            for partition, addresses in open_addresses.items()
            for address in addresses or ("",)
        ]
        self._known: dict[Partition, list[tuple[str, str, Verified]]] = {}
        """(store, address or "", what it said) of each partition."""
        self._answered: set[str] = set()

    def missing(self) -> set[str]:
        """The stores that have not answered."""
        return set(self._stores) - self._answered

    async def ask(self) -> None:
        """Wait, for ever if it must be, until enough stores have answered."""
        entries = [
            (log_name(partition.topic.id, partition.index), address) for partition, address in self._asked
        ]
        enough = trio.Event()

        async def ask_one(store: str) -> None:
            answers = await self._reader.verify(store, entries)
            for (partition, address), verified in zip(self._asked, answers, strict=True):
                self._known.setdefault(partition, []).append((store, address, verified))
            self._answered.add(store)
            if len(self._answered) >= self._needed:
                enough.set()

        async with trio.open_nursery() as nursery:
            for store in self._stores:
                nursery.start_soon(ask_one, store)
            await enough.wait()
            nursery.cancel_scope.cancel()

    def check(self, partition: "Partition", open_addresses: Sequence[str]) -> None:
        """Raises `CatalogRefuted`, `CatalogUnverified`. The partition is as it was loaded, not yet changed by
        its recovery.
        """
        unreadable: set[str] = set()
        for store, address, verified in self._known[partition]:
            if verified.status != STATUS_DONE:
                unreadable.add(store)
                continue
            why = _newer(partition, verified)
            if why is None and verified.phase >= Phase.CLOSED and address in open_addresses:
                was = "deleted" if verified.phase == Phase.DELETED else "closed"
                why = f"has segment {address} {was}, and the catalog has it open"
            if why is not None:
                raise CatalogRefuted(f"the catalog is older than store {store}, which {why}; {RESTORE}")
        if len(self._answered - unreadable) < self._needed:
            names = ", ".join(sorted(unreadable))
            raise CatalogUnverified(f"store {names} cannot read what it knows of this log; {SEE_THE_STORE}")


def _newer(partition: "Partition", verified: Verified) -> str | None:
    """What a store knows of newer epochs than the catalog, if it does."""
    newest = partition.leader_epoch - 1
    if verified.epoch > newest:
        known = f"the catalog knows {newest}" if newest >= 0 else "the catalog knows of nothing written"
        return f"knows leader epoch {verified.epoch}, and {known}"
    if verified.epoch == newest and verified.life:
        lives = {life_of(segment.address) for segment in partition.closed if segment.epoch == newest}
        if lives and verified.life not in lives:
            return f"knows leader epoch {newest} of another gateway life ({verified.life})"
    return None
