"""A catalog that forgets everything: for tests, with the semantics of the others."""

import trio

from gateway.catalog.interface import CatalogFailed
from gateway.catalog.mirror import Mirror, Plan
from gateway.catalog.mirrored import MirroredCatalog


class MemoryCatalog(MirroredCatalog):
    """See `Catalog`. `fail_next_commit` makes the next one fail as a broken disk would."""

    def __init__(self) -> None:
        super().__init__(Mirror())
        self.fail_next_commit = False
        self.committed: list[int] = []
        """Per commit, the number of transactions that shared it."""

    async def _commit(self, plan: Plan) -> None:
        await trio.lowlevel.checkpoint()  # so that others queue up meanwhile, as they do during an fsync
        if self.fail_next_commit:
            raise CatalogFailed("the catalog could not be written: told to fail")
        self.committed.append(len(plan.outcomes))

    async def _close(self) -> None:
        pass
