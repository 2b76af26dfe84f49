"""AlterConfigs 0-2 and IncrementalAlterConfigs 0-1: topics and the broker, and how both are refused."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kafka.protocol.producer import ProduceRequest

from tests.differential.batches import batch_of
from tests.differential.case import case
from tests.differential.cases.create_topics import BAD_CONFIGS, GOOD_CONFIGS
from tests.differential.requests import produce
from tests.differential.side import Side

UNKNOWN, TOPIC, BROKER, CLIENT_METRICS = 0, 2, 4, 16
SET, DELETE, APPEND, SUBTRACT = range(4)
REPLICAS = "follower.replication.throttled.replicas"

Ops = list[tuple[str, int, str | None]]


def incremental(version: int, *resources: tuple[int, str, Ops], only: bool = False) -> Any:
    one = IncrementalAlterConfigsRequest.AlterConfigsResource
    return IncrementalAlterConfigsRequest(
        version=version,
        resources=[
            one(
                resource_type=kind,
                resource_name=name,
                configs=[one.AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in ops],
            )
            for kind, name, ops in resources
        ],
        validate_only=only,
    )


def legacy(
    version: int, *resources: tuple[int, str, list[tuple[str, str | None]]], only: bool = False
) -> Any:
    one = AlterConfigsRequest.AlterConfigsResource
    return AlterConfigsRequest(
        version=version,
        resources=[
            one(
                resource_type=kind,
                resource_name=name,
                configs=[one.AlterableConfig(name=n, value=v) for n, v in configs],
            )
            for kind, name, configs in resources
        ],
        validate_only=only,
    )


def show(side: Side, name: str, label: str, kind: int = TOPIC, keys: list[str] | None = None) -> None:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(
        version=4, resources=[resource], include_synonyms=True, include_documentation=False
    )
    if kind == TOPIC:
        side.ask(request, label)
    else:
        side.ask_own_id(request, label)


def settle(side: Side, name: str, config: str, value: str, kind: int = BROKER) -> None:
    """Waits until a config has this value: Kafka's broker hears of a change a moment after the answer."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=[config]
    )
    request = DescribeConfigsRequest(version=4, resources=[resource], include_synonyms=False)
    for _ in range(4000):
        if side.connection.ask(request).results[0].configs[0].value == value:
            return
    raise TimeoutError(f"{side.server.name} does not show {config}={value}")


@case(IncrementalAlterConfigsRequest)
def incremental_topic(side: Side, version: int) -> None:
    name = side.own_topic("t", max_message_bytes="2000")
    side.ask(incremental(version, (TOPIC, name, [("retention.ms", SET, "12345"),
                                                 ("segment.bytes", SET, " 1048576 ")])), "set")  # fmt: skip
    settle(side, name, "segment.bytes", "1048576", TOPIC)
    show(side, name, "after set")
    side.ask(incremental(version, (TOPIC, name, [("max.message.bytes", DELETE, None),
                                                 ("segment.bytes", DELETE, "x")])), "delete")  # fmt: skip
    settle(side, name, "max.message.bytes", "1048588", TOPIC)
    show(side, name, "after delete")
    side.ask(incremental(version, (TOPIC, name, [("max.message.bytes", DELETE, None)])), "delete again")
    side.ask(incremental(version, (TOPIC, name, [("retention.ms", SET, "12345")])), "as it is")
    side.ask(incremental(version, (TOPIC, name, [])), "nothing")
    show(side, name, "at the end")


@case(IncrementalAlterConfigsRequest)
def incremental_lists(side: Side, version: int) -> None:
    name = side.own_topic("t")
    policy = "cleanup.policy"
    steps: list[tuple[str, int, str | None, str | None]] = [  # the last one: the value then, if it changed
        (policy, APPEND, "compact", "delete,compact"),
        (policy, SUBTRACT, "delete", "compact"),
        (policy, APPEND, "delete,compact", "compact,delete"),
        (REPLICAS, APPEND, "0:1,0:2", "0:1,0:2"),
        (REPLICAS, APPEND, "0:2,0:3", "0:1,0:2,0:3"),
        (REPLICAS, SUBTRACT, "0:9", None),
        (REPLICAS, SUBTRACT, "0:1,0:2,0:3", ""),
        (REPLICAS, APPEND, "nonsense", None),
        (policy, APPEND, "nonsense", None),
        (policy, SUBTRACT, "delete,compact", ""),
        ("retention.ms", APPEND, "1", None),
        ("retention.ms", SUBTRACT, "1", None),
        ("no.such.config", APPEND, "1", None),
        (policy, APPEND, None, None),
    ]
    for number, (key, operation, value, then) in enumerate(steps):
        side.ask(incremental(version, (TOPIC, name, [(key, operation, value)])), f"{number}")
        if then is not None:
            settle(side, name, key, then, TOPIC)
        show(side, name, f"after {number}", keys=[policy, REPLICAS])


@case(IncrementalAlterConfigsRequest)
def incremental_values(side: Side, version: int) -> None:
    name = side.topic("t")
    for config, texts in [*GOOD_CONFIGS.items(), *BAD_CONFIGS.items()]:
        for text in texts:
            ask = incremental(version, (TOPIC, name, [(config, SET, text)]), only=True)
            side.ask(ask, f"{config}={text!r}")
    for config in ["retention.ms", "no.such.config"]:
        side.ask(incremental(version, (TOPIC, name, [(config, SET, None)]), only=True), f"null {config}")
        side.ask(incremental(version, (TOPIC, name, [(config, DELETE, None)]), only=True), f"no {config}")
    show(side, name, "unchanged")


@case(IncrementalAlterConfigsRequest)
def incremental_faults(side: Side, version: int) -> None:
    name, other = side.own_topic("t"), side.own_topic("other")
    good: Ops = [("retention.ms", SET, "1")]
    bad: Ops = [("retention.ms", SET, "x")]
    wanted: dict[str, list[tuple[int, str, Ops]]] = {
        "one config twice": [(TOPIC, name, [("retention.ms", SET, "1"), ("retention.ms", SET, "2")])],
        "set and delete": [(TOPIC, name, [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)])],
        "operation 4": [(TOPIC, name, [("retention.ms", 4, "1")])],
        "good and bad": [(TOPIC, name, [("retention.bytes", SET, "1"), ("retention.ms", SET, "x")])],
        "a bad one beside a good one": [(TOPIC, name, bad), (TOPIC, other, good)],
        "a topic twice": [(TOPIC, name, good), (TOPIC, name, good)],
        "unknown topic": [(TOPIC, side.name("nowhere"), good)],
        "unknown topic, bad value": [(TOPIC, side.name("nowhere"), bad)],
        "no topic": [(TOPIC, "", good)],
        "bad topic name": [(TOPIC, "a/b", good)],
        "type 0": [(UNKNOWN, name, good)],
        "type 3": [(3, name, good)],
        "nothing": [],
    }
    for label, resources in wanted.items():
        side.ask(incremental(version, *resources), label)
    settle(side, other, "retention.ms", "1", TOPIC)
    show(side, name, "the one")
    show(side, other, "the other")


@case(IncrementalAlterConfigsRequest)
def takes_effect(side: Side, version: int) -> None:
    """The next batch is judged by it."""
    name = side.own_topic("t")
    large = batch_of(b"x" * 3000)
    side.ask(produce(side, 9, {name: {0: large}}), "before")
    side.ask(incremental(version, (TOPIC, name, [("max.message.bytes", SET, "2000")])), "smaller")
    until(side, name, large, error=10)
    side.ask(incremental(version, (TOPIC, name, [("max.message.bytes", DELETE, None)])), "as before")
    until(side, name, large, error=0)


def until(side: Side, name: str, records: bytes, error: int) -> None:
    """Kafka's broker hears of the change a moment after the answer; unrecorded."""
    of = ProduceRequest.TopicProduceData
    for _ in range(400):
        part = of.PartitionProduceData(index=0, records=records)
        request = ProduceRequest(
            version=9,
            transactional_id=None,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[of(name=name, partition_data=[part])],
        )
        answer = side.connection.ask(request)
        if answer.responses[0].partition_responses[0].error_code == error:
            return
    raise TimeoutError(f"{side.server.name} does not answer a Produce with error {error}")


@case(AlterConfigsRequest)
def legacy_topic(side: Side, version: int) -> None:
    """What is not named is deleted."""
    name = side.own_topic("t", max_message_bytes="2000")
    side.ask(legacy(version, (TOPIC, name, [("retention.ms", "12345")])), "set")
    settle(side, name, "retention.ms", "12345", TOPIC)
    show(side, name, "after set")
    side.ask(legacy(version, (TOPIC, name, []), only=True), "validated")
    show(side, name, "after validation")
    side.ask(legacy(version, (TOPIC, name, [])), "nothing")
    settle(side, name, "retention.ms", "604800000", TOPIC)
    show(side, name, "after nothing")


@case(AlterConfigsRequest)
def legacy_faults(side: Side, version: int) -> None:
    name = side.own_topic("t")
    wanted: dict[str, list[tuple[int, str, list[tuple[str, str | None]]]]] = {
        "null": [(TOPIC, name, [("retention.ms", None)])],
        "bad value": [(TOPIC, name, [("retention.ms", "x")])],
        "unknown config": [(TOPIC, name, [("no.such.config", "1")])],
        "conflict": [(TOPIC, name, [("min.compaction.lag.ms", "2"), ("max.compaction.lag.ms", "1")])],
        "one config twice": [(TOPIC, name, [("retention.ms", "1"), ("retention.ms", "2")])],
        "unknown topic": [(TOPIC, side.name("nowhere"), [])],
        "no topic": [(TOPIC, "", [])],
        "bad topic name": [(TOPIC, "a/b", [])],
        "type 0": [(UNKNOWN, name, [])],
        "type 3": [(3, name, [])],
        "loggers": [(8, name, [])],
        "nothing": [],
    }
    for label, resources in wanted.items():
        side.ask(legacy(version, *resources), label)
    show(side, name, "unchanged")


# Defaults of topic configs, set for the broker: for the whole cluster, for one node, and taken back.
DEFAULTS = [
    "log.retention.bytes", "log.segment.bytes", "log.cleanup.policy", "log.retention.ms", "log.roll.ms",
    "min.insync.replicas", "log.flush.interval.ms", "log.message.timestamp.type",
]  # fmt: skip
TOPIC_DEFAULTS = [
    "retention.bytes", "segment.bytes", "cleanup.policy", "retention.ms", "segment.ms", "flush.ms",
    "message.timestamp.type",
]  # fmt: skip


@case(IncrementalAlterConfigsRequest)
def broker(side: Side, version: int) -> None:
    own, name = str(side.server.node_id), side.plain_topic("t")
    side.ask(incremental(version, (BROKER, "", [("log.retention.bytes", SET, "1000000")])), "cluster")
    one: Ops = [
        ("log.retention.bytes", SET, "2000000"),
        ("log.segment.bytes", SET, " 3000000 "),
        ("log.retention.ms", SET, "86400000"),
        ("log.roll.ms", SET, "3600000"),
        ("log.flush.interval.ms", SET, "1000"),
        ("log.message.timestamp.type", SET, "LogAppendTime"),
    ]
    side.ask_own_id(incremental(version, (BROKER, own, one)), "node")
    side.ask_own_id(
        incremental(version, (BROKER, own, [("log.cleanup.policy", APPEND, "compact")])), "append"
    )
    settle(side, own, "log.cleanup.policy", "delete,compact")
    show(side, own, "node as shown", BROKER, DEFAULTS)
    show(side, "", "cluster as shown", BROKER, DEFAULTS)
    show(side, name, "topic as shown", keys=TOPIC_DEFAULTS)
    back: Ops = [(config, DELETE, None) for config in DEFAULTS if config != "min.insync.replicas"]
    side.ask_own_id(incremental(version, (BROKER, own, back)), "back")
    side.ask(incremental(version, (BROKER, "", back)), "cluster back")
    settle(side, own, "log.retention.bytes", "-1")
    show(side, own, "node at the end", BROKER, DEFAULTS)


BROKER_VALUES: list[tuple[str, str]] = [
    ("message.max.bytes", "-1"),
    ("message.max.bytes", "x"),
    ("message.max.bytes", "2000000"),
    ("log.segment.bytes", "100"),
    ("log.cleanup.policy", "remove"),
    ("log.retention.ms", "-2"),
    ("log.message.timestamp.type", "Both"),
    ("compression.type", "brotli"),
    ("num.network.threads", "0"),
    ("max.connections", "-1"),
    ("max.connections", "100000"),
    ("background.threads", "0"),
    ("log.cleaner.threads", "x"),
    ("producer.id.expiration.ms", "0"),
    ("sasl.kerberos.min.time.before.relogin", "58000"),
    ("sasl.kerberos.min.time.before.relogin", "-1"),
    ("sasl.kerberos.min.time.before.relogin", "x"),
    ("sasl.kerberos.ticket.renew.jitter", "7"),
    ("sasl.kerberos.ticket.renew.window.factor", "-1"),
    ("sasl.kerberos.kinit.cmd", "/bin/kinit"),
    ("sasl.login.refresh.buffer.seconds", "-1"),
    ("sasl.login.refresh.min.period.seconds", "1000"),
    ("sasl.login.refresh.window.factor", "0.1"),
    ("sasl.login.refresh.window.jitter", "7"),
    ("node.id", "5"),
    ("log.dirs", "/tmp"),
    ("auto.create.topics.enable", "false"),
    ("num.partitions", "5"),
]


@case(IncrementalAlterConfigsRequest)
def broker_values(side: Side, version: int) -> None:
    own = str(side.server.node_id)
    for config, value in BROKER_VALUES:
        one: Ops = [(config, SET, value)]
        side.ask_own_id(incremental(version, (BROKER, own, one), only=True), f"node {config}={value}")
        side.ask(incremental(version, (BROKER, "", one), only=True), f"cluster {config}={value}")


@case(IncrementalAlterConfigsRequest)
def broker_faults(side: Side, version: int) -> None:
    own = str(side.server.node_id)
    good: Ops = [("message.max.bytes", SET, "2000000")]
    side.ask(incremental(version, (BROKER, "4711", good)), "another")
    side.ask(incremental(version, (BROKER, "x", good)), "no number")
    wanted: dict[str, Ops] = {
        "null": [("message.max.bytes", SET, None)],
        "append": [("message.max.bytes", APPEND, "1")],
        "operation 4": [("message.max.bytes", 4, "1")],
        "unknown": [("no.such.config", SET, "1")],
        "append to an unknown one": [("no.such.config", APPEND, "1")],
    }
    for label, ops in wanted.items():
        side.ask_own_id(incremental(version, (BROKER, own, ops), only=True), label)
    side.ask(incremental(version, (CLIENT_METRICS, "subscription", []), only=True), "client metrics")


THROTTLES = [
    "leader.replication.throttled.rate", "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
]  # fmt: skip


@case(IncrementalAlterConfigsRequest)
def throttles(side: Side, version: int) -> None:
    """What kafka-reassign-partitions sets on brokers: not shown where it is not set."""
    own = str(side.server.node_id)
    show(side, own, "node without", BROKER, THROTTLES)
    side.ask(incremental(version, (BROKER, "", [(THROTTLES[0], SET, "2000")])), "cluster")
    node: Ops = [(name, SET, f" {n}000 ") for n, name in enumerate(THROTTLES, 1)]
    side.ask_own_id(incremental(version, (BROKER, own, node)), "node")
    last = ("message.max.bytes", "3000000")
    side.ask_own_id(incremental(version, (BROKER, own, [(last[0], SET, last[1])])), "last")
    settle(side, own, *last)
    show(side, own, "node as shown", BROKER, THROTTLES)
    show(side, "", "cluster as shown", BROKER, THROTTLES)
    for value in ("-1", "x", "0", str(2**63)):
        ops: Ops = [(THROTTLES[1], SET, value)]
        side.ask_own_id(incremental(version, (BROKER, own, ops), only=True), f"rate {value}")
    side.ask_own_id(incremental(version, (BROKER, own, [(THROTTLES[0], APPEND, "1")]), only=True), "append")
    back: Ops = [(name, DELETE, None) for name in THROTTLES]
    side.ask(incremental(version, (BROKER, "", back)), "cluster back")
    side.ask_own_id(incremental(version, (BROKER, own, [*back, (last[0], DELETE, None)])), "back")
    settle(side, own, last[0], "1048588")
    show(side, own, "node at the end", BROKER, THROTTLES)


@case(AlterConfigsRequest)
def legacy_broker(side: Side, version: int) -> None:
    own = str(side.server.node_id)
    side.ask_own_id(legacy(version, (BROKER, own, [("log.retention.bytes", "2000000")])), "node")
    settle(side, own, "log.retention.bytes", "2000000")
    show(side, own, "node as shown", BROKER, DEFAULTS)
    side.ask_own_id(legacy(version, (BROKER, own, [])), "back")
    settle(side, own, "log.retention.bytes", "-1")
    side.ask(legacy(version, (BROKER, "4711", [])), "another")
    side.ask(legacy(version, (BROKER, "x", [])), "no number")
    side.ask_own_id(legacy(version, (BROKER, own, [("node.id", "5")])), "fixed")
