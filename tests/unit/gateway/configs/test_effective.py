from __future__ import annotations

import pytest

from gateway.configs.effective import EffectiveTopicConfigs, effective_topic_configs
from wireproto.records.compression import Codec

DEFAULTS = EffectiveTopicConfigs(
    max_message_bytes=1_048_588,
    log_append_time=False,
    min_insync_replicas=1,
    segment_bytes=1 << 30,
    segment_ms=7 * 24 * 60 * 60 * 1000,
    timestamp_before_max_ms=(1 << 63) - 1,
    timestamp_after_max_ms=3_600_000,
    cleanup_delete=True,
    cleanup_compact=False,
    retention_ms=7 * 24 * 60 * 60 * 1000,
    retention_bytes=-1,
    retention_disk_percent=-1,
    delete_retention_ms=24 * 60 * 60 * 1000,
    min_cleanable_dirty_ratio=0.5,
    min_compaction_lag_ms=0,
    max_compaction_lag_ms=(1 << 63) - 1,
    codec=None,
    compression_level=None,
)


def test_without_overrides_kafkas_defaults_are_in_force() -> None:
    assert effective_topic_configs({}) == DEFAULTS


def test_overrides_are_in_force() -> None:
    overrides = {
        "max.message.bytes": " 2000 ",
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": "2",
        "segment.bytes": "1048576",
        "segment.ms": "60000",
        "message.timestamp.before.max.ms": "5",
        "message.timestamp.after.max.ms": "6",
        "retention.ms": "1",
        "retention.bytes": "2",
        "retention.disk.percent": "3",
        "cleanup.policy": "compact",
        "delete.retention.ms": "4",
        "min.cleanable.dirty.ratio": "0.25",
        "min.compaction.lag.ms": "7",
        "max.compaction.lag.ms": "8",
    }
    assert effective_topic_configs(overrides) == EffectiveTopicConfigs(
        max_message_bytes=2000,
        log_append_time=True,
        min_insync_replicas=2,
        segment_bytes=1 << 20,
        segment_ms=60_000,
        timestamp_before_max_ms=5,
        timestamp_after_max_ms=6,
        cleanup_delete=False,
        cleanup_compact=True,
        retention_ms=1,
        retention_bytes=2,
        retention_disk_percent=3,
        delete_retention_ms=4,
        min_cleanable_dirty_ratio=0.25,
        min_compaction_lag_ms=7,
        max_compaction_lag_ms=8,
        codec=None,
        compression_level=None,
    )


@pytest.mark.parametrize(
    ("configs", "codec", "level"),
    [
        ({"compression.type": "uncompressed"}, Codec.NONE, None),
        ({"compression.type": "snappy"}, Codec.SNAPPY, None),
        ({"compression.type": "gzip"}, Codec.GZIP, None),
        ({"compression.type": "gzip", "compression.gzip.level": "9"}, Codec.GZIP, 9),
        ({"compression.type": "lz4"}, Codec.LZ4, None),
        ({"compression.type": "lz4", "compression.lz4.level": "8"}, Codec.LZ4, 8),
        ({"compression.type": "zstd", "compression.zstd.level": "-7"}, Codec.ZSTD, -7),
    ],
)
def test_the_codec_and_its_level(configs: dict[str, str], codec: Codec, level: int | None) -> None:
    effective = effective_topic_configs(configs)
    assert (effective.codec, effective.compression_level) == (codec, level)


@pytest.mark.parametrize(
    ("policy", "age"), [("delete", 60_000), ("compact", 8), ("compact,delete", 8), ("", 60_000)]
)
def test_a_compacted_topics_segments_close_before_compaction_is_overdue(policy: str, age: int) -> None:
    configs = {"cleanup.policy": policy, "segment.ms": "60000", "max.compaction.lag.ms": "8"}
    assert effective_topic_configs(configs).max_segment_ms == age


def test_the_brokers_own_values_come_between() -> None:
    static = {"message.max.bytes": "3000", "log.segment.bytes": "2097152"}
    effective = effective_topic_configs({"max.message.bytes": "2000"}, static)
    assert (effective.max_message_bytes, effective.segment_bytes) == (2000, 2 << 20)


def test_a_kept_value_that_cannot_be_read_does_not_make_the_topic_unusable() -> None:
    assert effective_topic_configs({"segment.bytes": "12", "segment.ms": "soon"}) == DEFAULTS
