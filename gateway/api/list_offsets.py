"""ListOffsets (key 2), versions 1 to 11: the offset that belongs to a timestamp, or to a special one.

Behaviour
  * -1, latest: the high watermark; with read_committed the last stable offset.
  * -2, earliest: the log's start.
  * -3, the highest timestamp: the first record that has it; offset -1 when the log is empty.
  * -4, earliest local: as earliest, since there is no tiered storage.
  * -5, latest tiered, and -6, earliest pending upload: offset -1 without an error, for the same reason.
  * 0 and above: the first record whose timestamp is at or after it, exactly; offset -1 if there is none.

  Everything is cut at the high watermark, or with read_committed at the last stable offset: a record behind
  that is none. Latest and earliest never leave memory: Spark asks for both at
  every poll. `current_leader_epoch` is checked first (74, 75; -1 is not given). A partition that is twice
  in a request is INVALID_REQUEST, once. An isolation level other than 0 and 1 is an unknown error for every
  partition, as in Kafka. Until a partition is recovered all but the earliest offset is OFFSET_NOT_AVAILABLE
  (before v5: LEADER_NOT_AVAILABLE), which clients repeat; so is the earliest until the stores have confirmed
  what the catalog says of the partition.

Version notes
  A special timestamp that the version does not have yet is UNSUPPORTED_VERSION for the partition: -3 came
  with v7, -4 with v8, -5 with v9, -6 with v11. v2 brings the isolation level, v4 leader epochs, v10 a
  timeout for tiered storage.

Differs from Kafka
  Replica ids make no difference: a follower too gets the high watermark, not the log's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import trio

from gateway.answers.encoding import encoded
from gateway.answers.question_cache import QuestionCache, question_of
from gateway.common.handlers import Request, Response, api
from gateway.common.work import BREATH
from gateway.security.acls import Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.list_offsets import (
    NO_EPOCH,
    AskedOffset,
    ListOffsetsRequest,
    OffsetFields,
    PartitionOffset,
    decode_list_offsets,
    encode_list_offsets_response,
)

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.log.partition import Partition
    from gateway.log.topic import Topic
    from gateway.security.access import Access
    from wireproto.kafka.headers import RequestHeader

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
"""Timestamps in a request that ask for a place of the log, not for a time (`ListOffsetsRequest`)."""

SINCE_VERSION: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""From which version of the request a special timestamp is understood (`ListOffsetsRequest.json`)."""

OFFSET_NOT_AVAILABLE_SINCE_VERSION: Final = 5

LOOKUPS_AT_ONCE: Final = 16
"""Timestamps of one request that are looked up at the same time; each may ask a store."""


_SIZE_CORRELATION: Final = Struct(">ii")
_AVAILABLE: Final = attrgetter("available")
_EPOCH: Final = attrgetter("leader_epoch")
_LATEST: Final = (attrgetter("high_watermark"), attrgetter("last_stable_offset"))
"""By isolation level."""

READ_COMMITTED: Final = 1
_EARLIEST: Final = attrgetter("log_start_offset")


@dataclass(slots=True)
class _Lookup:
    """A timestamp that has to be looked for."""

    partition: Partition
    timestamp: int
    committed: bool


_Offsets: TypeAlias = dict[int, OffsetFields | _Lookup]
_Results: TypeAlias = dict[str, _Offsets]


class _Ends:
    """A question for latest and earliest offsets alone, and what was answered last.

    `topics` are (name, highest index, (index, leader epoch, whether the latest is wanted) of each partition).
    """

    __slots__ = ("answer", "earliest", "isolation_level", "seen", "topics")

    def __init__(
        self, topics: list[tuple[str, int, list[tuple[int, int, bool]]]], isolation_level: int
    ) -> None:
        self.topics = topics
        self.isolation_level = isolation_level
        self.earliest = not all(latest for _, _, asked in topics for _, _, latest in asked)
        self.seen: list[object] | None = None
        """What was looked at for the answer: from the same follows the same."""
        self.answer = b""
        """To that, without its size and correlation id."""


_remembered: Final[QuestionCache[_Ends]] = QuestionCache()


def list_offsets_at_once(
    header: RequestHeader, frame: memoryview, _address: tuple[str, int], access: Access, broker: Broker
) -> Response:
    """The ends of partitions that all are there: what Spark asks at every poll."""
    question = question_of(header, frame)
    ends = _remembered.get(question)
    if ends is None:
        ends = _ends(decode_list_offsets(header.api_version, frame, header.body_offset))
        if ends is None:
            return None
        _remembered.put(question, ends)
    if not all(access.sees(Operation.DESCRIBE, ResourceType.TOPIC, name) for name, _, _ in ends.topics):
        return None
    seen = _look(ends, broker)
    if seen is None:
        return None
    if seen != ends.seen:
        offsets = _offsets(ends, broker)
        if offsets is None:
            return None
        ends.answer = _encode_ends(header.api_version, ends, offsets)
        ends.seen = seen
    return _SIZE_CORRELATION.pack(4 + len(ends.answer), header.correlation_id) + ends.answer


def _look(ends: _Ends, broker: Broker) -> list[object] | None:
    """All that the answer depends on, and of some partitions that are not asked for: to leave out a few costs
    more than to look. None: a partition is missing.
    """
    seen: list[object] = []
    latest = _LATEST[ends.isolation_level]
    for name, highest, asked in ends.topics:
        topic = broker.topics.get(name)
        if topic is None or highest >= len(topic.partitions):
            return None
        # What another topic of that name says, or one of another number of partitions, may read alike.
        seen.append(topic.id)
        partitions = topic.partitions
        if 2 * len(asked) < len(partitions):
            partitions = [partitions[index] for index, _, _ in asked]
        seen += map(_AVAILABLE, partitions)
        seen += map(_EPOCH, partitions)
        seen += map(latest, partitions)
        if ends.earliest:
            # What epoch the record at the log's start has follows from its offset.
            seen += map(_EARLIEST, partitions)
    return seen


def _ends(body: ListOffsetsRequest) -> _Ends | None:
    """The question, if it is about nothing else and names nothing twice."""
    if body.isolation_level not in {0, 1} or len({topic.name for topic in body.topics}) != len(body.topics):
        return None
    topics: list[tuple[str, int, list[tuple[int, int, bool]]]] = []
    for topic in body.topics:
        indexes = {index for index, _, _ in topic.partitions}
        if not indexes or len(indexes) != len(topic.partitions) or min(indexes) < 0:
            return None
        if any(timestamp not in {LATEST, EARLIEST} for _, _, timestamp in topic.partitions):
            return None
        asked = [(index, epoch, timestamp == LATEST) for index, epoch, timestamp in topic.partitions]
        topics.append((topic.name, max(indexes), asked))
    return _Ends(topics, body.isolation_level)


def _offsets(ends: _Ends, broker: Broker) -> list[int] | None:
    """Offset and leader epoch of each partition, one after the other; None if that takes more than a look."""
    found: list[int] = []
    end_of = _LATEST[ends.isolation_level]
    for name, _, asked in ends.topics:
        topic = broker.topics.get(name)
        assert topic is not None
        for index, epoch, latest in asked:
            partition = topic.partitions[index]
            present = partition.leader_epoch
            if not partition.available or epoch not in {NO_EPOCH, present}:
                return None
            found += (end_of(partition), present) if latest else _start(partition)
    return found


def _encode_ends(version: int, ends: _Ends, offsets: list[int]) -> bytes:
    each = iter(offsets)
    answered = [
        (name, [(index, 0, -1, next(each), next(each)) for index, _, _ in asked])
        for name, _, asked in ends.topics
    ]
    return encode_list_offsets_response(version, 0, answered)[_SIZE_CORRELATION.size :]


def _start(partition: Partition) -> tuple[int, int]:
    """The log's first offset and its leader epoch."""
    start = partition.log_start_offset
    # An empty log has no record to ask for its epoch: Kafka answers the present one.
    return start, partition.epoch_at(start) if start < partition.high_watermark else partition.leader_epoch


@api(
    key=ApiKey.LIST_OFFSETS,
    name="ListOffsets",
    min_version=1,
    max_version=11,
    decoder=decode_list_offsets,
    at_once=list_offsets_at_once,
)
async def list_offsets(request: Request, broker: Broker) -> Response:
    """Answer from memory where possible, then look up the timestamps."""
    header = request.header
    version = header.api_version
    body: ListOffsetsRequest = request.body
    if body.isolation_level not in {0, 1}:
        return encode_list_offsets_response(version, header.correlation_id, _all_failed(body))
    committed = body.isolation_level == READ_COMMITTED
    results: _Results = {}
    denied: list[tuple[str, list[OffsetFields]]] = []
    lookups: list[tuple[_Offsets, int]] = []
    done = 0
    for topic in body.topics:
        if not topic.partitions:
            continue
        known = broker.topics.get(topic.name)
        partitions: Sequence[Partition] = () if known is None else known.partitions
        count = len(partitions)
        if not request.access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            denied.append((topic.name, [PartitionOffset(index, code) for index, _, _ in topic.partitions]))
            await request.work.breath()
            continue
        offsets = results.setdefault(topic.name, {})
        for asked in topic.partitions:
            index, epoch, timestamp = asked
            if index in offsets:
                offsets[index] = PartitionOffset(index, ErrorCode.INVALID_REQUEST)
            elif (
                # What every poll asks has the shortest way; `_from_memory` would answer the same.
                timestamp == LATEST
                and 0 <= index < count
                and (partition := partitions[index]).available
                and (epoch == NO_EPOCH or epoch == partition.leader_epoch)  # noqa: PLR1714 - a tuple costs
            ):
                offsets[index] = index, 0, -1, partition.visible_end(committed), partition.leader_epoch
            else:
                offset = offsets[index] = _from_memory(known, asked, version, committed=committed)
                if isinstance(offset, _Lookup):
                    lookups.append((offsets, index))
            done += 1
            if not done % BREATH:
                await request.work.breath()
    if lookups:
        await _look_up(lookups)
    # What had to be looked up has its answer now.
    answered = [(name, cast("list[OffsetFields]", offsets.values())) for name, offsets in results.items()]
    answered += denied
    return await encoded(
        done, partial(encode_list_offsets_response, version, header.correlation_id, answered)
    )


def _all_failed(body: ListOffsetsRequest) -> list[tuple[str, list[OffsetFields]]]:
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    return [
        (topic.name, [PartitionOffset(asked[0], error) for asked in topic.partitions])
        for topic in body.topics
    ]


def _from_memory(
    topic: Topic | None, asked: AskedOffset, version: int, *, committed: bool
) -> OffsetFields | _Lookup:
    """The answer for one partition, unless it takes a look-up."""
    index, leader_epoch, timestamp = asked
    if timestamp < 0 and version < SINCE_VERSION.get(timestamp, version + 1):
        return PartitionOffset(index, ErrorCode.UNSUPPORTED_VERSION)
    if topic is None or not 0 <= index < len(topic.partitions):
        return PartitionOffset(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.partitions[index]
    error = partition.check_leader_epoch(leader_epoch)
    if error is not ErrorCode.NONE:
        return PartitionOffset(index, error)
    if timestamp == LATEST and partition.available:
        return index, 0, -1, partition.visible_end(committed), partition.leader_epoch
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return PartitionOffset(index, ErrorCode.NONE)
    if timestamp in (EARLIEST, EARLIEST_LOCAL) and not partition.withheld:
        return index, 0, -1, *_start(partition)
    if not partition.available:
        partition.asked_for()
        later = version >= OFFSET_NOT_AVAILABLE_SINCE_VERSION
        return PartitionOffset(
            index, ErrorCode.OFFSET_NOT_AVAILABLE if later else ErrorCode.LEADER_NOT_AVAILABLE
        )
    return _Lookup(partition, timestamp, committed)


async def _look_up(lookups: list[tuple[_Offsets, int]]) -> None:
    """Replace each look-up by what it finds, some at a time."""
    waiting = iter(lookups)

    async def worker() -> None:
        for offsets, index in waiting:
            lookup = offsets[index]
            if isinstance(lookup, _Lookup):  # else the partition came a second time
                offsets[index] = await _find(index, lookup)

    async with trio.open_nursery() as nursery:
        for _ in range(min(LOOKUPS_AT_ONCE, len(lookups))):
            nursery.start_soon(worker)


async def _find(index: int, lookup: _Lookup) -> PartitionOffset:
    try:
        if lookup.timestamp == MAX_TIMESTAMP:
            found = await lookup.partition.max_timestamp()
        else:
            found = await lookup.partition.offset_for_timestamp(lookup.timestamp)
    except KafkaError as error:
        return PartitionOffset(index, error.code)
    if found is None or found[0] >= lookup.partition.visible_end(lookup.committed):
        return PartitionOffset(index, ErrorCode.NONE)
    offset, timestamp, leader_epoch = found
    return PartitionOffset(index, ErrorCode.NONE, timestamp, offset, leader_epoch)
