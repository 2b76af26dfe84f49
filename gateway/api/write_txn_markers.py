"""WriteTxnMarkers (key 27), versions 1 and 2: ends of transactions for partitions that this gateway leads.

Behaviour
  Other gateways send it, whose coordinators have decided, and tools that end a transaction which no
  coordinator knows (`kafka-transactions.sh abort`). Who may neither ALTER the cluster nor has CLUSTER_ACTION
  is CLUSTER_AUTHORIZATION_FAILED, in each partition. Each partition is answered when its marker is durable;
  one of `__consumer_offsets` when readers see what was committed in it.

Errors
  NOT_LEADER_OR_FOLLOWER, also while it is recovered; UNKNOWN_TOPIC_OR_PARTITION; NOT_ENOUGH_REPLICAS;
  INVALID_PRODUCER_EPOCH: the marker is older than what was written; TRANSACTION_COORDINATOR_FENCED: a later
  coordinator has ended a transaction of the producer here; INVALID_REQUEST: an id, an epoch or a version
  below zero; UNSUPPORTED_VERSION: some gateways are of a release that has no transactions.

Version notes
  v2 brings the version of the protocol that the transaction was carried out by (KIP-1228).

Differs from Kafka
  Fields of our own (tags that others pass over): the number of a transaction, and the leader epochs under
  which its partitions are known; what was sent to an earlier leader is NOT_LEADER_OR_FOLLOWER. Kafka fails
  (UNKNOWN_SERVER_ERROR) for some numbers below zero, and writes markers for others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.cluster.feature_levels import TRANSACTION_VERSION
from gateway.common.costs import ELEMENT, PRODUCED_BATCH
from gateway.common.handlers import Request, Response, api
from gateway.common.marker import Marker
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

VERSION_SINCE_VERSION: Final = 2

AT_ONCE: Final = 64
"""Markers of one request that are on their way together: each is waited for by a task."""

WAITS_SECONDS: Final = 3.0
"""How long a marker may wait for others of its request, before it is begun. One that is begun takes
`WRITE_TIMEOUT_SECONDS` at most; together that is less than its sender waits (`marker_routes.ASK_SECONDS`)."""

_Answer: Any = RESPONSE_CLASSES[ApiKey.WRITE_TXN_MARKERS]
_Marker: Any = _Answer.WritableTxnMarkerResult
_Topic: Any = _Marker.WritableTxnMarkerTopicResult
_Partition: Any = _Topic.WritableTxnMarkerPartitionResult

_Place = tuple[int, str, int]
"""Whose marker, in which topic and partition."""


@api(key=ApiKey.WRITE_TXN_MARKERS, name="WriteTxnMarkers", min_version=1, max_version=2)
async def write_txn_markers(request: Request, broker: Broker) -> Response:
    """Append each marker to each of its partitions."""
    wanted = request.body.markers
    check_elements(len(wanted), "markers")
    check_elements(
        sum(1 + sum(1 + len(topic.partition_indexes) for topic in one.topics) for one in wanted), "partitions"
    )
    access = request.access
    if not (
        access.sees(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
        or access.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    ):
        return await _refused(request)
    errors: dict[_Place, ErrorCode] = {}
    asked: list[tuple[_Place, Marker, int]] = []
    for one in wanted:
        await request.work.before(ELEMENT)
        marker = _marker_of(one, request.header.api_version)
        for topic in one.topics:
            epochs = topic.leader_epochs or ()
            for place, index in enumerate(topic.partition_indexes):
                await request.work.before(PRODUCED_BATCH)
                epoch = epochs[place] if place < len(epochs) else -1
                asked.append(((one.producer_id, topic.name, index), marker, epoch))
    left = iter(asked)
    too_late = trio.current_time() + WAITS_SECONDS
    # Gateways of older releases cannot read what it leaves.
    is_served = broker.features.level(TRANSACTION_VERSION) > 0

    async def write_some() -> None:
        for place, marker, epoch in left:
            _, name, index = place
            if not is_served:
                errors[place] = ErrorCode.UNSUPPORTED_VERSION
            elif min(marker.producer_id, marker.producer_epoch, marker.transaction_version) < 0:
                errors[place] = ErrorCode.INVALID_REQUEST
            elif trio.current_time() > too_late:
                # Who sent it has given it up, and sends it again; this one would come in between.
                errors[place] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                errors[place] = await broker.markers_here.write((name, index), marker, epoch)

    async with trio.open_nursery() as nursery:
        for _ in range(min(AT_ONCE, len(asked))):
            nursery.start_soon(write_some)
    response = _Answer(markers=_results(errors))
    return await answer_of(len(asked) + len(wanted), request, response)


async def _refused(request: Request) -> Response:
    """Each partition has the error; of markers for the same producer the last is answered
    (``WriteTxnMarkersRequest.getErrorResponse``).
    """
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    found: dict[int, dict[str, list[Any]]] = {}
    elements = 0
    for one in request.body.markers:
        await request.work.before(ELEMENT)
        of_topics = found[one.producer_id] = {}
        for topic in one.topics:
            await request.work.before(ELEMENT * len(topic.partition_indexes))
            of_topic = of_topics.setdefault(topic.name, [])
            of_topic += (
                _Partition(partition_index=index, error_code=error)
                for index in dict.fromkeys(topic.partition_indexes)
            )
            elements += 1 + len(of_topic)
    return await answer_of(elements + len(found), request, _Answer(markers=_made(found)))


def _marker_of(asked: Any, version: int) -> Marker:
    return Marker(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_result,
        max(0, asked.number),
        asked.transaction_version if version >= VERSION_SINCE_VERSION else 0,
    )


def _results(errors: dict[_Place, ErrorCode]) -> list[Any]:
    """One for each producer that was named with a partition, as Kafka has it."""
    found: dict[int, dict[str, list[Any]]] = {}
    for (producer_id, name, index), error in errors.items():
        of_topic = found.setdefault(producer_id, {}).setdefault(name, [])
        of_topic.append(_Partition(partition_index=index, error_code=error))
    return _made(found)


def _made(found: dict[int, dict[str, list[Any]]]) -> list[Any]:
    return [
        _Marker(
            producer_id=producer_id,
            topics=[_Topic(name=name, partitions=partitions) for name, partitions in topics.items()],
        )
        for producer_id, topics in found.items()
    ]
