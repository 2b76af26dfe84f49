"""OffsetCommit (key 8), versions 2 to 10: a group remembers how far it has read.

Behaviour
  The client has to be allowed to READ the group (GROUP_AUTHORIZATION_FAILED of every partition) and each
  topic (TOPIC_AUTHORIZATION_FAILED), and each partition has to exist. What is left goes to the group in one
  piece: its generation, member and instance are checked, then everything is written together and answered
  when it is durable. A group that nobody manages (generation -1) is made by its first commit; the empty group
  id is a group like any other. An offset with more than 4096 UTF-16 units of metadata is
  OFFSET_METADATA_TOO_LARGE, the others are written. If nothing is left the group is not even looked at.

Version notes
  v2 to v4 may give a retention time: such an offset goes by that alone. v6 brings the leader epoch, v7 static
  members, v8 is flexible. From v9 on a generation of a group that is not there is GROUP_ID_NOT_FOUND, before
  that ILLEGAL_GENERATION. In v10 topics come by id (unknown: UNKNOWN_TOPIC_ID).

How it is carried out
  The offsets are handed to the log at once, in the order of the requests, and the answer leaves when they are
  durable. So a small request needs no task that waits, and the next one of its connection need not wait for
  it; one with many partitions lets others run in between.

Errors
  Not durable in five seconds, or too few stores there: COORDINATOR_NOT_AVAILABLE; the partition of
  `__consumer_offsets` was lost meanwhile: NOT_COORDINATOR. Clients try again; the offset may have been kept.
  No room for another group, or for more offsets: POLICY_VIOLATION (`gateway.groups.room`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from gateway.answers.encoding import encoded
from gateway.common.handlers import Request, Response, api
from gateway.common.work import BREATH
from gateway.groups.offsets import TopicPartition, is_metadata_too_large
from gateway.groups.records import NO_TIME, CommittedOffset
from gateway.security.acls import Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.offset_commit import (
    NO_RETENTION,
    OffsetCommitRequest,
    PartitionCommit,
    TopicCommit,
    TopicResult,
    decode_offset_commit,
    encode_offset_commit_response,
)

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.groups.served import Group
    from gateway.journal.group_commit import Pending
    from gateway.log.appends import Completion
    from gateway.log.topic import Topic

TOPIC_IDS_SINCE_VERSION: Final = 10
GROUP_NOT_FOUND_SINCE_VERSION: Final = 9

LONG_MAX: Final = (1 << 63) - 1
"""The last moment that a record can name."""

_Breaths: TypeAlias = Iterator[None]
"""Work that may be much: it pauses every `BREATH` partitions."""


def begin_offset_commit(request: Request, broker: Broker) -> OffsetCommit:
    """Have what can be committed written; the answer is there when that is durable."""
    commit = OffsetCommit(request, broker)
    for _ in commit.begin():
        pass
    return commit


@api(
    key=ApiKey.OFFSET_COMMIT,
    name="OffsetCommit",
    min_version=2,
    max_version=10,
    decoder=decode_offset_commit,
    begin_small=begin_offset_commit,
)
async def offset_commit(request: Request, broker: Broker) -> Response:
    """Commit what can be committed; one result per partition."""
    commit = OffsetCommit(request, broker)
    for _ in commit.begin():
        await request.work.breath()
    if not commit.ready:
        over = trio.Event()
        commit.when_ready(over.set)
        try:
            await over.wait()
        finally:
            commit.forget()
    commit.finish()
    return await encoded(commit.partitions, commit.encode)


class OffsetCommit:
    """One request; `begin` it, and its `response` is there when it is `ready`
    (`gateway.common.handlers.PendingResponse`).
    """

    __slots__ = (
        "_accepted",
        "_access",
        "_body",
        "_broker",
        "_client",
        "_completion",
        "_correlation_id",
        "_error",
        "_group",
        "_pending",
        "_refused",
        "_version",
        "partitions",
    )

    def __init__(self, request: Request, broker: Broker) -> None:
        self._body: OffsetCommitRequest = request.body
        self._client = request.client
        self._version = request.header.api_version
        self._correlation_id = request.header.correlation_id
        self._broker = broker
        self._access = request.access
        self._refused: dict[str | bytes | None, TopicResult] = {}
        self._accepted: list[TopicResult] = []
        """What is answered: what does not exist, and what does, unless the write fails."""
        self._error = ErrorCode.NONE
        self._group: Group | None = None
        self._pending: Pending | None = None
        self._completion: Completion | None = None
        self.partitions = 0
        """Elements of the request so far."""

    # begin ------------------------------------------------------------------------------------------------

    def begin(self) -> _Breaths:
        """Check everything and enter the write."""
        if not self._access.may(Operation.READ, ResourceType.GROUP, self._body.group_id):
            yield from self._refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            return
        offsets: dict[TopicPartition, CommittedOffset] = {}
        now_ms, retention = self._broker.context.now_ms(), self._body.retention_time_ms
        times = now_ms, NO_TIME if retention == NO_RETENTION else min(now_ms + retention, LONG_MAX)
        for wanted in self._body.topics:
            topic, missing = self._find(wanted)
            count = 0 if topic is None else len(topic.partitions)
            unknown: list[tuple[int, int]] = []
            known: list[tuple[int, int]] = []
            for asked in wanted.partitions:
                if topic is not None and 0 <= asked.partition < count:
                    known.append((asked.partition, self._take(offsets, topic, asked, times)))
                else:
                    unknown.append((asked.partition, missing))
                self.partitions += 1
                if not self.partitions % BREATH:
                    yield
            if unknown:
                found = TopicResult(wanted.name, wanted.topic_id, [])
                self._refused.setdefault(_key(wanted), found).partitions += unknown
            if known:
                self._accepted.append(TopicResult(wanted.name, wanted.topic_id, known))
            self.partitions += 1
            if not self.partitions % BREATH:
                yield
        if self._accepted:
            self._enter(offsets)

    def _refuse(self, error: ErrorCode) -> _Breaths:
        """Every partition has this error, as it is named (``OffsetCommitRequest.getErrorResponse``)."""
        for wanted in self._body.topics:
            partitions: list[tuple[int, int]] = [(asked.partition, error) for asked in wanted.partitions]
            self._accepted.append(TopicResult(wanted.name, wanted.topic_id, partitions))
            before = self.partitions // BREATH
            self.partitions += 1 + len(partitions)
            for _ in range(self.partitions // BREATH - before):
                yield

    def _find(self, wanted: TopicCommit) -> tuple[Topic | None, ErrorCode]:
        """The topic, and the error for what it has not (`KafkaApis.handleOffsetCommitRequest`)."""
        topics, name = self._broker.topics, wanted.name
        topic = None
        if wanted.topic_id is not None:
            topic = topics.by_id(wanted.topic_id)
            if topic is None:
                return None, ErrorCode.UNKNOWN_TOPIC_ID
            name = topic.name
        assert name is not None
        if not self._access.may(Operation.READ, ResourceType.TOPIC, name):
            return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return topic or topics.get(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _take(
        self,
        offsets: dict[TopicPartition, CommittedOffset],
        topic: Topic,
        asked: PartitionCommit,
        times: tuple[int, int],
    ) -> ErrorCode:
        """Put the offset with those to be written, or say why not. `times` are now, and when it expires."""
        metadata = asked.metadata
        if metadata and is_metadata_too_large(metadata):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        offsets[topic.name, asked.partition] = CommittedOffset(
            asked.offset,
            asked.leader_epoch,
            metadata or "",
            *times,
            topic.id,
        )
        return ErrorCode.NONE

    def _enter(self, offsets: dict[TopicPartition, CommittedOffset]) -> None:
        """Nobody may change the group between its check and the write: no await in between."""
        groups, body, now = self._broker.groups, self._body, trio.current_time()
        try:
            self._group = group = groups.for_commit(
                body.group_id,
                body.member_id,
                body.group_instance_id,
                body.generation,
                self._client,
                offsets,
                now,
                self._access.owner,
            )
            if offsets:
                self._pending = groups.journal.begin_commit(
                    body.group_id, group.offsets, offsets, group.partition, sender=self._client
                )
                self._completion = self._pending.completion(self._broker.completions)
        except KafkaError as refused:
            self._error = refused.code
            missing = refused.code is ErrorCode.GROUP_ID_NOT_FOUND
            if missing and self._version < GROUP_NOT_FOUND_SINCE_VERSION:
                self._error = ErrorCode.ILLEGAL_GENERATION

    # wait -------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        return self._completion is None or self._completion.over

    def when_ready(self, call: Callable[[], None]) -> None:
        assert self._completion is not None
        self._completion.when_over(call)

    def forget(self) -> None:
        if self._completion is not None:
            self._completion.forget()

    # answer -----------------------------------------------------------------------------------------------

    def response(self) -> bytes:
        self.finish()
        return self.encode()

    def finish(self) -> None:
        """Take over how the write went."""
        if self._pending is not None:
            self._error = self._pending.outcome()
        if self._group is not None and (self._pending is None or self._error is not ErrorCode.NONE):
            # It may have been made for this commit, of which nothing is kept.
            self._broker.groups.drop_soon_if_unused(self._group)

    def encode(self) -> bytes:
        """The answer, once it is finished."""
        if self._error is not ErrorCode.NONE:
            for accepted in self._accepted:
                accepted.partitions = [(index, self._error) for index, _ in accepted.partitions]
        return encode_offset_commit_response(self._version, self._correlation_id, self._results())

    def _results(self) -> Sequence[TopicResult]:
        """What does not exist, and then what does (`OffsetCommitResponse.Builder.merge`)."""
        if not self._refused:
            return self._accepted
        results = self._refused
        for accepted in self._accepted:
            same = results.setdefault(_key(accepted), accepted)
            if same is not accepted:
                same.partitions += accepted.partitions
        return list(results.values())


def _key(topic: TopicCommit | TopicResult) -> str | bytes | None:
    return topic.name if topic.topic_id is None else topic.topic_id
