"""What Apache Kafka 4.3.1 answered to each of some 870 topic configs (CreateTopics with validate_only)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.configs.topic_configs import TOPIC_CONFIGS
from gateway.configs.validation import MAX_VALUE_LENGTH, check_native_partition, validate_topic_configs
from gateway.configs.values import MAX_QUOTED_LENGTH
from wireproto.kafka.errors import ErrorCode, KafkaError

KAFKA = [
    json.loads(line)
    for line in (Path(__file__).parent / "kafka_4_3_1_validation.jsonl").read_text("utf-8").splitlines()
]


def verdict(configs: dict[str, str | None]) -> tuple[int, str | None]:
    try:
        kept = validate_topic_configs(configs)
    except KafkaError as error:
        return error.code, error.message
    assert kept == configs
    return 0, None


KAFKAS = {name for name, config in TOPIC_CONFIGS.items() if not config.own}


@pytest.mark.parametrize("name", sorted(KAFKAS))
def test_single_configs_are_judged_as_kafka_judges_them(name: str) -> None:
    cases = [(configs, code, message) for configs, code, message in KAFKA if list(configs) == [name]]
    assert cases
    assert [(c, *verdict(c)) for c, _, _ in cases] == cases


def test_unknown_null_and_conflicting_configs_are_judged_as_kafka_judges_them() -> None:
    cases = [
        (configs, code, message) for configs, code, message in KAFKA if not set(configs) <= set(TOPIC_CONFIGS)
    ] + [(configs, code, message) for configs, code, message in KAFKA if len(configs) > 1]
    assert len(cases) > 20
    assert [(c, *verdict(c)) for c, _, _ in cases] == cases


def test_every_config_of_kafka_is_there_and_has_cases() -> None:
    asked = {name for configs, _, _ in KAFKA for name in configs}
    assert asked >= KAFKAS


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("-1", None),
        ("1", None),
        ("100", None),
        ("0", "Value must be between 1 and 100 or equal to -1"),
        ("101", "Value must be between 1 and 100 or equal to -1"),
        ("half", "Not a number of type INT"),
    ],
)
def test_our_own_share_of_the_disk(value: str, message: str | None) -> None:
    name = "retention.disk.percent"
    wrong = f"Invalid value {value} for configuration {name}: {message}"
    expected = (0, None) if message is None else (ErrorCode.INVALID_CONFIG, wrong)
    assert verdict({name: value}) == expected


@pytest.mark.parametrize(
    ("subject", "allowed"),
    [("", True), ("readings", True), ("\u00e9" * 127, True), ("\u00e9" * 128, False), ("a\0b", False)],
)
def test_our_own_subject_of_native_producers(subject: str, allowed: bool) -> None:
    code, message = verdict({"dafka.native.subject": subject})
    assert (code == 0) == allowed
    assert allowed or "a subject has at most 255 bytes of UTF-8, no NUL" in str(message)


@pytest.mark.parametrize(
    ("partition", "allowed"),
    [("hash", True), ("0", True), ("19999", True), ("-1", False), ("01", False), ("Hash", False), ("", False),
     ("1" * 10, False), ("١", False)],
)  # fmt: skip
def test_our_own_partition_of_native_records(partition: str, allowed: bool) -> None:
    code, message = verdict({"dafka.native.partition": partition})
    assert (code == 0) == allowed
    assert allowed or "it is hash, or the number of a partition" in str(message)


@pytest.mark.parametrize(
    ("partition", "allowed"),
    [
        (None, True),
        (" hash ", True),
        ("2", True),
        (" 2 ", True),
        ("\x012", True),
        ("3", False),
        (" 3", False),
    ],
)
def test_the_partition_of_native_records_has_to_be_there(partition: str | None, allowed: bool) -> None:
    """As Kafka reads numbers: blanks and all."""
    configs = validate_topic_configs({} if partition is None else {"dafka.native.partition": partition})
    if allowed:
        check_native_partition(configs, 3)
        return
    with pytest.raises(KafkaError, match="there is no partition 3, of 3 that are numbered from 0 on"):
        check_native_partition(configs, 3)


@pytest.mark.parametrize(("key", "allowed"), [("none", True), ("address", True), ("sequence", False)])
def test_our_own_key_of_native_records(key: str, allowed: bool) -> None:
    code, message = verdict({"dafka.native.key": key})
    assert (code == 0) == allowed
    assert allowed or "String must be one of: none, address" in str(message)


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_native_records_do_not_replace_each_other(policy: str) -> None:
    code, message = verdict({"dafka.native.subject": "readings", "cleanup.policy": policy})
    assert code == ErrorCode.INVALID_CONFIG
    assert "native records do not replace each other" in str(message)
    assert verdict({"dafka.native.subject": "", "cleanup.policy": policy}) == (0, None)


def test_a_long_value_does_not_make_a_long_message() -> None:
    code, message = verdict({"retention.ms": "9" * 30_000})
    assert code == ErrorCode.INVALID_CONFIG
    assert message is not None
    assert message.startswith("Invalid value 999")
    assert len(message) < MAX_QUOTED_LENGTH + 100
    code, message = verdict({"x" * 100_000: "1"})
    assert message == f"Unknown topic config name: {'x' * MAX_QUOTED_LENGTH}..."


def test_a_value_may_not_be_endless() -> None:
    padding = MAX_VALUE_LENGTH - 1
    assert verdict({"retention.ms": " " * padding + "5"}) == (0, None)
    assert verdict({"retention.ms": " " * padding + "55"}) == (
        ErrorCode.INVALID_CONFIG,
        "The value of retention.ms is longer than 32767 characters",
    )


@given(st.sampled_from(sorted(TOPIC_CONFIGS)), st.text())
def test_any_text_is_kept_or_refused_by_name(name: str, text: str) -> None:
    code, message = verdict({name: text})
    if code:
        assert code == ErrorCode.INVALID_CONFIG
        assert message is not None
        assert name in message or message.startswith("Tiered Storage")
