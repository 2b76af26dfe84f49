from __future__ import annotations

from typing import Any

import pytest

from gateway.security.access import Unrestricted
from gateway.security.acls import Operation, ResourceType
from gateway.security.principal import ANONYMOUS
from tests.unit.gateway.api.asking import ALICE, FakeBroker, allowed, ask, request_class

Init = request_class(22)
REFUSED = {"throttle_time_ms": 0, "producer_id": -1, "producer_epoch": -1}


def init(version: int, transactional_id: str | None, broker: FakeBroker | None = None, **fields: Any) -> Any:
    fields.setdefault("transaction_timeout_ms", 60_000)
    return ask(broker or FakeBroker(), Init(version=version, transactional_id=transactional_id, **fields))


@pytest.mark.parametrize("version", range(6))
def test_each_idempotent_producer_gets_a_new_id(version: int) -> None:
    broker = FakeBroker()
    first, second = init(version, None, broker), init(version, None, broker)
    assert first == {"throttle_time_ms": 0, "error_code": 0, "producer_id": 1001, "producer_epoch": 0}
    assert second["producer_id"] == 1002


def test_an_id_is_for_the_principal_that_asks() -> None:
    broker = FakeBroker()
    init(4, None, broker)
    broker.access = Unrestricted(ALICE)
    init(4, None, broker)
    broker.access = allowed((Operation.WRITE, ResourceType.TOPIC, "t"))
    init(4, None, broker)
    assert broker.producer_ids_of == {1001: ANONYMOUS, 1002: ALICE, 1003: ALICE}


@pytest.mark.parametrize("timeout", [0, -1, 2**31 - 1])
def test_the_timeout_does_not_matter_to_an_idempotent_producer(timeout: int) -> None:
    assert init(4, None, transaction_timeout_ms=timeout)["error_code"] == 0


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(
    ("producer_id", "producer_epoch", "error"),
    [(5, 0, 0), (10**15, 3, 0), (-5, -5, 0), (0, 32_767, 0), (5, -1, 42), (-1, 0, 42)],
)
def test_a_present_id_comes_with_its_epoch_or_not_at_all(
    version: int, producer_id: int, producer_epoch: int, error: int
) -> None:
    answer = init(version, None, producer_id=producer_id, producer_epoch=producer_epoch)
    assert answer["error_code"] == error
    assert answer["producer_id"] == (-1 if error else 1001)


@pytest.mark.parametrize("version", range(6))
def test_an_empty_transactional_id_is_invalid(version: int) -> None:
    assert init(version, "") == REFUSED | {"error_code": 42}
