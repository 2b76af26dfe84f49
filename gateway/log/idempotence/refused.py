"""Idempotent producers of which a batch for a partition was refused, until all that was refused has come.

Kafka lets a producer that it knows nothing of begin with any sequence. A client has several batches in
flight: when the first is refused for want of room and the second is not, the second would be that beginning,
and the first, sent again, would be out of order for good. So while the first is missing, later ones are
refused as well.

They are refused with an error that every client repeats, and not as out of order, also where the producer is
known: librdkafka takes that for a reason to begin a new epoch, for all partitions, and what it has in flight
to others, maybe appended there already, it then sends again under that epoch: nobody could tell that it is a
duplicate. franz-go gives its records up.

A producer is remembered until what was refused last is appended, or for `REFUSED_SECONDS` from when the batch
that is awaited was refused, or the one before it appended: its client has given up by then. At the bound of
a partition one is forgotten of the client that has half of the places, else one of the client that brings the
new one, else the new one is not remembered; a client that has its share of the whole gateway forgets its own.
Who is forgotten may begin anywhere, as in Kafka.

The time is a clock's that nobody sets: with the wall clock put forward, all would be forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from gateway.common.clients import NOBODY
from gateway.common.shares import Shares
from gateway.log.idempotence.producer import MAX_SEQUENCE, advance_sequence, sequence_after
from wireproto.kafka.errors import ErrorCode, KafkaError

MAX_REFUSED_PRODUCERS: Final = 1_000
"""Such producers per partition, about 400 bytes each."""

MAX_REFUSED_IN_ALL: Final = 100_000
"""Such producers of all partitions together, about 40 MB; half of them for one client, or of what others
leave."""

REFUSED_SECONDS: Final = 180.0
"""For which a batch that was refused is awaited. Clients send it again for `delivery.timeout.ms`, two minutes
unless they say otherwise."""

SWEEP_SECONDS: Final = 10.0
"""Between two looks at all partitions for producers that are over, while a client has its share."""

GREEDY_PART: Final = 2
"""A client is greedy that has one of so many places of a partition, or more."""

_HALF: Final = 1 << 30
"""Sequences wrap at 2^31: one is after another if it is less than half of that ahead."""


class _Refused:
    """What was refused of one producer in one epoch. `heard`: when `lowest` was refused, or became it."""

    __slots__ = ("client", "epoch", "heard", "highest", "lowest")

    def __init__(self, client: str, epoch: int, sequence: int, now: float) -> None:
        self.client = client
        self.begin(epoch, sequence, now)

    def begin(self, epoch: int, sequence: int, now: float) -> None:
        self.epoch, self.heard = epoch, now
        self.lowest = self.highest = sequence


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
        """Whether there may be one more of this client; what is over anywhere is forgotten for it."""
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
        self._producers: OrderedDict[int, _Refused] = OrderedDict()
        self._by_client: dict[str, OrderedDict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def add(self, producer_id: int, epoch: int, sequence: int, client: str = NOBODY) -> None:
        """A batch that begins with `sequence` was refused, and will be sent again."""
        now = self._account.clock()
        self.forget_old(now)
        known = self._producers.get(producer_id)
        if known is None:
            if self._make_room(client):
                self._producers[producer_id] = _Refused(client, epoch, sequence, now)
                self._by_client.setdefault(client, OrderedDict())[producer_id] = None
                self._account.charge(self, client, 1)
        elif epoch > known.epoch:
            known.begin(epoch, sequence, now)
            self._heard(producer_id, known)
        elif epoch == known.epoch:
            if _after(sequence, known.highest):
                known.highest = sequence
            if _after(known.lowest, sequence):
                known.lowest, known.heard = sequence, now
                self._heard(producer_id, known)

    def check(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Raises KafkaError (NOT_ENOUGH_REPLICAS) when an earlier batch is still to come.

        Another epoch begins anew: its producer has given up what was refused.
        """
        self.forget_old(self._account.clock())
        known = self._producers.get(producer_id)
        if (
            known is not None
            and known.epoch == epoch
            and known.lowest != sequence
            and _after(sequence, known.lowest)
        ):
            if _after(sequence, known.highest):
                known.highest = sequence
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"producer {producer_id} sent sequence {sequence}, and {known.lowest} was refused before it",
            )

    def is_awaited(self, producer_id: int, epoch: int, sequence: int) -> bool:
        """Whether the batch with this sequence is to come: it was refused, or others before it were that are
        here all the same, since an earlier leader had taken them.
        """
        known = self._producers.get(producer_id)
        return known is not None and known.epoch == epoch and _after(sequence, known.lowest)

    def accepted(self, producer_id: int, epoch: int, sequence: int, count: int) -> None:
        """A batch of so many records was appended: what was refused after it is still to come."""
        known = self._producers.get(producer_id)
        if known is None or known.epoch > epoch:
            return
        last = advance_sequence(sequence, count - 1)
        if known.epoch < epoch or _after(last, known.highest):
            self._forget(producer_id)
        elif _after(last, known.lowest):
            known.lowest, known.heard = sequence_after(last), self._account.clock()
            self._heard(producer_id, known)

    def forget_old(self, now: float) -> None:
        """Forget those whose clients have given up."""
        while self._producers:
            producer_id, known = next(iter(self._producers.items()))
            if now - known.heard < REFUSED_SECONDS:
                return
            self._forget(producer_id)

    def _heard(self, producer_id: int, known: _Refused) -> None:
        self._producers.move_to_end(producer_id)
        self._by_client[known.client].move_to_end(producer_id)

    def clear(self) -> None:
        """Forget all."""
        for producer_id in tuple(self._producers):
            self._forget(producer_id)

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
        leaves = self._by_client.get(client)
        if may_have_more:
            leaves = self._of_the_greedy() or leaves
        if leaves is None:
            return False
        self._forget(next(iter(leaves)))
        return True

    def _of_the_greedy(self) -> OrderedDict[int, None] | None:
        """The producers of the client that has half of the places here."""
        most = max(self._by_client.values(), key=len)
        return most if len(most) * GREEDY_PART >= len(self._producers) else None


def _after(sequence: int, other: int) -> bool:
    """Whether `sequence` is `other` or comes after it."""
    return (sequence - other) & MAX_SEQUENCE < _HALF
