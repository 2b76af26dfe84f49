"""DescribeLogDirs (key 35), versions 1 to 5: what lies on the stores' disks.

Behaviour
  Each store that counts is one log directory, `store ID (NAME)`: the size of its disk and what is free there
  as it says when it is asked, and per partition the bytes of the batches that it keeps: of all segments that
  it is a member of, the open one included. A store that does not answer is KAFKA_STORAGE_ERROR, without
  partitions. Null means all partitions; one that is not there is passed over. Nothing lags, and no log is a
  future one. Each of several gateways tells of the partitions that it leads, as tools ask all of them and add
  up what they say; and each tells of all disks. It takes DESCRIBE on the cluster: without it there are no
  directories, and no store is asked.

Version notes
  v2 is flexible. v3 has an error for the whole answer, v4 the disk, v5 whether the directory is cordoned:
  a store that leaves (`dafka store replace`) is, as it gets no new segment.

Differs from Kafka
  A broker's directories each keep other partitions; here a partition with three copies is in three of them.
  A segment whose size is not known yet (a crash left it open) is counted when it is asked about; what is not
  done within `COUNT_SECONDS` is missing in this answer, and goes on with the next one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.administration.log_directories import log_directories
from gateway.answers.denied import cluster_denied
from gateway.answers.encoding import answer, answer_of
from gateway.cluster.stores import LEAVING, REMOVING
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.common.work import Work
from gateway.log.segment_sizes import count_sizes
from gateway.security.acls import Operation
from mesh.reader import UNKNOWN_BYTES
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.broker import Broker
    from gateway.cluster.stores import StoreEntry
    from gateway.log.partition import Partition
    from mesh.reader import Disk

DISK_SECONDS: Final = 2.0
"""How long a store may take to say how full its disk is; tools wait for the answer."""

COUNT_SECONDS: Final = 5.0
"""How long one request waits for sizes that have to be counted: below the 30 s that clients wait."""

_Answer: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_LOG_DIRS]
_Result: Any = _Answer.DescribeLogDirsResult
_Topic: Any = _Result.DescribeLogDirsTopic
_Partition: Any = _Topic.DescribeLogDirsPartition

_Sizes = dict[str, dict[str, dict[int, int]]]
"""Store -> topic -> partition -> bytes."""


@api(key=ApiKey.DESCRIBE_LOG_DIRS, name="DescribeLogDirs", min_version=1, max_version=5)
async def describe_log_dirs(request: Request, broker: Broker) -> Response:
    """Ask the stores, and sum up what is known of segments."""
    if denied := cluster_denied(request.access, Operation.DESCRIBE):
        return answer(request, _Answer(throttle_time_ms=0, error_code=denied.code, results=[]))
    partitions = await _asked(request, broker)
    disks: dict[str, Disk] = {}
    directories = log_directories(broker.stores)
    async with trio.open_nursery() as nursery:
        for store in directories.values():
            nursery.start_soon(_ask_disk, broker, store, disks)
        with trio.move_on_after(COUNT_SECONDS):
            for partition in partitions:
                # What is being recovered is to find its entries in the catalog as it has read them.
                if partition.available:
                    await count_sizes(broker.context, partition)
    sizes = await _sizes(request.work, partitions)
    results = [
        await _result(
            request.work, path, store, disks.get(store.incarnation), sizes.get(store.incarnation, {})
        )
        for path, store in directories.items()
    ]
    elements = sum(len(topic.partitions) for result in results for topic in result.topics)
    whole = _Answer(throttle_time_ms=0, error_code=ErrorCode.NONE, results=results)
    return await answer_of(elements, request, whole)


async def _asked(request: Request, broker: Broker) -> list[Partition]:
    """The partitions that are asked about and that this gateway leads, each once."""
    topics, leads = broker.topics, broker.gateways.leads
    if request.body.topics is None:
        return [partition for topic in topics.all() for partition in topic.partitions if leads(partition)]
    found: dict[Partition, None] = {}
    for asked in request.body.topics:
        await request.work.before(ELEMENT * (1 + (len(asked.partitions) >> 4)))
        topic = topics.get(asked.topic)
        if topic is not None:
            count = len(topic.partitions)
            found.update({topic.partitions[i]: None for i in set(asked.partitions) if 0 <= i < count})
    return [partition for partition in found if leads(partition)]


async def _ask_disk(broker: Broker, store: StoreEntry, disks: dict[str, Disk]) -> None:
    with trio.move_on_after(DISK_SECONDS):
        disks[store.incarnation] = await broker.context.reader.disk(store.incarnation)


async def _sizes(work: Work, partitions: Iterable[Partition]) -> _Sizes:
    """What each store keeps of these partitions."""
    sizes: _Sizes = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for partition in partitions:
        await work.before(ELEMENT)
        name, index = partition.topic.name, partition.index
        for member in partition.members:
            sizes[member][name][index] += 0  # it is there, even while it is empty
        for segment in partition.chain.closed:
            for member in segment.members:
                sizes[member][name][index] += max(0, segment.size)
        for opened in partition.chain.open_segments():
            for member in opened.segment.members:
                sizes[member][name][index] += opened.bytes
    return sizes


async def _result(
    work: Work, path: str, store: StoreEntry, disk: Disk | None, sizes: Mapping[str, Mapping[int, int]]
) -> Any:
    topics = []
    for name, partitions in sorted(sizes.items()):
        await work.before(ELEMENT * len(partitions))
        kept = [
            _Partition(partition_index=index, partition_size=size, offset_lag=0, is_future_key=False)
            for index, size in sorted(partitions.items())
        ]
        topics.append(_Topic(name=name, partitions=kept))
    return _Result(
        error_code=ErrorCode.KAFKA_STORAGE_ERROR if disk is None else ErrorCode.NONE,
        log_dir=path,
        topics=[] if disk is None else topics,
        total_bytes=UNKNOWN_BYTES if disk is None else disk.total_bytes,
        usable_bytes=UNKNOWN_BYTES if disk is None else disk.free_bytes,
        is_cordoned=store.state in (LEAVING, REMOVING),
    )
