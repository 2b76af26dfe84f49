"""The topic configs that take effect in this gateway, as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.configs.checks import HASH
from gateway.configs.topic_configs import KEY_ADDRESS, PUBLISH_VALUES, TOPIC_CONFIGS
from gateway.configs.validation import parse_topic_config
from gateway.configs.values import InvalidValue, Value
from wireproto.records.compression import Codec

CODECS: Final[dict[str, int | None]] = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""By the words of compression.type."""

LEVELS: Final[dict[int | None, str]] = {
    Codec.GZIP: "compression.gzip.level",
    Codec.LZ4: "compression.lz4.level",
    Codec.ZSTD: "compression.zstd.level",
}
"""The config with the level of a codec."""

OWN_DEFAULTS: Final = frozenset({(Codec.GZIP, -1), (Codec.LZ4, 9)})
"""Levels that stand for the codec's own default."""


@dataclass(frozen=True, slots=True)
class EffectiveTopicConfigs:
    """What a partition's log goes by. Sizes in bytes, times in milliseconds."""

    max_message_bytes: int
    log_append_time: bool
    min_insync_replicas: int
    segment_bytes: int
    segment_ms: int
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    cleanup_delete: bool
    """Old segments are dropped by age and size."""
    cleanup_compact: bool
    """Only the newest record of each key is kept; records without a key are refused. Never of a topic with a
    native subject, whose records have none, whatever the default of all topics is."""
    retention_ms: int
    """Negative: for ever."""
    retention_bytes: int
    """Bytes of one partition; negative: without a limit."""
    retention_disk_percent: int
    """Share of a store's disk that the topic may take; negative: without a limit."""
    delete_retention_ms: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    codec: int | None
    """What batches are stored with, by its number in a batch's attributes; None: as they came."""
    compression_level: int | None
    """The level of that codec; None: its own default."""
    native_subject: str = ""
    """Whose native records come into the topic; "": nobody's."""
    native_partition: int | None = None
    """The partition that they come into; None: by a hash of their address."""
    native_key_is_address: bool = False
    """Their address is their key; else they have none."""
    native_retention_ms: int = -1
    """How long stores keep native records that are in the topic; -1: as long as any other."""
    publishes_values: bool = False
    """Native programs can read the values of its records."""
    publish_subject: str = ""
    """The subject under which they do; "": see `gateway.cluster.subject_names`."""

    @property
    def opens_batches(self) -> bool:
        """Whether a produced batch has to be opened before it is appended."""
        return self.cleanup_compact or self.codec is not None

    @property
    def max_segment_ms(self) -> int:
        """Age at which the open segment is closed (`LogConfig.maxSegmentMs`): a compacted topic's records
        must not stay out of reach of compaction for longer than they may.
        """
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.cleanup_compact else self.segment_ms


def effective_topic_configs(
    overrides: Mapping[str, str], static: Mapping[str, str] | None = None
) -> EffectiveTopicConfigs:
    """The values in force: the topic's own (`overrides`), else the broker's (`static`), else Kafka's default.

    A kept value that this version cannot read counts as not given: a topic must stay usable.
    """
    static = static or {}

    def value(name: str) -> Value:
        config = TOPIC_CONFIGS[name]
        candidates = (overrides.get(name), static.get(config.broker_config or ""), config.default)
        for text in candidates:
            if text is not None:
                try:
                    return parse_topic_config(config, text)
                except InvalidValue:
                    continue
        raise AssertionError(f"{name} has no default")

    policies = value("cleanup.policy")
    assert isinstance(policies, list)
    native_subject = str(value("dafka.native.subject"))
    native_partition = str(value("dafka.native.partition"))
    codec = CODECS[str(value("compression.type"))]
    return EffectiveTopicConfigs(
        max_message_bytes=_integer(value("max.message.bytes")),
        log_append_time=value("message.timestamp.type") == "LogAppendTime",
        min_insync_replicas=_integer(value("min.insync.replicas")),
        segment_bytes=_integer(value("segment.bytes")),
        segment_ms=_integer(value("segment.ms")),
        timestamp_before_max_ms=_integer(value("message.timestamp.before.max.ms")),
        timestamp_after_max_ms=_integer(value("message.timestamp.after.max.ms")),
        cleanup_delete="delete" in policies,
        cleanup_compact="compact" in policies and not native_subject,
        retention_ms=_integer(value("retention.ms")),
        retention_bytes=_integer(value("retention.bytes")),
        retention_disk_percent=_integer(value("retention.disk.percent")),
        delete_retention_ms=_integer(value("delete.retention.ms")),
        min_cleanable_dirty_ratio=_number(value("min.cleanable.dirty.ratio")),
        min_compaction_lag_ms=_integer(value("min.compaction.lag.ms")),
        max_compaction_lag_ms=_integer(value("max.compaction.lag.ms")),
        codec=codec,
        compression_level=_level(codec, value),
        native_subject=native_subject,
        native_partition=None if native_partition == HASH else int(native_partition),
        native_key_is_address=value("dafka.native.key") == KEY_ADDRESS,
        native_retention_ms=_integer(value("dafka.native.retention.ms")),
        publishes_values=value("dafka.publish") == PUBLISH_VALUES,
        publish_subject=str(value("dafka.publish.subject")),
    )


def _level(codec: int | None, value: Callable[[str], Value]) -> int | None:
    """The level of a codec that has some, None for the codec's own default: gzip's -1, and lz4's 9, with
    which Kafka takes its fastest compressor (`Lz4BlockOutputStream`).
    """
    name = LEVELS.get(codec)
    if name is None:
        return None
    level = _integer(value(name))
    return None if (codec, level) in OWN_DEFAULTS else level


def _number(value: Value) -> float:
    assert isinstance(value, int | float)
    return float(value)


def _integer(value: Value) -> int:
    assert isinstance(value, int)
    return value
