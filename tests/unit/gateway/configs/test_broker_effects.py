"""What is said of broker configs is so: constants have the values that are shown, options exist."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dafka.commands.options import OPTIONS
from gateway.administration.broker_values import own_broker_configs
from gateway.cluster.cluster import TOKENS_SWEPT_SECONDS
from gateway.configs.broker_configs import NATIVE_TOPICS, broker_configs
from gateway.configs.broker_validation import (
    NO_EFFECT,
    OWN_EFFECT,
    TOPIC_DEFAULTS,
    validate_broker_configs,
)
from gateway.configs.checks import is_named
from gateway.configs.topic_configs import TOPIC_CONFIGS
from gateway.fetch.reading import MAX_RESPONSE_BYTES
from gateway.front.limits import IDLE_SECONDS, MAX_REQUEST_BYTES
from gateway.groups.expiry import CHECK_SECONDS
from gateway.groups.internal_topic import OFFSETS_TOPIC_CONFIGS, OFFSETS_TOPIC_PARTITIONS
from gateway.groups.offsets import OFFSET_METADATA_MAX_BYTES
from gateway.journal.group_commit import WRITE_TIMEOUT_SECONDS
from gateway.transactions.coordinator import MAX_TIMEOUT_MS
from gateway.transactions.internal_topic import TRANSACTION_TOPIC_CONFIGS, TRANSACTION_TOPIC_PARTITIONS
from gateway.transactions.sweep import EXPIRATION_MS, EXPIRY_SECONDS, TIMEOUTS_SECONDS
from tests.docs import broker_effects
from tests.docs.broker_effects import BY_OPTION, HELD, TOLD, WHILE_IT_RUNS, effect_of
from tests.unit.gateway.api.asking import FakeBroker
from wireproto.kafka.errors import KafkaError

CONSTANTS: dict[str, object] = {
    "connections.max.idle.ms": int(IDLE_SECONDS * 1000),
    "delegation.token.expiry.check.interval.ms": int(TOKENS_SWEPT_SECONDS * 1000),
    "delete.topic.enable": "true",
    "fetch.max.bytes": MAX_RESPONSE_BYTES,
    "offset.metadata.max.bytes": OFFSET_METADATA_MAX_BYTES,
    "offsets.commit.timeout.ms": int(WRITE_TIMEOUT_SECONDS * 1000),
    "offsets.retention.check.interval.ms": int(CHECK_SECONDS * 1000),
    "offsets.topic.num.partitions": OFFSETS_TOPIC_PARTITIONS,
    "offsets.topic.segment.bytes": OFFSETS_TOPIC_CONFIGS["segment.bytes"],
    "socket.request.max.bytes": MAX_REQUEST_BYTES,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": int(TIMEOUTS_SECONDS * 1000),
    "transaction.max.timeout.ms": MAX_TIMEOUT_MS,
    "transaction.remove.expired.transaction.cleanup.interval.ms": int(EXPIRY_SECONDS * 1000),
    "transaction.state.log.num.partitions": TRANSACTION_TOPIC_PARTITIONS,
    "transaction.state.log.segment.bytes": TRANSACTION_TOPIC_CONFIGS["segment.bytes"],
    "transactional.id.expiration.ms": EXPIRATION_MS,
}


def test_what_is_held_is_what_is_shown() -> None:
    assert CONSTANTS.keys() == HELD.keys()
    assert {name: str(value) for name, value in CONSTANTS.items()} == {
        name: broker_configs()[name].default for name in HELD
    }


def test_what_a_gateway_shows_of_its_own_is_by_an_option_or_told() -> None:
    """All of it differs from Kafka's defaults here, so that all of it is shown."""
    different = dict.fromkeys(
        (
            "partitions", "auto_create_topics", "retention_check_interval_ms", "compaction_backoff_ms",
            "group_initial_rebalance_delay_ms", "group_min_session_timeout_ms",
            "group_max_session_timeout_ms", "group_max_size", "offsets_retention_minutes",
            "quota_window_num", "quota_window_size_seconds", "controller_quota_window_num",
            "controller_quota_window_size_seconds",
            "fetch_session_slots", "delegation_token_expiry_time_ms", "delegation_token_max_lifetime_ms",
        ),
        0,
    )  # fmt: skip
    different["connections_max_reauth_ms"] = 1
    broker = FakeBroker(stores=2, rack="zone-b", gateway_listener="INSIDE", **different)
    request = SimpleNamespace(local_address=("gateway.example", 9999))
    assert own_broker_configs(cast("Any", request), cast("Any", broker)).keys() == BY_OPTION.keys() | TOLD


def test_options_exist() -> None:
    for option in BY_OPTION.values():
        assert option.removeprefix("--").replace("-", "_") in OPTIONS


def test_each_config_is_of_one_kind() -> None:
    kinds = [set(BY_OPTION), set(TOLD), set(HELD), set(TOPIC_DEFAULTS), set(NO_EFFECT), set(WHILE_IT_RUNS)]
    for kind in kinds:
        assert kind <= broker_configs().keys()
    assert len(set().union(*kinds)) == sum(map(len, kinds))


def test_only_these_can_be_set_while_it_runs() -> None:
    for name in (*NO_EFFECT, *TOPIC_DEFAULTS, *OWN_EFFECT):
        default = broker_configs()[name].default
        validate_broker_configs({name: "1" if default is None else default})
    for name in {*BY_OPTION, *TOLD, *HELD} - {*OWN_EFFECT}:
        with pytest.raises(KafkaError, match="Cannot update these configs dynamically"):
            validate_broker_configs({name: "1"})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("log.retention.ms", "default of retention.ms"),
        ("log.preallocate", "default of preallocate: accepted, no effect"),
        ("group.max.size", "set by --group-max-size"),
        ("log.cleaner.backoff.ms", "set by --compaction-backoff-ms, and while it runs"),
        ("max.connections", "set while it runs"),
        ("node.id", "says what is so"),
        (
            "offset.metadata.max.bytes",
            HELD["offset.metadata.max.bytes"] + " Kafka's default holds; cannot be set",
        ),
        ("num.io.threads", "accepted, no effect"),
        ("zookeeper.connect", None),
        ("ssl.keystore.location", "no effect; cannot be set"),
    ],
)
def test_in_words(name: str, words: str | None) -> None:
    if words is None:
        with pytest.raises(KeyError):
            effect_of(name)
    else:
        assert effect_of(name) == words


def test_every_config_has_words() -> None:
    assert all(effect_of(name) for name in broker_configs())
    assert not TOPIC_CONFIGS["preallocate"].effect
    assert broker_effects.NO_EFFECT == "accepted, no effect"


@pytest.mark.parametrize("names", ["", "a", "a,b", "*", " sensors-* , heat,", "a.b_c-*"])
def test_topics_that_take_up_their_own_subject_are_named(names: str) -> None:
    validate_broker_configs({NATIVE_TOPICS: names}, whole_cluster=True)


@pytest.mark.parametrize("names", ["a*b", "**", "a b", "a,ü", "..", "x" * 250])
def test_what_names_no_topic_is_refused(names: str) -> None:
    with pytest.raises(KafkaError, match="names no topic"):
        validate_broker_configs({NATIVE_TOPICS: names}, whole_cluster=True)


@pytest.mark.parametrize(
    ("topic", "is_one"),
    [("heat", True), ("heats", False), ("sensors-", True), ("sensors-1", True), ("sensors", False)],
)
def test_which_topics_are_named(topic: str, is_one: bool) -> None:
    assert is_named(topic, " sensors-* , heat,") is is_one
    assert not is_named(topic, "")
    assert is_named(topic, "*")
