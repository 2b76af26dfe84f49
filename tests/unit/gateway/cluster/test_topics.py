"""What topics go by: their own configs, and what Kafka's internal ones may not exceed."""

from typing import Any, cast

import pytest

from gateway.cluster.topics import INTERNAL_SEGMENT_BYTES, apply_configs, build_topic
from gateway.configs.internal import COMPACTED_TOPICS, MIN_INTERNAL_MESSAGE_BYTES
from gateway.log.topic import Topic


def topic(name: str, segment_bytes: int | None) -> Topic:
    configs = {} if segment_bytes is None else {"segment.bytes": str(segment_bytes)}
    return build_topic(cast(Any, None), name, bytes(16), 0, 1, configs)


@pytest.mark.parametrize(
    ("name", "configured", "in_force"),
    [
        ("orders", None, 1 << 30),
        ("orders", 100 << 20, 100 << 20),
        ("__consumer_offsets", None, INTERNAL_SEGMENT_BYTES),
        ("__consumer_offsets", 100 << 20, INTERNAL_SEGMENT_BYTES),
        ("__consumer_offsets", 2 << 20, 2 << 20),
    ],
)
def test_the_segments_of_an_internal_topic_are_small(
    name: str, configured: int | None, in_force: int
) -> None:
    made = topic(name, configured)
    assert made.settings.segment_bytes == in_force
    # The same after a change of configs, together with a topic that has the same ones.
    other = topic("other", configured)
    apply_configs([other, made], {}, announce=True)
    assert made.settings.segment_bytes == in_force
    assert other.settings.segment_bytes == (configured or 1 << 30)
    assert made.configs == ({} if configured is None else {"segment.bytes": str(configured)})


@pytest.mark.parametrize("name", [*sorted(COMPACTED_TOPICS), "orders", "__share_group_state"])
@pytest.mark.parametrize("broker", [None, 1000, 2 << 20])
def test_a_small_limit_of_the_broker_does_not_keep_groups_from_being_written(
    name: str, broker: int | None
) -> None:
    defaults = {} if broker is None else {"message.max.bytes": str(broker)}
    made = build_topic(cast(Any, None), name, bytes(16), 0, 1, {}, defaults)
    in_force = broker or MIN_INTERNAL_MESSAGE_BYTES
    if name in COMPACTED_TOPICS:
        in_force = max(in_force, MIN_INTERNAL_MESSAGE_BYTES)
    assert made.settings.max_message_bytes == in_force
    later = topic(name, None)
    apply_configs([later], defaults, announce=False)
    assert later.settings.max_message_bytes == in_force
