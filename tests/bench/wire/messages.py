"""Requests as bytes and answers as values, with the schemas that kafka-python ships."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.schemas import REQUEST_CLASSES, RESPONSE_CLASSES

CLIENT_ID: Final = "bench"

# The versions that Kafka 4's own clients use.
METADATA_VERSION: Final = 13
# The last one that names topics and has no tags.
PRODUCE_VERSION: Final = 8
LIST_OFFSETS_VERSION: Final = 10
OFFSET_COMMIT_VERSION: Final = 9
OFFSET_FETCH_VERSION: Final = 9
JOIN_VERSION: Final = 9
SYNC_VERSION: Final = 5
HEARTBEAT_VERSION: Final = 4
LEAVE_VERSION: Final = 5
FIND_COORDINATOR_VERSION: Final = 4
INIT_PRODUCER_ID_VERSION: Final = 4

# Newer answers have the epoch of Kafka's features, which moves by itself.
API_VERSIONS_VERSION: Final = 2
# The newest one that names topics, and needs no id of a topic for an answer.
FETCH_VERSION: Final = 12

LATEST: Final = -1
EARLIEST: Final = -2
PROTOCOL_TYPE: Final = "consumer"
PROTOCOL: Final = "range"
SESSION_TIMEOUT_MS: Final = 45_000
REBALANCE_TIMEOUT_MS: Final = 300_000
TRANSACTION_TIMEOUT_MS: Final = 60_000
GROUP: Final = 0
TRANSACTION: Final = 1


def framed(request: Any, correlation_id: int = 0) -> bytes:
    """A request of a class of kafka-python's, with its size field and header."""
    request.with_header(correlation_id=correlation_id, client_id=CLIENT_ID)
    return bytes(request.encode(header=True, framed=True))


def decoded(key: ApiKey, version: int, answer: bytes) -> dict[str, Any]:
    """A framed answer as plain values."""
    response = RESPONSE_CLASSES[key].decode(answer, version=version, header=True, framed=True)
    values: dict[str, Any] = response.to_dict(json=False)
    return values


def metadata(topics: Sequence[str] | None) -> bytes:
    """Of these topics by name; None: of all."""
    request = REQUEST_CLASSES[ApiKey.METADATA]
    asked = None if topics is None else [request.MetadataRequestTopic(topic_id=None, name=n) for n in topics]
    return framed(
        request(
            version=METADATA_VERSION,
            topics=asked,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
    )


def produce(batches: Mapping[str, Mapping[int, bytes]]) -> bytes:
    """One batch to each of these partitions, topic -> index -> batch; acks=all."""
    request = REQUEST_CLASSES[ApiKey.PRODUCE]
    of_topic = request.TopicProduceData
    topics = [
        of_topic(
            name=name,
            partition_data=[
                of_topic.PartitionProduceData(index=index, records=batch) for index, batch in found.items()
            ],
        )
        for name, found in batches.items()
    ]
    return framed(
        request(
            version=PRODUCE_VERSION,
            transactional_id=None,
            acks=-1,
            timeout_ms=30_000,
            topic_data=topics,
        )
    )


def list_offsets(topics: Mapping[str, Iterable[int]], timestamp: int) -> bytes:
    """Of these partitions, by topic."""
    request = REQUEST_CLASSES[ApiKey.LIST_OFFSETS]
    asked = [
        request.ListOffsetsTopic(
            name=name,
            partitions=[
                request.ListOffsetsTopic.ListOffsetsPartition(
                    partition_index=index, current_leader_epoch=-1, timestamp=timestamp
                )
                for index in indexes
            ],
        )
        for name, indexes in topics.items()
    ]
    return framed(
        request(
            version=LIST_OFFSETS_VERSION, replica_id=-1, isolation_level=0, topics=asked, timeout_ms=30_000
        )
    )


def find_coordinator(key: str, key_type: int = GROUP) -> bytes:
    request = REQUEST_CLASSES[ApiKey.FIND_COORDINATOR]
    return framed(request(version=FIND_COORDINATOR_VERSION, key_type=key_type, coordinator_keys=[key]))


def init_producer_id(transactional_id: str) -> bytes:
    """As a producer that begins: another one of this id is fenced."""
    request = REQUEST_CLASSES[ApiKey.INIT_PRODUCER_ID]
    return framed(
        request(
            version=INIT_PRODUCER_ID_VERSION,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            producer_id=-1,
            producer_epoch=-1,
        )
    )


def join(group_id: str, member_id: str, subscription: bytes) -> bytes:
    request = REQUEST_CLASSES[ApiKey.JOIN_GROUP]
    return framed(
        request(
            version=JOIN_VERSION,
            group_id=group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=member_id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocols=[request.JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription)],
            reason=None,
        )
    )


def sync(group_id: str, member_id: str, generation: int, assignments: Mapping[str, bytes]) -> bytes:
    request = REQUEST_CLASSES[ApiKey.SYNC_GROUP]
    assigned = request.SyncGroupRequestAssignment
    return framed(
        request(
            version=SYNC_VERSION,
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=[assigned(member_id=m, assignment=a) for m, a in assignments.items()],
        )
    )


def heartbeat(group_id: str, member_id: str, generation: int) -> bytes:
    return framed(
        REQUEST_CLASSES[ApiKey.HEARTBEAT](
            version=HEARTBEAT_VERSION,
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=None,
        )
    )


def leave(group_id: str, member_id: str) -> bytes:
    request = REQUEST_CLASSES[ApiKey.LEAVE_GROUP]
    member = request.MemberIdentity(member_id=member_id, group_instance_id=None, reason=None)
    return framed(request(version=LEAVE_VERSION, group_id=group_id, members=[member]))


def offset_commit(
    group_id: str, member_id: str, generation: int, topic: str, offsets: Mapping[int, int]
) -> bytes:
    """Of these partitions: index -> offset."""
    request = REQUEST_CLASSES[ApiKey.OFFSET_COMMIT]
    of_topic = request.OffsetCommitRequestTopic
    partitions = [
        of_topic.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_leader_epoch=0, committed_metadata=""
        )
        for index, offset in offsets.items()
    ]
    return framed(
        request(
            version=OFFSET_COMMIT_VERSION,
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=None,
            topics=[of_topic(name=topic, partitions=partitions)],
        )
    )


def offset_fetch(group_id: str, topic: str, partitions: int) -> bytes:
    """What a group has committed for these partitions."""
    request = REQUEST_CLASSES[ApiKey.OFFSET_FETCH]
    of_group = request.OffsetFetchRequestGroup
    topics = [of_group.OffsetFetchRequestTopics(name=topic, partition_indexes=list(range(partitions)))]
    group = of_group(group_id=group_id, member_id=None, member_epoch=-1, topics=topics)
    return framed(request(version=OFFSET_FETCH_VERSION, groups=[group], require_stable=True))


def api_versions() -> bytes:
    """What a connection begins with."""
    return framed(REQUEST_CLASSES[ApiKey.API_VERSIONS](version=API_VERSIONS_VERSION))


def fetch_nothing(topic: str, partitions: int) -> bytes:
    """A Fetch at the beginning of empty partitions that waits for nothing."""
    request = REQUEST_CLASSES[ApiKey.FETCH]
    asked = [
        request.FetchTopic.FetchPartition(
            partition=index,
            current_leader_epoch=-1,
            fetch_offset=0,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=1 << 20,
        )
        for index in range(partitions)
    ]
    return framed(
        request(
            version=FETCH_VERSION,
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=50 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[request.FetchTopic(topic=topic, partitions=asked)],
            forgotten_topics_data=[],
            rack_id="",
        )
    )
