"""Every topic config of Kafka 4.3, in the order in which Kafka defines (and therefore checks) them.

Names, types, defaults and ranges are those of `org.apache.kafka.storage.internals.log.LogConfig`; the broker
config that a default comes from is `ServerTopicConfigSynonyms`'s. The documentation is ours. `effect` says
what a config does in this gateway; where it is empty the config is checked, kept and given back, and does
nothing yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.configs.checks import (
    HASH,
    Between,
    Check,
    ListOf,
    NativePartition,
    NativeSubject,
    OneOf,
    ThrottledReplicas,
)
from gateway.configs.values import ConfigType

KEY_NONE: Final = "none"
KEY_ADDRESS: Final = "address"
PUBLISH_OFF: Final = "off"
PUBLISH_VALUES: Final = "values"

LONG_MAX: Final = (1 << 63) - 1
"""Java's largest `long`: the most that Kafka lets such a config be."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic config. `default` is the text Kafka shows; None is shown as null.

    `broker_config` is the broker's config that gives the default for all topics; None when there is none.
    `hidden` ones are accepted, and shown only where they are set: those for Kafka's own tests, and ours.
    """

    name: str
    type: ConfigType
    default: str | None
    check: Check | None
    broker_config: str | None
    documentation: str
    effect: str = ""
    hidden: bool = False
    own: bool = False
    """Dafka's own, which Kafka has not: shown only where it is set, so that nobody meets it unasked."""


_INT, _LONG, _DOUBLE = ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE
_BOOLEAN, _STRING, _LIST = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST

_SEGMENTS: Final = (
    TopicConfig(
        "segment.bytes",
        _INT,
        "1073741824",
        Between(1024 * 1024),
        "log.segment.bytes",
        "Size in bytes at which a partition's open segment is closed and the next one begins. Retention "
        "and compaction work on whole closed segments.",
        effect="The open segment is closed once it holds this many bytes of batches, or 200,000 batches; a "
        "batch is never split, so a segment may be larger by one batch. That of an internal topic is "
        "closed at 4 MiB at the latest.",
    ),
    TopicConfig(
        "segment.ms",
        _LONG,
        "604800000",
        Between(1),
        "log.roll.ms",
        "Age in milliseconds at which the open segment is closed even if it is not full, so that its "
        "records can expire or be compacted.",
        effect="The open segment is closed at the first append after it has been open this long; that of an "
        "idle partition at the next retention check.",
    ),
    TopicConfig(
        "segment.jitter.ms",
        _LONG,
        "0",
        Between(0),
        "log.roll.jitter.ms",
        "Up to this many milliseconds, chosen at random, are taken off segment.ms, so that many partitions "
        "do not close their segments at one moment.",
    ),
    TopicConfig(
        "segment.index.bytes",
        _INT,
        "10485760",
        Between(4),
        "log.index.size.max.bytes",
        "Largest size in bytes of the index from offsets to places in a segment file.",
    ),
    TopicConfig(
        "flush.messages",
        _LONG,
        str(LONG_MAX),
        Between(1),
        "log.flush.interval.messages",
        "Number of records after which the log is forced to disk; 1 means before every acknowledgement.",
    ),
    TopicConfig(
        "flush.ms",
        _LONG,
        str(LONG_MAX),
        Between(0),
        "log.flush.interval.ms",
        "Milliseconds after which the log is forced to disk.",
    ),
)

_RETENTION: Final = (
    TopicConfig(
        "retention.bytes",
        _LONG,
        "-1",
        None,
        "log.retention.bytes",
        "Size in bytes that a partition may reach before its oldest segments are deleted, under the delete "
        "cleanup policy. -1: no limit. It counts per partition, not per topic.",
        effect="The oldest closed segments are dropped as long as the partition keeps this many bytes.",
    ),
    TopicConfig(
        "retention.ms",
        _LONG,
        "604800000",
        Between(-1),
        "log.retention.ms",
        "Milliseconds that records are kept at least before their segment may be deleted, under the delete "
        "cleanup policy. -1: for ever.",
        effect="Closed segments whose newest timestamp is older are dropped, oldest first, at the next "
        "retention check.",
    ),
    TopicConfig(
        "retention.disk.percent",
        _INT,
        "-1",
        Between(1, 100, special=-1),
        None,
        "Share of a store's disk, in percent, that the segments of all partitions of the topic may take "
        "together before the oldest of them are deleted, under the delete cleanup policy. -1: no limit. "
        "A config of Dafka's own: Kafka has none like it.",
        effect="Beyond it the oldest closed segments of the topic are dropped, whichever partition has them.",
        hidden=True,
        own=True,
    ),
    TopicConfig(
        "dafka.native.subject",
        _STRING,
        "",
        NativeSubject(),
        None,
        "Subject of native Dafka producers whose records come into the topic, each once, beside what Kafka "
        "producers write. Empty: of none. A config of Dafka's own: Kafka has none like it.",
        effect="The leaders of the topic's partitions take up the records of each native address of the "
        "subject, in the order of the address, all to one partition.",
        hidden=True,
        own=True,
    ),
    TopicConfig(
        "dafka.native.partition",
        _STRING,
        HASH,
        NativePartition(),
        None,
        "Partition that the records of native producers come into: of each address another one, by a hash of "
        "its name, or the one with this number. A config of Dafka's own: Kafka has none like it.",
        effect="It decides for addresses that are heard of from now on. The others stay where they are: "
        "their order would be lost.",
        hidden=True,
        own=True,
    ),
    TopicConfig(
        "dafka.native.key",
        _STRING,
        KEY_NONE,
        OneOf((KEY_NONE, KEY_ADDRESS)),
        None,
        "Key that the records of native producers get: none, or the address that has published them. A "
        "config of Dafka's own: Kafka has none like it.",
        effect="It decides for records that are taken up from now on.",
        hidden=True,
        own=True,
    ),
    TopicConfig(
        "dafka.native.retention.ms",
        _LONG,
        "-1",
        Between(-1),
        None,
        "How long stores keep a native record of the topic's subject after its arrival, in milliseconds, "
        "once it is in the topic on min.insync.replicas stores; until then they keep it however old it is. "
        "0: it goes within a minute. -1: as long as any other (--native-seconds). A config of Dafka's own: "
        "Kafka has none like it.",
        effect="Stores drop native records that all topics of the subject have after the longest of their "
        "times, in runs of some. Where they have more than --native-bytes the oldest go, first those that no "
        "topic waits for.",
        hidden=True,
        own=True,
    ),
    TopicConfig(
        "dafka.publish",
        _STRING,
        PUBLISH_OFF,
        OneOf((PUBLISH_OFF, PUBLISH_VALUES)),
        None,
        "Whether native Dafka programs can read the values of the topic's records, as native records of the "
        "subject that dafka.publish.subject names: off, or values. A config of Dafka's own: Kafka has none "
        "like it.",
        effect="The stores of each partition give native consumers what is committed in it, each offset as "
        "the native record of that sequence.",
        hidden=True,
        own=True,
    ),
    TopicConfig(
        "dafka.publish.subject",
        _STRING,
        "",
        NativeSubject(),
        None,
        "Subject under which native Dafka programs read the values of the topic, if dafka.publish says so. "
        "Empty: the topic's name with .values behind it. A config of Dafka's own: Kafka has none like it.",
        effect="It must not be the name of a topic, nor the dafka.native.subject of one.",
        hidden=True,
        own=True,
    ),
    TopicConfig(
        "max.message.bytes",
        _INT,
        "1048588",
        Between(0),
        "message.max.bytes",
        "Largest record batch in bytes that is accepted, as it arrives: after the producer's compression.",
        effect="A larger batch is refused with MESSAGE_TOO_LARGE.",
    ),
    TopicConfig(
        "index.interval.bytes",
        _INT,
        "4096",
        Between(0),
        "log.index.interval.bytes",
        "Bytes of log between two entries of the offset index.",
    ),
    TopicConfig(
        "delete.retention.ms",
        _LONG,
        "86400000",
        Between(0),
        "log.cleaner.delete.retention.ms",
        "Milliseconds that a compacted topic keeps tombstones (records without a value), so that a "
        "consumer which reads from the start has that long to see the final state.",
        effect="A compaction drops a tombstone so long after the first one that kept it.",
    ),
    TopicConfig(
        "min.compaction.lag.ms",
        _LONG,
        "0",
        Between(0),
        "log.cleaner.min.compaction.lag.ms",
        "Milliseconds that a record stays uncompacted at least.",
        effect="A segment with a younger record is not compacted.",
    ),
    TopicConfig(
        "max.compaction.lag.ms",
        _LONG,
        str(LONG_MAX),
        Between(1),
        "log.cleaner.max.compaction.lag.ms",
        "Milliseconds after which a record has to be considered for compaction.",
        effect="A log is compacted when a dirty segment is older, whatever its dirty ratio; the open segment "
        "is closed at this age.",
    ),
    TopicConfig(
        "file.delete.delay.ms",
        _LONG,
        "60000",
        Between(0),
        "log.segment.delete.delay.ms",
        "Milliseconds between a segment's deletion from the log and the deletion of its files.",
    ),
    TopicConfig(
        "min.cleanable.dirty.ratio",
        _DOUBLE,
        "0.5",
        Between(0, 1),
        "log.cleaner.min.cleanable.ratio",
        "Share of the log that is not compacted yet from which on a compaction is worth while.",
        effect="A log is compacted when more than this share of its closed segments' bytes is dirty.",
    ),
    TopicConfig(
        "cleanup.policy",
        _LIST,
        "delete",
        ListOf(("compact", "delete")),
        "log.cleanup.policy",
        "What becomes of old segments: delete drops them by age and size, compact keeps the latest record "
        "of each key; both may be given.",
        effect="As described. A record without a key is refused on a compacted topic: its batch with "
        "INVALID_RECORD, and each such record is named.",
    ),
)

_WRITES: Final = (
    TopicConfig(
        "unclean.leader.election.enable",
        _BOOLEAN,
        "false",
        None,
        "unclean.leader.election.enable",
        "Whether a replica that is behind may become leader when no other is left, at the price of lost "
        "records.",
    ),
    TopicConfig(
        "min.insync.replicas",
        _INT,
        "1",
        Between(1),
        "min.insync.replicas",
        "Number of replicas that must have a batch before a producer with acks=all is answered; with fewer "
        "in sync, such a producer gets NOT_ENOUGH_REPLICAS.",
        effect="A batch counts as written once this many stores have fsynced it, and never fewer than a "
        "majority of the segment's stores. With fewer stores than that, acks=all is refused with "
        "NOT_ENOUGH_REPLICAS.",
    ),
    TopicConfig(
        "compression.type",
        _STRING,
        "producer",
        OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
        "compression.type",
        "Codec that batches are stored with; producer keeps the one each batch came with.",
        effect="A batch that comes with another codec is compressed anew before it is written.",
    ),
    TopicConfig(
        "compression.gzip.level",
        _INT,
        "-1",
        Between(1, 9, special=-1),
        "compression.gzip.level",
        "Level of gzip when compression.type is gzip; -1 is gzip's own default.",
        effect="The level that gzip is used with then.",
    ),
    TopicConfig(
        "compression.lz4.level",
        _INT,
        "9",
        Between(1, 17),
        "compression.lz4.level",
        "Level of lz4 when compression.type is lz4.",
        effect="The level that lz4 is used with then; 9 is its fastest mode, as in Kafka.",
    ),
    TopicConfig(
        "compression.zstd.level",
        _INT,
        "3",
        Between(-131072, 22),
        "compression.zstd.level",
        "Level of zstd when compression.type is zstd.",
        effect="The level that zstd is used with then.",
    ),
    TopicConfig(
        "preallocate",
        _BOOLEAN,
        "false",
        None,
        "log.preallocate",
        "Whether a segment's file gets its full size when it is made.",
    ),
    TopicConfig(
        "message.timestamp.type",
        _STRING,
        "CreateTime",
        OneOf(("CreateTime", "LogAppendTime")),
        "log.message.timestamp.type",
        "Which time a record's timestamp is: CreateTime, the producer's, or LogAppendTime, the broker's.",
        effect="With LogAppendTime every batch gets the gateway's time when it is appended.",
    ),
    TopicConfig(
        "message.timestamp.before.max.ms",
        _LONG,
        str(LONG_MAX),
        Between(0),
        "log.message.timestamp.before.max.ms",
        "Milliseconds that a record's timestamp may lie before the broker's time; an older record is "
        "refused. For CreateTime only.",
        effect="An older batch, judged by its first and its largest timestamp, is refused with "
        "INVALID_TIMESTAMP.",
    ),
    TopicConfig(
        "message.timestamp.after.max.ms",
        _LONG,
        "3600000",
        Between(0),
        "log.message.timestamp.after.max.ms",
        "Milliseconds that a record's timestamp may lie after the broker's time; a later record is "
        "refused. For CreateTime only.",
        effect="A later batch, judged by its first and its largest timestamp, is refused with "
        "INVALID_TIMESTAMP.",
    ),
)

_REPLICATION: Final = (
    TopicConfig(
        "leader.replication.throttled.replicas",
        _LIST,
        "",
        ThrottledReplicas(),
        None,
        "Replicas whose replication is throttled on the leader's side: partition:broker pairs, or * for all.",
    ),
    TopicConfig(
        "follower.replication.throttled.replicas",
        _LIST,
        "",
        ThrottledReplicas(),
        None,
        "Replicas whose replication is throttled on the follower's side: partition:broker pairs, or * for "
        "all.",
    ),
)

_TIERED: Final = (
    TopicConfig(
        "remote.storage.enable",
        _BOOLEAN,
        "false",
        None,
        None,
        "Whether the topic uses tiered storage.",
        effect="Only false is accepted: as in a Kafka without a tiered storage system, true is refused with "
        "INVALID_CONFIG.",
    ),
    TopicConfig(
        "local.retention.ms",
        _LONG,
        "-2",
        Between(-2),
        "log.local.retention.ms",
        "With tiered storage: milliseconds that segments stay on the local disk. -2: as retention.ms.",
    ),
    TopicConfig(
        "local.retention.bytes",
        _LONG,
        "-2",
        Between(-2),
        "log.local.retention.bytes",
        "With tiered storage: bytes of a partition that stay on the local disk. -2: as retention.bytes.",
    ),
    TopicConfig(
        "remote.log.copy.disable",
        _BOOLEAN,
        "false",
        None,
        None,
        "With tiered storage: whether no more segments are copied to it.",
    ),
    TopicConfig(
        "remote.log.delete.on.disable",
        _BOOLEAN,
        "false",
        None,
        None,
        "With tiered storage: whether the copies are deleted when it is turned off for the topic.",
    ),
    TopicConfig(
        "internal.segment.bytes",
        _INT,
        None,
        None,
        None,
        "A segment size without a lower limit, for Kafka's own tests.",
        hidden=True,
    ),
)

TOPIC_CONFIGS: Final = {
    config.name: config for config in (*_SEGMENTS, *_RETENTION, *_WRITES, *_REPLICATION, *_TIERED)
}
"""Every topic config by name."""
