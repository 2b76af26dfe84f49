"""The catalog as one gateway's life uses it: what that life has lost it does not change any more.

Rule: from the moment a life has begun each of its transactions compares the life's key as well
(`/lives/<life>`), at the revision that it was begun with. The next gateway ends that life in the first thing
that it writes (`gateway.cluster.lineage`), and every transaction of the old one fails from then on, also one
that was made before and comes late. The old one is **deposed**: it raises `Deposed`, which ends the process.

Where the catalog is shared each transaction compares the key as well that says that the gateway is alive
(`gateway.cluster.alive`), from the moment on that this process has put it.

Before the life has begun (the stores have yet to say whether this catalog is the newest) there is no such
key; what each transaction compares by itself has to do until then.

Every transaction is looked at before it is sent: one that lacks a compare is a defect, and refused
(`gateway.catalog.fence_rules`).
"""

from collections.abc import AsyncIterator, Mapping, Sequence

from gateway.catalog import keys
from gateway.catalog.fence_rules import check_fenced
from gateway.catalog.interface import Catalog, Change, Compare, CompareFailed, Entry
from gateway.common.failures import ProcessEnds
from mesh.data_directory import EXIT_ENVIRONMENT


class Deposed(ProcessEnds):
    """Another gateway has begun its life on this catalog: nothing that this one still does may count."""

    exit_code = EXIT_ENVIRONMENT

    def __init__(self, key: str) -> None:
        next_step = (
            "Start it again: it waits while another one serves"
            if key.startswith(keys.ALIVE)
            else "See which gateways are started on this catalog, and let one of them run: start this one "
            "again only after the other has stopped"
        )
        super().__init__(
            f"another gateway has taken this one's place: the catalog has ended its life ({key}). Nothing "
            f"that was acknowledged is lost, and nothing was changed since. {next_step}"
        )


class FencedCatalog:
    """See `Catalog`; every transaction may raise Deposed and Unfenced besides."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._own: list[Compare] = []
        """What all transactions compare."""

    def hold(self, compare: Compare) -> None:
        """All transactions from now on compare this as well: a key that says that this gateway may change
        anything.
        """
        self._own.append(compare)

    async def begin_life(
        self, key: str, compares: Sequence[Compare], puts: Mapping[str, bytes], deletes: Sequence[str]
    ) -> None:
        """A transaction that puts the key of this gateway's life: all that follow compare it.

        Raises CompareFailed, and as `transact`.
        """
        revision = await self.transact(compares, puts, deletes)
        self.hold(Compare(key, revision))

    async def transact(
        self,
        compares: Sequence[Compare],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        lease: int | None = None,
    ) -> int:
        check_fenced(compares, puts, deletes, self._catalog.get)
        own = self._own
        try:
            return await self._catalog.transact([*own, *compares], puts, deletes, lease)
        except CompareFailed as failed:
            if any(failed.key == compare.key for compare in own):
                raise Deposed(failed.key) from None
            raise

    @property
    def revision(self) -> int:
        return self._catalog.revision

    @property
    def sequence(self) -> int:
        return self._catalog.sequence

    @property
    def trouble(self) -> str:
        return self._catalog.trouble

    @property
    def where(self) -> str:
        return self._catalog.where

    @property
    def put_back(self) -> str:
        return self._catalog.put_back

    async def fresh(self) -> None:
        await self._catalog.fresh()

    def get(self, key: str) -> Entry | None:
        return self._catalog.get(key)

    def range(self, prefix: str, *, after: str = "", limit: int | None = None) -> list[Entry]:
        return self._catalog.range(prefix, after=after, limit=limit)

    def watch(self, prefix: str, from_revision: int) -> AsyncIterator[Change]:
        return self._catalog.watch(prefix, from_revision)

    def changes(self, from_revision: int) -> list[Change]:
        return self._catalog.changes(from_revision)

    async def grant_lease(self, ttl_seconds: float) -> int:
        return await self._catalog.grant_lease(ttl_seconds)

    async def keep_alive(self, lease: int) -> None:
        await self._catalog.keep_alive(lease)

    async def revoke(self, lease: int) -> None:
        await self._catalog.revoke(lease)

    async def run(self) -> None:
        await self._catalog.run()

    async def aclose(self) -> None:
        await self._catalog.aclose()
