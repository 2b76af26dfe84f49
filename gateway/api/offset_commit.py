"""OffsetCommit (key 8), versions 2 to 10: a group remembers how far it has read.

Behaviour
  Each partition has to exist. What is left goes to the group in one piece: its generation, member and
  instance are checked, then everything is written together and answered when it is durable. A group that
  nobody manages (generation -1) is made by its first commit; the empty group id is a group like any other.
  An offset with more than 4096 UTF-16 units of metadata is OFFSET_METADATA_TOO_LARGE, the others are
  written. If nothing names a partition that exists the group is not even looked at.

Version notes
  v2 to v4 may give a retention time: such an offset goes by that alone. v6 brings the leader epoch, v7 static
  members, v8 is flexible. From v9 on a generation of a group that is not there is GROUP_ID_NOT_FOUND, before
  that ILLEGAL_GENERATION. In v10 topics come by id (unknown: UNKNOWN_TOPIC_ID).

Errors
  Not durable in five seconds, or too few stores there: COORDINATOR_NOT_AVAILABLE; the partition of
  `__consumer_offsets` was lost meanwhile: NOT_COORDINATOR. Clients try again; the offset may have been kept.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from gateway.api.answers import answer_of, breathe
from gateway.api.registry import Request, Response, api
from gateway.groups.offsets import TopicPartition, is_metadata_too_large
from gateway.groups.records import NO_TIME, CommittedOffset
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.log.topic import Topic

TOPIC_IDS_SINCE_VERSION: Final = 10
GROUP_NOT_FOUND_SINCE_VERSION: Final = 9

NO_RETENTION: Final = -1
"""A retention time that is not given (`OffsetCommitRequest.DEFAULT_RETENTION_TIME`)."""

LONG_MAX: Final = (1 << 63) - 1
"""The last moment that a record can name."""

_Answer: Any = RESPONSE_CLASSES[ApiKey.OFFSET_COMMIT]
_Topic: Any = _Answer.OffsetCommitResponseTopic
_Partition: Any = _Topic.OffsetCommitResponsePartition


@api(key=ApiKey.OFFSET_COMMIT, name="OffsetCommit", min_version=2, max_version=10)
async def offset_commit(request: Request, broker: Broker) -> Response:
    """Commit what can be committed; one result per partition."""
    commit = _Commit(request, broker)
    await commit.sort_out()
    if commit.accepted:
        await commit.carry_out()
    return await answer_of(commit.partitions, request, _Answer(throttle_time_ms=0, topics=commit.results))


class _Commit:
    """One request. `results` is what is answered; `accepted` the topics with their partitions that exist."""

    def __init__(self, request: Request, broker: Broker) -> None:
        self._body = request.body
        self._version = request.header.api_version
        self._broker = broker
        self.results: list[Any] = []
        self.accepted: list[tuple[Any, Topic, list[Any]]] = []
        self.partitions = 0
        """Elements of the request so far."""

    async def sort_out(self) -> None:
        """Refuse what does not exist (`KafkaApis.handleOffsetCommitRequest`)."""
        refused: dict[Any, Any] = {}
        for wanted in self._body.topics:
            topic, missing = self._find(wanted)
            known: list[Any] = []
            for partition in wanted.partitions:
                index = partition.partition_index
                if topic is not None and 0 <= index < len(topic.partitions):
                    known.append(partition)
                else:
                    key = self._key(wanted)
                    if key not in refused:
                        refused[key] = _Topic(name=wanted.name, topic_id=wanted.topic_id, partitions=[])
                    refused[key].partitions.append(_Partition(partition_index=index, error_code=missing))
                await self._breathe()
            if topic is not None and known:
                self.accepted.append((wanted, topic, known))
            await self._breathe()
        self.results = list(refused.values())

    async def carry_out(self) -> None:
        """Commit the partitions that exist, all of them with one write."""
        offsets: dict[TopicPartition, CommittedOffset] = {}
        results: list[Any] = []
        for wanted, topic, partitions in self.accepted:
            answered: list[Any] = []
            for partition in partitions:
                error = ErrorCode.NONE
                if is_metadata_too_large(partition.committed_metadata):
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    offsets[topic.name, partition.partition_index] = self._offset(topic, partition)
                answered.append(_Partition(partition_index=partition.partition_index, error_code=error))
                await self._breathe()
            results.append(_Topic(name=wanted.name, topic_id=wanted.topic_id, partitions=answered))
        failed = await self._write(offsets)
        if failed is not ErrorCode.NONE:
            for topic in results:
                for partition in topic.partitions:
                    partition.error_code = failed
        self._merge(results)

    async def _write(self, offsets: dict[TopicPartition, CommittedOffset]) -> ErrorCode:
        """Nobody may change the group between its check and the write: no await in between."""
        groups, body = self._broker.groups, self._body
        try:
            group = groups.for_commit(
                body.group_id, body.member_id, body.group_instance_id, body.generation_id_or_member_epoch
            )
        except KafkaError as refused:
            missing = refused.code is ErrorCode.GROUP_ID_NOT_FOUND
            if missing and self._version < GROUP_NOT_FOUND_SINCE_VERSION:
                return ErrorCode.ILLEGAL_GENERATION
            return refused.code
        error = ErrorCode.NONE
        try:
            await groups.journal.commit(body.group_id, group.offsets, offsets)
        except KafkaError as failed:
            error = failed.code
        if group.offsets.is_empty():
            # It may have been made for this commit.
            with contextlib.suppress(KafkaError):
                await groups.drop_if_unused(group)
        return error

    def _find(self, wanted: Any) -> tuple[Topic | None, ErrorCode]:
        """The topic, and the error for what it has not."""
        topic: Topic | None
        if self._version < TOPIC_IDS_SINCE_VERSION:
            topic = self._broker.topics.get(wanted.name)
        else:
            topic = None if wanted.topic_id is None else self._broker.topics.by_id(wanted.topic_id.bytes)
            if topic is None:
                return None, ErrorCode.UNKNOWN_TOPIC_ID
        return topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _offset(self, topic: Topic, partition: Any) -> CommittedOffset:
        now_ms, retention = self._broker.context.now_ms(), self._body.retention_time_ms
        return CommittedOffset(
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata or "",
            now_ms,
            NO_TIME if retention == NO_RETENTION else min(now_ms + retention, LONG_MAX),
            topic.id,
        )

    def _merge(self, results: list[Any]) -> None:
        """Add the partitions that exist to those that do not (`OffsetCommitResponse.Builder.merge`)."""
        if not self.results:
            self.results = results
            return
        known = {self._key(topic): topic for topic in self.results}
        for topic in results:
            same = known.setdefault(self._key(topic), topic)
            if same is topic:
                self.results.append(topic)
            else:
                same.partitions.extend(topic.partitions)

    def _key(self, topic: Any) -> Any:
        return topic.name if self._version < TOPIC_IDS_SINCE_VERSION else topic.topic_id

    async def _breathe(self) -> None:
        await breathe(self.partitions)
        self.partitions += 1
