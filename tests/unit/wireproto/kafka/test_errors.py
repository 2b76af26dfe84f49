"""Error codes are Kafka's, and both exceptions say what they have to."""

from typing import Any

import kafka.errors
import pytest

from wireproto.kafka.errors import ErrorCode, KafkaError

#: kafka-python's classes, by code: an independent list of Kafka's errors.
_classes: list[Any] = [cls for cls in vars(kafka.errors).values() if isinstance(cls, type)]
KAFKA_PYTHON = {
    cls.errno: cls
    for cls in _classes
    if issubclass(cls, kafka.errors.BrokerResponseError) and cls.errno is not None
}

#: Kafka 4.3's names where kafka-python kept older or shorter ones.
RENAMED = {
    -1: "UNKNOWN_SERVER_ERROR",
    0: "NONE",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
}


def test_codes_are_dense() -> None:
    assert sorted(ErrorCode) == list(range(-1, 134))


@pytest.mark.parametrize("code", sorted(KAFKA_PYTHON))
def test_names_are_kafkas(code: int) -> None:
    assert ErrorCode(code).name == RENAMED.get(code, KAFKA_PYTHON[code].message)


@pytest.mark.parametrize("code", sorted(KAFKA_PYTHON))
def test_retriable_as_in_kafkas_clients(code: int) -> None:
    # Java retries CORRUPT_MESSAGE (CorruptRecordException extends RetriableException), kafka-python does not.
    expected = code == 2 or issubclass(KAFKA_PYTHON[code], kafka.errors.RetriableError)
    assert ErrorCode(code).retriable is expected


def test_every_code_has_its_own_words() -> None:
    messages = [code.message for code in ErrorCode]
    assert all(messages)
    assert len(set(messages)) == len(messages)


def test_kafka_error_carries_code_and_words() -> None:
    error = KafkaError(ErrorCode.INVALID_CONFIG, "no such config: a")
    assert (error.code, error.message) == (ErrorCode.INVALID_CONFIG, "no such config: a")
    assert str(error) == "INVALID_CONFIG: no such config: a"


def test_kafka_error_without_words_uses_those_of_the_code() -> None:
    assert KafkaError(ErrorCode.REQUEST_TIMED_OUT).message == "the request timed out"
