"""Ends what an accepted loss has left: transactions that nobody would end, or that have lost a part.

A partition that has lost its end may have lost markers: then transactions are open there that their
coordinators have ended. It may also have lost records of a transaction that its producer would commit. The
rules, for partitions of which something was given up:

* what is open there, and no coordinator has, is aborted by a marker that is appended here. It has the epoch
  of the transaction, and the coordinator's epoch that the partition knows, as the tools' aborts have;
* what a coordinator has open, and has written there, is aborted by that coordinator as after its timeout;
* what is decided there is carried out: its coordinator has markers written until every partition has one.

It is done where one gateway leads everything, so all coordinators are here; and only once all their ids are
loaded: what is not known then is known nowhere. Where stores are lost a partition may take no markers before
others have their places; it is asked again as long as this gateway runs.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from gateway.common.log_limit import LogLimit
from gateway.common.marker import Marker
from gateway.common.printable import printable
from gateway.common.waiting import Waiter
from gateway.transactions.metadata import TopicPartition
from wireproto.kafka.errors import ErrorCode

if TYPE_CHECKING:
    from gateway.log.partition import Partition
    from gateway.transactions.coordinator import TransactionCoordinator
    from gateway.transactions.served import Transaction

LOADED_SECONDS: Final = 15.0
"""How long transactional ids may take to be loaded, before an operator is told that nothing was aborted."""

LOOK_SECONDS: Final = 0.05
"""How often that is looked at: nobody is told."""

logger = logging.getLogger(__name__)


AGAIN_SECONDS: Final = 1.0
"""Pause before partitions are asked again that have not taken a marker."""


class Open(NamedTuple):
    """A transaction that is open in a partition."""

    producer_id: int
    first_offset: int


class AfterLoss:
    """`write` appends a marker to a partition of this gateway, and says how that went once it is durable.
    `run` asks again where it could not be.
    """

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        write: Callable[[TopicPartition, Marker], Awaitable[ErrorCode]],
    ) -> None:
        self._coordinator = coordinator
        self._write = write
        self._left: dict[TopicPartition, Partition] = {}
        """Partitions where something could not be aborted yet."""
        self._has_left = Waiter()
        self._limit = LogLimit(logger)

    async def run(self) -> None:
        """Abort what could not be aborted at once, for ever."""
        while True:
            if not self._left:
                await self._has_left.wait()
            await trio.sleep(AGAIN_SECONDS)
            if not self._coordinator.has_everything:
                continue  # another gateway may know more, or the partition be its own by now
            left, self._left = self._left, {}
            for place, partition in left.items():
                await self._abort_unknown(place, partition)

    async def end(
        self, partitions: Sequence[Partition], accepted_ms: int
    ) -> dict[TopicPartition, list[Open]]:
        """End the transactions of these partitions, which have lost something and serve again. Returns what
        was aborted here. The loss was accepted at `accepted_ms`, ms since 1970: what has begun later has lost
        nothing.
        """
        with trio.move_on_after(LOADED_SECONDS) as waited:
            while not self._coordinator.has_everything:  # noqa: ASYNC110  nobody is told
                await trio.sleep(LOOK_SECONDS)
        if waited.cancelled_caught:
            logger.warning("transactional ids are not loaded: no transaction is aborted after the loss")
            return {}
        places = {(one.topic.name, one.index): one for one in partitions}
        for one in self._touching(places):
            await self._coordinator.abort_after_loss(one, accepted_ms)
        return {
            place: aborted
            for place, partition in places.items()
            if (aborted := await self._abort_unknown(place, partition))
        }

    def _touching(self, places: Iterable[TopicPartition]) -> list[Transaction]:
        """The ids whose transactions have one of these partitions."""
        wanted = frozenset(places)
        return [
            one
            for one in self._coordinator.loaded()
            if one.machine.metadata is not None and not wanted.isdisjoint(one.machine.metadata.partitions)
        ]

    async def _abort_unknown(self, place: TopicPartition, partition: Partition) -> list[Open]:
        known = {
            one.machine.metadata.producer_id
            for one in self._touching([place])
            if one.machine.metadata is not None
        }
        aborted: list[Open] = []
        for producer_id, first_offset in partition.producers.state.open_transactions().items():
            producer = partition.producers.state.find(producer_id)
            if producer_id in known or producer is None or producer.first_offset != first_offset:
                continue
            if not self._coordinator.has_everything:
                self._left[place] = partition
                break
            marker = Marker(producer_id, producer.epoch, max(0, producer.coordinator_epoch), is_commit=False)
            error = await self._write(place, marker)
            if error is ErrorCode.NONE:
                aborted.append(Open(producer_id, first_offset))
                logger.warning(
                    "%s-%d: the transaction of producer %d from offset %d is aborted: nobody knows it",
                    printable(place[0]), place[1], producer_id, first_offset,
                )  # fmt: skip
            else:
                self._left[place] = partition
                self._limit.warning(
                    "%s-%d: the transaction of producer %d from offset %d, which nobody knows, cannot be "
                    "aborted yet: %s",
                    printable(place[0]), place[1], producer_id, first_offset, error.name,
                )  # fmt: skip
        if place in self._left:
            self._has_left.wake()
        return aborted
