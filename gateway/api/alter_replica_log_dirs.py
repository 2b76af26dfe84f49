"""AlterReplicaLogDirs (key 34), versions 1 and 2: a partition is to lie in another directory (KIP-113).

Behaviour
  The directories are the stores, as DescribeLogDirs names them. A partition that is to lie where it does lie
  is no error. Any other store is INVALID_REPLICA_ASSIGNMENT: which stores keep a partition is this gateway's
  choice, segment by segment, and a store is replaced by `dafka store replace`. A directory that is no store
  is LOG_DIR_NOT_FOUND, whatever is to lie there; a store that is away KAFKA_STORAGE_ERROR; a partition that
  is not there UNKNOWN_TOPIC_OR_PARTITION. A partition that is named more than once counts for the directory
  that comes last. A name too long for a directory of Kafka's is INVALID_TOPIC_EXCEPTION. It takes ALTER on
  the cluster: CLUSTER_AUTHORIZATION_FAILED for each partition as the request has it.

Version notes
  v2 is flexible.

Differs from Kafka
  Kafka moves a partition to the other directory, and says of it that there was no error.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.administration.log_directories import log_directories
from gateway.answers.denied import cluster_denied
from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.broker import Broker
    from gateway.cluster.stores import StoreEntry

MAX_DIRECTORY_NAME_LENGTH: Final = 255
"""Characters of the name of a partition's directory that is being moved, `TOPIC-PARTITION.ID-future`: file
systems take no more. Kafka refuses to move partitions of topics with longer names, and so does this
gateway."""

_MOVED_SUFFIX_LENGTH: Final = len(".-future") + 32  # and an id of 32 characters

_Answer: Any = RESPONSE_CLASSES[ApiKey.ALTER_REPLICA_LOG_DIRS]
_Topic: Any = _Answer.AlterReplicaLogDirTopicResult
_Partition: Any = _Topic.AlterReplicaLogDirPartitionResult


@api(key=ApiKey.ALTER_REPLICA_LOG_DIRS, name="AlterReplicaLogDirs", min_version=1, max_version=2)
async def alter_replica_log_dirs(request: Request, broker: Broker) -> Response:
    """Judge each move; none of them changes anything."""
    directories = request.body.dirs
    asked = sum(1 + len(topic.partitions) for directory in directories for topic in directory.topics)
    check_elements(asked + len(directories), "partitions")
    if denied := cluster_denied(request.access, Operation.ALTER):
        return await _refused(request, asked, denied.code)
    wanted: dict[tuple[str, int], str] = {}
    for directory in directories:
        for topic in directory.topics:
            await request.work.before(ELEMENT)
            wanted.update({(topic.name, index): directory.path for index in topic.partitions})
    known = log_directories(broker.stores)
    results: dict[str, list[Any]] = {}
    for (name, index), path in wanted.items():
        await request.work.before(ELEMENT)
        error = _judged(broker, name, index, known, path)
        results.setdefault(name, []).append(_partition(index, error))
    topics = [_Topic(topic_name=name, partitions=partitions) for name, partitions in results.items()]
    return await answer_of(len(wanted) + len(topics), request, _Answer(throttle_time_ms=0, results=topics))


async def _refused(request: Request, asked: int, error: ErrorCode) -> Response:
    topics = []
    for directory in request.body.dirs:
        for topic in directory.topics:
            await request.work.before(ELEMENT)
            of = partial(_partition, error=error)
            topics.append(
                _Topic(topic_name=topic.name, partitions=await request.work.each(of, topic.partitions))
            )
    return await answer_of(asked, request, _Answer(throttle_time_ms=0, results=topics))


def _partition(index: int, error: ErrorCode) -> Any:
    return _Partition(partition_index=index, error_code=error)


def _judged(broker: Broker, name: str, index: int, known: Mapping[str, StoreEntry], path: str) -> ErrorCode:
    """As `ReplicaManager.alterReplicaLogDirs`, in its order."""
    if len(f"{name}-{index}") + _MOVED_SUFFIX_LENGTH > MAX_DIRECTORY_NAME_LENGTH:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    store = known.get(path)
    if store is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if not broker.stores.live(store.incarnation):
        return ErrorCode.KAFKA_STORAGE_ERROR
    topic = broker.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if store.incarnation not in topic.partitions[index].members:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    return ErrorCode.NONE
