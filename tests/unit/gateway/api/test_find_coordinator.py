from __future__ import annotations

from typing import Any

import pytest

from gateway.cluster.gateways import BrokerAddress
from tests.unit.gateway.api.asking import ADDRESS, NODE_ID, FakeBroker, ask, request_class
from wireproto.kafka.errors import ErrorCode, KafkaError

Find = request_class(10)
HERE = {"node_id": NODE_ID, "host": ADDRESS[0], "port": ADDRESS[1]}
NOWHERE = {"node_id": -1, "host": "", "port": -1}


def find(version: int, *keys: str, key_type: int = 0) -> dict[str, Any]:
    if version < 4:
        return ask(FakeBroker(), Find(version=version, key=keys[0], key_type=key_type))
    return ask(FakeBroker(), Find(version=version, coordinator_keys=list(keys), key_type=key_type))


def test_v0_knows_groups_only() -> None:
    assert find(0, "g") == {"error_code": 0, **HERE}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("key_type", [0, 1])
@pytest.mark.parametrize("key", ["g", ""])
def test_groups_and_transactions_are_looked_after_here(version: int, key_type: int, key: str) -> None:
    assert find(version, key, key_type=key_type) == {
        "throttle_time_ms": 0,
        "error_code": 0,
        "error_message": "NONE",
        **HERE,
    }


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("key_type", [2, 3, -1])
def test_other_types_are_refused(version: int, key_type: int) -> None:
    answer = find(version, "g", key_type=key_type)
    assert answer.pop("error_message")
    assert answer == {"throttle_time_ms": 0, "error_code": 42, **NOWHERE}


@pytest.mark.parametrize("version", [4, 5, 6])
def test_from_v4_each_key_is_answered_in_order(version: int) -> None:
    answer = find(version, "b", "a", "b", "", key_type=1)
    good = {"error_code": 0, "error_message": "", **HERE}
    assert answer == {
        "throttle_time_ms": 0,
        "coordinators": [{"key": key, **good} for key in ("b", "a", "b", "")],
    }
    assert find(version, key_type=7) == {"throttle_time_ms": 0, "coordinators": []}


@pytest.mark.parametrize("version", [4, 5, 6])
def test_from_v4_errors_are_per_key(version: int) -> None:
    (share,) = find(version, "g:AAAAAAAAAAAAAAAAAAAAAQ:0", key_type=2)["coordinators"]
    assert share == {"key": "g:AAAAAAAAAAAAAAAAAAAAAQ:0", "error_code": 42, "error_message": "", **NOWHERE}
    (strange,) = find(version, "g", key_type=9)["coordinators"]
    assert strange.pop("error_message")
    assert strange == {"key": "g", "error_code": 42, **NOWHERE}


@pytest.mark.parametrize("version", range(7))
def test_the_first_question_for_a_group_has_groups_served(version: int) -> None:
    broker = FakeBroker()
    keys: dict[str, Any] = {"key": "g"} if version < 4 else {"coordinator_keys": ["g", "h"]}
    ask(broker, Find(version=version, key_type=0, **keys))
    assert broker.groups.found == ["g"]
    broker.groups.failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answer = ask(broker, Find(version=version, key_type=0, **keys))
    for one in [answer] if version < 4 else answer["coordinators"]:
        assert (one["error_code"], one["node_id"], one["host"], one["port"]) == (15, -1, "", -1)
    ask(
        broker,
        Find(version=version, **({"key": "t"} if version < 4 else {"coordinator_keys": ["t"]}), key_type=1),
    )
    assert broker.groups.found == ["g", "g"] + (["t"] if version == 0 else [])
    assert broker.transactions.found == ([] if version == 0 else ["t"])


@pytest.mark.parametrize(
    ("version", "key_type"), [(0, 0), *[(version, kind) for version in range(1, 7) for kind in (0, 1)]]
)
def test_a_key_of_another_gateway_is_answered_with_that_one(
    version: int, key_type: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = FakeBroker()
    told = [BrokerAddress(NODE_ID, *ADDRESS), BrokerAddress(2, "other", 9094)]
    monkeypatch.setattr(broker.gateways, "brokers", lambda _local: told)
    (broker.transactions if key_type else broker.groups).nodes = {"g": 2, "gone": -1}
    answers = []
    for key in ("g", "gone", "here"):
        keys: dict[str, Any] = {"key": key} if version < 4 else {"coordinator_keys": [key]}
        answer = ask(broker, Find(version=version, key_type=key_type, **keys))
        one = answer["coordinators"][0] if version >= 4 else answer
        answers.append((one["error_code"], one["node_id"], one["host"], one["port"]))
    assert answers == [(0, 2, "other", 9094), (15, -1, "", -1), (0, NODE_ID, *ADDRESS)]


@pytest.mark.parametrize("version", [3, 4])
def test_without_transactions_a_producer_is_told_so_and_the_log_says_why(
    version: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.common.log_limit._said", set())
    broker = FakeBroker()

    async def find_none(_key: str) -> None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "transaction.version is 0 here")

    monkeypatch.setattr(broker.transactions, "find", find_none)
    with caplog.at_level("WARNING"):
        if version < 4:
            answer = ask(broker, Find(version=version, key="t-1", key_type=1))
        else:
            answer = ask(broker, Find(version=version, coordinator_keys=["t-1"], key_type=1))
            answer = answer["coordinators"][0]
    assert answer["error_code"] == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert "'t-1' was refused: transaction.version is 0 here" in caplog.text
