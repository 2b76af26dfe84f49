"""What becomes of configs that are altered one by one."""

from __future__ import annotations

import pytest

from gateway.configs.alteration import (
    Alteration,
    Operation,
    altered,
    check_alterations,
    topic_list_default,
)
from gateway.configs.broker_configs import THROTTLES
from gateway.configs.broker_validation import NO_EFFECT, TOPIC_DEFAULTS, validate_broker_configs
from wireproto.kafka.errors import ErrorCode, KafkaError

SET, DELETE, APPEND, SUBTRACT = Operation


def after(current: dict[str, str], *changes: tuple[str, int, str | None]) -> dict[str, str]:
    before = dict(current)
    made = altered(current, [Alteration(*change) for change in changes], topic_list_default)
    assert current == before
    return made


def test_what_is_not_named_stays() -> None:
    current = {"a": "1", "b": "2"}
    assert after(current, ("a", SET, "3"), ("c", SET, "4")) == {"a": "3", "b": "2", "c": "4"}
    assert after(current, ("a", DELETE, None), ("x", DELETE, "ignored")) == {"b": "2"}


@pytest.mark.parametrize(
    ("current", "operation", "value", "expected"),
    [
        (None, APPEND, "compact", "delete,compact"),  # Kafka's default is delete
        ("delete", APPEND, "delete", "delete"),
        ("compact", APPEND, "delete,compact", "compact,delete"),
        ("compact,delete", SUBTRACT, "delete", "compact"),
        ("compact", SUBTRACT, "delete", "compact"),
        (None, SUBTRACT, "delete", ""),
        ("compact", APPEND, "", "compact"),
    ],
)
def test_lists(current: str | None, operation: int, value: str, expected: str) -> None:
    configs = {} if current is None else {"cleanup.policy": current}
    assert after(configs, ("cleanup.policy", operation, value)) == {"cleanup.policy": expected}


@pytest.mark.parametrize("name", ["retention.ms", "no.such.config"])
def test_nothing_is_appended_to_what_is_no_list(name: str) -> None:
    with pytest.raises(KafkaError) as error:
        after({}, (name, APPEND, "1"))
    assert error.value.code == ErrorCode.INVALID_CONFIG
    assert error.value.message == f"Can't APPEND to key {name} because its type is not LIST."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("a", SET, "1"), ("a", DELETE, None)], "Error due to duplicate config keys"),
        ([("a", SET, None), ("b", APPEND, None), ("c", DELETE, None)], "Null value not supported for : a, b"),
        ([("a", 4, "1")], "Unknown operations type 4"),
        ([("a", -1, "1")], "Unknown operations type -1"),
    ],
)
def test_what_cannot_be_meant(changes: list[tuple[str, int, str | None]], message: str) -> None:
    with pytest.raises(KafkaError) as error:
        check_alterations([Alteration(*change) for change in changes])
    assert (error.value.code, error.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_broker_configs_that_are_defaults_of_topic_configs_are_checked_as_those() -> None:
    validate_broker_configs({"log.retention.ms": "5", "message.max.bytes": " 7 ", "num.io.threads": "4"})
    with pytest.raises(KafkaError) as error:
        validate_broker_configs({"log.segment.bytes": "100"})
    assert (error.value.code, error.value.message) == (
        ErrorCode.INVALID_REQUEST,
        "Invalid value 100 for configuration log.segment.bytes: Value must be at least 1048576",
    )


@pytest.mark.parametrize("name", ["node.id", "listeners", "ssl.keystore.password", "log.retention.hours"])
def test_broker_configs_that_are_fixed_are_refused_by_name(name: str) -> None:
    with pytest.raises(KafkaError) as error:
        validate_broker_configs({name: "1"})
    assert (error.value.code, error.value.message) == (
        ErrorCode.INVALID_REQUEST,
        f"Cannot update these configs dynamically: [{name}]",
    )


def test_when_tickets_and_logins_are_renewed_is_set_for_one_node_and_never_for_all() -> None:
    """Kafka has no ranges for them: any number will do."""
    renewal = {"sasl.kerberos.min.time.before.relogin": "58000", "sasl.login.refresh.window.factor": "-7"}
    validate_broker_configs(renewal)
    with pytest.raises(KafkaError) as error:
        validate_broker_configs(renewal, whole_cluster=True)
    assert error.value.code == ErrorCode.INVALID_REQUEST
    assert error.value.message == (
        "Cannot update these configs at default cluster level, broker id must be specified: "
        f"[{', '.join(renewal)}]"
    )


@pytest.mark.parametrize("name", ["sasl.enabled.mechanisms", "sasl.jaas.config", "ssl.client.auth"])
def test_what_would_let_users_in_is_refused_as_long_as_nobody_is_asked_who_they_are(name: str) -> None:
    with pytest.raises(KafkaError, match="Cannot update these configs dynamically"):
        validate_broker_configs({name: "x"})


@pytest.mark.parametrize("name", THROTTLES)
def test_throttles_of_reassignments_are_accepted(name: str) -> None:
    validate_broker_configs({name: " 1000 "})
    for value in ("-1", "x", str(2**63)):
        with pytest.raises(KafkaError, match=f"Invalid value {value} for configuration {name}"):
            validate_broker_configs({name: value})


def test_an_unknown_broker_config_is_refused() -> None:
    with pytest.raises(KafkaError, match="Unknown broker config name: x"):
        validate_broker_configs({"x": "1"})


@pytest.mark.parametrize("name", sorted({*TOPIC_DEFAULTS, *NO_EFFECT}))
def test_a_broker_config_that_may_change_refuses_nonsense(name: str) -> None:
    if name in {"log.roll.hours", "log.roll.jitter.hours", "sasl.kerberos.kinit.cmd"}:
        return
    with pytest.raises(KafkaError, match="INVALID_REQUEST"):
        validate_broker_configs({name: "nonsense"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", None),
        ("10.0.0.1:5", None),
        (" 10.0.0.1 : 5 , ::1:0 , ", None),
        ("localhost:5", "names of hosts are not taken"),
        ("10.0.0.1", "write it as ADDRESS:COUNT"),
        ("10.0.0.1:", "'' is no number"),
        ("10.0.0.1:-1", "'-1' is no number"),
        ("10.0.0.1:2147483648", "'2147483648' is no number from 0 to 2147483647"),
        ("10.0.0.1:1" + "0" * 90, "is no number"),
    ],
)
def test_connections_of_certain_addresses(text: str, said: str | None) -> None:
    configs = {"max.connections.per.ip.overrides": text}
    if said is None:
        validate_broker_configs(configs)
    else:
        with pytest.raises(KafkaError, match=said):
            validate_broker_configs(configs)
