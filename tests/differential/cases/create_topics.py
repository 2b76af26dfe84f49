"""CreateTopics 2-7: names, numbers, configs, validation alone."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.metadata import MetadataRequest

from tests.differential.case import case
from tests.differential.side import Side

DEFAULTS_SINCE = 4
TELLS_CONFIGS_SINCE = 5
SOME = [2, 4, 5, 7]


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    assignments: dict[int, list[int]] | None = None,
    **configs: Any,
) -> Any:
    one = CreateTopicsRequest.CreatableTopic
    return one(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            one.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
        configs=[one.CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()],
    )


def ask(
    side: Side, version: int, topics: list[Any], label: str = "", *, only: bool = False, ms: int = 10_000
) -> None:
    side.ask(CreateTopicsRequest(version=version, topics=topics, timeout_ms=ms, validate_only=only), label)


def look(side: Side, *names: str, label: str = "look") -> None:
    """What Metadata says of them, once it can say something."""
    for name in names:
        side.settle(name, -1)
    wanted = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=None) for name in names]
    side.ask(MetadataRequest(version=12, topics=wanted, allow_auto_topic_creation=False), label)


@case(CreateTopicsRequest)
def good(side: Side, version: int) -> None:
    a, b = side.own_name("a"), side.own_name("b")
    ask(side, version, [topic(b, 3), topic(a)])
    look(side, a, b)


@case(CreateTopicsRequest)
def again(side: Side, version: int) -> None:
    name = side.own_name("t")
    ask(side, version, [topic(name)], "first")
    side.settle(name)
    ask(side, version, [topic(name)], "again")
    ask(side, version, [topic(name)], "again, validating", only=True)


@case(CreateTopicsRequest)
def defaults(side: Side, version: int) -> None:
    """-1 is the broker's default from version 4 on (KIP-464)."""
    for partitions, replicas in [(-1, -1), (-1, 1), (2, -1)]:
        ask(side, version, [topic(side.own_name(f"p{partitions}r{replicas}"), partitions, replicas)],
            f"{partitions} {replicas}")  # fmt: skip


@case(CreateTopicsRequest)
def bad_numbers(side: Side, version: int) -> None:
    for partitions, replicas in [(0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (1, 3), (0, 0)]:
        ask(side, version, [topic(side.name("bad"), partitions, replicas)], f"{partitions} {replicas}")


@case(CreateTopicsRequest)
def bad_names(side: Side, version: int) -> None:
    for label, name in {"empty": "", "dot": ".", "dots": "..", "slash": "a/b", "space": "a b", "NUL": "a\0b",
                        "emoji": "\N{SNOWMAN}", "long": "x" * 250, "colon": "a:b"}.items():  # fmt: skip
        ask(side, version, [topic(name)], label)


@case(CreateTopicsRequest)
def clashing_names(side: Side, version: int) -> None:
    """Names that differ only in '.' and '_' would share metrics names in Kafka."""
    base = side.own_name("clash")
    ask(side, version, [topic(base + ".x")], "dot")
    side.settle(base + ".x")
    ask(side, version, [topic(base + "_x")], "underscore")
    ask(side, version, [topic(base + "-x")], "dash")


@case(CreateTopicsRequest)
def twice_in_one_request(side: Side, version: int) -> None:
    name = side.own_name("t")
    ask(side, version, [topic(name), topic(side.own_name("other")), topic(name, 2)])


@case(CreateTopicsRequest)
def validate_only(side: Side, version: int) -> None:
    name = side.own_name("t")
    ask(side, version, [topic(name, 2)], "validated", only=True)
    wanted = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=None)]
    side.ask(MetadataRequest(version=12, topics=wanted, allow_auto_topic_creation=False), "not there")
    ask(side, version, [topic(name, 0)], "bad partitions", only=True)
    ask(side, version, [topic(name, retention_ms="x")], "bad config", only=True)


@case(CreateTopicsRequest)
def assignments(side: Side, version: int) -> None:
    """Kafka wants -1 beside a manual assignment. Node ids differ: only one that nobody has is used."""
    attempts: list[tuple[str, int, int, dict[int, list[int]]]] = [
        ("unknown broker", -1, -1, {0: [4711]}),
        ("beside numbers", 1, 1, {0: [4711]}),
        ("gap", -1, -1, {0: [4711], 2: [4711]}),
        ("empty", -1, -1, {0: []}),
        ("twice", -1, -1, {0: [4711, 4711]}),
    ]
    for label, partitions, replicas, wanted in attempts:
        ask(side, version, [topic(side.name("assigned"), partitions, replicas, wanted)], label)


@case(CreateTopicsRequest)
def nothing(side: Side, version: int) -> None:
    ask(side, version, [])


@case(CreateTopicsRequest)
def timeouts(side: Side, version: int) -> None:
    """A timeout that is over at once is no reason to say no when the work is done at once."""
    ask(side, version, [topic(side.name("never"))], "validating, negative", ms=-1, only=True)


GOOD_CONFIGS = {
    "cleanup.policy": ["delete", "compact", "compact,delete", "delete, compact"],
    "compression.type": ["producer", "zstd", "uncompressed", "gzip"],
    "max.message.bytes": ["0", "1048588", "2147483647"],
    "message.timestamp.type": ["CreateTime", "LogAppendTime"],
    "min.insync.replicas": ["1", "2", "2147483647"],
    "retention.ms": ["-1", "0", "604800000"],
    "retention.bytes": ["-1", "0", "9223372036854775807"],
    "segment.bytes": ["1048576", "2147483647"],
    "segment.ms": ["1", "9223372036854775807"],
    "flush.messages": ["1"],
    "unclean.leader.election.enable": ["true", "false", "TRUE"],
    "preallocate": ["true", " true "],
    "min.cleanable.dirty.ratio": ["0", "0.5", "1"],
    "remote.storage.enable": ["false"],
    "follower.replication.throttled.replicas": ["*", "0:1", ""],
}
BAD_CONFIGS = {
    "cleanup.policy": ["", "remove", "Delete", "delete,", "none"],
    "compression.type": ["brotli", "ZSTD", ""],
    "max.message.bytes": ["-1", "1.5", "x", "2147483648", "", " 1 x"],
    "message.timestamp.type": ["createtime", "", "Both"],
    "min.insync.replicas": ["0", "-1", "one"],
    "retention.ms": ["-2", "x"],
    "segment.bytes": ["0", "13", "14", "1048575", "2147483648"],
    "segment.ms": ["0", "-1"],
    "min.cleanable.dirty.ratio": ["-0.1", "1.1", "half"],
    "unclean.leader.election.enable": ["yes", "1"],
    "message.max.bytes": ["1000"],
    "no.such.config": ["1"],
    "": ["1"],
    "local.retention.ms": ["604800001"],
    "delete.retention.ms": ["-1", "9223372036854775808"],
    "compression.gzip.level": ["0", "10", "-2", "x"],
    "compression.lz4.level": ["0", "18"],
    "compression.zstd.level": ["23", "-131073"],
    "file.delete.delay.ms": ["-1"],
    "flush.messages": ["0"],
    "flush.ms": ["-1"],
    "follower.replication.throttled.replicas": ["x", "0", "0:1,*"],
    "index.interval.bytes": ["-1"],
    "leader.replication.throttled.replicas": ["0:", ":1"],
    "local.retention.bytes": ["-3"],
    "max.compaction.lag.ms": ["0"],
    "message.timestamp.after.max.ms": ["-1"],
    "message.timestamp.before.max.ms": ["-1"],
    "min.compaction.lag.ms": ["-1"],
    "preallocate": ["2"],
    "remote.log.copy.disable": ["no"],
    "remote.log.delete.on.disable": [""],
    "remote.storage.enable": ["true", "x"],
    "retention.bytes": ["x"],
    "segment.index.bytes": ["3"],
    "segment.jitter.ms": ["-1"],
    "message.downconversion.enable": ["true"],
    "message.format.version": ["3.0"],
}


@case(CreateTopicsRequest, SOME)
def good_configs(side: Side, version: int) -> None:
    """Kept as given, and told back from version 5 on with every default beside them."""
    for config, texts in GOOD_CONFIGS.items():
        for text in texts:
            ask(side, version, [_configured(side, config, text)], f"{config}={text!r}", only=True)


@case(CreateTopicsRequest, SOME)
def bad_configs(side: Side, version: int) -> None:
    for config, texts in BAD_CONFIGS.items():
        for text in texts:
            ask(side, version, [_configured(side, config, text)], f"{config}={text!r}", only=True)
    ask(side, version, [_configured(side, "retention.ms", None)], "null value", only=True)


def _configured(side: Side, config: str, text: str | None) -> Any:
    one = topic(side.name("configured"))
    one.configs = [CreateTopicsRequest.CreatableTopic.CreatableTopicConfig(name=config, value=text)]
    return one


@case(CreateTopicsRequest, SOME)
def config_twice(side: Side, version: int) -> None:
    one = _configured(side, "retention.ms", "1")
    one.configs.append(
        CreateTopicsRequest.CreatableTopic.CreatableTopicConfig(name="retention.ms", value="2")
    )
    ask(side, version, [one], only=True)


@case(CreateTopicsRequest, [7])
def one_bad_of_three(side: Side, version: int) -> None:
    """The others are made."""
    a, b = side.own_name("a"), side.own_name("b")
    ask(side, version, [topic(a), topic("a/b"), topic(b)])
    look(side, a, b)


@case(CreateTopicsRequest, [7])
def too_many_partitions(side: Side, version: int) -> None:
    """More than any machine has files for. (Kafka's bound is 10,000 a request.)"""
    ask(side, version, [topic(side.name("huge"), 1_000_000)], only=True)
    ask(side, version, [topic(side.name("huge"), 2**31 - 1)], "2^31-1", only=True)
