"""OffsetFetch (key 9), versions 1 to 10: how far groups have read.

Behaviour
  What is answered is durable. A partition without a committed offset, and everything of a group that does
  not exist, is -1 without an error; so are partitions and topics that do not exist. Without topics: all
  that the group has committed. A group that the client may not DESCRIBE is GROUP_AUTHORIZATION_FAILED; of
  topics that it may not DESCRIBE those that it names are TOPIC_AUTHORIZATION_FAILED, the others left out.
  With `require_stable` the answer waits until all that was committed before is durable, for five seconds at
  most (groups that are named behind others which took them are NOT_COORDINATOR); as there are no transactions
  nothing else is unstable.

Version notes
  v2 allows null topics and brings an error for the whole group; before, each partition has it. v5 brings
  the leader epoch, v7 `require_stable`, v8 several groups, v9 the member's id and epoch, which only groups
  of KIP-848 are checked for. In v10 topics come by id: an unknown one is UNKNOWN_TOPIC_ID, an offset that
  was committed for another topic of the same name is not found.

Differs from Kafka
  An answer is bounded (`MAX_ANSWER_BYTES`): groups beyond are POLICY_VIOLATION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import trio

from gateway.answers.encoding import answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.groups.offsets import OffsetTable
from gateway.groups.records import NO_EPOCH, NO_TOPIC_ID, CommittedOffset
from gateway.journal.group_commit import WRITE_TIMEOUT_SECONDS
from gateway.security.acls import Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

GROUP_ERROR_SINCE_VERSION: Final = 2
SEVERAL_GROUPS_SINCE_VERSION: Final = 8
TOPIC_IDS_SINCE_VERSION: Final = 10

NO_OFFSET: Final = -1

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""Memory of one answer, about: some 250,000 offsets. A request of some bytes may ask for all of them, and for
the same ones again and again, and each may have kilobytes of metadata."""

PARTITION_BYTES: Final = 256
"""Memory of a partition in an answer beside its metadata, with what it is encoded to."""

CHARACTER_BYTES: Final = 4
"""Memory of a character of metadata: what it is encoded to is copied until it is a framed answer."""

UNCOUNTED_BYTES: Final = 256 * 1024
"""An answer with more takes its share of the memory for large answers."""

_Answer: Any = RESPONSE_CLASSES[ApiKey.OFFSET_FETCH]
_Group: Any = _Answer.OffsetFetchResponseGroup
_GroupTopic: Any = _Group.OffsetFetchResponseTopics
_GroupPartition: Any = _GroupTopic.OffsetFetchResponsePartitions
_Topic: Any = _Answer.OffsetFetchResponseTopic
_Partition: Any = _Topic.OffsetFetchResponsePartition


@api(key=ApiKey.OFFSET_FETCH, name="OffsetFetch", min_version=1, max_version=10)
async def offset_fetch(request: Request, broker: Broker) -> Response:
    """Answer each group from its table of offsets."""
    body, fetch = request.body, _Fetch(request, broker)
    if request.header.api_version >= SEVERAL_GROUPS_SINCE_VERSION:
        groups = []
        for asked in body.groups:
            await request.work.before(ELEMENT)
            topics, error = await fetch.group(asked.group_id, asked.topics)
            groups.append(_Group(group_id=asked.group_id, topics=topics, error_code=error))
        answer = _Answer(throttle_time_ms=0, groups=groups)
    else:
        topics, error = await fetch.group(body.group_id, body.topics)
        answer = _Answer(throttle_time_ms=0, topics=topics, error_code=error)
    if fetch.bytes > UNCOUNTED_BYTES:
        await request.reserve(fetch.bytes)
    return await answer_of(fetch.elements, request, answer)


class _Fetch:
    """One request: its groups share what the answer may take."""

    def __init__(self, request: Request, broker: Broker) -> None:
        self._version = version = request.header.api_version
        self._stable = request.body.require_stable
        self._broker = broker
        self._access = request.access
        self._work = request.work
        self._patient_until = trio.current_time() + WRITE_TIMEOUT_SECONDS
        several = version >= SEVERAL_GROUPS_SINCE_VERSION
        self._topic_class, self._partition_class = (
            (_GroupTopic, _GroupPartition) if several else (_Topic, _Partition)
        )
        self.bytes = 0
        """Memory of the offsets in the answer, about."""
        self.elements = 0

    async def group(self, group_id: str, wanted: list[Any] | None) -> tuple[list[Any], ErrorCode]:
        """The topics of one group, and its error. Without `wanted`: all topics."""
        self.elements += 1
        try:
            if not self._access.may(Operation.DESCRIBE, ResourceType.GROUP, group_id):
                raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            table = await self._table(group_id)
            if wanted is None:
                return await self._all_topics(table), ErrorCode.NONE
            return await self._named_topics(table, wanted), ErrorCode.NONE
        except KafkaError as error:
            if self._version >= GROUP_ERROR_SINCE_VERSION:
                return [], error.code
            assert wanted is not None  # since that version, too
            return [await self._failed(one, error.code) for one in wanted], ErrorCode.NONE

    async def _table(self, group_id: str) -> OffsetTable | None:
        """The group's offsets; None if it does not exist. Raises KafkaError."""
        groups = self._broker.groups
        group = groups.for_fetch(group_id)
        if self._stable and group is not None:
            if trio.current_time() >= self._patient_until:
                # A request may name thousands of groups: they do not wait one after the other.
                raise KafkaError(ErrorCode.NOT_COORDINATOR, "groups before it took all the time there is")
            try:
                await groups.journal.settle(group_id)
            except KafkaError as error:
                # Older consumers do not try again for the other one
                # (`GroupCoordinatorService.handleOffsetFetchException`).
                late = error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
                raise KafkaError(ErrorCode.NOT_COORDINATOR if late else error.code, error.message) from None
            group = groups.for_fetch(group_id)
        return None if group is None else group.offsets

    async def _all_topics(self, table: OffsetTable | None) -> list[Any]:
        """Everything that was committed of topics that the client may know of; by id, only of those that
        exist. Raises KafkaError.
        """
        found: list[Any] = []
        committed = [] if table is None else [(name, dict(offsets)) for name, offsets in table.topics()]
        for name, offsets in committed:
            if not self._access.sees(Operation.DESCRIBE, ResourceType.TOPIC, name):
                await self._work.before(ELEMENT)
                continue
            topic_id = None
            if self._by_id:
                topic = self._broker.topics.get(name)
                if topic is None:
                    continue
                topic_id = UUID(bytes=topic.id)
            partitions = []
            for index, offset in offsets.items():
                if self._stable and table is not None and table.is_unstable(name, index):
                    partitions.append(self._partition(index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                else:
                    partitions.append(self._partition(index, offset))
                await self._next()
            found.append(self._topic(name, topic_id, partitions))
        return found

    async def _named_topics(self, table: OffsetTable | None, wanted: list[Any]) -> list[Any]:
        """What was committed of these topics; those that are refused come last. Raises KafkaError."""
        found, refused = [], []
        for one in wanted:
            await self._next()
            name, topic_id = one.name, NO_TOPIC_ID
            if self._by_id:
                topic = None if one.topic_id is None else self._broker.topics.by_id(one.topic_id.bytes)
                if topic is None:
                    refused.append(await self._failed(one, ErrorCode.UNKNOWN_TOPIC_ID))
                    continue
                name, topic_id = topic.name, topic.id
            if not self._access.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
                refused.append(await self._failed(one, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                continue
            partitions = []
            for index in one.partition_indexes:
                offset, error = None, ErrorCode.NONE
                if table is not None:
                    if self._stable and table.is_unstable(name, index):
                        error = ErrorCode.UNSTABLE_OFFSET_COMMIT
                    else:
                        offset = table.fetch(name, index, topic_id)
                partitions.append(self._partition(index, offset, error))
                await self._next()
            found.append(self._topic(name, one.topic_id if self._by_id else None, partitions))
        return found + refused

    async def _failed(self, wanted: Any, error: ErrorCode) -> Any:
        """A topic of which each partition has an error."""
        await self._next()
        partitions = []
        for index in wanted.partition_indexes:
            partitions.append(self._partition(index, None, error))
            await self._next()
        return self._topic(wanted.name, wanted.topic_id if self._by_id else None, partitions)

    def _topic(self, name: str, topic_id: UUID | None, partitions: list[Any]) -> Any:
        ids = {"topic_id": topic_id} if self._by_id else {}
        return self._topic_class(name=name, partitions=partitions, **ids)

    def _partition(
        self, index: int, offset: CommittedOffset | None, error: ErrorCode = ErrorCode.NONE
    ) -> Any:
        """Raises KafkaError: POLICY_VIOLATION, the answer is too large."""
        if offset is None:
            number, epoch, metadata = NO_OFFSET, NO_EPOCH, ""
        else:
            number, epoch, metadata = offset.offset, offset.leader_epoch, offset.metadata
            self.bytes += PARTITION_BYTES + len(metadata) * CHARACTER_BYTES
            if self.bytes > MAX_ANSWER_BYTES:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, "too many offsets in one answer: ask for fewer")
        return self._partition_class(
            partition_index=index,
            committed_offset=number,
            committed_leader_epoch=epoch,
            metadata=metadata,
            error_code=error,
        )

    @property
    def _by_id(self) -> bool:
        return self._version >= TOPIC_IDS_SINCE_VERSION

    async def _next(self) -> None:
        """Before each topic and partition."""
        await self._work.before(ELEMENT)
        self.elements += 1
