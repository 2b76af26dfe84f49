"""What topics go by: their own configs, and what Kafka's internal ones may not exceed."""

from typing import Any, cast

import pytest

from gateway.catalog import keys
from gateway.catalog.interface import Entry
from gateway.cluster import topics as topics_module
from gateway.cluster.topics import (
    INTERNAL_SEGMENT_BYTES,
    MAX_MAKER_CHARS,
    Topics,
    apply_configs,
    build_topic,
    topic_of,
    topic_record,
)
from gateway.configs.internal import COMPACTED_TOPICS, MIN_INTERNAL_MESSAGE_BYTES
from gateway.log.partition import Partition
from gateway.log.topic import Topic
from gateway.security.principal import MAX_NAME_CHARS, USER, Principal
from wireproto.kafka.errors import ErrorCode, KafkaError


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


# shares -------------------------------------------------------------------------------------------------


def of(maker: str, name: str, partitions: int) -> Topic:
    """A topic of somebody's. What its partitions are does not matter."""
    made = build_topic(cast(Any, None), name, name.encode().ljust(16), 0, 1, {}, maker=maker)
    made.partitions = [cast(Partition, None)] * partitions
    return made


def refused(topics: Topics, maker: str, partitions: int) -> str:
    with pytest.raises(KafkaError) as raised:
        topics.check_room(maker, partitions)
    assert raised.value.code is ErrorCode.POLICY_VIOLATION
    return raised.value.message


def test_one_principal_has_half_of_what_others_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics_module, "MAX_PARTITIONS", 100)
    topics = Topics()
    topics.add(of("", "of nobody", 20))
    topics.check_room("User:a", 40)
    topics.add(of("User:a", "first", 40))
    assert refused(topics, "User:a", 1) == (
        "The topics that User:a has made or extended have 40 partitions, and 1 more would be too many: they "
        "may have 40, half of what others leave of 100. Delete topics that are not needed, or ask a super "
        "user to make these partitions."
    )
    topics.check_room("", 1)
    topics.check_room("User:b", 20)
    refused(topics, "User:b", 21)


def test_what_grows_counts_and_what_is_deleted_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics_module, "MAX_PARTITIONS", 10)
    topics, mine = Topics(), of("User:a", "mine", 2)
    topics.add(mine)
    topics.check_room("User:a", 3)
    mine.partitions = mine.partitions * 2
    topics.grew(mine, 2)
    topics.check_room("User:a", 1)
    refused(topics, "User:a", 2)
    topics.remove(mine)
    assert topics.partition_count() == 0
    topics.check_room("User:a", 5)


def test_who_adds_partitions_has_the_topic_on_his_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """So nobody uses up what another one may have, nor has more by what others have made."""
    monkeypatch.setattr(topics_module, "MAX_PARTITIONS", 100)
    topics, nobodys, hers = Topics(), of("", "of nobody", 20), of("User:a", "hers", 40)
    topics.add(nobodys)
    topics.add(hers)
    for topic, most in ((nobodys, 30), (hers, 40)):  # half of what is left without this topic
        topics.check_growth(topic, "User:b", most)
        with pytest.raises(KafkaError) as raised:
            topics.check_growth(topic, "User:b", most + 1)
        assert raised.value.code is ErrorCode.POLICY_VIOLATION
        assert raised.value.message.startswith("The topics that User:b has made or extended have ")
        topics.check_growth(topic, "", most + 1)
    assert (topics.shares.held("User:a"), topics.shares.held("User:b"), topics.shares.used) == (40, 0, 60)
    topics.is_of(hers, "User:b")
    assert (topics.shares.held("User:a"), topics.shares.held("User:b"), topics.shares.used) == (0, 40, 60)
    assert hers.maker == "User:b"


def test_a_record_has_its_maker_where_there_is_one() -> None:
    plain = keys.unpack(topic_record(of("", "orders", 0)))
    assert sorted(plain) == ["configs", "id", "partitions", "replication_factor"]
    owned = topic_record(of("User:a", "orders", 0), configs={"retention.ms": "1"})
    assert keys.unpack(owned)["maker"] == "User:a"
    assert keys.unpack(topic_record(of("User:a", "orders", 0), maker="User:b"))["maker"] == "User:b"
    assert topic_of(cast(Any, None), Entry(keys.topic_key("orders"), owned, 1, 1)).maker == "User:a"


def test_the_longest_name_of_a_certificate_is_a_maker() -> None:
    longest = str(Principal(USER, "x" * MAX_NAME_CHARS))
    record = topic_record(of(longest, "orders", 0))
    assert topic_of(cast(Any, None), Entry(keys.topic_key("orders"), record, 1, 1)).maker == longest


@pytest.mark.parametrize("maker", [None, 7, ["User:a"], "x" * (MAX_MAKER_CHARS + 1)])
def test_a_maker_that_cannot_be_one_is_nobody(maker: object) -> None:
    record = keys.unpack(topic_record(of("", "orders", 0))) | {"maker": maker}
    assert topic_of(cast(Any, None), Entry(keys.topic_key("orders"), keys.pack(record), 1, 1)).maker == ""
