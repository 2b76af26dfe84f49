"""CreatePartitions (key 37), versions 0 to 3: more partitions for topics that exist.

Behaviour
  Each topic is checked and changed on its own, in the request's order; its new partitions serve when the
  answer goes out, and keep their numbers for good. Records that have a key may go to another partition from
  then on, as in Kafka: it is the producer who chooses. With `validate_only` nothing changes and the answer is
  the same. A topic that is there twice is INVALID_REQUEST, once, and is not changed; so it is in Kafka, and
  those come first in the answer. A number that is not higher than the present one is INVALID_PARTITIONS, a
  topic that does not exist UNKNOWN_TOPIC_OR_PARTITION. A timeout of 0 or less is REQUEST_TIMED_OUT for all of
  them, and nothing changes. It takes ALTER on each topic: TOPIC_AUTHORIZATION_FAILED, whether there is such a
  topic or not, unless it is there twice.

Version notes
  v2 is flexible. v3 can be told THROTTLING_QUOTA_EXCEEDED.

Differs from Kafka
  Kafka adds partitions to its internal topics, too, and then does not find the groups that were kept there:
  INVALID_PARTITIONS here. Assignments by hand may name this node only. The number of partitions of all topics
  together is limited (`gateway.cluster.topics.MAX_PARTITIONS`), and so is the number that one
  request may make: POLICY_VIOLATION. Where there are ACLs, whoever adds partitions and is no super user has
  the whole topic on his account from then on, whoever has made it: it has to fit into what he may have.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from gateway.administration.mutations import charge_partitions
from gateway.administration.topic_creation import (
    MAX_PARTITIONS_PER_REQUEST,
    bad_assignment,
    check_replicas,
)
from gateway.answers.denied import permitted
from gateway.answers.element_limit import MAX_CHANGED, check_elements
from gateway.answers.encoding import answer_of
from gateway.common.costs import CONFIGS, ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.log.topic import Topic

STRICT_FROM_VERSION: Final = 3
"""From this version on what would be too many changes is refused."""

_Answer: Any = RESPONSE_CLASSES[ApiKey.CREATE_PARTITIONS]


@api(key=ApiKey.CREATE_PARTITIONS, name="CreatePartitions", min_version=0, max_version=3)
async def create_partitions(request: Request, broker: Broker) -> Response:
    """Add what is asked for; one result per topic name."""
    body = request.body
    check_elements(len(body.topics), "topics", MAX_CHANGED)
    times = Counter(topic.name for topic in body.topics)
    once = [topic for topic in body.topics if times[topic.name] == 1]
    results = []
    for name in (name for name, count in times.items() if count > 1):
        await request.work.before(ELEMENT)
        results.append(_result(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
    alterable = await permitted(request, Operation.ALTER, ResourceType.TOPIC, [topic.name for topic in once])
    refused = [topic.name for topic in once if topic.name not in alterable]
    results += await request.work.each(_denied, refused)
    allowed = [topic for topic in once if topic.name in alterable]
    if allowed and body.timeout_ms <= 0:
        results = await request.work.each(_timed_out, body.topics)
        return await answer_of(len(results), request, _Answer(throttle_time_ms=0, results=results))
    left = MAX_PARTITIONS_PER_REQUEST
    for wanted in allowed:
        await request.work.before(CONFIGS)
        try:
            asker = request.access.maker
            topic = _check(broker, wanted, left, asker)
            additional = wanted.count - len(topic.partitions)
            charge_partitions(request, additional, strict_from=STRICT_FROM_VERSION)
            left -= additional
            if not body.validate_only:
                await broker.add_partitions(topic, wanted.count, asker=asker)
        except KafkaError as error:
            results.append(_result(wanted.name, error.code, error.message))
        else:
            results.append(_result(wanted.name, ErrorCode.NONE))
    if not body.validate_only:
        await broker.remembered()
    return await answer_of(len(results), request, _Answer(throttle_time_ms=0, results=results))


def _denied(name: str) -> Any:
    return _result(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _timed_out(topic: Any) -> Any:
    return _result(topic.name, ErrorCode.REQUEST_TIMED_OUT)


def _check(broker: Broker, wanted: Any, left: int, asker: str) -> Topic:
    """The topic, if it may have so many partitions (`ReplicationControlManager.createPartitions`), on the
    account of `asker` ("": of whose it is).

    Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT or
    POLICY_VIOLATION.
    """
    topic = broker.topics.get(wanted.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.internal:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The number of partitions of the internal topic {topic.name} cannot be changed: it says where "
            "each group is kept.",
        )
    existing = len(topic.partitions)
    if wanted.count == existing:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {existing} partition(s).")
    if wanted.count < existing:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {wanted.name} currently has {existing} partition(s); {wanted.count} would not be an "
            "increase.",
        )
    additional = wanted.count - existing
    if wanted.assignments is not None:
        _check_assignments(broker, topic, additional, [each.broker_ids for each in wanted.assignments])
    if additional > left:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"One request may make {MAX_PARTITIONS_PER_REQUEST} partitions: ask for fewer at a time.",
        )
    broker.topics.check_growth(topic, asker, wanted.count)
    return topic


REPLICAS_OF_ASSIGNED: Final = 1
"""Replicas that an assignment by hand names: the one node that there is."""


def _check_assignments(broker: Broker, topic: Topic, additional: int, assignments: list[list[int]]) -> None:
    if len(assignments) != additional:
        raise bad_assignment(
            f"Attempted to add {additional} additional partition(s), but only {len(assignments)} "
            "assignment(s) were specified."
        )
    for broker_ids in assignments:
        check_replicas(broker, broker_ids)
        if topic.replication_factor != REPLICAS_OF_ASSIGNED:
            raise bad_assignment(
                f"The manual partition assignment includes a partition with {REPLICAS_OF_ASSIGNED} "
                "replica(s), but this is not consistent with previous partitions, which have "
                f"{topic.replication_factor} replica(s)."
            )


def _result(name: str, error: ErrorCode, message: str | None = None) -> Any:
    return _Answer.CreatePartitionsTopicResult(name=name, error_code=error, error_message=message)
