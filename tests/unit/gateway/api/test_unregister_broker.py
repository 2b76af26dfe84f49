"""UnregisterBroker: who is gone for good is forgotten."""

from __future__ import annotations

from functools import partial
from typing import Any

from gateway.catalog import keys
from gateway.cluster.cluster import Cluster as Gateway
from gateway.leadership.records import Address, pack_slot
from gateway.leadership.table import Leader
from tests.unit.gateway.api.asking import ask_async, request_class
from tests.unit.gateway.cluster.leading_scene import PARTITIONS, Cluster, One, run
from tests.unit.gateway.log.fake_log import FakeLog
from wireproto.kafka.errors import ErrorCode

Unregister = request_class(64)


async def unregister(broker: Any, number: int) -> tuple[int, str | None]:
    answer = await ask_async(broker, Unregister(version=0, broker_id=number))
    return answer.error_code, answer.error_message


async def gateways(cluster: Cluster) -> tuple[One, One]:
    one, two = await cluster.start(1, "A"), await cluster.start(2, "B")
    for each in (one, two):
        await each.gateways.tell({"PLAINTEXT": Address("a.example", 9092)}, f"host-{each.number}", "1")
    await one.broker.create_topic("orders", PARTITIONS, {}, 1)
    await cluster.settle()
    return one, two


def test_a_gateway_that_is_gone_is_forgotten_and_one_that_is_alive_is_not() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = await gateways(cluster)
        code, message = await unregister(one.broker, 2)
        assert (code, "gateway 2 is alive: stop it first" in (message or "")) == (
            ErrorCode.INVALID_REQUEST,
            True,
        )
        await cluster.dies(two)
        assert await unregister(one.broker, 2) == (ErrorCode.NONE, None)
        assert cluster.catalog.get(keys.gateway_key(2)) is None
        code, message = await unregister(one.broker, 2)
        assert (code, "there is no gateway 2" in (message or "")) == (
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            True,
        )

    run(body)


def test_who_asks_before_others_lead_what_it_led_is_to_ask_again() -> None:
    async def body(cluster: Cluster) -> None:
        one, _two = await gateways(cluster)
        record = one.catalog.get(keys.gateway_key(1))
        assert record is not None
        slot = {f"{keys.SLOTS}0007": pack_slot(Leader(3, "C" * 16, 3))}
        await cluster.catalog.transact([], {keys.gateway_key(3): record.value, **slot})
        assert (await unregister(one.broker, 3))[0] == ErrorCode.REQUEST_TIMED_OUT
        await cluster.settle()
        assert await unregister(one.broker, 3) == (ErrorCode.NONE, None)

    run(body)


def test_a_gateway_that_has_its_catalog_for_itself_knows_nobody_else() -> None:
    async def body(_cluster: Cluster) -> None:
        broker = FakeLog().broker
        broker.node_id = 1
        broker.forget_gateway = partial(Gateway.forget_gateway, broker)
        assert (await unregister(broker, 1))[0] == ErrorCode.INVALID_REQUEST
        assert (await unregister(broker, 2))[0] == ErrorCode.BROKER_ID_NOT_REGISTERED

    run(body)
