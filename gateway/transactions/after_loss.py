"""Ends what an accepted loss has left: transactions that nobody would end, or that have lost a part.

A partition that has lost its end may have lost markers: then transactions are open there that their
coordinators have ended. It may also have lost records of a transaction that its producer would commit. The
rules, for partitions of which something was given up:

* what is open there, and no coordinator has, is aborted by a marker that is appended here. It has the epoch
  of the transaction, and the coordinator's epoch that the partition knows, as the tools' aborts have;
* what a coordinator has open, and has written there, is aborted by that coordinator as after its timeout;
* so is what a producer goes on with in a transaction that nobody had: they would end together;
* what is decided there is carried out: its coordinator has markers written until every partition has one. One
  that the partition had, and has lost, is written here again.

Where coordinators themselves have lost the end of what they know, what is open may be known to nobody in any
partition: the first rule is for all of them then. No producer goes on that was there before, or it could
commit the part that is known: that is done before such a coordinator serves its ids again (`fencing`).

It is done where one gateway leads everything, so all coordinators are here; and only once all their ids are
loaded: what is not known then is known nowhere. Where stores are lost a partition may take no markers before
others have their places, and an id something on its way: both are asked again as long as this gateway runs.
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
from gateway.log.partition import PartitionState
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

AGAIN_SECONDS: Final = 1.0
"""Pause before partitions are asked again that have not taken a marker."""

logger = logging.getLogger(__name__)


class Open(NamedTuple):
    """A transaction that is open in a partition."""

    producer_id: int
    first_offset: int


class _Lost(NamedTuple):
    """A partition that may have open what nobody ends."""

    partition: Partition
    accepted_ms: int | None
    """When that was accepted: what has begun later has lost nothing. None: nothing of it was given up here,
    but maybe who ends it."""
    unknown: set[Open]
    """What was open there when nobody had it. Who has it later has joined it."""


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
        self._left: dict[TopicPartition, _Lost] = {}
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
            left = {place: lost for place, lost in self._left.items() if lost.partition.available}
            gone = [place for place, lost in self._left.items() if _is_gone(lost.partition)]
            for place in (*left, *gone):
                del self._left[place]
            if left:
                await self._end_all(left)

    async def end(
        self, partitions: Sequence[Partition], accepted_ms: int, others: Sequence[Partition] = ()
    ) -> dict[TopicPartition, list[Open]]:
        """End the transactions of these partitions, which have lost something and serve again, or will. The
        loss was accepted at `accepted_ms`, ms since 1970: what has begun later has lost nothing. `others`
        have lost nothing; what nobody knows is aborted there as well. Returns what was aborted here.
        """
        places = {(one.topic.name, one.index): _Lost(one, None, set()) for one in others}
        places |= {(one.topic.name, one.index): _Lost(one, accepted_ms, set()) for one in partitions}
        with trio.move_on_after(LOADED_SECONDS) as waited:
            while not self._coordinator.has_everything:  # noqa: ASYNC110  nobody is told
                await trio.sleep(LOOK_SECONDS)
        if waited.cancelled_caught:
            logger.warning("transactional ids are not loaded: no transaction is aborted after the loss yet")
            for place, lost in places.items():
                self._leave(place, lost)
            return {}
        return await self._end_all(places)

    async def _end_all(self, places: Mapping[TopicPartition, _Lost]) -> dict[TopicPartition, list[Open]]:
        """What was aborted here; all ids are loaded when this begins."""
        names = self._names()
        for place, lost in places.items():
            lost.unknown.update(
                one for one in _open(lost.partition) if self._who_has(names, place, one) is None
            )
        accepted = {place: lost.accepted_ms for place, lost in places.items() if lost.accepted_ms is not None}
        for one in self._touching(accepted):
            touched = one.partitions_left & accepted.keys()
            if not touched:
                continue  # it has ended meanwhile
            if not await self._coordinator.abort_after_loss(one, max(accepted[place] for place in touched)):
                for place in touched:
                    self._leave(place, places[place])
        return {
            place: aborted
            for place, lost in places.items()
            if (aborted := await self._abort_unknown(place, lost, names))
        }

    def _touching(self, places: Iterable[TopicPartition]) -> list[Transaction]:
        """The ids whose transactions have one of these partitions."""
        wanted = frozenset(places)
        return [one for one in self._coordinator.loaded() if not wanted.isdisjoint(one.partitions_left)]

    def _names(self) -> dict[int, str]:
        """The transactional id of each producer id. A producer that has written is in it, or never will be:
        who comes later gets another producer id.
        """
        return {
            one.machine.metadata.producer_id: one.transactional_id
            for one in self._coordinator.loaded()
            if one.machine.metadata is not None
        }

    def _who_has(
        self, names: Mapping[int, str], place: TopicPartition, transaction: Open
    ) -> Transaction | None:
        """The id whose transaction this is, at this moment."""
        one = self._coordinator.transactions.get(names.get(transaction.producer_id, ""))
        metadata = None if one is None else one.machine.metadata
        if metadata is None or metadata.producer_id != transaction.producer_id:
            return None
        return one if place in metadata.partitions else None

    async def _abort_unknown(
        self, place: TopicPartition, lost: _Lost, names: Mapping[int, str]
    ) -> list[Open]:
        aborted: list[Open] = []
        if not lost.partition.available:
            self._leave(place, lost)
        for transaction in _open(lost.partition):
            # All of it anew: others have gone on while the marker before this one was on its way.
            producer = lost.partition.producers.state.find(transaction.producer_id)
            if producer is None or producer.first_offset != transaction.first_offset:
                continue
            if not self._coordinator.has_everything:
                self._leave(place, lost)
                break
            has_it = self._who_has(names, place, transaction)
            if has_it is not None:
                if not await self._end_known(place, has_it, has_joined=transaction in lost.unknown):
                    self._leave(place, lost)
                continue
            lost.unknown.add(transaction)
            coordinator_epoch = max(0, producer.coordinator_epoch)
            marker = Marker(transaction.producer_id, producer.epoch, coordinator_epoch, is_commit=False)
            error = await self._write(place, marker)
            if error is ErrorCode.NONE:
                aborted.append(transaction)
                logger.warning(
                    "%s-%d: the transaction of producer %d from offset %d is aborted: nobody knows it",
                    printable(place[0]), place[1], *transaction,
                )  # fmt: skip
            else:
                self._leave(place, lost)
                self._limit.warning(
                    "%s-%d: the transaction of producer %d from offset %d, which nobody knows, cannot be "
                    "aborted yet: %s",
                    printable(place[0]), place[1], *transaction, error.name,
                )  # fmt: skip
        return aborted

    async def _end_known(self, place: TopicPartition, has_it: Transaction, *, has_joined: bool) -> bool:
        """As far as its coordinator does not; False: it could not be."""
        ending = has_it.ending
        if ending is not None:
            if place not in ending.left:
                return await self._write(place, ending.marker) is ErrorCode.NONE
            if ending.may_be_old:
                return False  # its marker may be refused: then what is open here is nobody's
        return not has_joined or await self._coordinator.abort_after_loss(has_it)

    def _leave(self, place: TopicPartition, lost: _Lost) -> None:
        """It is looked at again, for all that it may have lost."""
        left = self._left.get(place)
        if left is not None and left is not lost:
            accepted = [at for at in (left.accepted_ms, lost.accepted_ms) if at is not None]
            lost = _Lost(lost.partition, max(accepted, default=None), left.unknown | lost.unknown)
        self._left[place] = lost
        self._has_left.wake()


def _is_gone(partition: Partition) -> bool:
    """It was deleted, or another gateway has it."""
    return partition.deleted or partition.state is PartitionState.ELSEWHERE


def _open(partition: Partition) -> list[Open]:
    """What is open there; nothing as long as nobody knows."""
    if not partition.available:
        return []
    return [Open(*one) for one in partition.producers.state.open_transactions().items()]
