"""Aborts and fences transactional ids after a loss that was accepted, and says so."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gateway.common.log_limit import LogLimit
from gateway.common.printable import printable
from gateway.transactions.outcomes import BUSY, DONE, Outcome
from wireproto.kafka.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.transactions.coordinator import TransactionCoordinator
    from gateway.transactions.lost_end import InData
    from gateway.transactions.served import Transaction

logger = logging.getLogger(__name__)


class LostIds:
    """The ids of `coordinator`. Each method returns False if an id could not be changed: something else is on
    its way for it, or it cannot be written now.
    """

    def __init__(self, coordinator: TransactionCoordinator, now_ms: Callable[[], int]) -> None:
        self._coordinator = coordinator
        self._now_ms = now_ms
        self._limit = LogLimit(logger)

    async def abort(self, one: Transaction, accepted_ms: int | None = None) -> bool:
        """Abort its transaction, if that was open at this time, ms since 1970, or whenever it began: it has
        lost a part since.
        """

        def decide(new_producer_id: int | None) -> Outcome:
            metadata = one.machine.metadata
            if metadata is None or (accepted_ms is not None and metadata.start_ms > accepted_ms):
                return DONE
            return one.machine.abort(self._now_ms(), new_producer_id)

        return await self._change(
            one, decide, "its transaction has lost a part with what was given up", "aborted"
        )

    async def fence(self, one: Transaction, in_data: InData, accepted_ms: int) -> bool:
        """Fence its producer, if its coordinator may have lost what it did last."""

        def decide(new_producer_id: int | None) -> Outcome:
            return one.machine.after_lost_end(in_data, accepted_ms, self._now_ms(), new_producer_id)

        return await self._change(
            one,
            decide,
            "what its producer did last was given up with a part of __transaction_state",
            "fenced",
        )

    async def _change(
        self, one: Transaction, decide: Callable[[int | None], Outcome], why: str, what: str
    ) -> bool:
        before = one.machine.metadata
        try:
            answer = await self._coordinator.change(one, decide)
        except KafkaError as error:
            self._limit.warning(
                "transactional id %s: %s, and it cannot be %s yet: %s",
                printable(one.transactional_id), why, what, error,
            )  # fmt: skip
            return False
        if answer == BUSY:
            return False
        if one.machine.metadata is not before:
            logger.warning(
                "transactional id %s: %s, and it is %s", printable(one.transactional_id), why, what
            )
        return True
