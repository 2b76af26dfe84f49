"""The transactional batches of one Produce: whether each may be appended (`gateway.transactions.verifier`).

What belongs to a transaction that is open in its partition needs no question. For the others the coordinator
is asked before anything of the request is appended; with a guard for each, so that what it said counts only
if nothing has happened to the producer there meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.log.idempotence.guards import Guard
from gateway.transactions.verifier import Producing
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import BatchHeader, read_header

if TYPE_CHECKING:
    from gateway.log.partition import Partition
    from gateway.transactions.verifier import Verifier

ADDS_SINCE_VERSION: Final = 12
"""From this version of Produce on partitions are added to the transaction by writing to them (KIP-890)."""

ABORTABLE_SINCE_VERSION: Final = 11
"""From this version on clients know TRANSACTION_ABORTABLE."""

ASKED_AT_MOST: Final = 3
"""How often the coordinator is asked for a batch; when something has happened to its producer in the
partition each time, the producer is to send it again."""

_AGAIN: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""What passes, and what a producer does not expect from a partition: it is told NOT_ENOUGH_REPLICAS, on which
it sends the batch again (`ReplicaManager.appendRecords`)."""

COMES_AGAIN: Final = frozenset((ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS))
"""After these a producer sends its batch again."""

NO_TRANSACTIONAL_ID: Final = "a transactional batch in a request without a transactional id"


class _Asked(NamedTuple):
    producer_id: int
    producer_epoch: int
    guard: Guard
    error: ErrorCode


class Verification:
    """Of one request. `take` each batch, `ask`, then `check` what is to be appended; at last `close`."""

    def __init__(self, transactional_id: str | None, version: int, client: str) -> None:
        self._transactional_id = transactional_id
        self._adds = version >= ADDS_SINCE_VERSION
        self._knows_abortable = version >= ABORTABLE_SINCE_VERSION
        self._client = client
        self._asked: dict[Partition, _Asked] = {}
        self._producer: tuple[int, int] | None = None
        """Whose batches these are."""
        self._is_mixed = False
        """They are of several: none is appended."""

    def take(self, partition: Partition, records: memoryview) -> None:
        """A batch of the request."""
        try:
            header = read_header(records)
        except InvalidBatch:
            return  # it will be said when it is appended
        if not header.is_transactional or header.producer_id < 0:
            return
        producers = partition.producers
        producer = header.producer_id, header.producer_epoch
        self._producer = self._producer or producer
        self._is_mixed |= producer != self._producer
        if partition in self._asked or not partition.available or producers.is_open(*producer):
            return
        guard = producers.guards.take(header.producer_id)
        self._asked[partition] = _Asked(*producer, guard, ErrorCode.NONE)

    @property
    def is_needed(self) -> bool:
        """Whether the coordinator is to be asked."""
        return bool(self._asked) and self._transactional_id is not None and not self._is_mixed

    @property
    def adds(self) -> bool:
        """Whether partitions are added by this."""
        return self._adds

    async def ask(self, verifier: Verifier) -> None:
        """Ask for all that were taken. Who adds has waited meanwhile for the end of the transaction before,
        whose markers make guards void: then what was said is asked for once more.
        """
        asked = list(self._asked)
        await self._ask_for(asked, verifier)
        for _ in range(ASKED_AT_MOST - 1):
            asked = [one for one in asked if self._is_void(one)]
            if not asked:
                return
            self._take_again(asked)
            await self._ask_for(asked, verifier)

    def _is_void(self, partition: Partition) -> bool:
        asked = self._asked[partition]
        holds = partition.producers.guards.holds(asked.producer_id, asked.guard)
        return asked.error is ErrorCode.NONE and not holds

    async def _ask_for(self, partitions: list[Partition], verifier: Verifier) -> None:
        assert self._transactional_id is not None
        assert self._producer is not None
        wanted = {(partition.topic.name, partition.index): partition for partition in partitions}
        who = Producing(self._transactional_id, *self._producer, self._adds)
        errors = await verifier.check(who, wanted, self._client)
        for place, error in errors.items():
            partition = wanted[place]
            self._asked[partition] = self._asked[partition]._replace(error=error)

    def _take_again(self, partitions: list[Partition]) -> None:
        """From now on nothing may happen to the producer there."""
        for partition in partitions:
            asked, guards = self._asked[partition], partition.producers.guards
            guards.give_back(asked.producer_id, asked.guard)
            self._asked[partition] = asked._replace(guard=guards.take(asked.producer_id))

    def check(self, partition: Partition, header: BatchHeader) -> None:
        """Whether this batch, which is transactional, may be appended. Raises KafkaError; no later batch may
        overtake the one that is refused.
        """
        try:
            self._check(partition, header)
        except KafkaError as error:
            for_good = error.code not in COMES_AGAIN
            partition.producers.refused(header, self._client, for_good=for_good)
            raise

    def _check(self, partition: Partition, header: BatchHeader) -> None:
        """Raises KafkaError."""
        if self._transactional_id is None:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                NO_TRANSACTIONAL_ID,
            )
        if self._is_mixed:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "the transactional batches of one request are of several producers",
            )
        producers, producer = partition.producers, (header.producer_id, header.producer_epoch)
        if producers.is_open(*producer) or not partition.available:
            return  # who appends to a partition that is not available is told so
        asked = self._asked.get(partition)
        if asked is None or (asked.producer_id, asked.producer_epoch) != producer:
            raise self._changed_meanwhile(header)
        if asked.error is not ErrorCode.NONE:
            raise self._as_known(asked.error)
        if not producers.guards.holds(header.producer_id, asked.guard):
            raise self._changed_meanwhile(header)
        if self._adds and header.base_sequence != 0 and not producers.is_known(header.producer_id):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} begins with sequence {header.base_sequence} instead of 0",
            )

    @staticmethod
    def _changed_meanwhile(header: BatchHeader) -> KafkaError:
        """Kafka says INVALID_TXN_STATE, with which some producers end for good. But the partition may have
        been recovered at this moment, and nothing have ended; sent again, it is told for certain.
        """
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"the state of producer {header.producer_id} changed while its batch was on its way",
        )

    def _as_known(self, error: ErrorCode) -> KafkaError:
        """What the producer is told for what the coordinator said."""
        why = f"the coordinator of transactional id {self._transactional_id!r:.100} says {error.name}"
        if error in _AGAIN:
            return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, why)
        if error is ErrorCode.CONCURRENT_TRANSACTIONS and not self._adds:
            return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, why)
        if error is ErrorCode.PRODUCER_FENCED:
            return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, why)
        if error is ErrorCode.TRANSACTION_ABORTABLE and not self._knows_abortable:
            return KafkaError(ErrorCode.INVALID_TXN_STATE, why)
        return KafkaError(error, why)

    def close(self) -> None:
        """The request is appended, or refused."""
        for partition, asked in self._asked.items():
            partition.producers.guards.give_back(asked.producer_id, asked.guard)
