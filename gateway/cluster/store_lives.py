"""What the catalog remembers of the stores' lives: the last start that was seen of each, and how far it was.

Rule: a start of a store that the catalog counts on is in the catalog before the gateway counts on anything it
says (`mesh.protocol.vouching` decides whether it may); how far it is follows every `KEEP_SECONDS` while that
changes. So a store that was set back to a copy which is older than that is noticed, whenever it comes back.
Of a store that is not admitted nothing is kept: it counts for nothing, and `Stores.admit` takes what was seen
of it into the transaction that lets it count.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Catalog, Compare, CompareFailed, unchanged
from mesh.data_directory import DataDirectoryRefused
from mesh.presence import StorePresence
from mesh.protocol.vouching import Keep, StoreLife

KEEP_SECONDS = 2.0
"""How often it is kept how far the stores are. Stores tell it once a second (`ROUND_SECONDS`), so a copy that
was made within the last three seconds of a store may not be noticed."""


class StoreLives:
    """`counted` tells whether the catalog counts on an incarnation."""

    def __init__(self, catalog: Catalog, presence: StorePresence, counted: Callable[[str], bool]) -> None:
        """To be made before the presence runs: what is remembered must be known when the first PONG comes."""
        self._catalog = catalog
        self._presence = presence
        self._vouching = presence.vouching
        self._counted = counted
        self._new = trio.Event()
        """A start waits for being kept."""
        self._revisions: dict[str, int] = {}
        """Store -> the revision at which what is remembered of it was read: what others have put since is to
        be known before it is changed.
        """
        for entry in catalog.range(keys.STORE_LIVES):
            store = entry.key.removeprefix(keys.STORE_LIVES)
            self._vouching.remember(store, _unpack(entry.value))
            self._revisions[store] = entry.mod_revision
        presence.keep = self._keep

    def _keep(self, keep: Keep) -> None:
        if self._counted(keep.store):
            self._new.set()
        else:
            self._presence.counts_now(*keep)

    async def run(self) -> None:
        """Keep what is seen, for ever."""
        while True:
            with trio.move_on_after(KEEP_SECONDS):
                await self._new.wait()
            self._new = trio.Event()
            await self._keep_all()

    async def _keep_all(self) -> None:
        seen = self.seen(filter(self._counted, self._vouching.unkept()))
        if not seen:
            return
        try:
            await self._catalog.transact(self.compares(seen), puts(seen))
        except CompareFailed as error:
            self._learn(error.key.removeprefix(keys.STORE_LIVES))
            return
        self.are_kept(seen)

    def _learn(self, store: str) -> None:
        """Take what another gateway has put: it may have seen another start of this store."""
        entry = self._catalog.get(keys.store_life_key(store))
        if entry is not None and entry.mod_revision != self._revisions.get(store):
            self._revisions[store] = entry.mod_revision
            life = _unpack(entry.value)
            self._vouching.remember(store, life)
            # If it is the start that waits to be kept: it is, by another gateway.
            self._presence.counts_now(store, life)

    def seen(self, stores: Iterable[str]) -> dict[str, StoreLife]:
        """What was seen of these and is not in the catalog."""
        stores = list(stores)
        for store in stores:
            self._learn(store)
        unkept = self._vouching.unkept()
        return {store: unkept[store] for store in stores if store in unkept}

    def compares(self, stores: Iterable[str]) -> list[Compare]:
        """That nobody else has changed what is remembered of these since it was read."""
        return [Compare(keys.store_life_key(store), self._revisions.get(store, 0)) for store in stores]

    def are_kept(self, lives: dict[str, StoreLife]) -> None:
        """These are in the catalog."""
        for store, life in lives.items():
            entry = self._catalog.get(keys.store_life_key(store))
            if entry is not None and _unpack(entry.value) == life:
                self._revisions[store] = entry.mod_revision
            self._vouching.kept(store, life)
            self._presence.counts_now(store, life)


class Starts(Protocol):
    """What a store knows of its own starts (`mesh.store.starting`)."""

    @property
    def nonce(self) -> bytes:
        """The nonce of the start that is under way."""

    @property
    def durable_commit(self) -> int:
        """The number of its last commit that is fsynced."""

    def last_commit_of(self, nonce: bytes) -> int:
        """The last commit of a start, -1 if this store never had it."""


class OnlyStoreLife:
    """The life of the store that is in the gateway's own process: nobody has to be asked."""

    def __init__(self, catalog: Catalog, incarnation: str, starts: Starts) -> None:
        self._catalog = catalog
        self._key = keys.store_life_key(incarnation)
        self._incarnation = incarnation
        self._starts = starts

    def check(self, path: Path) -> None:
        """Raises DataDirectoryRefused if the store is older than what the catalog remembers of it; `path` is
        for people.
        """
        entry = self._catalog.get(self._key)
        if entry is None:
            return
        life = _unpack(entry.value)
        last = self._starts.last_commit_of(life.nonce)
        if last < life.commit:
            has = "never had that start" if last < 0 else f"has {last} commits of it"
            raise DataDirectoryRefused(
                path,
                f"store/ is older than gateway/, which has seen commit {life.commit} of its start "
                f"{life.nonce.hex()}: what is here {has}, so acknowledged records may be missing",
                "Put back gateway/ and store/ of the same copy; or go on with what is here, once with "
                "--rebuild-catalog",
            )

    async def keep(self) -> None:
        """Remember how far it is, if that has changed."""
        seen = {self._incarnation: StoreLife(self._starts.nonce, self._starts.durable_commit)}
        entry = self._catalog.get(self._key)
        if entry is None or entry.value != puts(seen)[self._key]:
            await self._catalog.transact(unchanged(self._catalog, [self._key]), puts(seen))

    async def run(self) -> None:
        """Keep what is seen, for ever."""
        while True:
            await trio.sleep(KEEP_SECONDS)
            await self.keep()


def puts(lives: dict[str, StoreLife]) -> dict[str, bytes]:
    """As the catalog's keys and values."""
    return {
        keys.store_life_key(store): keys.pack({"nonce": life.nonce.hex(), "commit": life.commit})
        for store, life in lives.items()
    }


def _unpack(value: bytes) -> StoreLife:
    fields = keys.unpack(value)
    return StoreLife(bytes.fromhex(fields["nonce"]), fields["commit"])
