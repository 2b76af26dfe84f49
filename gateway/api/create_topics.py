"""CreateTopics (key 19), versions 2 to 7.

Behaviour
  Each topic is checked and created on its own, in the request's order; it serves when the answer goes out.
  -1 takes the default number of partitions and replication factor. Configs are checked as Kafka checks
  them, kept as they are given, and returned. With `validate_only` nothing is created and the answer is the
  same. Before all that, as in Kafka: a name that is there twice is INVALID_REQUEST, once, and not created;
  so is `__cluster_metadata`; both come last in the answer. More than 10,000 topics and partitions in one
  request is POLICY_VIOLATION for all of them. A timeout of 0 or less is REQUEST_TIMED_OUT for all of them,
  and nothing is created. A replication factor above the number of stores is INVALID_REPLICATION_FACTOR,
  unless the gateway was started with --relax-replication-factor: then it is kept as it was given.

  It takes CREATE on the cluster, or else on each topic: TOPIC_AUTHORIZATION_FAILED, whether there is such a
  topic or not; but a name that is there twice, or `__cluster_metadata`, is that for everybody. Who may create
  a topic hears that it exists. The answer tells of a created topic's configs, partitions and replication
  factor to whoever has DESCRIBE_CONFIGS on it.

Version notes
  v4 allows -1 without an assignment; we allow it in earlier versions too, as Kafka does. v5 returns
  configs, partitions and replication factor. v7 returns the topic's id (a random one with `validate_only`).

Differs from Kafka
  Assignments by hand may name this node only. The number of partitions of all topics together is limited
  (`gateway.administration.topic_creation.MAX_PARTITIONS`): POLICY_VIOLATION.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

from gateway.administration.broker_values import own_broker_configs
from gateway.administration.mutations import charge_partitions
from gateway.administration.topic_creation import (
    MAX_PARTITIONS_PER_REQUEST,
    NewTopic,
    check_new_topic,
    create_topic,
)
from gateway.answers.denied import denied, permitted
from gateway.answers.element_limit import MAX_CHANGED, check_elements
from gateway.answers.encoding import answer_of
from gateway.common.costs import CONFIGS
from gateway.common.handlers import Request, Response, api
from gateway.common.topic_names import CLUSTER_METADATA_TOPIC
from gateway.configs.describe import DescribedConfig, Dynamic, describe_topic_configs
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

STRICT_FROM_VERSION: Final = 6
"""From this version on a topic that would be too many changes is refused."""

NOT_TOLD: Final = -1
"""Number of partitions and replication factor of a topic that was not created."""

_DENIED: Final = denied(ResourceType.TOPIC)

_Answer: Any = RESPONSE_CLASSES[ApiKey.CREATE_TOPICS]
_Result: Any = _Answer.CreatableTopicResult
_Config: Any = _Result.CreatableTopicConfigs


@api(key=ApiKey.CREATE_TOPICS, name="CreateTopics", min_version=2, max_version=7)
async def create_topics(request: Request, broker: Broker) -> Response:
    """Create what is asked for; one result per topic name."""
    body = request.body
    check_elements(len(body.topics), "topics", MAX_CHANGED)
    times = Counter(topic.name for topic in body.topics)
    once = [topic for topic in body.topics if times[topic.name] == 1]
    named = [topic.name for topic in once if topic.name != CLUSTER_METADATA_TOPIC]
    creatable = await _creatable(request, named)
    wanted = [topic for topic in once if topic.name in creatable]
    if wanted and body.timeout_ms <= 0:
        refused = partial(_refused, error=ErrorCode.REQUEST_TIMED_OUT, message=None)
        results = await request.work.each(refused, [topic.name for topic in body.topics])
        return await answer_of(len(results), request, _Answer(throttle_time_ms=0, topics=results))
    if _size(wanted) > MAX_PARTITIONS_PER_REQUEST:
        message = "Excessively large number of partitions per request."
        refused = partial(_refused, error=ErrorCode.POLICY_VIOLATION, message=message)
        results = await request.work.each(refused, [topic.name for topic in wanted])
    else:
        creation, results = _Creation(request, broker), []
        for topic in wanted:
            await request.work.before(CONFIGS)
            results.append(await creation.create(topic))
        if not body.validate_only:
            await broker.remembered()
    refused = partial(_refused, error=ErrorCode.INVALID_REQUEST, message="Duplicate topic name.")
    results += await request.work.each(refused, [name for name, count in times.items() if count > 1])
    if len(named) < len(once):
        message = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        results.append(_refused(CLUSTER_METADATA_TOPIC, ErrorCode.INVALID_REQUEST, message))
    refused = partial(_refused, error=_DENIED.code, message="Authorization failed.")
    results += await request.work.each(refused, [name for name in named if name not in creatable])
    elements = sum(1 + len(result.configs) for result in results)
    return await answer_of(elements, request, _Answer(throttle_time_ms=0, topics=results))


async def _creatable(request: Request, names: list[str]) -> Collection[str]:
    """Those of these topics that the client may create."""
    if request.access.sees(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
        return frozenset(names)
    return await permitted(request, Operation.CREATE, ResourceType.TOPIC, names)


def _size(topics: list[Any]) -> int:
    """Topics and partitions: the records that Kafka's metadata log would get."""
    return sum(1 + (len(topic.assignments) or max(1, topic.num_partitions)) for topic in topics)


class _Creation:
    """The topics of one request. Equal configs in the answer are built once."""

    def __init__(self, request: Request, broker: Broker) -> None:
        self._access = request.access
        self._request = request
        self._only_validate: bool = request.body.validate_only
        self._broker = broker
        self._static = own_broker_configs(request, broker)
        self._built: dict[DescribedConfig, Any] = {}
        self._no_controller: KafkaError | None = None
        """Why nothing can be created now; found out by waiting, so once."""

    async def create(self, wanted: Any) -> Any:
        """The result for one topic."""
        try:
            new = check_new_topic(
                self._broker,
                wanted.name,
                wanted.num_partitions,
                wanted.replication_factor,
                {config.name: config.value for config in wanted.configs},
                [(each.partition_index, each.broker_ids) for each in wanted.assignments],
            )
            charge_partitions(self._request, new.partitions, strict_from=STRICT_FROM_VERSION)
            if self._only_validate:
                return self._created(new, uuid4())
            if self._no_controller is not None:
                raise self._no_controller
            topic = await create_topic(self._broker, new)
        except KafkaError as error:
            if error.code is ErrorCode.NOT_CONTROLLER:
                self._no_controller = error
            return _refused(wanted.name, error.code, error.message)
        return self._created(new, UUID(bytes=topic.id))

    def _created(self, new: NewTopic, topic_id: UUID) -> Any:
        if not self._access.sees(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, new.name):
            return _Result(
                name=new.name,
                topic_id=topic_id,
                error_code=ErrorCode.NONE,
                error_message=None,
                topic_config_error_code=_DENIED.code,
                num_partitions=NOT_TOLD,
                replication_factor=NOT_TOLD,
                configs=[],
            )
        dynamic = Dynamic(self._broker.dynamic.node, self._broker.dynamic.cluster)
        configs = describe_topic_configs(new.configs, self._static, dynamic, as_given=True)
        return _Result(
            name=new.name,
            topic_id=topic_id,
            error_code=ErrorCode.NONE,
            error_message=None,
            num_partitions=new.partitions,
            replication_factor=new.replication_factor,
            configs=[self._config(config) for config in configs],
        )

    def _config(self, config: DescribedConfig) -> Any:
        built = self._built.get(config)
        if built is None:
            built = self._built[config] = _Config(
                name=config.name,
                value=config.value,
                read_only=config.read_only,
                config_source=config.source,
                is_sensitive=config.sensitive,
            )
        return built


def _refused(name: str, error: ErrorCode, message: str | None) -> Any:
    return _Result(
        name=name,
        topic_id=None,
        error_code=error,
        error_message=message,
        num_partitions=NOT_TOLD,
        replication_factor=NOT_TOLD,
        configs=[],
    )
