"""Operators drain gateways, have them lead again, and have those forgotten that are gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from dafka.commands.gateways import feature_lines
from dafka.operators.gateways import ALONE, GatewayRequestHandlers
from dafka.operators.socket import OperatorRefused
from gateway.catalog import keys
from gateway.cluster.feature_levels import PREFERRED_LEADERS, TRANSACTION_VERSION
from gateway.cluster.leading import GIVE_SECONDS
from gateway.cluster.preferred_leaders import Wish
from gateway.http.routes.problems import _features
from gateway.leadership.records import Address, pack_slot
from gateway.leadership.table import Leader
from tests.unit.gateway.cluster.leading_scene import PARTITIONS, Cluster, One, run
from tests.unit.gateway.log.fake_log import FakeLog

HOST = {"PLAINTEXT": Address("a.example", 9092)}


async def told(cluster: Cluster, number: int, life: str) -> One:
    one = await cluster.start(number, life)
    await one.gateways.tell(HOST, f"host-{number}", "1")
    return one


async def ask(one: One, do: str, **details: object) -> object:
    handlers = GatewayRequestHandlers(one.broker).handlers
    return await handlers[f"gateways.{do}"]({"do": f"gateways.{do}", **details})


async def rows(one: One) -> list[tuple[object, ...]]:
    found = await ask(one, "list")
    assert isinstance(found, list)
    return [(row["id"], row["state"], row["partitions"], row["topics"]) for row in found]


def test_one_that_is_drained_gives_away_what_it_leads_and_is_given_it_again() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = await told(cluster, 1, "A"), await told(cluster, 2, "B")
        await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        await cluster.settle()
        half = PARTITIONS // 2
        assert await rows(one) == [(1, "serves", half, 1), (2, "serves", half, 1)]
        assert await ask(two, "drain", gateway=1) == {"id": 1}
        await trio.sleep(GIVE_SECONDS / 2)
        assert (1, "draining", half - 1, 1) in await rows(two), "one slot after the other"
        await cluster.settle()
        assert one.led == set()
        assert await rows(one) == [(1, "drained", 0, 0), (2, "serves", PARTITIONS, 1)]
        assert one.broker.gateways.controller(("a.example", 9092)) == 2
        await ask(one, "drain", gateway=1)
        await ask(one, "drain", gateway=1, stop=True)
        await cluster.settle()
        assert len(one.led) == half
        await ask(one, "drain", gateway=1, stop=True)

    run(body)


def test_a_drained_one_leads_what_nobody_else_can() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = await told(cluster, 1, "A"), await told(cluster, 2, "B")
        await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        await ask(one, "drain", gateway=1)
        await cluster.settle()
        await cluster.dies(two)
        assert one.led == set(range(PARTITIONS))

    run(body)


def test_one_that_is_gone_is_forgotten_and_not_one_that_is_alive() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = await told(cluster, 1, "A"), await told(cluster, 2, "B")
        await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        await ask(one, "drain", gateway=2)
        with pytest.raises(OperatorRefused, match="gateway 2 is alive: stop it first"):
            await ask(one, "remove", gateway=2)
        await cluster.dies(two)
        assert await rows(one) == [(1, "serves", PARTITIONS, 1), (2, "gone", 0, 0)]
        assert await ask(one, "remove", gateway=2) == {"id": 2}
        assert await rows(one) == [(1, "serves", PARTITIONS, 1)]
        assert cluster.catalog.get(keys.draining_key(2)) is None

    run(body)


def test_who_comes_back_in_that_moment_is_not_forgotten() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = await told(cluster, 1, "A"), await told(cluster, 2, "B")
        await cluster.dies(two)
        transact = cluster.catalog.transact

        async def beaten(*arguments: object, **more: object) -> int:
            cluster.catalog.transact = transact  # type: ignore[method-assign]
            await cluster.start(2, "C")
            return await transact(*arguments, **more)  # type: ignore[arg-type]

        cluster.catalog.transact = beaten  # type: ignore[method-assign]
        with pytest.raises(OperatorRefused, match="is alive"):
            await ask(one, "remove", gateway=2)
        assert sorted(one.gateways.records()) == [1, 2]

    run(body)


def test_slots_of_one_that_is_gone_are_taken_before_it_is_forgotten() -> None:
    async def body(cluster: Cluster) -> None:
        one = await told(cluster, 1, "A")
        record = one.catalog.get(keys.gateway_key(1))
        assert record is not None
        slot = {f"{keys.SLOTS}0007": pack_slot(Leader(2, "B" * 16, 3))}
        await cluster.catalog.transact([], {keys.gateway_key(2): record.value, **slot})
        with pytest.raises(OperatorRefused, match="others take them in these seconds"):
            await ask(one, "remove", gateway=2)
        await cluster.settle()
        await ask(one, "remove", gateway=2)

    run(body)


def test_what_was_moved_by_hand_is_shown_and_shared_again() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = await told(cluster, 1, "A"), await told(cluster, 2, "B")
        topic = await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        await one.broker.change_features(lambda _: {PREFERRED_LEADERS: 1})
        wishes = [Wish(topic, index, 2) for index in range(PARTITIONS)]
        assert await one.broker.prefer_leaders(wishes) == [None] * PARTITIONS
        row = {"topic": "orders", "preferred": 2}
        before = [
            {"partition": index, "leader": 1 if index in one.led else 2, "moving": index in one.led} | row
            for index in range(PARTITIONS)
        ]
        assert await ask(one, "preferred") == before
        await cluster.settle()
        after = [{"partition": index, "leader": 2, "moving": False} | row for index in range(PARTITIONS)]
        assert await ask(one, "preferred") == await ask(two, "preferred") == after
        assert await ask(two, "share", topic="orders", partition=3) == {"partitions": 1}
        assert await ask(two, "share", topic="orders", partition=3) == {"partitions": 0}
        assert await ask(two, "preferred") == after[:3] + after[4:]
        assert await ask(two, "share", topic="orders") == {"partitions": PARTITIONS - 1}
        await cluster.settle()
        assert len(one.led) == len(two.led)
        with pytest.raises(OperatorRefused, match="there is no topic 'nowhere'"):
            await ask(one, "share", topic="nowhere")
        for wrong in ("3", -1, True):
            with pytest.raises(OperatorRefused, match="a partition is named by its number"):
                await ask(one, "share", topic="orders", partition=wrong)

    run(body)


@pytest.mark.parametrize("do", ["drain", "remove"])
def test_what_cannot_be_meant_is_refused(do: str) -> None:
    async def body(cluster: Cluster) -> None:
        one = await told(cluster, 1, "A")
        for wrong in (None, "2", 0, 1000, True):
            with pytest.raises(OperatorRefused, match="is named by its id, 1 to 999"):
                await ask(one, do, gateway=wrong)
        with pytest.raises(OperatorRefused, match="there is no gateway 2; known are 1 "):
            await ask(one, do, gateway=2)

    run(body)


def test_a_gateway_with_a_catalog_of_its_own_says_that_it_is_alone() -> None:
    async def body() -> None:
        log = FakeLog()
        handlers = GatewayRequestHandlers(log.broker).handlers
        log.broker.topics.all = list
        for do in handlers.keys() - {"gateways.features", "gateways.upgrade"}:
            with pytest.raises(OperatorRefused) as refused:
                await handlers[do]({"gateway": 1})
            assert str(refused.value) == ALONE

    trio.run(body)


def test_levels_are_raised_when_all_can_do_them_and_it_is_shown_who_cannot() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = await told(cluster, 1, "A"), await told(cluster, 2, "B")
        await one.broker.features.register(one.life, "a", "")
        features: Any = await ask(one, "features")
        expected = {"feature": PREFERRED_LEADERS, "level": 0, "possible": 0, "held_up_by": (2,)}
        assert expected in features
        assert await ask(one, "upgrade") == features, "nothing can be raised"
        listed: Any = await ask(one, "list")
        assert [PREFERRED_LEADERS in row["features"] for row in listed] == [True, False]
        name, other = PREFERRED_LEADERS, TRANSACTION_VERSION
        assert feature_lines(features, listed) == [
            f"features: {name} 0, metadata.version 30, {other} 0",
            f"{name} goes no higher before these are upgraded, or removed: gateway 2 (version 1)",
            f"{other} goes no higher before these are upgraded, or removed: gateway 2 (version 1)",
        ]
        await two.broker.features.register(two.life, "b", "")
        features = await ask(two, "features")
        assert {**expected, "possible": 1, "held_up_by": ()} in features
        assert feature_lines(features, listed)[1] == (
            "all gateways can do dafka.preferred.leaders at level 1: 'dafka gateways upgrade' raises it"
        )
        view: Any = SimpleNamespace(broker=one.broker)
        assert {one["command"] for one in _features(view)} == {"dafka gateways upgrade"}
        upgraded: Any = await ask(two, "upgrade")
        assert {**expected, "level": 1, "possible": 1, "held_up_by": ()} in upgraded
        await cluster.settle()
        assert [each.broker.features.level(PREFERRED_LEADERS) for each in (one, two)] == [1, 1]
        assert list(_features(view)) == []

    run(body)
