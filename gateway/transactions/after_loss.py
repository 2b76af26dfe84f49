"""Ends transactions after a loss that was accepted, which nobody would end, or which have lost a part.

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
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
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


LOOKED_AT_TOGETHER: Final = 256
"""Partitions for which all ids are looked through once: that takes 20 ms for 100,000 ids, and there may be
thousands of partitions."""


class Open(NamedTuple):
    """A transaction that is open in a partition."""

    producer_id: int
    first_offset: int


class _Unknown(NamedTuple):
    """One that no coordinator has. Its producer's last batch has `last_offset`."""

    place: TopicPartition
    partition: Partition
    producer_id: int
    first_offset: int
    last_offset: int


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
            await self._abort_unknown(left)

    async def end(
        self, partitions: Sequence[Partition], accepted_ms: int
    ) -> dict[TopicPartition, list[Open]]:
        """End the transactions of these partitions, which have lost something and serve again; what was
        aborted here. The loss was accepted at `accepted_ms`: what has begun later has lost nothing.
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
        return await self._abort_unknown(places)

    def _touching(self, places: Iterable[TopicPartition]) -> list[Transaction]:
        """The ids whose transactions have one of these partitions."""
        wanted = frozenset(places)
        return [
            one
            for one in self._coordinator.loaded()
            if one.machine.metadata is not None and not wanted.isdisjoint(one.machine.metadata.partitions)
        ]

    async def _abort_unknown(
        self, partitions: Mapping[TopicPartition, Partition]
    ) -> dict[TopicPartition, list[Open]]:
        """What was aborted, of each partition where something was."""
        aborted: dict[TopicPartition, list[Open]] = {}
        left = list(partitions.items())
        for first in range(0, len(left), LOOKED_AT_TOGETHER):
            await trio.lowlevel.checkpoint()
            for one in self._unknown(left[first : first + LOOKED_AT_TOGETHER]):
                if await self._abort(one):
                    aborted.setdefault(one.place, []).append(Open(one.producer_id, one.first_offset))
        return aborted

    def _unknown(self, partitions: Iterable[tuple[TopicPartition, Partition]]) -> list[_Unknown]:
        """What is open in these partitions, and no coordinator has there. All ids are looked at for that, if
        anything is open.
        """
        found = [
            _Unknown(place, partition, producer_id, producer.first_offset, producer.last_offset)
            for place, partition in partitions
            for producer_id in partition.producers.state.open_transactions()
            if (producer := partition.producers.state.find(producer_id)) is not None
        ]
        places = {one.place for one in found}
        known = {
            (place, one.machine.metadata.producer_id)
            for one in (self._touching(places) if places else ())
            if one.machine.metadata is not None
            for place in one.machine.metadata.partitions & places
        }
        return [one for one in found if (one.place, one.producer_id) not in known]

    async def _abort(self, one: _Unknown) -> bool:
        """Whether it was aborted; it may have ended while others were."""
        place, partition, producer_id, first_offset, last_offset = one
        producer = partition.producers.state.find(producer_id)
        if producer is None or producer.first_offset != first_offset:
            return False
        # What it has written meanwhile may be of a transaction that is known by now.
        if not self._coordinator.has_everything or producer.last_offset != last_offset:
            self._try_again(one)
            return False
        marker = Marker(producer_id, producer.epoch, max(0, producer.coordinator_epoch), is_commit=False)
        error = await self._write(place, marker)
        if error is ErrorCode.NONE:
            logger.warning(
                "%s-%d: the transaction of producer %d from offset %d is aborted: nobody knows it",
                printable(place[0]), place[1], producer_id, first_offset,
            )  # fmt: skip
            return True
        self._try_again(one)
        self._limit.warning(
            "%s-%d: the transaction of producer %d from offset %d, which nobody knows, cannot be aborted "
            "yet: %s",
            printable(place[0]), place[1], producer_id, first_offset, error.name,
        )  # fmt: skip
        return False

    def _try_again(self, one: _Unknown) -> None:
        self._left[one.place] = one.partition
        self._has_left.wake()
