"""What clients are told of the gateways that share a catalog."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from gateway.catalog import keys
from gateway.cluster.gateways import NOBODY, BrokerAddress, OneGateway, SharedGateways
from gateway.cluster.slot_leadership import SlotLeadership
from gateway.leadership.records import (
    Address,
    AliveRecord,
    BadRecord,
    GatewayRecord,
    pack_alive,
    pack_gateway,
    pack_slot,
    slot_text,
)
from gateway.leadership.slots import slot_of
from gateway.leadership.table import Leader
from tests.unit.gateway.catalog.memory import MemoryCatalog

FIRST, SECOND, THIRD = "A" * 16, "B" * 16, "C" * 16
ID = bytes(range(16))
HERE = ("a.example", 9092)
LISTENERS = {"PLAINTEXT": Address(*HERE), "OUTSIDE": Address("a.public", 9094)}


def topic(partitions: int) -> Any:
    return SimpleNamespace(id=ID, partitions=[SimpleNamespace()] * partitions)


async def lives(catalog: MemoryCatalog, gateway: int, life: str) -> None:
    await catalog.transact([], {keys.alive_key(gateway): pack_alive(AliveRecord(life))})


async def says(catalog: MemoryCatalog, gateway: int, **listeners: Address) -> None:
    record = GatewayRecord("host", "rack-b", listeners, {}, "1")
    await catalog.transact([], {keys.gateway_key(gateway): pack_gateway(record)})


async def leads(catalog: MemoryCatalog, index: int, gateway: int, life: str) -> None:
    key = keys.SLOTS + slot_text(slot_of(ID, index))
    await catalog.transact([], {key: pack_slot(Leader(gateway, life, 7))})


def run(body: Callable[[MemoryCatalog, SharedGateways], Awaitable[None]]) -> None:
    """Gateway 1, in its second life, has said how it is reached."""

    async def main() -> None:
        catalog = MemoryCatalog()
        gateways = SharedGateways(catalog, SlotLeadership(catalog, 1, SECOND), "rack-a")
        await lives(catalog, 1, SECOND)
        await gateways.tell(LISTENERS, "here", "1")
        with trio.fail_after(20):
            await body(catalog, gateways)

    trio.run(main)


def test_others_are_told_at_the_listener_that_the_client_has_come_in_on() -> None:
    async def body(catalog: MemoryCatalog, gateways: SharedGateways) -> None:
        await lives(catalog, 2, FIRST)
        await lives(catalog, 3, FIRST)
        await lives(catalog, 4, FIRST)
        await says(catalog, 2, PLAINTEXT=Address("b.example", 9092), OUTSIDE=Address("b.public", 9194))
        await says(catalog, 3, PLAINTEXT=Address("c.example", 9092))
        await says(catalog, 5, PLAINTEXT=Address("gone.example", 9092))
        gateways.read()
        inside = [
            BrokerAddress(1, *HERE, "rack-a"),
            BrokerAddress(2, "b.example", 9092, "rack-b"),
            BrokerAddress(3, "c.example", 9092, "rack-b"),
        ]
        assert gateways.brokers(HERE) == inside
        outside = [
            BrokerAddress(1, "a.public", 9094, "rack-a"),
            BrokerAddress(2, "b.public", 9194, "rack-b"),
        ]
        assert gateways.brokers(("a.public", 9094)) == outside
        assert gateways.others == [2, 3, 4]
        assert gateways.reached(HERE) == {1, 2, 3}
        assert gateways.reached(("a.public", 9094)) == {1, 2}
        assert gateways.brokers(("10.0.0.7", 9094))[1].host == "b.public", "known by its port alone"

    run(body)


def test_who_is_reached_changes_with_those_that_are_there() -> None:
    async def body(catalog: MemoryCatalog, gateways: SharedGateways) -> None:
        gateways.read()
        assert gateways.reached(HERE) == {1}
        await lives(catalog, 2, FIRST)
        gateways.read()
        assert gateways.reached(HERE) == {1}, "nobody knows how the other one is reached"
        await says(catalog, 2, PLAINTEXT=Address("b.example", 9092))
        gateways.read()
        assert gateways.reached(HERE) == {1, 2}

    run(body)


def test_the_controller_is_one_that_reaches_the_stores_and_that_the_client_reaches() -> None:
    async def body(catalog: MemoryCatalog, gateways: SharedGateways) -> None:
        for number, life in {2: FIRST, 3: THIRD}.items():
            await lives(catalog, number, life)
            await says(catalog, number, PLAINTEXT=Address(f"{number}.example", 9092))
        gateways.read()
        assert gateways.controller(HERE) == 1, "none of them has begun"
        for life in (FIRST, THIRD):
            await catalog.transact([], {keys.LIVES + life: b""})
        gateways.read()
        assert gateways.controller(HERE) == 2
        assert gateways.controller(("a.public", 9094)) == 1
        await catalog.transact([], {keys.LIVES + SECOND: b""})
        gateways.read()
        assert gateways.controller(HERE) == 1

    run(body)


def test_what_nobody_leads_is_missed_by_one_of_them() -> None:
    async def body(catalog: MemoryCatalog, gateways: SharedGateways) -> None:
        partition: Any = SimpleNamespace(topic=topic(1), index=0)
        await lives(catalog, 2, FIRST)
        gateways.read()
        other = SharedGateways(catalog, SlotLeadership(catalog, 2, FIRST))
        other.read()
        assert gateways.is_missed(partition)
        assert not other.is_missed(partition)
        await leads(catalog, 0, 2, FIRST)
        gateways._leadership.read()
        gateways.read()
        assert not gateways.is_missed(partition)

    run(body)


def test_a_record_of_a_later_release_hides_that_gateway_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def body(catalog: MemoryCatalog, gateways: SharedGateways) -> None:
        await lives(catalog, 2, FIRST)
        await catalog.transact([], {keys.gateway_key(2): b'{"v": 2}'})
        gateways.read()
        gateways.read()
        assert gateways.others == [2]
        assert gateways.reached(HERE) == {1}

    run(body)
    (said,) = caplog.messages
    assert "gateway 2" in said


def test_a_leader_counts_in_the_life_that_is_named() -> None:
    async def body(catalog: MemoryCatalog, gateways: SharedGateways) -> None:
        await lives(catalog, 2, FIRST)
        for index, (gateway, life) in enumerate(
            [(1, SECOND), (1, FIRST), (2, FIRST), (2, THIRD), (3, FIRST)]
        ):
            await leads(catalog, index, gateway, life)
        gateways._leadership.read()
        gateways.read()
        assert gateways.leaders(topic(6)) == [1, NOBODY, 2, NOBODY, NOBODY, NOBODY]
        assert [gateways.leader(ID, index) for index in range(4)] == [1, NOBODY, 2, NOBODY]

    run(body)


def test_the_version_says_when_an_answer_may_be_another() -> None:
    async def body(catalog: MemoryCatalog, gateways: SharedGateways) -> None:
        gateways.read()
        before = gateways.version
        gateways.read()
        assert gateways.version == before
        await says(catalog, 2, PLAINTEXT=Address("b.example", 9092))
        gateways.read()
        assert gateways.version == before, "it is not alive"
        await lives(catalog, 2, FIRST)
        gateways.read()
        assert gateways.version != before

    run(body)


@pytest.mark.parametrize(
    ("key", "value"),
    [(keys.alive_key(2), b"{}"), (keys.ALIVE + "x", pack_alive(AliveRecord(FIRST))), (keys.ALIVE, b"")],
)
def test_what_nobody_can_read_is_not_gone_by(key: str, value: bytes) -> None:
    async def body(catalog: MemoryCatalog, gateways: SharedGateways) -> None:
        await catalog.transact([], {key: value})
        with pytest.raises(BadRecord):
            gateways.read()

    run(body)


def test_a_gateway_that_is_alone_leads_everything() -> None:
    alone = OneGateway(1)
    assert alone.brokers(HERE) == [BrokerAddress(1, *HERE)]
    assert alone.leaders(topic(2)) == [1, 1]
    assert (alone.leader(ID, 0), alone.controller(HERE), alone.others) == (1, 1, ())
    assert alone.reached(HERE) == {1}
