"""DescribeConfigs 1-4: topics and the broker, defaults and where they come from."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest

from tests.differential.case import case
from tests.differential.side import Side

UNKNOWN, TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 0, 2, 4, 8, 16, 32
TOPIC_CONFIGS_OF_BROKERS = [
    "auto.create.topics.enable", "compression.type", "default.replication.factor", "delete.topic.enable",
    "log.cleanup.policy", "log.flush.interval.messages", "log.message.timestamp.type", "log.retention.bytes",
    "log.retention.ms", "log.roll.ms", "log.segment.bytes", "message.max.bytes", "min.insync.replicas",
    "num.partitions", "unclean.leader.election.enable",
]  # fmt: skip


def resource(kind: int, name: str, keys: list[str] | None = None) -> Any:
    return DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )


def ask(side: Side, version: int, resources: list[Any], label: str = "", *, synonyms: bool = False) -> None:
    fields: dict[str, Any] = {"include_documentation": False} if version >= 3 else {}
    side.ask(
        DescribeConfigsRequest(version=version, resources=resources, include_synonyms=synonyms, **fields),
        label,
    )


def configured(side: Side) -> str:
    return side.topic("t", retention_ms="12345", cleanup_policy="compact", max_message_bytes="2000")


@case(DescribeConfigsRequest)
def topic(side: Side, version: int) -> None:
    ask(side, version, [resource(TOPIC, side.plain_topic("plain"))], "plain")
    ask(side, version, [resource(TOPIC, configured(side))], "overridden")


@case(DescribeConfigsRequest)
def synonyms(side: Side, version: int) -> None:
    """Where each value would come from next."""
    ask(side, version, [resource(TOPIC, configured(side))], synonyms=True)


@case(DescribeConfigsRequest)
def synonyms_of_brokers(side: Side, version: int) -> None:
    """Configs that say the same in other units."""
    keys = [
        "log.retention.ms", "log.retention.minutes", "log.retention.hours", "log.roll.ms", "log.roll.hours",
        "log.roll.jitter.ms", "log.roll.jitter.hours", "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms", "message.max.bytes",
    ]  # fmt: skip
    request = _as_request(version, [resource(BROKER, str(side.server.node_id), keys)], synonyms=True)
    side.ask_own_id(request, "own")


@case(DescribeConfigsRequest)
def some_keys(side: Side, version: int) -> None:
    name = configured(side)
    ask(side, version, [resource(TOPIC, name, ["retention.ms", "segment.bytes"])], "two")
    ask(side, version, [resource(TOPIC, name, [])], "none")
    ask(side, version, [resource(TOPIC, name, ["no.such.config", "retention.ms"])], "an unknown one")


@case(DescribeConfigsRequest)
def unknown(side: Side, version: int) -> None:
    name = side.topic("known")
    ask(side, version, [resource(TOPIC, side.name("nowhere"))], "topic")
    ask(side, version, [resource(TOPIC, "a/b")], "bad name")
    ask(side, version, [resource(TOPIC, "")], "no name")
    ask(
        side,
        version,
        [resource(TOPIC, side.name("nowhere")), resource(TOPIC, name, ["retention.ms"])],
        "beside one",
    )
    for kind in [UNKNOWN, 1, 3, 64, -1]:
        ask(side, version, [resource(kind, name)], f"type {kind}")


@case(DescribeConfigsRequest)
def groups_and_metrics(side: Side, version: int) -> None:
    """kafka-configs asks for each group that there is."""
    for kind in (16, 32):
        ask(side, version, [resource(kind, side.name("one"))], f"type {kind}", synonyms=True)
        ask(side, version, [resource(kind, "")], f"type {kind} without a name")


@case(DescribeConfigsRequest)
def broker(side: Side, version: int) -> None:
    """The settings that clients look at; a broker is named by its id, which is the server's own."""
    own = str(side.server.node_id)
    request = [resource(BROKER, own, TOPIC_CONFIGS_OF_BROKERS)]
    side.ask_own_id(_as_request(version, request), "own")


@case(DescribeConfigsRequest)
def other_brokers(side: Side, version: int) -> None:
    ask(side, version, [resource(BROKER, "4711")], "another")
    ask(side, version, [resource(BROKER, "x")], "no number")
    ask(side, version, [resource(BROKER, "")], "the cluster's default")


def _as_request(version: int, resources: list[Any], *, synonyms: bool = False) -> Any:
    fields: dict[str, Any] = {"include_documentation": False} if version >= 3 else {}
    return DescribeConfigsRequest(version=version, resources=resources, include_synonyms=synonyms, **fields)


@case(DescribeConfigsRequest)
def nothing(side: Side, version: int) -> None:
    ask(side, version, [])
