"""The transactional batches of one Produce: whether each may be appended (`gateway.transactions.verifier`).

What belongs to a transaction that is open in its partition needs no question. For the others the coordinator
is asked before anything of the request is appended; with a guard for each, so that what it said counts only
if nothing has happened to the producer there meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.log.idempotence.guards import NO_GUARD, Guard
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

_AGAIN: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""What passes, and what a producer does not expect from a partition: it is told NOT_ENOUGH_REPLICAS, on which
it sends the batch again (`ReplicaManager.appendRecords`)."""


class _Asked(NamedTuple):
    producer_id: int
    producer_epoch: int
    guard: Guard
    error: ErrorCode


class Verification:
    """Of one request. `take` each batch, `ask`, then `check` what is to be appended; at last `close`."""

    def __init__(self, transactional_id: str | None, version: int, client: str) -> None:
        self._transactional_id = transactional_id
        self._version = version
        self._client = client
        self._asked: dict[Partition, _Asked] = {}
        self._producer: tuple[int, int] | None = None
        """Whose batches these are: all of a request are of one."""

    def take(self, partition: Partition, records: memoryview) -> None:
        """A batch of the request."""
        try:
            header = read_header(records)
        except InvalidBatch:
            return  # it will be said when it is appended
        if not header.is_transactional or header.producer_id < 0 or partition in self._asked:
            return
        producers = partition.producers
        producer = header.producer_id, header.producer_epoch
        if not partition.available or producers.is_open(*producer):
            return
        self._producer = self._producer or producer
        if producer == self._producer:
            guard = producers.guards.take(header.producer_id)
            self._asked[partition] = _Asked(*producer, guard, ErrorCode.NONE)
        else:
            error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
            self._asked[partition] = _Asked(*producer, NO_GUARD, error)

    @property
    def is_needed(self) -> bool:
        """Whether the coordinator is to be asked."""
        return self._producer is not None and self._transactional_id is not None

    async def ask(self, verifier: Verifier) -> None:
        """Ask for all that were taken."""
        assert self._transactional_id is not None
        assert self._producer is not None
        wanted = {
            (partition.topic.name, partition.index): partition
            for partition, asked in self._asked.items()
            if asked.error is ErrorCode.NONE
        }
        who = Producing(self._transactional_id, *self._producer, self._version >= ADDS_SINCE_VERSION)
        errors = await verifier.check(who, wanted, self._client)
        for place, error in errors.items():
            partition = wanted[place]
            self._asked[partition] = self._asked[partition]._replace(error=error)

    def check(self, partition: Partition, header: BatchHeader) -> None:
        """Whether this batch, which is transactional, may be appended. Raises KafkaError."""
        if not self._transactional_id:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "a transactional batch in a request without a transactional id",
            )
        if partition.producers.is_open(header.producer_id, header.producer_epoch):
            return
        asked = self._asked.get(partition)
        producer = header.producer_id, header.producer_epoch
        if asked is not None and (asked.producer_id, asked.producer_epoch) == producer:
            if asked.error is not ErrorCode.NONE:
                raise self._as_known(asked.error)
            if partition.producers.guards.holds(header.producer_id, asked.guard):
                return
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"the transaction of producer {header.producer_id} ended while its batch was on its way",
        )

    def _as_known(self, error: ErrorCode) -> KafkaError:
        """What the producer is told for what the coordinator said."""
        why = f"the coordinator of transactional id {self._transactional_id!r:.100} says {error.name}"
        if error in _AGAIN:
            return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, why)
        if error is ErrorCode.CONCURRENT_TRANSACTIONS and self._version < ADDS_SINCE_VERSION:
            return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, why)
        if error is ErrorCode.PRODUCER_FENCED:
            return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, why)
        if error is ErrorCode.TRANSACTION_ABORTABLE and self._version < ABORTABLE_SINCE_VERSION:
            return KafkaError(ErrorCode.INVALID_TXN_STATE, why)
        return KafkaError(error, why)

    def close(self) -> None:
        """The request is appended, or refused."""
        for partition, asked in self._asked.items():
            if asked.guard is not NO_GUARD:
                partition.producers.guards.give_back(asked.producer_id, asked.guard)
