"""DescribeConfigs (key 32), versions 1 to 4: the configs of topics and of this node.

Behaviour
  Resources are answered one by one in the request's order, doubles included. A topic shows every topic
  config of Kafka 4.3 but the hidden ones; the broker, by its node id, every broker config. Keys restrict
  that, unknown ones are passed over; null and an empty list mean all. A value comes with its source (1 the
  topic's own, 2 and 3 set for this node and for the cluster since, 4 this gateway's own, 5 Kafka's default)
  and, when asked for, with every place that has one, the one in force first. An invalid topic name is
  INVALID_TOPIC_EXCEPTION, an unknown topic UNKNOWN_TOPIC_OR_PARTITION, another broker's id INVALID_REQUEST. A
  broker without a name means what is set for all nodes of the cluster.

  It takes DESCRIBE_CONFIGS on the topic, on the group, on the cluster for the rest; that comes before whether
  there is such a resource. What may not be seen comes last in the answer.

Version notes
  v1 brings sources and synonyms. v3 adds the type, and documentation when asked for. v4 is flexible.

Differs from Kafka
  Configs are sorted by name; Kafka's order is a hash map's. min.insync.replicas has Kafka's default as
  such: Kafka keeps a dynamic default (source 3) for its eligible leader replicas.

  Groups (type 32) and client metrics (16) have no configs here: Kafka's are for its newer groups and for
  telemetry, and it shows their defaults for any name.

Skipped
  Broker loggers (type 8): INVALID_REQUEST.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gateway.administration.broker_values import own_broker_configs
from gateway.administration.config_kinds import BROKER, CLIENT_METRICS, GROUP, TOPIC, configs_denied
from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.common.costs import CONFIGS
from gateway.common.handlers import Request, Response, api
from gateway.common.topic_names import invalid_topic_name
from gateway.configs.describe import (
    DescribedConfig,
    Dynamic,
    describe_broker_configs,
    describe_cluster_configs,
    describe_topic_configs,
)
from gateway.configs.values import quoted
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker

_WITHOUT_CONFIGS: Final = {CLIENT_METRICS: "Client metrics subscription", GROUP: "Group"}
"""Types of resources that have none here, and what Kafka calls them."""

MAX_CONFIGS: Final = 200_000
"""Configs in one answer: those of 6,000 topics, some 10 MB. A request of a few bytes per resource could ask
for gigabytes; the resources beyond are POLICY_VIOLATION."""

_BROKER_ID: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)

_Answer: Any = RESPONSE_CLASSES[ApiKey.DESCRIBE_CONFIGS]
_Result: Any = _Answer.DescribeConfigsResult
_Config: Any = _Result.DescribeConfigsResourceResult


@api(key=ApiKey.DESCRIBE_CONFIGS, name="DescribeConfigs", min_version=1, max_version=4)
async def describe_configs(request: Request, broker: Broker) -> Response:
    """Describe each resource; nothing is read from anywhere."""
    check_elements(len(request.body.resources), "resources")
    description = _Description(request, broker)
    results, hidden = [], []
    for resource in request.body.resources:
        await request.work.before(CONFIGS)
        kind, name = resource.resource_type, resource.resource_name
        if denied := configs_denied(request.access, Operation.DESCRIBE_CONFIGS, kind, name):
            hidden.append(_result(resource, [], denied.code, denied.message))
            continue
        try:
            results.append(_result(resource, description.of(resource), ErrorCode.NONE, ""))
        except KafkaError as refused:
            # As Kafka, a topic that is not there has no message.
            unknown = refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            results.append(_result(resource, [], refused.code, "" if unknown else refused.message))
    results += hidden
    elements = len(results) + MAX_CONFIGS - description.left
    return await answer_of(elements, request, _Answer(throttle_time_ms=0, results=results))


def _result(resource: Any, configs: list[Any], error: ErrorCode, message: str) -> Any:
    return _Result(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )


class _Description:
    """The configs of one answer. Equal ones are built once: a thousand topics without configs share all."""

    def __init__(self, request: Request, broker: Broker) -> None:
        self._asked = request.body
        self._broker = broker
        self._static = own_broker_configs(request, broker)
        self._built: dict[DescribedConfig, Any] = {}
        self.left = MAX_CONFIGS

    def of(self, resource: Any) -> list[Any]:
        """What is asked of one resource. Raises KafkaError."""
        keys = set(resource.configuration_keys or ())
        configs = [
            config
            for config in _describe(resource, self._broker, self._static)
            if not keys or config.name in keys
        ]
        if len(configs) > self.left:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"more than {MAX_CONFIGS} configs in one answer: ask for fewer"
            )
        self.left -= len(configs)
        return [self._build(config) for config in configs]

    def _build(self, config: DescribedConfig) -> Any:
        built = self._built.get(config)
        if built is None:
            built = self._built[config] = _config(config, self._asked)
        return built


def _describe(resource: Any, broker: Broker, static: dict[str, str]) -> list[DescribedConfig]:
    """All configs of a resource. Raises KafkaError."""
    name = resource.resource_name
    dynamic = Dynamic(broker.dynamic.node, broker.dynamic.cluster)
    if resource.resource_type == TOPIC:
        if reason := invalid_topic_name(name):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        topic = broker.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic_configs(topic.configs, static, dynamic)
    if resource.resource_type == BROKER:
        if not name:
            return describe_cluster_configs(dynamic)
        if not _BROKER_ID.fullmatch(name):
            message = f"Broker id must be an integer, but it is: {quoted(name)}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if int(name) != broker.node_id:
            message = f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        return describe_broker_configs(static, dynamic)
    if kind := _WITHOUT_CONFIGS.get(resource.resource_type):
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{kind} name must not be empty")
        return []
    message = f"configs of resource type {resource.resource_type} are not supported here"
    raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _config(config: DescribedConfig, asked: Any) -> Any:
    synonyms = config.synonyms if asked.include_synonyms else ()
    return _Config(
        name=config.name,
        value=config.value,
        read_only=config.read_only,
        config_source=config.source,
        is_sensitive=config.sensitive,
        synonyms=[
            _Config.DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source)
            for each in synonyms
        ],
        config_type=config.type,
        documentation=config.documentation if asked.include_documentation else None,
    )
