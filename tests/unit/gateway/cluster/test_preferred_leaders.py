"""Wishes that cannot be met together, or that nobody can read, and how many there are in a transaction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed
from gateway.cluster.preferred_leaders import PreferredLeaders, Wish
from gateway.leadership.records import pack_preferred
from gateway.leadership.slots import SLOTS
from tests.unit.gateway.catalog.memory import MemoryCatalog
from wireproto.kafka.errors import ErrorCode, KafkaError

ORDERS: Any = SimpleNamespace(id=bytes(16), name="orders")
CLICKS: Any = SimpleNamespace(id=bytes(range(16)), name="clicks")
TOPICS = {topic.id: topic for topic in (ORDERS, CLICKS)}


class Scene:
    """Gateways 1 and 2 are alive, and gateway 1 leads everything."""

    def __init__(self) -> None:
        self.catalog = MemoryCatalog()
        living = {number: SimpleNamespace(stays=True) for number in (1, 2)}
        gateways = SimpleNamespace(living=living, leader=lambda _topic, _index: 1, records=dict)
        topics = SimpleNamespace(by_id=TOPICS.get)
        self.preferred = PreferredLeaders(self.catalog, cast("Any", topics), cast("Any", gateways))

    async def begin(self) -> None:
        for topic in TOPICS.values():
            key = keys.topic_key(topic.name)
            await self.catalog.transact([], {key: keys.pack({"id": topic.id.hex()})})

    async def put(self, *wishes: Wish) -> list[KafkaError | None]:
        refused = await self.preferred.put(wishes, lambda: ([Compare(keys.FEATURES, 0)], {}))
        self.preferred.load()
        return refused

    @property
    def wanted(self) -> dict[tuple[str, int], int]:
        return {(topic.name, index): gateway for topic, index, gateway in self.preferred.all()}


def run(body: Any) -> None:
    async def main() -> None:
        scene = Scene()
        await scene.begin()
        await body(scene)

    trio.run(main)


def test_two_partitions_of_one_slot_move_together_or_not_at_all() -> None:
    async def body(scene: Scene) -> None:
        assert await scene.put(Wish(ORDERS, 0, 2)) == [None]
        (refused,) = await scene.put(Wish(ORDERS, SLOTS, 1))
        assert refused is not None
        assert refused.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert refused.message == (
            f"orders-{SLOTS} is led together with orders-0, which is wanted at gateway 2: move that one as "
            "well, and both move to one gateway only."
        )
        first, second = await scene.put(Wish(ORDERS, 1, 1), Wish(ORDERS, SLOTS + 1, 2))
        assert first is None
        assert second is not None
        assert second.message == (
            f"orders-{SLOTS + 1} is led together with another one of this request, which is to go to 1, and "
            "both move to one gateway only."
        )
        assert await scene.put(Wish(ORDERS, 0, 1), Wish(ORDERS, SLOTS, 1)) == [None, None]
        assert scene.wanted == {("orders", 0): 1, ("orders", SLOTS): 1, ("orders", 1): 1}
        assert await scene.put(Wish(ORDERS, 0, None), Wish(ORDERS, SLOTS, 2)) == [None, None]
        assert scene.wanted == {("orders", SLOTS): 2, ("orders", 1): 1}

    run(body)


def test_of_two_wishes_that_came_at_the_same_moment_one_is_on_its_way() -> None:
    async def body(scene: Scene) -> None:
        wishes = {keys.preferred_key(ORDERS.id, SLOTS): 2, keys.preferred_key(ORDERS.id, 0): 1}
        await scene.catalog.transact([], {key: pack_preferred(gateway) for key, gateway in wishes.items()})
        scene.preferred.load()
        assert scene.preferred.moving(ORDERS, SLOTS) is None
        await scene.put(Wish(ORDERS, 0, None))
        assert scene.preferred.moving(ORDERS, SLOTS) == (1, 2)

    run(body)


def test_thousands_go_in_transactions_that_every_catalog_takes() -> None:
    async def body(scene: Scene) -> None:
        sizes = []
        transact = scene.catalog.transact

        async def counted(compares: Any, puts: Any, deletes: Any = (), *more: Any) -> int:
            sizes.append(max(len(compares), len(puts) + len(deletes)))
            return await transact(compares, puts, deletes, *more)

        cast("Any", scene.catalog).transact = counted
        wishes = [Wish(ORDERS, index, 2) for index in range(1000)]
        assert await scene.put(*wishes) == [None] * 1000
        assert len(scene.wanted) == 1000
        assert max(sizes) <= 64
        sizes.clear()
        assert await scene.put(*wishes) == [None] * 1000
        assert sizes == [], "all of it is so already"

    run(body)


def test_a_topic_that_is_deleted_meanwhile_takes_no_wish() -> None:
    async def body(scene: Scene) -> None:
        transact = scene.catalog.transact
        is_first = True

        async def deleted_first(*transaction: Any) -> int:
            nonlocal is_first
            if is_first:
                is_first = False
                await transact([], {}, [keys.topic_key("clicks")])
            return await transact(*transaction)

        cast("Any", scene.catalog).transact = deleted_first
        first, second = await scene.put(Wish(CLICKS, 0, 2), Wish(ORDERS, 0, 2))
        assert first is not None
        assert first.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert second is None
        assert scene.wanted == {("orders", 0): 2}

    run(body)


def test_what_nobody_can_read_is_nobodys_wish() -> None:
    async def body(scene: Scene) -> None:
        odd = ["x", f"{bytes(16).hex()}/y", "zz/000001", f"{bytes(16).hex()}/000002"]
        await scene.catalog.transact([], {keys.PREFERRED + name: b'{"v":9}' for name in odd})
        scene.preferred.load()
        assert scene.wanted == {}

    run(body)


def test_the_wishes_of_a_gateway_that_nobody_knows_end_unless_somebody_wants_something_else() -> None:
    async def body(scene: Scene) -> None:
        await scene.put(Wish(ORDERS, 0, 2), Wish(ORDERS, 1, 1))
        await scene.catalog.transact([], {keys.preferred_key(ORDERS.id, 2): pack_preferred(7)})
        scene.preferred.load()
        transact = scene.catalog.transact

        async def overtaken(compares: Any, *_more: Any) -> int:
            raise CompareFailed(compares[0].key)

        cast("Any", scene.catalog).transact = overtaken
        await scene.preferred.forget()
        cast("Any", scene.catalog).transact = transact
        await scene.preferred.forget()
        scene.preferred.load()
        assert scene.wanted == {("orders", 0): 2, ("orders", 1): 1}

    run(body)
