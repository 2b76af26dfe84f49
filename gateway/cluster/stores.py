"""The stores that count: those that were admitted into the catalog. Who is there changes nothing of that.

Rule: which stores keep a segment is fixed when it is opened (`choose`); a store leaves the catalog only when
no segment counts on it any more. So each transaction that makes a store a member of a segment compares the
store's record as one that gets new segments (`as_members`), and who removes a store first has the record say
that it gets none, and then looks at a fresh view of the catalog: whatever gateway opens a segment there, it
is seen, or refused.

Ids are given once, from 1000 on, and never again to another store; a store
that lost its data comes back as another incarnation, and is another store.

`choose` takes the stores that are there before those that are not, and those with room before those without.
Among equals the log's name decides, weighted by free space, so each log stays where it is as long as nothing
changes, and all of them together fill the disks evenly (weighted rendezvous hashing).
"""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Catalog, Compare, CompareFailed, Entry, unchanged
from gateway.cluster.store_lives import StoreLives
from gateway.cluster.store_lives import puts as puts_of_lives
from gateway.log.segment import Segment
from mesh.presence import StorePresence
from mesh.protocol.vouching import StoreLife

FIRST_STORE_ID = 1000
"""Below it are gateways."""

ADMITTED = "admitted"
LEAVING = "leaving"
"""Keeps what it has, and gets no new segment: another one takes its place (`gateway.cluster.replacement`)."""
REMOVING = "removing"
"""Gets no new segment while somebody looks whether any counts on it; then it is removed, or admitted again.
One that has stayed so, because the gateway died that looked, is removed by the same order again."""
REMOVED = "removed"

MIN_FREE_BYTES = 1024 * 1024 * 1024
"""A store with less room on its disk is chosen only when there are too few others: 1 GiB, the default size of
one Kafka segment."""

DEFAULT_REPLICATION_FACTOR = 3
"""Kafka's advice: for a topic that is created without a number, where there are so many stores."""

MOVE_SECONDS = 30.0
"""A log whose segment has a member that is silent for so long goes on in a new segment, if other stores can
take its place: above a restart, because each move leaves a segment behind."""

SEGMENTS_A_TURN = 1000
"""Segments of the catalog looked at before other tasks run."""

NAMED_SEGMENTS = 5
"""Partitions that a refusal names."""

CHANGED_ELSEWHERE = "somebody else has changed the list of stores in this moment: look at it, and try again"

logger = logging.getLogger(__name__)


class StoreRefused(Exception):
    """A store cannot be admitted or removed; the text says why and what to do."""


class StoreEntry(NamedTuple):
    """A store of the catalog. `name` is for people."""

    id: int
    incarnation: str
    name: str
    state: str = ADMITTED

    @classmethod
    def unpack(cls, entry: Entry) -> "StoreEntry":
        value = keys.unpack(entry.value)
        store_id = int(entry.key.removeprefix(keys.STORES))
        return cls(store_id, value["incarnation"], value["name"], value.get("state", ADMITTED))

    def put(self) -> dict[str, bytes]:
        """As the catalog's key and value."""
        value = {"incarnation": self.incarnation, "name": self.name, "state": self.state}
        return {f"{keys.STORES}{self.id}": keys.pack(value)}


class Replicas(NamedTuple):
    """The stores that keep a segment, as clients see them: by id."""

    ids: tuple[int, ...]
    in_sync: tuple[int, ...]
    """Those that are there."""
    offline: tuple[int, ...]


def first_entries(stores: Sequence[tuple[str, str]]) -> dict[str, bytes]:
    """The catalog's entries for the first stores of a new cluster: (incarnation, name) of each."""
    entries: dict[str, bytes] = {}
    for store_id, (incarnation, name) in enumerate(stores, FIRST_STORE_ID):
        entries |= StoreEntry(store_id, incarnation, name).put()
    return entries


class Stores:
    """The stores of one cluster. Without `presence` all of them are always there (standalone)."""

    def __init__(self, catalog: Catalog, presence: StorePresence | None = None) -> None:
        self.presence = presence
        self.own_disk_bytes: int | None = None
        """The size of the disk of stores that are always there."""
        self._catalog = catalog
        self._leaving: set[str] = set()
        """Those that get no new segment."""
        self.version = 0
        """Goes up with every change of the list."""
        self._entries: dict[str, StoreEntry] = {}
        self._records: dict[str, Compare] = {}
        """Their keys as they were read, by incarnation; none of stores that are always there."""
        self.load()
        self.lives = None if presence is None else StoreLives(catalog, presence, self.counts_on)
        """What is remembered of their starts; stores that are always there need no such thing."""

    def load(self) -> None:
        """Take what the catalog says now."""
        records = {
            StoreEntry.unpack(entry): Compare(entry.key, entry.mod_revision)
            for entry in self._catalog.range(keys.STORES)
        }
        self._take(sorted(records))
        self._records = {store.incarnation: compare for store, compare in records.items()}

    def _take(self, entries: Sequence[StoreEntry]) -> None:
        self._entries = {entry.incarnation: entry for entry in entries}
        self._records = {}
        self.version += 1
        self._leaving = {entry.incarnation for entry in entries if entry.state in (LEAVING, REMOVING)}
        self.admitted = tuple(entry for entry in entries if entry.state == ADMITTED)
        """Those that get new segments, in the order of ids."""

    @classmethod
    def always(cls, catalog: Catalog, incarnations: Iterable[str]) -> "Stores":
        """These stores, whatever the catalog says, and always there."""
        stores = cls(catalog)
        stores._take([StoreEntry(i, name, name) for i, name in enumerate(incarnations, FIRST_STORE_ID)])
        return stores

    @property
    def default_replication_factor(self) -> int:
        """Stores that keep a topic for which nobody says how many: Kafka's advice, or all that there are."""
        return max(1, min(DEFAULT_REPLICATION_FACTOR, len(self.admitted)))

    @property
    def incarnations(self) -> list[str]:
        """The incarnations of those that get new segments."""
        return [entry.incarnation for entry in self.admitted]

    @property
    def entries(self) -> list[StoreEntry]:
        """Every store that ever was admitted."""
        return list(self._entries.values())

    def find(self, name: str) -> StoreEntry:
        """A store by its id, incarnation, or name, if only one has it. Raises StoreRefused."""
        found = [e for e in self._entries.values() if name in (str(e.id), e.incarnation)]
        found = found or [e for e in self._entries.values() if e.name == name and e.state != REMOVED]
        if len(found) == 1:
            return found[0]
        known = ", ".join(f"{entry.id} ({entry.name})" for entry in self.admitted)
        raise StoreRefused(
            f"{'several stores are' if found else 'no store is'} called {name}: there are {known}"
        )

    def counts_on(self, incarnation: str) -> bool:
        """Whether this store was admitted, and is not removed."""
        entry = self._entries.get(incarnation)
        return entry is not None and entry.state != REMOVED

    def is_removed(self, incarnation: str) -> bool:
        """Whether a store was admitted once and counts no more."""
        entry = self._entries.get(incarnation)
        return entry is not None and entry.state == REMOVED

    # who is there -----------------------------------------------------------------------------------------

    def live(self, incarnation: str) -> bool:
        """Whether a store was heard of within the last seconds."""
        return self.presence is None or self.presence.live(incarnation)

    def enough(self, members: Iterable[str], w: int) -> bool:
        """Whether `w` of these are there."""
        return self.presence is None or len(self.presence.live_stores.intersection(members)) >= w

    def away_for_long(self, members: Iterable[str]) -> bool:
        """Whether one of these has been silent for `MOVE_SECONDS`."""
        presence = self.presence
        return presence is not None and any(presence.silence(name) > MOVE_SECONDS for name in members)

    def live_first(self, members: Sequence[str], log: str) -> Sequence[str]:
        """The order in which members are asked for what all of them have: those that are there first, and
        among them another first one for each log.
        """
        if self.presence is None or len(members) < 2:
            return members
        return sorted(members, key=lambda name: (not self.live(name), -_score(log, name, 1)))

    def disk_bytes(self, incarnation: str) -> int | None:
        """The size of a store's disk in bytes, None if it is not known."""
        return self.own_disk_bytes if self.presence is None else self.presence.disk_bytes(incarnation)

    def disks(self) -> dict[str, int]:
        """The sizes of their disks in bytes, of those of which it is known."""
        sizes = {incarnation: self.disk_bytes(incarnation) for incarnation in self._entries}
        return {incarnation: size for incarnation, size in sizes.items() if size is not None}

    def name(self, incarnation: str) -> str:
        """What a message calls a store."""
        entry = self._entries.get(incarnation)
        if entry is None or entry.name == incarnation:
            return incarnation
        return f"{entry.id} ({entry.name})"

    def replicas(self, members: Iterable[str]) -> Replicas:
        """The ids of these, and who of them is there; one that the catalog does not know is left out."""
        known = [self._entries[member] for member in members if member in self._entries]
        return Replicas(
            tuple([entry.id for entry in known]),
            tuple([entry.id for entry in known if self.live(entry.incarnation)]),
            tuple([entry.id for entry in known if not self.live(entry.incarnation)]),
        )

    # who keeps a segment ----------------------------------------------------------------------------------

    def choose(self, log: str, replication_factor: int) -> tuple[str, ...]:
        """The members of the next segment of this log, fewer than asked for if there are too few stores."""
        candidates = [e.incarnation for e in self.admitted if e.incarnation not in self._leaving]
        if len(candidates) > replication_factor:
            candidates = sorted(self._ranked(log, candidates)[:replication_factor])
        return tuple(candidates)

    def as_members(self, members: Iterable[str]) -> list[Compare] | None:
        """What a transaction compares that makes these stores members of a segment: that they get new ones.
        None: one of them gets none any more.
        """
        members = tuple(members)
        if any(name in self._leaving or not self.counts_on(name) for name in members):
            return None
        return [self._records[name] for name in members if name in self._records]

    def _ranked(self, log: str, candidates: Sequence[str]) -> list[str]:
        if self.presence is None:
            return sorted(candidates, key=lambda name: -_score(log, name, 1))
        free = {name: self.presence.free_bytes(name) for name in candidates}
        unknown = min((room for room in free.values() if room is not None), default=MIN_FREE_BYTES)
        rooms = {name: max(1, unknown if room is None else room) for name, room in free.items()}

        def order(name: str) -> tuple[bool, bool, float]:
            room = rooms[name]
            return not self.live(name), room < MIN_FREE_BYTES, -_score(log, name, room)

        return sorted(candidates, key=order)

    # changes ----------------------------------------------------------------------------------------------

    async def admit(
        self, stores: Sequence[tuple[str, str]], puts: Mapping[str, bytes] | None = None
    ) -> list[StoreEntry]:
        """Have stores (incarnation, name) count from now on: one transaction, `puts` in it too.

        Raises StoreRefused: one was admitted before, or belongs to another cluster.
        """
        for incarnation, name in stores:
            self._check(incarnation, name)
        first = max((entry.id + 1 for entry in self._entries.values()), default=FIRST_STORE_ID)
        added = [StoreEntry(store_id, *store) for store_id, store in enumerate(stores, first)]
        entries = dict(puts or {})
        compares = unchanged(self._catalog, entries)
        for entry in added:
            entries |= entry.put()
        compares += [Compare(f"{keys.STORES}{entry.id}", 0) for entry in added]
        seen: dict[str, StoreLife] = {}
        if self.lives is not None:
            # With what was seen of them: from here on whoever has their names has to know that.
            seen = self.lives.seen(entry.incarnation for entry in added)
            entries |= puts_of_lives(seen)
            compares += self.lives.compares(seen)
        await self._catalog.transact(compares, entries)
        self.load()
        if self.lives is not None:
            self.lives.are_kept(seen)
        for entry in added:
            logger.info("store %d (%s) is admitted: incarnation %s", entry.id, entry.name, entry.incarnation)
        return added

    def _check(self, incarnation: str, name: str) -> None:
        known = self._entries.get(incarnation)
        if known is not None:
            raise StoreRefused(f"store {name} is {known.state} already, as store {known.id}")
        seen = self.presence.seen.get(incarnation) if self.presence is not None else None
        cluster = self._catalog.get(keys.CLUSTER)
        ours = "" if cluster is None else keys.unpack(cluster.value)["id"]
        if seen is not None and seen.cluster_id and ours and seen.cluster_id != ours:
            raise StoreRefused(
                f"store {name} ({incarnation}) belongs to cluster {seen.cluster_id}, this one is {ours}: "
                "start it with an empty data directory, or let its own gateway have it"
            )

    async def remove(self, entry: StoreEntry) -> None:
        """Have a store count no more. Raises StoreRefused while a segment counts on it, and names some."""
        if entry.state == REMOVED:
            raise StoreRefused(f"store {entry.id} ({entry.name}) is {entry.state} already")
        # First of all, so that logs go on as they are where the answer is known.
        await self._check_unused(entry)
        if entry.state == ADMITTED:
            await self._change(entry, REMOVING)
            entry = entry._replace(state=REMOVING)
        # What was put before it got no new segments any more, by any gateway.
        await self._catalog.fresh()
        try:
            await self._check_unused(entry)
        except StoreRefused:
            if entry.state == REMOVING:
                await self._change(entry, ADMITTED)
            raise
        await self._change(entry, REMOVED, deletes=[keys.store_life_key(entry.incarnation)])
        logger.info("store %d (%s) is removed", entry.id, entry.name)

    async def _change(
        self,
        entry: StoreEntry,
        state: str,
        puts: Mapping[str, bytes] | None = None,
        deletes: Sequence[str] = (),
    ) -> None:
        """Have a store that is in the catalog as this says be in another state. Raises StoreRefused."""
        key = f"{keys.STORES}{entry.id}"
        there = self._catalog.get(key)
        if there is None or StoreEntry.unpack(there) != entry:
            self.load()
            raise StoreRefused(CHANGED_ELSEWHERE)
        changes = {**entry._replace(state=state).put(), **(puts or {})}
        try:
            while True:
                compares = [
                    Compare(key, there.mod_revision),
                    *unchanged(self._catalog, [one for one in (*changes, *deletes) if one != key]),
                ]
                try:
                    await self._catalog.transact(compares, changes, deletes)
                    return
                except CompareFailed as failed:
                    if failed.key not in deletes:
                        raise StoreRefused(CHANGED_ELSEWHERE) from None
        finally:
            self.load()

    async def _check_unused(self, entry: StoreEntry) -> None:
        """Raises StoreRefused: segments count on this store."""
        users = await self._users(entry.incarnation, self._catalog.range(keys.SEGMENTS))
        if users:
            raise StoreRefused(
                f"store {entry.id} ({entry.name}) cannot be removed: {_named(users)} count on it; have "
                "another one take its place first (dafka store replace)"
            )

    async def _users(self, incarnation: str, segments: Sequence[Entry]) -> dict[str, int]:
        """How many segments of which partitions count on a store; those of deleted topics do not."""
        names = {
            keys.unpack(entry.value)["id"]: entry.key.removeprefix(keys.TOPICS)
            for entry in self._catalog.range(keys.TOPICS)
        }
        users: dict[str, int] = {}
        for done, entry in enumerate(segments):
            if incarnation in Segment.unpack(entry.value).members:
                topic_id, index, _ = entry.key.removeprefix(keys.SEGMENTS).split("/")
                if topic_id in names:
                    partition = f"{names[topic_id]}-{int(index)}"
                    users[partition] = users.get(partition, 0) + 1
            if not done % SEGMENTS_A_TURN:
                await trio.lowlevel.checkpoint()
        return users

    async def leave(self, entry: StoreEntry, puts: Mapping[str, bytes]) -> None:
        """From now on this store gets no new segment; `puts` go into the same transaction. Raises
        StoreRefused.
        """
        await self._change(entry, LEAVING, puts)

    def other_for(self, log: str, members: Sequence[str]) -> str | None:
        """The best store that could be another member beside these, or None."""
        others = [e.incarnation for e in self.admitted if e.incarnation not in members]
        ranked = self._ranked(log, [name for name in others if name not in self._leaving])
        return ranked[0] if ranked else None

    def leaving(self, members: Iterable[str]) -> bool:
        """Whether one of these is about to leave."""
        return bool(self._leaving) and not self._leaving.isdisjoint(members)


def _score(log: str, incarnation: str, weight: float) -> float:
    """Weighted rendezvous hashing: the chance to be the highest is in proportion to the weight."""
    digest = blake2b(f"{log}|{incarnation}".encode(), digest_size=8).digest()
    return -weight / math.log((int.from_bytes(digest) + 1) / (2**64 + 1))


def _named(users: Mapping[str, int]) -> str:
    """For a message: "7 segments of orders-0, orders-1 and 3 others"."""
    shown = list(users)[:NAMED_SEGMENTS]
    others = len(users) - len(shown)
    text = ", ".join(shown) + (f" and {others} others" if others else "")
    return f"{sum(users.values())} segments of {text}"
