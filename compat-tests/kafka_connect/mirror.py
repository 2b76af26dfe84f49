"""MirrorMaker's connectors copy a topic and offsets of groups, here to the same server by another name."""

from __future__ import annotations

from frameworks.checks import equal, until
from frameworks.main import Stage
from frameworks.side import Record

from kafka_connect.workers import Cluster

PARTITIONS, MORE_PARTITIONS = 3, 5
RETENTION_MS, LONGER_RETENTION_MS = "7200000", "10800000"
PACKAGE = "org.apache.kafka.connect.mirror"
# As users set it: bytes are copied as they are.
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
# Shorter than the defaults, which are minutes.
OFTEN = ("refresh.topics", "refresh.groups", "sync.topic.configs", "sync.group.offsets", "emit.checkpoints")


def mirror(stage: Stage) -> None:
    server = stage.server
    cluster = Cluster(stage, 1)
    topic, group, here = stage.name("orders"), stage.name("readers"), stage.name("here")
    copy = f"{here}.{topic}"
    server.make_topic(topic, PARTITIONS, {"retention.ms": RETENTION_MS})
    server.produce(topic, orders("first"))
    server.commit_ends(group, topic)
    cluster.start()
    settings = connectors(stage, topic, group, here)
    for name in ("Source", "Checkpoint", "Heartbeat"):
        cluster.create(f"{here}-{name}", {**settings, "connector.class": f"{PACKAGE}.Mirror{name}Connector"})
    await_copy(stage, topic, copy)
    equal(server.topics()[copy], PARTITIONS, "partitions of the copy")
    equal(server.configs(copy)["retention.ms"], RETENTION_MS, "retention.ms of the copy")

    until(lambda: len(server.committed(group, copy)) == PARTITIONS, "offsets of the group in the copy")
    ends = [end for _, end in server.bounds(copy)]
    ahead = {n: offset for n, offset in server.committed(group, copy).items() if not 0 < offset <= ends[n]}
    equal(ahead, {}, "offsets of the group that are behind the records it read")

    server.alter(topic, {"retention.ms": LONGER_RETENTION_MS})
    server.add_partitions(topic, MORE_PARTITIONS)
    until(lambda: server.topics()[copy] == MORE_PARTITIONS, "more partitions of the copy")
    until(lambda: server.configs(copy)["retention.ms"] == LONGER_RETENTION_MS, "the config in the copy")
    server.produce(topic, orders("second"))
    await_copy(stage, topic, copy)
    until(lambda: server.read("heartbeats"), "a heartbeat")
    cluster.workers[0].process.stop()


def orders(label: str) -> list[Record]:
    """Over all partitions, with keys and values of any bytes."""
    return [Record(b"%d" % n, b"%s \x00\xff %d" % (label.encode(), n)) for n in range(200)]


def connectors(stage: Stage, topic: str, group: str, here: str) -> dict[str, str]:
    """What the three have in common; each ignores what is another's."""
    topics = ("", "offset-syncs.topic.", "checkpoints.topic.", "heartbeats.topic.")
    return {
        "source.cluster.alias": here,
        "target.cluster.alias": stage.name("there"),
        "source.cluster.bootstrap.servers": stage.bootstrap,
        "target.cluster.bootstrap.servers": stage.bootstrap,
        "key.converter": BYTES,
        "value.converter": BYTES,
        "topics": topic,
        "groups": group,
        "sync.group.offsets.enabled": "true",
        "offset.lag.max": "0",
        **{f"{prefix}replication.factor": "1" for prefix in topics},
        **{f"{what}.interval.seconds": "1" for what in OFTEN},
    }


def await_copy(stage: Stage, topic: str, copy: str) -> None:
    """All records, partition by partition, in order: keys, values, timestamps."""
    server = stage.server
    wanted = server.read(topic)
    until(lambda: copy in server.topics() and len(server.read(copy)) >= len(wanted), "the copy")
    equal(server.read(copy), wanted, "records of the copy")
