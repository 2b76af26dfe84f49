"""Looks at all transactional ids now and then: transactions that are open for too long are aborted, and ids
that nobody uses are forgotten (``TransactionCoordinator.abortTimedOutTransactions``,
``TransactionStateManager.removeExpiredTransactionalIds``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

import trio

from gateway.common.costs import COUNTED, TRANSACTION_PARTITION
from gateway.common.work import Work

if TYPE_CHECKING:
    from gateway.transactions.served import Transaction

TIMEOUTS_SECONDS: Final = 10.0
"""How often open transactions are looked at: Kafka's
`transaction.abort.timed.out.transaction.cleanup.interval.ms`."""

EXPIRY_SECONDS: Final = 3600.0
"""How often idle ids are looked for: Kafka's
`transaction.remove.expired.transaction.cleanup.interval.ms`."""

EXPIRATION_MS: Final = 7 * 24 * 3600 * 1000
"""So long an id is kept that nobody uses: Kafka's `transactional.id.expiration.ms`."""


class Ids(Protocol):
    """All of them (`gateway.transactions.coordinator.TransactionCoordinator`)."""

    def loaded(self) -> Sequence[Transaction]:
        """Those that are served now."""

    async def time_out(self, one: Transaction) -> None:
        """Abort its transaction, if that has been open for too long."""

    def expire(self, one: Transaction, expiration_ms: int) -> object:
        """Forget it, if nobody has used it for so long."""


class Sweep:
    """`run` is to run while ids are served."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids

    async def run(self) -> None:
        """Look at all ids, for ever."""
        expiry = trio.current_time() + EXPIRY_SECONDS
        while True:
            await trio.sleep(TIMEOUTS_SECONDS)
            work = Work()
            expires = trio.current_time() >= expiry
            if expires:
                expiry = trio.current_time() + EXPIRY_SECONDS
            for one in self._ids.loaded():
                metadata = one.machine.metadata
                partitions = 0 if metadata is None else len(metadata.partitions)
                is_open = metadata is not None and not metadata.is_at_rest
                # Its end is a record with all of them.
                await work.before(COUNTED + (TRANSACTION_PARTITION * partitions if is_open else 0))
                await self._ids.time_out(one)
                if expires:
                    self._ids.expire(one, EXPIRATION_MS)
