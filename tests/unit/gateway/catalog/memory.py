"""A catalog that forgets everything: for tests, with the semantics of the others."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import trio

from gateway.catalog.interface import Catalog, CatalogFailed
from gateway.catalog.mirror import Mirror, Plan
from gateway.catalog.mirrored import MirroredCatalog
from gateway.catalog.pieces import in_transactions


class MemoryCatalog(MirroredCatalog):
    """See `Catalog`. `fail_next_commit` makes the next one fail as a broken disk would."""

    def __init__(self) -> None:
        super().__init__(Mirror())
        self.fail_next_commit = False
        self.committed: list[int] = []
        """Per commit, the number of transactions that shared it."""

    @property
    def where(self) -> str:
        return "memory"

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is written meanwhile waits, as during a long fsync."""
        self.hold()
        try:
            yield
        finally:
            self.let_go()

    def hold(self) -> None:
        """As `held`, until `let_go`."""
        assert self._committing is None, "a commit is under way"
        self._committing = trio.Event()

    def let_go(self) -> None:
        over, self._committing = self._committing, None
        assert over is not None
        over.set()

    async def _commit(self, plan: Plan) -> None:
        await trio.lowlevel.checkpoint()  # so that others queue up meanwhile, as they do during an fsync
        if self.fail_next_commit:
            raise CatalogFailed("the catalog could not be written: told to fail")
        self.committed.append(len(plan.outcomes))

    async def _close(self) -> None:
        pass


async def put_many(catalog: Catalog, entries: Mapping[str, bytes]) -> None:
    """However many."""
    for piece in in_transactions(entries.items()):
        await catalog.transact([], piece)
