from __future__ import annotations

from gateway.configs.effective import EffectiveTopicConfigs, effective_topic_configs

DEFAULTS = EffectiveTopicConfigs(
    max_message_bytes=1_048_588,
    log_append_time=False,
    min_insync_replicas=1,
    segment_bytes=1 << 30,
    segment_ms=7 * 24 * 60 * 60 * 1000,
    timestamp_before_max_ms=(1 << 63) - 1,
    timestamp_after_max_ms=3_600_000,
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
    }
    assert effective_topic_configs(overrides) == EffectiveTopicConfigs(2000, True, 2, 1 << 20, 60_000, 5, 6)


def test_the_brokers_own_values_come_between() -> None:
    static = {"message.max.bytes": "3000", "log.segment.bytes": "2097152"}
    effective = effective_topic_configs({"max.message.bytes": "2000"}, static)
    assert (effective.max_message_bytes, effective.segment_bytes) == (2000, 2 << 20)


def test_a_kept_value_that_cannot_be_read_does_not_make_the_topic_unusable() -> None:
    assert effective_topic_configs({"segment.bytes": "12", "segment.ms": "soon"}) == DEFAULTS
