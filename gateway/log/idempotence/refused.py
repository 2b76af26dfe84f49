"""Idempotent producers of which a batch for a partition was refused, until all that was refused has come.

Kafka lets a producer that it knows nothing of begin with any sequence. A client has several batches in
flight: when the first is refused for want of room and the second is not, the second would be that beginning,
and the first, sent again, would be out of order for good. So while the first is missing, later ones are
refused as well.

They are refused with an error that every client repeats, and not as out of order, also where the producer is
known: librdkafka takes that for a reason to begin a new epoch, for all partitions, and what it has in flight
to others, maybe appended there already, it then sends again under that epoch: nobody could tell that it is a
duplicate. franz-go gives its records up.

A producer is remembered until what was refused last is appended, or known to be in the log. A batch is
awaited for `REFUSED_SECONDS` from when it was refused, or the one before it came: its client has given it up
by then. At the bound of a partition one is forgotten of the client that has half of the places, else one of
the client that brings the new one, else the new one is not remembered; a client that has its share of the
whole gateway forgets its own. Who is forgotten may begin anywhere, as in Kafka.

The time is a clock's that nobody sets: with the wall clock put forward, all would be forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from gateway.common.shares import Shares
from gateway.log.idempotence.greedy import greedy_client
from gateway.log.idempotence.producer import advance_sequence
from gateway.log.idempotence.refused_batches import RefusedBatches, is_after
from wireproto.kafka.errors import ErrorCode, KafkaError

MAX_REFUSED_PRODUCERS: Final = 1_000
"""Such producers per partition."""

MAX_REFUSED_IN_ALL: Final = 50_000
"""Such producers of all partitions together, 400 to 1,000 bytes each; half of them for one client, or of what
others leave."""

SWEEP_SECONDS: Final = 10.0
"""Between two looks at all partitions for what is not awaited any more, while a client has its share."""


class RefusedAccount:
    """The refused producers of all partitions; each is one unit of its client's.

    Args:
        clock: in seconds; nobody sets it.
    """

    __slots__ = ("_holders", "_shares", "_swept", "clock")

    def __init__(self, clock: Callable[[], float], most: int = MAX_REFUSED_IN_ALL) -> None:
        self.clock = clock
        self._shares = Shares(most)
        self._holders: dict[RefusedProducers, None] = {}
        """The partitions that have some: of one that is led elsewhere nobody may ask again."""
        self._swept = -SWEEP_SECONDS

    @property
    def used(self) -> int:
        """How many there are."""
        return self._shares.used

    def held(self, client: str) -> int:
        """How many there are of a client."""
        return self._shares.held(client)

    def has_room(self, client: str) -> bool:
        """Whether there may be one more of this client; what is not awaited any more is forgotten for it."""
        now = self.clock()
        if not self._shares.has_room(client, 1) and now >= self._swept + SWEEP_SECONDS:
            self._swept = now
            for holder in tuple(self._holders):
                holder.forget_old(now)
        return self._shares.has_room(client, 1)

    def charge(self, holder: RefusedProducers, client: str, more: int) -> None:
        """This partition has so many more of a client, or fewer."""
        self._shares.charge(client, more)
        if holder:
            self._holders[holder] = None
        else:
            self._holders.pop(holder, None)


class RefusedProducers:
    """The refused producers of one partition. All methods return at once."""

    __slots__ = ("_account", "_by_client", "_producers")

    def __init__(self, account: RefusedAccount) -> None:
        self._account = account
        # Both with the one first that was heard longest ago.
        self._producers: OrderedDict[int, RefusedBatches] = OrderedDict()
        self._by_client: dict[str, OrderedDict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def add(
        self, producer_id: int, epoch: int, sequence: int, client: str, *, for_good: bool = False
    ) -> None:
        """A batch that begins with `sequence` was refused, and will be sent again; or not, if `for_good`."""
        now = self._account.clock()
        self.forget_old(now)
        known = self._producers.get(producer_id)
        if known is None:
            if self._make_room(client):
                self._producers[producer_id] = RefusedBatches(client, epoch, sequence, now, for_good=for_good)
                self._by_client.setdefault(client, OrderedDict())[producer_id] = None
                self._account.charge(self, client, 1)
        elif epoch > known.epoch:
            known.begin(epoch, sequence, now, for_good=for_good)
            self._heard(producer_id, known)
        elif epoch == known.epoch and known.refused(sequence, now, for_good=for_good):
            self._heard(producer_id, known)

    def check(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Raises KafkaError when an earlier batch is still to come (NOT_ENOUGH_REPLICAS), or was refused for
        good (OUT_OF_ORDER_SEQUENCE_NUMBER).

        Another epoch begins anew: its producer has given up what was refused.
        """
        now = self._account.clock()
        known = self._known(producer_id, epoch, now)
        if known is not None and known.precedes(sequence):
            if not known.for_good:
                known.refused(sequence, now)
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if known.for_good else ErrorCode.NOT_ENOUGH_REPLICAS,
                f"producer {producer_id} sent sequence {sequence}, and {known.lowest} was refused before it",
            )

    def is_awaited(self, producer_id: int, epoch: int, sequence: int) -> bool:
        """Whether the batch with this sequence is to come: it was refused, or others before it were that are
        here all the same, since an earlier leader had taken them.
        """
        known = self._known(producer_id, epoch, self._account.clock())
        return known is not None and is_after(sequence, known.lowest)

    def accepted(self, producer_id: int, epoch: int, sequence: int, count: int) -> None:
        """A batch of so many records is in the log: what was refused after it is still to come."""
        known = self._producers.get(producer_id)
        if known is None or known.epoch > epoch:
            return
        now, last = self._account.clock(), advance_sequence(sequence, count - 1)
        if known.epoch < epoch or known.accepted(last, now):
            self._forget(producer_id)
        elif known.heard == now:
            self._heard(producer_id, known)

    def forget_old(self, now: float) -> None:
        """Forget those whose clients have given up, as far as they are first."""
        for _ in range(len(self._producers)):
            producer_id, known = next(iter(self._producers.items()))
            before = known.heard
            if known.is_over(now):
                self._forget(producer_id)
            elif known.heard == before:
                return
            else:
                self._heard(producer_id, known)

    def clear(self) -> None:
        """Forget all."""
        for producer_id in tuple(self._producers):
            self._forget(producer_id)

    def _known(self, producer_id: int, epoch: int, now: float) -> RefusedBatches | None:
        """What is awaited of a producer in this epoch."""
        self.forget_old(now)
        known = self._producers.get(producer_id)
        if known is not None and known.is_over(now):
            self._forget(producer_id)
            return None
        return known if known is not None and known.epoch == epoch else None

    def _heard(self, producer_id: int, known: RefusedBatches) -> None:
        self._producers.move_to_end(producer_id)
        self._by_client[known.client].move_to_end(producer_id)

    def _forget(self, producer_id: int) -> None:
        known = self._producers.pop(producer_id)
        of_client = self._by_client[known.client]
        del of_client[producer_id]
        if not of_client:
            del self._by_client[known.client]
        self._account.charge(self, known.client, -1)

    def _make_room(self, client: str) -> bool:
        """Whether there is room for one more of this client, somebody being forgotten for it if need be."""
        may_have_more = self._account.has_room(client)
        if may_have_more and len(self._producers) < MAX_REFUSED_PRODUCERS:
            return True
        greedy = greedy_client(self._by_client, len(self._producers)) if may_have_more else None
        leaves = self._by_client.get(greedy or client)
        if leaves is None:
            return False
        self._forget(next(iter(leaves)))
        return True
