"""AddPartitionsToTxn (key 24), versions 0 to 5: partitions that a transaction is about to write to.

Behaviour
  The rules are those of `gateway.transactions.adding`; answered when it is durable. A partition that does not
  exist is UNKNOWN_TOPIC_OR_PARTITION; one of a topic that the client may not WRITE to, or of an internal one,
  is TOPIC_AUTHORIZATION_FAILED, since the gateway itself writes there; but other gateways add those of
  `__consumer_offsets`. If there is any such partition none is added, and the others are
  OPERATION_NOT_ATTEMPTED.

Version notes
  Up to v3 clients ask, for one transaction; they need WRITE for its id, or each partition is
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED. v2 may answer PRODUCER_FENCED, before that it is
  INVALID_PRODUCER_EPOCH. v3 is flexible. From v4 on other gateways ask, for many transactions, each of which
  is judged by itself; it takes CLUSTER_ACTION. With `verify_only` nothing is added, and a partition that is
  not in the transaction is TRANSACTION_ABORTABLE. Who adds while the producer's last transaction has to end
  waits for that for a tenth of a second.

Errors
  Not durable in five seconds, or no room for what is added (`gateway.transactions.room`):
  COORDINATOR_NOT_AVAILABLE. Clients try again. More partitions than a transaction may have:
  POLICY_VIOLATION, on which clients abort it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer, answer_of
from gateway.answers.fenced import as_known
from gateway.common.clients import NOBODY
from gateway.common.costs import ELEMENT, HASHED_CHARACTER, TRANSACTION_PARTITION
from gateway.common.handlers import Request, Response, api
from gateway.common.topic_names import is_internal
from gateway.groups.internal_topic import OFFSETS_TOPIC
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from gateway.transactions.adding import AddPartitions
from gateway.transactions.coordinator import UNTIL_FREE_SECONDS
from gateway.transactions.metadata import BUMPS_EPOCH_FROM
from gateway.transactions.outcomes import BUSY
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.transactions.coordinator import Entered
    from gateway.transactions.metadata import TopicPartition

FENCED_SINCE_VERSION: Final = 2
BATCHED_SINCE_VERSION: Final = 4

_Answer: Any = RESPONSE_CLASSES[ApiKey.ADD_PARTITIONS_TO_TXN]
_Transaction: Any = _Answer.AddPartitionsToTxnResult
_Topic: Any = _Answer.AddPartitionsToTxnTopicResult
_Partition: Any = _Topic.AddPartitionsToTxnPartitionResult


@api(key=ApiKey.ADD_PARTITIONS_TO_TXN, name="AddPartitionsToTxn", min_version=0, max_version=5)
async def add_partitions_to_txn(request: Request, broker: Broker) -> Response:
    """Have partitions in a transaction, or in each of several."""
    body = request.body
    if request.header.api_version >= BATCHED_SINCE_VERSION:
        return await _add_for_several(request, broker)
    one = _Addition(
        request,
        broker,
        body.v3_and_below_transactional_id,
        body.v3_and_below_producer_id,
        body.v3_and_below_producer_epoch,
    )
    await one.begin(body.v3_and_below_topics)
    await one.finish()
    response = _Answer(throttle_time_ms=0, results_by_topic_v3_and_below=await one.results())
    return await answer_of(one.elements, request, response)


async def _add_for_several(request: Request, broker: Broker) -> Response:
    """All of them are begun before the first one is waited for, so that they are written together."""
    if not request.access.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return answer(request, _Answer(throttle_time_ms=0, error_code=error, results_by_transaction=[]))
    check_elements(len(request.body.transactions), "transactions")
    made: list[_Addition] = []
    elements = 0
    for asked in request.body.transactions:
        await request.work.before(ELEMENT)
        one = _Addition(request, broker, asked.transactional_id, asked.producer_id, asked.producer_epoch)
        await one.begin(asked.topics, elements, verify_only=asked.verify_only)
        elements = 1 + one.elements
        made.append(one)
    await _wait_for_one(request, broker, made)
    results = []
    for one in made:
        await request.work.before(ELEMENT)
        await one.finish()
        results.append(_Transaction(transactional_id=one.transactional_id, topic_results=await one.results()))
    response = _Answer(throttle_time_ms=0, error_code=ErrorCode.NONE, results_by_transaction=results)
    return await answer_of(elements, request, response)


async def _wait_for_one(request: Request, broker: Broker, made: Sequence[_Addition]) -> None:
    """Another gateway may want to wait until one of the transactions has ended, if all of them have to."""
    seconds = min(request.body.wait_ms / 1000, UNTIL_FREE_SECONDS)
    if seconds <= 0 or not made or not all(one.is_busy for one in made):
        return
    until = trio.current_time() + seconds
    await broker.transactions.until_one_is_free([one.transactional_id for one in made], until)
    for one in made:
        await request.work.before(ELEMENT)
        one.begin_again()


class _Addition:
    """What is asked for one transaction: `begin` it, then `finish` it."""

    def __init__(
        self, request: Request, broker: Broker, transactional_id: str, producer_id: int, epoch: int
    ) -> None:
        self.transactional_id = transactional_id
        self.elements = 0
        """Topics and partitions of the request so far."""
        self._version = request.header.api_version
        self._access = request.access
        # Other gateways ask for theirs: an id is not one of theirs for that.
        self._client = request.client if self._version < BATCHED_SINCE_VERSION else NOBODY
        self._work = request.work
        self._broker = broker
        self._producer_id, self._epoch = producer_id, epoch
        self._errors: dict[TopicPartition, ErrorCode] = {}
        self._topics: Sequence[Any] = ()
        """What was asked for: it is answered as it was named, also twice or without partitions."""
        self._entered: Entered | None = None
        self._wanted: AddPartitions | None = None

    async def begin(self, topics: Sequence[Any], before: int = 0, *, verify_only: bool = False) -> None:
        """Look for the partitions, and have them added if all are there. `before` are the elements of the
        request that come before them.
        """
        self.elements = before
        await self._look_up(topics)
        if any(self._errors.values()):
            for partition, error in self._errors.items():
                self._errors[partition] = error or ErrorCode.OPERATION_NOT_ATTEMPTED
            return
        if not self.transactional_id:
            self._fail(ErrorCode.INVALID_REQUEST)
            return
        await self._work.before(
            HASHED_CHARACTER * len(self.transactional_id)
            + TRANSACTION_PARTITION
            * (len(self._errors) + self._broker.transactions.partitions_of(self.transactional_id))
        )
        try:
            self._ask(verify_only=verify_only)
        except KafkaError as refused:
            self._fail(refused.code)

    async def finish(self) -> None:
        """Wait until what was begun is durable."""
        if self._entered is None:
            return
        try:
            transactions = self._broker.transactions
            if self._wanted is not None and self._version < BATCHED_SINCE_VERSION:
                answer = await transactions.add(
                    self.transactional_id, self._wanted, self._client, self._entered
                )
            else:
                answer = await transactions.answer(self._entered)
            self._fail(answer.error)
        except KafkaError as refused:
            self._fail(refused.code)

    def _ask(self, *, verify_only: bool) -> None:
        """Raises KafkaError."""
        transactions, name = self._broker.transactions, self.transactional_id
        if verify_only:
            self._errors = transactions.verify(name, self._producer_id, self._epoch, self._errors)
            return
        client_version = BUMPS_EPOCH_FROM if self._version >= BATCHED_SINCE_VERSION else 0
        wanted = AddPartitions(self._producer_id, self._epoch, frozenset(self._errors), client_version)
        self._entered = transactions.begin_to_add(name, wanted, self._client)
        self._wanted = wanted

    @property
    def is_busy(self) -> bool:
        """Nothing is begun, since its last transaction has to end first."""
        return self._entered is not None and self._entered.answer == BUSY

    def begin_again(self) -> None:
        """Once more, if it is busy."""
        if self.is_busy and self._wanted is not None:
            try:
                self._entered = self._broker.transactions.begin_to_add(
                    self.transactional_id, self._wanted, self._client
                )
            except KafkaError as refused:
                self._entered = None
                self._fail(refused.code)

    async def _look_up(self, topics: Sequence[Any]) -> None:
        self._topics = topics
        refused_whole = ErrorCode.NONE
        if self._version < BATCHED_SINCE_VERSION and not self._access.may(
            Operation.WRITE, ResourceType.TRANSACTIONAL_ID, self.transactional_id
        ):
            refused_whole = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        for wanted in topics:
            await self._work.before(ELEMENT)
            self.elements += 1 + len(wanted.partitions)
            check_elements(self.elements, "topics and partitions")
            refused = refused_whole or self._refusal(wanted.name)
            topic = None if refused else self._broker.topics.get(wanted.name)
            for index in wanted.partitions:
                await self._work.before(ELEMENT)
                error = refused
                if not refused and (topic is None or not 0 <= index < len(topic.partitions)):
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                self._errors[wanted.name, index] = error

    def _refusal(self, topic: str) -> ErrorCode:
        """Whether the client may add partitions of this topic."""
        if self._version >= BATCHED_SINCE_VERSION:
            # Other gateways add the offsets of groups by this.
            refused = is_internal(topic) and topic != OFFSETS_TOPIC
        else:
            refused = is_internal(topic) or not self._access.may(Operation.WRITE, ResourceType.TOPIC, topic)
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED if refused else ErrorCode.NONE

    def _fail(self, error: ErrorCode) -> None:
        """Answer this, which may be no error, for every partition."""
        self._errors = dict.fromkeys(self._errors, error)

    async def results(self) -> list[Any]:
        """One for each topic."""
        knows_fenced = self._version >= FENCED_SINCE_VERSION
        topics = []
        for wanted in self._topics:
            await self._work.before(ELEMENT)
            found = []
            for index in wanted.partitions:
                await self._work.before(ELEMENT)
                error = as_known(self._errors[wanted.name, index], knows_fenced=knows_fenced)
                found.append(_Partition(partition_index=index, partition_error_code=error))
            topics.append(_Topic(name=wanted.name, results_by_partition=found))
        return topics
