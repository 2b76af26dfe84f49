"""What AlterConfigs and IncrementalAlterConfigs share: each resource on its own, checked, then changed.

A resource is a topic, this node by its id, or the cluster's nodes by the broker without a name. The order of
checks and the words are those of `kafka.server.ConfigAdminManager`, which looks at a request first, and
`ConfigurationControlManager`, which changes what is left; so an unknown topic's configs are judged before the
topic is missed, and a client that asks for nonsense hears so before it hears that it may not ask.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gateway.administration.config_kinds import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    configs_denied,
)
from gateway.answers.element_limit import MAX_CONFIGS, check_elements
from gateway.answers.encoding import answer_of
from gateway.common.costs import CONFIGS, ELEMENT, LOOKED
from gateway.common.handlers import Request, Response
from gateway.common.topic_names import invalid_topic_name
from gateway.configs.broker_validation import validate_broker_configs
from gateway.configs.effective import effective_topic_configs
from gateway.configs.internal import check_internal_configs
from gateway.configs.validation import check_native_partition, validate_topic_configs
from gateway.configs.values import quoted
from gateway.security.access import Access
from gateway.security.acls import Operation
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster

KNOWN_KINDS: Final = {
    BROKER_LOGGER: "log levels: start the gateway with --log-level",
    CLIENT_METRICS: "client metrics subscriptions",
    GROUP: "configs of groups",
}
"""Kinds that Kafka can change and this gateway does not have."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)

Change: TypeAlias = Callable[[Mapping[str, str]], dict[str, str]]
"""The configs that a resource has -> those that it shall have, unchecked. Raises KafkaError."""

Outcome: TypeAlias = tuple[ErrorCode, str | None]


async def answer_changes(
    request: Request, broker: Cluster, answer: Any, change_of: Callable[[Any, int], Change]
) -> Response:
    """The answer, of this class, to a request that changes configs: one result per resource."""
    body = request.body
    outcomes = await _change_resources(request, broker, change_of)
    if not body.validate_only:
        await broker.remembered()
    results = []
    for resource, (error, message) in zip(body.resources, outcomes, strict=True):
        await request.work.before(ELEMENT)
        results.append(
            answer.AlterConfigsResourceResponse(
                error_code=error,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return await answer_of(len(results), request, answer(throttle_time_ms=0, responses=results))


async def _change_resources(
    request: Request, broker: Cluster, change_of: Callable[[Any, int], Change]
) -> list[Outcome]:
    """Change each resource of a request; the outcomes are in the request's order.

    `change_of(resource, kind)` says what is to become of its configs, and raises KafkaError when what the
    request asks for cannot be meant.
    """
    resources: Sequence[Any] = request.body.resources
    check_elements(len(resources) + sum(len(one.configs) for one in resources), "resources and configs")
    for one in resources:
        check_elements(len(one.configs), "configs of one resource", MAX_CONFIGS)
    await request.work.before(LOOKED * len(resources))
    times = Counter((one.resource_type, one.resource_name) for one in resources)
    outcomes: list[Outcome] = []
    for resource in resources:
        await request.work.before(CONFIGS + ELEMENT * len(resource.configs))
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                message = "Each resource must appear at most once."
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
            change = change_of(resource, resource.resource_type)
            await _change(request, broker, resource, change)
        except KafkaError as error:
            outcomes.append((error.code, error.message))
        else:
            outcomes.append((ErrorCode.NONE, None))
    return outcomes


async def _change(request: Request, broker: Cluster, resource: Any, change: Change) -> None:
    kind, name = resource.resource_type, resource.resource_name
    access, validate_only = request.access, request.body.validate_only
    if kind == BROKER:
        await _change_broker(access, broker, name, change, validate_only=validate_only)
        return
    if denied := configs_denied(access, Operation.ALTER_CONFIGS, kind, name):
        raise denied
    if kind == TOPIC:
        await _change_topic(broker, name, change, validate_only=validate_only)
    elif kind in KNOWN_KINDS:
        raise _invalid(f"This gateway has no {KNOWN_KINDS[kind]} (resource type {kind}).")
    else:
        raise _invalid(f"Unknown resource type {kind}")


async def _change_topic(broker: Cluster, name: str, change: Change, *, validate_only: bool) -> None:
    topic = broker.topics.get(name)

    def checked(configs: Mapping[str, str]) -> dict[str, str]:
        changed = change(configs)
        if not name:
            raise _invalid("Default topic resources are not allowed.")
        if reason := invalid_topic_name(name):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        valid = validate_topic_configs(changed)
        check_internal_configs(name, valid)
        if topic is not None:
            check_native_partition(valid, len(topic.partitions))
            broker.subject_names.check(broker.topics, name, effective_topic_configs(valid))
        return valid

    if topic is None:
        checked({})
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{quoted(name)}' does not exist.")
    if validate_only:
        checked(topic.configs)
    else:
        await broker.alter_topic(topic, checked)


async def _change_broker(
    access: Access, broker: Cluster, name: str, change: Change, *, validate_only: bool
) -> None:
    if name and not _NUMBER.fullmatch(name):
        raise _invalid(f"Node id must be an integer, but it is: {quoted(name)}")
    if name and int(name) != broker.node_id:
        raise _invalid(f"Unexpected broker id, expected {broker.node_id}, but received {name}")
    node = broker.node_id if name else None

    def checked(configs: Mapping[str, str]) -> dict[str, str]:
        changed = change(configs)
        validate_broker_configs(changed, whole_cluster=node is None)
        return changed

    if validate_only or not access.is_unrestricted:
        checked(broker.dynamic.cluster if node is None else broker.dynamic.node)
    if denied := configs_denied(access, Operation.ALTER_CONFIGS, BROKER, name):
        raise denied
    if not validate_only:
        await broker.alter_broker(node, checked)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
