"""Has the stores remember the catalog, and compares it with what they remember.

One task for each store that counts. It first asks what the store remembers; when so many have vouched for the
catalog that any majority meets one of them, the gateway's life begins in the catalog (`compared`), and from
then on each store is brought up to date: by the changes since what it has, or by a whole copy.

Rule: a catalog without a topic counts only when a majority of its stores belongs to its cluster. So of two
gateways that are started for the first time with the same stores one serves at most, and the other one ends;
if each has bound half of them both do.

Rule: where the earlier lives end is noted before anything is written (`end_lives`). Before the catalog is
compared nothing is deleted, no block of producer ids is handed out and no topic
is created; and what an administrator was answered, or a producer id, a majority of the stores remembers. So
who compares meets one that knows. A store that refutes the catalog ends the gateway, whenever it is heard:
nothing that such a catalog says can be believed.

Where several gateways share the catalog one of them is the **keeper**: it alone tells the stores, or two
would for ever find each other's sequence and send whole copies. The others compare as it does, and ask the
stores what they have.

A catalog that is too large for a store (`MAX_COPY_BYTES`, or what the store refused before) is not sent again
until it is smaller. The store goes on remembering what it has, and who waits for it waits in vain; so no
topic and no partition is added meanwhile (`gateway.cluster.cluster`).

Who is told how often: at once if somebody waits for it (`keep`), and all who wait share one round; otherwise
once a second while something changes. To remember changes nothing in the catalog, so an idle one is idle.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from gateway.catalog import keys
from gateway.catalog.interface import CompareFailed, HistoryLost
from gateway.catalog.snapshot import snapshot
from gateway.cluster.kept_entries import KEPT_PREFIXES, QUIET_PREFIXES, changes_in_pieces, in_pieces
from gateway.cluster.lineage import CatalogHistory, Verdict
from gateway.cluster.stores import REMOVED, StoreEntry
from mesh.data_directory import DataDirectoryRefused
from mesh.protocol.catalog_memory import MAX_COPY_BYTES
from wireproto.dafka.additions import (
    KEEP_CHANGES,
    KEEP_LAST_PIECE,
    KEEP_PIECE,
    KEEP_QUESTION,
    KEPT_DONE,
    KEPT_FOREIGN_CLUSTER,
    KEPT_OTHER_HISTORY,
    KEPT_OUT_OF_TURN,
    KEPT_STORAGE_ERROR,
    KEPT_TOO_LARGE,
    NOTHING_REMEMBERED,
    Keep,
    Kept,
    Remembered,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.catalog.fenced import FencedCatalog
    from gateway.catalog.interface import Catalog
    from mesh.requests import Requests

INTERVAL_SECONDS: Final = 1.0
"""How often stores are told of changes that nobody waits for: a catalog that goes back by less than that may
not be noticed."""

SHARED_INTERVAL_SECONDS: Final = 0.1
"""The same where several gateways share the catalog: those that tell nobody wait for it too, and ask the
stores as often whether they have been told.
"""

PAUSE_SECONDS: Final = 1.0
"""Pause after an answer by which a store has kept nothing."""

TOO_LARGE_SECONDS: Final = 30.0
"""Pause before it is looked again whether a catalog that was too large for a store has become smaller.
Nothing is sent meanwhile: a copy that is refused costs a gigabyte of the network and of the store's disk."""

COMPARED_SECONDS: Final = 2.0
"""How long a start waits for the stores' word on its catalog, before it recovers what needs none of it."""

WHY_NOT: Final = {
    KEPT_FOREIGN_CLUSTER: "it belongs to another cluster. Start it with an empty data directory, and have it "
    "take its own place (dafka store replace), or let its own gateway have it",
    KEPT_OTHER_HISTORY: "it remembers another history of the catalog",
    KEPT_OUT_OF_TURN: "what it remembers has changed meanwhile",
    KEPT_STORAGE_ERROR: "its disk cannot be read: its own log says why",
}

logger = logging.getLogger(__name__)


async def end_lives(catalog: Catalog) -> None:
    """Note where the earlier lives of a catalog ended: to be called before anything else is written, or what
    is written before the catalog is compared would pass for what those have written and the catalog has lost.
    """
    while (ends := CatalogHistory(catalog).ends())[1]:
        with suppress(CompareFailed):  # another gateway is starting, too
            await catalog.transact(*ends)


class Remembering:
    """One gateway life's. `run` works for ever, and raises DataDirectoryRefused when a store refutes the
    catalog.
    """

    def __init__(
        self,
        catalog: FencedCatalog,
        requests: Requests,
        cluster_id: str,
        is_keeper: Callable[[], bool] | None = None,
    ) -> None:
        """`is_keeper`: where several gateways share the catalog, whether this one is to tell the stores."""
        self.compared = trio.Event()
        """Enough stores have vouched for the catalog."""
        self._catalog = catalog
        self._requests = requests
        self._cluster_id = cluster_id
        self._is_keeper = is_keeper or (lambda: True)
        self._interval = INTERVAL_SECONDS if is_keeper is None else SHARED_INTERVAL_SECONDS
        self._history = CatalogHistory(catalog)
        self._known: dict[str, Remembered] = {}
        """Store -> what it remembers, of those that have vouched for the catalog."""
        self._begun = trio.Event()
        """This life is in the catalog: stores may be told."""
        self._foreign: dict[str, str] = {}
        """Store -> the other cluster that it belongs to."""
        self._doubtful: dict[str, str] = {}
        """Store -> why it cannot vouch."""
        self.too_large: dict[str, int] = {}
        """Store -> the bytes of entries that are too many for it."""
        self._tasks: dict[str, trio.CancelScope] = {}
        """Store -> its task."""
        self._wanted = 0
        """The sequence that somebody waits for."""
        self._newest = catalog.sequence
        """The sequence of the last change that is to be told, waited for or not."""
        self._news = trio.Event()
        self._progress = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._said: set[tuple[str, int]] = set()

    # who asks ---------------------------------------------------------------------------------------------

    @property
    def is_compared(self) -> bool:
        """Whether `wait_compared` returns at once."""
        return self.compared.is_set()

    async def wait_compared(self) -> None:
        """Return when the catalog is compared."""
        await self.compared.wait()

    async def keep(self, seconds: float) -> bool:
        """Whether enough stores keep what is in the catalog now; waits so long for it."""
        wanted = self._catalog.sequence if self._is_keeper() else self._last_told()
        if not self._is_kept(wanted):
            self.hurry()
        with trio.move_on_after(seconds):
            while not self._is_kept(wanted):
                await self._progress.wait()
        return self._is_kept(wanted)

    def _last_told(self) -> int:
        """The sequence of the last change that is told without being waited for. Who only waits for another
        gateway to tell it waits for no other one: that one does not know.
        """
        try:
            news = self._catalog.changes(self._newest + 1)
        except HistoryLost:
            return self._catalog.sequence
        loud = [change.revision for change in news if not change.key.startswith(QUIET_PREFIXES)]
        return loud[-1] if loud else self._newest

    @property
    def is_full(self) -> bool:
        """Whether the catalog is too large for so many stores that the others are no majority."""
        return len(self._tasks) - len(self.too_large) < self._majority and bool(self.too_large)

    def hurry(self) -> None:
        """Tell the stores at once how the catalog is now."""
        if self._catalog.sequence > self._wanted:
            self._wanted = self._catalog.sequence
            self._wake()

    def _is_kept(self, sequence: int) -> bool:
        name = self._history.lineage.name if self._history.lineage is not None else ""
        kept = [one for one in self._known.values() if one.lineage == name and one.sequence >= sequence]
        return self._begun.is_set() and len(kept) >= self._majority

    @property
    def _majority(self) -> int:
        return len(self._tasks) // 2 + 1

    # tasks ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Compare, then tell the stores what changes, for ever."""
        watch = self._catalog.watch("", self._catalog.revision + 1)
        async with trio.open_nursery() as self._nursery:
            self._take_stores()
            self._nursery.start_soon(self._begin_life)
            while True:
                try:
                    async for change in watch:
                        if change.key.startswith(keys.STORES):
                            self._take_stores()
                        if not change.key.startswith(QUIET_PREFIXES):
                            self._newest = self._catalog.sequence
                            self._wake()
                except HistoryLost:
                    self._newest = self._catalog.sequence
                    watch = self._catalog.watch("", self._newest + 1)
                    self._take_stores()
                    self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()

    def _progressed(self) -> None:
        self._progress.set()
        self._progress = trio.Event()

    def _take_stores(self) -> None:
        """Have a task for each store that counts now."""
        assert self._nursery is not None
        entries = map(StoreEntry.unpack, self._catalog.range(keys.STORES))
        wanted = {entry.incarnation: entry for entry in entries if entry.state != REMOVED}
        for incarnation in sorted(self._tasks.keys() - wanted.keys()):
            self._tasks.pop(incarnation).cancel()
            self._known.pop(incarnation, None)
            self._doubtful.pop(incarnation, None)
            self._foreign.pop(incarnation, None)
            self.too_large.pop(incarnation, None)
        for incarnation in sorted(wanted.keys() - self._tasks.keys()):
            scope = self._tasks[incarnation] = trio.CancelScope()
            self._nursery.start_soon(self._serve, wanted[incarnation], scope)
        self._progressed()

    async def _begin_life(self) -> None:
        """Wait until enough stores have vouched for the catalog, and note in it that this life begins."""
        while len(self._known) < len(self._tasks) - self._majority + 1:
            if self._tasks and len(self._known) + len(self._doubtful) == len(self._tasks):
                raise self._refused("; ".join(f"store {one}" for one in self._doubtful.values()))
            self._check_foreign()
            await self._progress.wait()
        while not await self._begin():
            pass  # another gateway has begun a life, or named the catalog, at this moment
        self._history = CatalogHistory(self._catalog)
        self._begun.set()
        await self._bind()
        self.compared.set()
        self._progressed()

    async def _begin(self) -> bool:
        """Note in the catalog that this life begins; false if somebody was faster with what was read."""
        self._history = CatalogHistory(self._catalog)
        begun = self._history.begin(self._requests.prefix)
        life = keys.LIVES + self._requests.prefix
        try:
            await self._catalog.begin_life(life, begun.compares, begun.puts, begun.deletes)
        except CompareFailed:
            return False
        return True

    async def _bind(self) -> None:
        """Return when a majority of the stores belongs to this cluster. Raises DataDirectoryRefused."""
        while not (self._has_topics or self._is_kept(0)):
            self._check_foreign()
            await self._progress.wait()

    @property
    def _has_topics(self) -> bool:
        """Whether this catalog has counted already: no topic is created before."""
        return bool(self._catalog.range(keys.TOPICS, limit=1))

    def _check_foreign(self) -> None:
        """Raises DataDirectoryRefused: the cluster that this catalog begins can never have a majority."""
        if len(self._tasks) - len(self._foreign) >= self._majority or self._has_topics:
            return
        clusters = ", ".join(sorted(set(self._foreign.values())))
        raise DataDirectoryRefused(
            self._catalog.where,
            f"{len(self._foreign)} of its {len(self._tasks)} stores belong to another cluster ({clusters}): "
            f"another gateway began one with them, and this cluster, {self._cluster_id}, has never served",
            "Stop this gateway and remove its data directory, or what it has put into etcd. If the other one "
            "does not serve either, remove the same of that one, and the data directories of the stores, and "
            "start one gateway alone",
        )

    async def _serve(self, store: StoreEntry, scope: trio.CancelScope) -> None:
        with scope:
            memory = await self._ask(store)
            await self._begun.wait()
            while True:
                await self._until_due(memory)
                memory = await (self._tell if self._is_keeper() else self._hear)(store, memory)

    # comparing --------------------------------------------------------------------------------------------

    async def _ask(self, store: StoreEntry) -> Remembered:
        """What a store remembers, which does not refute the catalog.

        Only a store that is who it says is heard at all (`mesh.requests.VOUCHED_TYPES`): one that was set
        back to an older copy does not remember what it did.
        """
        answer = await self._question(store)
        return answer.memory if answer.status != KEPT_DONE else await self._take(store, answer.memory)

    async def _question(self, store: StoreEntry) -> Kept:
        """What a store remembers; it does not vouch if it cannot read that."""
        while True:
            answer = await self._send(store, Keep(store.incarnation, "", self._cluster_id, KEEP_QUESTION))
            if answer.status == KEPT_DONE:
                return answer
            self._say(store, answer)
            if answer.status == KEPT_STORAGE_ERROR:
                self._doubt(store, "cannot read what it remembers of the catalog: its own log says why")
                return answer
            await trio.sleep(PAUSE_SECONDS)

    async def _take(self, store: StoreEntry, memory: Remembered) -> Remembered:
        """A store has said what it remembers; what it says last. Raises DataDirectoryRefused."""
        verdict, reason = self._history.judge(memory)
        if verdict is Verdict.REFUTES:
            # One answer alone ends no gateway: whoever reaches the mesh may have sent it. Nor does one that
            # is newer than what is read here: another gateway may have begun its life since.
            self._known.pop(store.incarnation, None)
            answer = await self._question(store)
            memory = answer.memory
            if answer.status != KEPT_DONE:
                return memory
            await self._catalog.fresh()
            self._history = CatalogHistory(self._catalog)
            verdict, reason = self._history.judge(memory)
        if verdict is Verdict.REFUTES:
            raise self._refused(
                f"the catalog is older than store {_name(store)}, or another one: it {reason}"
            )
        if verdict is Verdict.CANNOT_TELL and store.incarnation not in self._known:
            self._doubt(store, reason)
        else:
            self._known[store.incarnation] = memory
            self._doubtful.pop(store.incarnation, None)
        self._progressed()
        return memory

    def _doubt(self, store: StoreEntry, reason: str) -> None:
        logger.warning("store %s does not vouch for the catalog: it %s", _name(store), reason)
        self._doubtful[store.incarnation] = f"{_name(store)} {reason}"
        self._progressed()

    def _refused(self, reason: str) -> DataDirectoryRefused:
        return DataDirectoryRefused(self._catalog.where, reason, self._catalog.put_back)

    # telling ----------------------------------------------------------------------------------------------

    async def _until_due(self, memory: Remembered) -> None:
        """Wait until there is something to tell, and somebody waits for it or it is time."""
        assert self._history.lineage is not None
        while memory.lineage == self._history.lineage.name and memory.sequence >= max(
            self._newest, self._wanted
        ):
            await self._news.wait()
        if memory.lineage == self._history.lineage.name:
            with trio.move_on_after(self._interval):
                while self._wanted <= memory.sequence:
                    await self._news.wait()

    async def _hear(self, store: StoreEntry, _memory: Remembered) -> Remembered:
        """What a store has that another gateway brings up to date: asked for a little later."""
        await trio.sleep(SHARED_INTERVAL_SECONDS)
        return await self._ask(store)

    async def _tell(self, store: StoreEntry, memory: Remembered) -> Remembered:
        """Bring a store that has this up to date; what it has then."""
        lineage = self._history.lineage
        assert lineage is not None
        changes = None
        if memory.lineage == lineage.name:
            try:
                changed = self._catalog.changes(memory.sequence + 1)
                changes = changes_in_pieces(changed, memory.sequence, self._catalog.sequence)
            except HistoryLost:
                pass  # more than is kept in memory, or from before this life
        life = self._requests.prefix
        make = partial(Keep, store.incarnation, "", self._cluster_id)
        if changes is None:
            return await self._tell_all(store, memory)
        for one in changes:
            at = Remembered(lineage.name, life, one.sequence)
            keep = make(KEEP_CHANGES, at, base=one.base, puts=one.puts, deletes=one.deletes)
            answer = await self._send(store, keep)
            memory = await self._answered(store, answer)
            if answer.status == KEPT_OUT_OF_TURN:
                return await self._tell_all(store, memory)
            if answer.status != KEPT_DONE:
                break
        return memory

    async def _tell_all(self, store: StoreEntry, memory: Remembered) -> Remembered:
        """Give a store a whole copy in the place of what it has."""
        lineage = self._history.lineage
        assert lineage is not None
        life = self._requests.prefix
        if memory == Remembered(lineage.name, life, self._catalog.sequence):
            return memory
        parent = memory.lineage if memory.lineage != lineage.name else ""
        copy = await snapshot(self._catalog, KEPT_PREFIXES)
        size = sum(len(key.encode()) + len(value) for key, value in copy.entries.items())
        if size >= self.too_large.get(store.incarnation, MAX_COPY_BYTES + 1):
            return await self._is_too_large(store, memory, size)
        at = Remembered(lineage.name, life, copy.sequence)
        pieces = in_pieces(copy.entries.items())
        piece, number = next(pieces), 0
        while True:
            following = next(pieces, None)
            kind = KEEP_LAST_PIECE if following is None else KEEP_PIECE
            keep = Keep(store.incarnation, "", self._cluster_id, kind, at, parent, number, piece)
            answer = await self._send(store, keep)
            if answer.status == KEPT_TOO_LARGE:
                return await self._is_too_large(store, memory, size)
            if following is None or answer.status != KEPT_DONE:
                if answer.status in (KEPT_DONE, KEPT_OUT_OF_TURN) and answer.memory != at:
                    await trio.sleep(PAUSE_SECONDS)  # or it would be sent again and again, at once
                return await self._answered(store, answer)
            piece, number = following, number + 1

    async def _is_too_large(self, store: StoreEntry, memory: Remembered, size: int) -> Remembered:
        """A store cannot take a whole copy of so many bytes: it has what it had."""
        if store.incarnation not in self.too_large:
            logger.error(
                "store %s keeps no newer copy of the catalog: its entries have %d bytes, and a store takes "
                "%d at most. Delete topics, or configs that topics have of their own; until then no topic is "
                "created, and what else is changed may be lost with this gateway's disk",
                _name(store), size, MAX_COPY_BYTES,
            )  # fmt: skip
        self.too_large[store.incarnation] = min(size, self.too_large.get(store.incarnation, size))
        await trio.sleep(TOO_LARGE_SECONDS)
        return memory

    async def _send(self, store: StoreEntry, keep: Keep) -> Kept:
        """Ask until it is answered, by a store of this cluster or of none yet."""
        while True:
            answer: Kept = await self._requests.ask(
                store.incarnation, lambda requester: keep._replace(requester=requester)
            )
            if answer.cluster_id in ("", self._cluster_id):
                self._foreign.pop(store.incarnation, None)
                return answer
            self._foreign[store.incarnation] = answer.cluster_id
            self._progressed()
            if answer.status == KEPT_FOREIGN_CLUSTER:
                return answer
            self._say(store, answer._replace(status=KEPT_FOREIGN_CLUSTER))
            await trio.sleep(PAUSE_SECONDS)

    async def _answered(self, store: StoreEntry, answer: Kept) -> Remembered:
        """What a store has after this answer."""
        if answer.status == KEPT_DONE:
            self.too_large.pop(store.incarnation, None)
            return await self._take(store, answer.memory)
        self._known.pop(store.incarnation, None)
        memory = answer.memory
        if answer.status in (KEPT_OTHER_HISTORY, KEPT_OUT_OF_TURN):
            memory = await self._take(store, memory)
        if answer.status != KEPT_OUT_OF_TURN:
            self._say(store, answer)
            await trio.sleep(PAUSE_SECONDS)
        return NOTHING_REMEMBERED if answer.status == KEPT_STORAGE_ERROR else memory

    def _say(self, store: StoreEntry, answer: Kept) -> None:
        """Once for each reason."""
        if (store.incarnation, answer.status) not in self._said:
            self._said.add((store.incarnation, answer.status))
            why = WHY_NOT.get(answer.status, f"status {answer.status}")
            logger.error("store %s keeps nothing of the catalog: %s", _name(store), why)


def _name(store: StoreEntry) -> str:
    return store.incarnation if store.name == store.incarnation else f"{store.id} ({store.name})"
