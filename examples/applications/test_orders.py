"""The tests of orders.py: against a real server, with the fixtures of pytest-dafka.

pip install pytest-dafka pytest-xdist pytest -n auto examples/applications/test_orders.py
"""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from orders import NotAccepted, Order, Orders


@pytest.fixture
def orders(dafka: Any, dafka_topic: Any) -> Iterator[Orders]:
    """The service's own code, on a topic that no other test has."""
    service = Orders(dafka.bootstrap, dafka_topic)
    service.start()
    yield service
    service.close()


def place(orders: Orders, *placed: tuple[str, int]) -> list[int]:
    async def all_at_once() -> list[int]:
        return await asyncio.gather(
            *(orders.place(Order(customer=customer, cents=cents)) for customer, cents in placed)
        )

    return asyncio.run(all_at_once())


def wait_for_total(orders: Orders, customer: str, cents: int) -> None:
    deadline = time.monotonic() + 10
    while orders.totals[customer] != cents:
        assert time.monotonic() < deadline, orders.totals
        time.sleep(0.01)


def test_an_order_is_a_record(orders: Orders, dafka_topic: Any) -> None:
    assert place(orders, ("ada", 1250)) == [0]
    (record,) = dafka_topic.wait_for(1)
    assert record.key == b"ada"
    assert json.loads(record.value) == {"customer": "ada", "cents": 1250}


def test_orders_are_counted_by_customer(orders: Orders) -> None:
    place(orders, ("ada", 100), ("bob", 5), ("ada", 20))
    wait_for_total(orders, "ada", 120)
    wait_for_total(orders, "bob", 5)


def test_a_restarted_service_knows_what_was_ordered(dafka: Any, dafka_topic: Any, orders: Orders) -> None:
    place(orders, ("ada", 100))
    another = Orders(dafka.bootstrap, dafka_topic)
    another.start()
    wait_for_total(another, "ada", 100)
    another.close()


def test_a_lost_answer_does_not_charge_twice(orders: Orders, dafka_topic: Any, dafka_chaos: Any) -> None:
    """The order arrives, the connection breaks before the answer, and the producer sends it again."""
    dafka_chaos.lose_answers("Produce", topic=dafka_topic)
    place(orders, ("ada", 100))
    assert len(dafka_topic.records()) == 1
    wait_for_total(orders, "ada", 100)


def test_what_is_refused_is_told(orders: Orders, dafka_topic: Any, dafka_chaos: Any) -> None:
    dafka_chaos.fail_produces("MESSAGE_TOO_LARGE", topic=dafka_topic)
    with pytest.raises(NotAccepted):
        place(orders, ("ada", 100))
    assert dafka_topic.records() == []
