"""What the gateway's own topics must be like."""

from __future__ import annotations

import pytest

from gateway.configs.internal import COMPACTED_TOPICS, check_internal_configs, new_internal_configs
from gateway.groups.internal_topic import OFFSETS_TOPIC, OFFSETS_TOPIC_CONFIGS
from wireproto.kafka.errors import ErrorCode, KafkaError


def test_the_gateway_makes_it_as_it_must_be() -> None:
    assert OFFSETS_TOPIC in COMPACTED_TOPICS
    assert new_internal_configs(OFFSETS_TOPIC, OFFSETS_TOPIC_CONFIGS) == OFFSETS_TOPIC_CONFIGS


@pytest.mark.parametrize("name", sorted(COMPACTED_TOPICS))
def test_a_client_that_makes_it_without_a_policy_gets_the_right_one(name: str) -> None:
    assert new_internal_configs(name, {"segment.bytes": "5"}) == {
        "cleanup.policy": "compact",
        "segment.bytes": "5",
    }


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"cleanup.policy": "delete"},
        {"cleanup.policy": ""},
        {"cleanup.policy": "compact,delete"},
        {"cleanup.policy": "compact", "max.message.bytes": "1000"},
    ],
)
def test_what_would_break_it_is_refused(configs: dict[str, str]) -> None:
    with pytest.raises(KafkaError) as refused:
        check_internal_configs("__transaction_state", configs)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    check_internal_configs("orders", configs)
    check_internal_configs("__share_group_state", configs)
    assert new_internal_configs("orders", configs) == configs


@pytest.mark.parametrize("policy", ["compact", " compact "])
def test_what_does_not_is_taken(policy: str) -> None:
    check_internal_configs(OFFSETS_TOPIC, {"cleanup.policy": policy, "max.message.bytes": " 1048588 "})
