"""To whom the cluster's producer ids were given (`gateway.security.producer_ids`), by the secret of its
catalog.

The secret is the one that all else is made from which only the gateways of this cluster may know
(`ScramUsers.secret`): it is made once, and goes where the catalog goes, into the stores' copy, exports and
backups. So after a restart, on another gateway, and in a catalog that was put back, ids are whose they were.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from gateway.catalog import keys
from gateway.common.log_limit import LogLimit
from gateway.common.printable import printable
from gateway.security.producer_ids import BOUND, ProducerIdBinding, Whom
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog
    from gateway.cluster.scram_users import ScramUsers

MAX_KNOWN_OWNERS: Final = 10_000
"""Ids that were found to be right and are not looked at again: some 250 bytes each, 2.5 MB in all. Beyond it
all are forgotten, and found to be right once more."""

MAX_OWNER_CHARS: Final = 249
"""Longest transactional id that is remembered with its producer id; clients may have some of 32,000
characters, whose producers' ids are checked with each batch."""

logger = logging.getLogger(__name__)


class ProducerIdOwners:
    """Of one gateway. `is_of` is for the hot path: a look-up for each batch."""

    def __init__(self, catalog: Catalog, users: ScramUsers) -> None:
        self._catalog = catalog
        self._users = users
        self._known: ProducerIdBinding | None = None
        self._right: set[tuple[int, Whom]] = set()
        self._limit = LogLimit(logger)

    def is_of(self, producer_id: int, whom: Whom) -> bool:
        """Whether whoever this is may write with this id: not if it was given to somebody else."""
        if producer_id < BOUND or (producer_id, whom) in self._right:
            return True
        binding = self._binding()
        if binding is None or not binding.is_mine(producer_id):
            return True
        if not binding.fits(producer_id, whom):
            return False
        if isinstance(whom, str) and len(whom) > MAX_OWNER_CHARS:
            return True
        if len(self._right) >= MAX_KNOWN_OWNERS:
            self._right.clear()
        self._right.add((producer_id, whom))
        return True

    def is_bound_to(self, producer_id: int, whom: Whom) -> bool:
        """Whether an id says that it is for `whom`: it is not anybody's."""
        binding = self._binding()
        return binding is not None and binding.is_mine(producer_id) and binding.fits(producer_id, whom)

    def tell(self, producer_id: int, whom: Whom, what: str) -> None:
        """Log that somebody has tried what he may not with this id."""
        self._limit.warning(
            "%s with producer id %d is refused: the id was not given to %s, and is of use only to whom it "
            "was given",
            what, producer_id, printable(str(whom)),
        )  # fmt: skip

    async def prepare(self) -> None:
        """Have the secret. Before a block of ids is taken: the stores remember the catalog as it is then,
        the secret with it.

        Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, the catalog is away.
        """
        if self._binding() is not None:
            return
        if trouble := self._catalog.trouble:
            reason = f"no producer ids can be given: {trouble}"
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, reason)
        self._known = ProducerIdBinding(await self._users.secret())

    def bind(self, count: int, whom: Whom) -> int:
        """The id for `whom` with a count that was never given before. After `prepare`."""
        binding = self._binding()
        assert binding is not None, "the secret is there"
        return binding.bind(count, whom)

    def _binding(self) -> ProducerIdBinding | None:
        """None: the catalog has no secret yet, so no id of this cluster is bound."""
        if self._known is None and (entry := self._catalog.get(keys.SCRAM_SECRET)) is not None:
            self._known = ProducerIdBinding(entry.value)
        return self._known
