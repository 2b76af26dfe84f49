"""TxnOffsetCommit (key 28), versions 0 to 5: how far a group has read, as part of a transaction.

Behaviour
  The client has to be allowed to WRITE with the transactional id (TRANSACTIONAL_ID_AUTHORIZATION_FAILED of
  every partition), to READ the group (GROUP_AUTHORIZATION_FAILED likewise) and to READ each topic
  (TOPIC_AUTHORIZATION_FAILED), and each partition has to exist. What is left is written as a part of the
  producer's transaction, all of it or nothing, and answered when it is durable; readers see it once the
  transaction is committed, and are told UNSTABLE_OFFSET_COMMIT until it ends, if they ask for that. The
  transaction has to be open and to have the group's partition of `__consumer_offsets`: its coordinator is
  asked, as for a batch that is produced. Who names a member, an instance or a generation is checked as in
  OffsetCommit (KIP-447); who names none may always commit.

Version notes
  v2 brings the leader epoch, v3 member, instance and generation, and is flexible. v4 may answer
  TRANSACTION_ABORTABLE. v5 (KIP-890): the partition is added to the transaction by this.

Errors
  What passes is told as in OffsetCommit. INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING,
  INVALID_TXN_STATE: it is not this producer's transaction, or it has ended. A generation of a group that is
  not there is ILLEGAL_GENERATION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.common.costs import ELEMENT, HASHED_CHARACTER
from gateway.common.handlers import Request, Response, api
from gateway.groups.offsets import TopicPartition, is_metadata_too_large
from gateway.groups.records import NO_EPOCH, NO_TIME, CommittedOffset
from gateway.journal.lane import TransactionOf
from gateway.produce.verification import ASKED_AT_MOST
from gateway.security.acls import Operation, ResourceType
from gateway.transactions.verifier import Producing
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.log.idempotence.guards import Guard

MEMBER_SINCE_VERSION: Final = 3
LOADING_SINCE_VERSION: Final = 2
"""Older clients fail on COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
ABORTABLE_SINCE_VERSION: Final = 4
ADDS_SINCE_VERSION: Final = 5

NO_GENERATION: Final = -1

_Answer: Any = RESPONSE_CLASSES[ApiKey.TXN_OFFSET_COMMIT]
_Topic: Any = _Answer.TxnOffsetCommitResponseTopic
_Partition: Any = _Topic.TxnOffsetCommitResponsePartition


@api(key=ApiKey.TXN_OFFSET_COMMIT, name="TxnOffsetCommit", min_version=0, max_version=5)
async def txn_offset_commit(request: Request, broker: Broker) -> Response:
    """Commit what can be committed; one result per partition."""
    body = request.body
    check_elements(sum(1 + len(topic.partitions) for topic in body.topics), "partitions")
    commit = _Commit(request, broker)
    refused = _refusal(request)
    if refused is not ErrorCode.NONE:
        topics = await commit.refused(refused)
        return await answer_of(commit.elements, request, _Answer(throttle_time_ms=0, topics=topics))
    await commit.take()
    if commit.offsets:
        try:
            await commit.write()
        except KafkaError as error:
            commit.failed(error.code)
    topics = await commit.results()
    return await answer_of(commit.elements, request, _Answer(throttle_time_ms=0, topics=topics))


def _refusal(request: Request) -> ErrorCode:
    """Whether the client may commit at all."""
    body, access = request.body, request.access
    if not access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not access.may(Operation.READ, ResourceType.GROUP, body.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE


class _Commit:
    """One request: `take` its offsets, `write` those, and give the `results`."""

    def __init__(self, request: Request, broker: Broker) -> None:
        self.offsets: dict[TopicPartition, CommittedOffset] = {}
        self.elements = 0
        self._request = request
        self._body = request.body
        self._version = request.header.api_version
        self._broker = broker
        self._errors: dict[TopicPartition, ErrorCode] = {}

    async def take(self) -> None:
        """Look at each partition."""
        now_ms = self._broker.context.now_ms()
        for wanted in self._body.topics:
            await self._next()
            if self._request.access.may(Operation.READ, ResourceType.TOPIC, wanted.name):
                topic, missing = self._broker.topics.get(wanted.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                topic, missing = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
            count = 0 if topic is None else len(topic.partitions)
            for asked in wanted.partitions:
                await self._next()
                place = wanted.name, asked.partition_index
                metadata = asked.committed_metadata
                if topic is None or not 0 <= asked.partition_index < count:
                    self._errors[place] = missing
                elif is_metadata_too_large(metadata):
                    self._errors[place] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    self._errors[place] = ErrorCode.NONE
                    epoch = asked.committed_leader_epoch if self._version >= LOADING_SINCE_VERSION else None
                    self.offsets[place] = CommittedOffset(
                        asked.committed_offset,
                        NO_EPOCH if epoch is None else epoch,
                        metadata or "",
                        now_ms,
                        NO_TIME,
                        topic.id,
                    )

    async def write(self) -> None:
        """Have the offsets written; durable on return. Raises KafkaError."""
        body = self._body
        if not body.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        await self._request.work.before(HASHED_CHARACTER * (len(body.group_id) + len(body.transactional_id)))
        partition = self._broker.groups.partition_of(body.group_id)
        producers, producer = partition.producers, (body.producer_id, body.producer_epoch)
        for _ in range(ASKED_AT_MOST):
            guard = producers.guards.take(body.producer_id)
            try:
                if not producers.is_open(*producer):
                    await self._verify((partition.topic.name, partition.index))
                # Who adds has waited for the last transaction's end, whose marker makes the guard void.
                if producers.may_begin(*producer, guard):
                    await self._write(guard)
                    return
            finally:
                producers.guards.give_back(body.producer_id, guard)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "its producer's state changed meanwhile")

    async def _write(self, guard: Guard) -> None:
        """As `write`, of a transaction that is open."""
        body, groups, client = self._body, self._broker.groups, self._request.client
        member_id, instance_id, generation = "", None, NO_GENERATION
        if self._version >= MEMBER_SINCE_VERSION:
            member_id, instance_id = body.member_id, body.group_instance_id
            generation = body.generation_id
        # Nobody may change the group between its check and the write: no await in between.
        group = groups.for_transactional_commit(
            body.group_id,
            member_id,
            instance_id,
            generation,
            client,
            self.offsets,
            self._request.access.owner,
        )
        part_of = TransactionOf(body.producer_id, body.producer_epoch, guard, client)
        try:
            pending = groups.transactional.begin_commit(group, part_of, self.offsets)
            await groups.journal.group_commit.durable(pending)
        except KafkaError:
            groups.drop_soon_if_unused(group)
            raise

    async def _verify(self, place: TopicPartition) -> None:
        """Raises KafkaError: the transaction is not open, or has not the group's partition."""
        body = self._body
        adds = self._version >= ADDS_SINCE_VERSION
        await self._request.work.before(self._broker.verifier.cost(body.transactional_id, 1, adds=adds))
        who = Producing(body.transactional_id, body.producer_id, body.producer_epoch, adds)
        error = (await self._broker.verifier.check(who, [place], self._request.client))[place]
        if error is ErrorCode.PRODUCER_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        if error is ErrorCode.TRANSACTION_ABORTABLE and self._version < ABORTABLE_SINCE_VERSION:
            error = ErrorCode.INVALID_TXN_STATE
        if error is not ErrorCode.NONE:
            raise KafkaError(error, f"the coordinator of {body.transactional_id!r:.100} says so")

    def failed(self, error: ErrorCode) -> None:
        """Nothing is committed."""
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and self._version < LOADING_SINCE_VERSION:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        for place in self.offsets:
            self._errors[place] = error

    async def refused(self, error: ErrorCode) -> list[Any]:
        """Every partition has this error, as it is named (``TxnOffsetCommitRequest.getErrorResponse``)."""
        topics = []
        for wanted in self._body.topics:
            await self._next()
            partitions = []
            for asked in wanted.partitions:
                await self._next()
                partitions.append(_Partition(partition_index=asked.partition_index, error_code=error))
            topics.append(_Topic(name=wanted.name, partitions=partitions))
        return topics

    async def results(self) -> list[Any]:
        """In the order of the request, each topic once."""
        found: dict[str, list[Any]] = {}
        for (name, index), error in self._errors.items():
            await self._next()
            found.setdefault(name, []).append(_Partition(partition_index=index, error_code=error))
        return [_Topic(name=name, partitions=partitions) for name, partitions in found.items()]

    async def _next(self) -> None:
        await self._request.work.before(ELEMENT)
        self.elements += 1
