"""Gateways on one catalog take what nobody leads, give away what is too much, and follow the table."""

from __future__ import annotations

from itertools import count, islice
from typing import Any
from unittest.mock import patch

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.catalog import keys
from gateway.catalog.interface import CatalogLost
from gateway.cluster.leading import CALM_SECONDS, GIVE_SECONDS
from gateway.leadership.evenness import PERIOD_SECONDS
from gateway.leadership.records import AliveRecord, pack_alive, pack_slot, slot_text
from gateway.leadership.slots import SLOTS, first_slot
from gateway.leadership.table import Leader
from gateway.log.partition import LED_ELSEWHERE, PartitionState
from gateway.log.recovery.recovery import Recovery
from gateway.log.segment import Segment
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.cluster.leading_scene import PARTITIONS, Cluster, One, run
from wireproto.kafka.errors import ErrorCode


def test_the_first_one_leads_all_slots_and_serves_what_it_creates() -> None:
    async def body(cluster: Cluster) -> None:
        one = await cluster.start(1, "A")
        assert all(one.leadership.leads_slot(slot) for slot in range(SLOTS))
        topic = await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        assert {partition.state for partition in topic.partitions} == {PartitionState.READY}
        assert [one.broker.gateways.leader(topic.id, index) for index in range(PARTITIONS)] == [
            1
        ] * PARTITIONS

    run(body)


def test_another_one_is_given_its_share_one_slot_after_the_other() -> None:
    async def body(cluster: Cluster) -> None:
        one = await cluster.start(1, "A")
        topic = await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        before = {partition.index: partition.leader_epoch for partition in topic.partitions}
        two = await cluster.start(2, "B")
        await trio.sleep(CALM_SECONDS + GIVE_SECONDS / 2)
        assert len(one.went) == 1, "the next one when this one is served again"
        await cluster.settle()
        assert len(one.led) == len(two.led) == PARTITIONS // 2
        assert one.led | two.led == set(range(PARTITIONS))
        assert sorted(one.went) == sorted(two.came) == sorted(two.led)
        assert one.came == []
        for index in range(PARTITIONS):
            here, there = one.topic.partitions[index], two.topic.partitions[index]
            assert here.leader_epoch == there.leader_epoch
            assert one.broker.gateways.leader(topic.id, index) == (1 if index in one.led else 2)
            if index in two.led:
                assert here.leader_epoch > before[index]
                assert (here.state, here.reason) == (PartitionState.ELSEWHERE, LED_ELSEWHERE)
                assert here.withheld
                assert not here.available
            else:
                assert here.available

    run(body)


def test_what_one_has_led_that_died_is_led_by_the_other_one_and_given_back() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = await cluster.start(1, "A"), await cluster.start(2, "B")
        await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        await cluster.settle()
        of_two = set(two.led)
        assert len(of_two) == PARTITIONS // 2
        await cluster.dies(two)
        assert one.led == set(range(PARTITIONS))
        assert set(one.came) == of_two
        assert {one.topic.partitions[index].state for index in of_two} == {PartitionState.RECOVERING}
        again = await cluster.start(2, "C")
        await cluster.settle()
        assert len(one.led) == len(again.led) == PARTITIONS // 2
        assert one.led | again.led == set(range(PARTITIONS))

    run(body)


def test_one_that_is_back_in_another_life_keeps_what_it_led() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = await cluster.start(1, "A"), await cluster.start(2, "B")
        await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        await cluster.settle()
        of_two = set(two.led)
        again = await cluster.start(2, "C")
        await cluster.settle()
        assert (again.led, two.led) == (of_two, set())
        assert one.came == []
        epochs = [
            (two.topic.partitions[i].leader_epoch, again.topic.partitions[i].leader_epoch) for i in of_two
        ]
        assert all(before == after for before, after in epochs), "the old one tells the new epoch too"

    run(body)


def test_one_that_has_not_heard_from_the_stores_is_given_nothing_and_takes_nothing() -> None:
    """It is started with another mesh's tower, say: whatever it led nobody could use."""

    async def body(cluster: Cluster) -> None:
        one = await cluster.start(1, "A")
        await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        two = await cluster.start(2, "B", begun=False)
        await cluster.settle()
        assert (len(one.led), two.led) == (PARTITIONS, set())
        three = await cluster.start(3, "C")
        await cluster.settle()
        assert len(one.led) == len(three.led) == PARTITIONS // 2
        await cluster.dies(three)
        assert (len(one.led), two.led) == (PARTITIONS, set())
        await cluster.catalog.transact([], {keys.LIVES + two.life: b""})
        await two.leading.wait_looked()
        await cluster.settle()
        assert len(one.led) == len(two.led) == PARTITIONS // 2

    run(body)


def test_where_none_has_heard_from_the_stores_they_lead_all_the_same() -> None:
    """As one gateway alone does: what is there is served. Who hears of them first leads then."""

    async def body(cluster: Cluster) -> None:
        one, two = await cluster.start(1, "A", begun=False), await cluster.start(2, "B", begun=False)
        await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        await cluster.settle()
        assert len(one.led) == len(two.led) == PARTITIONS // 2
        await cluster.catalog.transact([], {keys.LIVES + two.life: b""})
        await cluster.settle()
        assert (one.led, len(two.led)) == (set(), PARTITIONS)

    run(body)


def test_who_waits_for_a_look_gets_one_that_was_made_afterwards() -> None:
    async def body(cluster: Cluster) -> None:
        one = await cluster.start(1, "A")
        await cluster.start(2, "B")
        await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        await cluster.settle()
        await cluster.catalog.transact([], {}, [keys.alive_key(2)])
        await one.leading.wait_looked()
        assert one.led == set(range(PARTITIONS))

    run(body)


def test_what_is_led_elsewhere_from_the_beginning_is_so_at_once() -> None:
    async def body(cluster: Cluster) -> None:
        one = await cluster.start(1, "A")
        await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        two = One(cluster.catalog, 2, "B")
        assert {partition.state for partition in two.topic.partitions} == {PartitionState.ELSEWHERE}

    run(body)


def test_each_tells_where_its_leader_keeps_a_partition() -> None:
    """From the beginning, as its leader rolls, and while it is given away."""

    def segment(start: int, store: str) -> bytes:
        return Segment("A" * 32, 0, start, (store,), 1, 0, end_offset=start + 10, last_sequence=0).pack()

    async def body(cluster: Cluster) -> None:
        one = await cluster.start(1, "A")
        topic = await one.broker.create_topic("orders", 1, {}, 1)
        key = keys.segment_key(topic.id, 0, 10, "A" * 32)
        await cluster.catalog.transact([], {key: segment(10, "second")})
        first = keys.segment_key(topic.id, 0, 0, "A" * 32)
        await cluster.catalog.transact([], {first: segment(0, "first")})
        two = await cluster.start(2, "B")
        await cluster.settle()
        elsewhere = next(g for g in (one, two) if not g.led)
        partition = elsewhere.topic.partitions[0]
        assert partition.members == ("second",)
        key = keys.segment_key(topic.id, 0, 20, "A" * 32)
        await cluster.catalog.transact([], {key: segment(20, "third")})
        await wait_all_tasks_blocked()
        assert partition.members == ("third",)
        await cluster.catalog.transact([], {first: segment(0, "other")})
        await wait_all_tasks_blocked()
        assert partition.members == ("third",), "an older one says nothing"

    run(body)


def test_one_whose_place_is_lost_takes_and_gives_nothing() -> None:
    async def body(cluster: Cluster) -> None:
        one = await cluster.start(1, "A")
        await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        await cluster.dies(one)
        assert one.broker.gateways.leader(one.topic.id, 0) == -1
        two = await cluster.start(2, "B")
        await cluster.settle()
        assert (one.led, two.led) == (set(), set(range(PARTITIONS)))

    run(body)


def test_a_partition_that_is_led_elsewhere_keeps_nothing_but_what_was_shown() -> None:
    async def body(cluster: Cluster) -> None:
        one = await cluster.start(1, "A")
        topic = await one.broker.create_topic("orders", 1, {}, 1)
        partition = topic.partitions[0]
        partition.set_end(7)
        partition.led_elsewhere(partition.leader_epoch + 5)
        for epoch in (-1, 0, partition.leader_epoch, partition.leader_epoch + 1):
            assert partition.check_leader_epoch(epoch) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.high_watermark == 7
        assert partition.chain.segments() == []
        epoch = partition.leader_epoch + 6
        partition.gained(epoch)
        partition.leader_epoch = epoch + 3  # it was recovered again since
        codes = [partition.check_leader_epoch(epoch + more) for more in (-1, 0, 2, 3, 4)]
        none = ErrorCode.NONE
        fenced, unknown = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
        assert codes == [fenced, none, none, none, unknown]
        assert partition.state is PartitionState.RECOVERING
        assert partition.withheld

    run(body)


def test_a_table_that_cannot_be_read_ends_the_process_with_the_reason() -> None:
    async def main() -> None:
        catalog = MemoryCatalog()
        one = One(catalog, 1, "A")
        await catalog.transact([], {f"{keys.SLOTS}0003": b'{"v":2}'})
        with pytest.raises(CatalogLost, match=r"cannot be read of who leads what: a newer release"):
            one.leading.follow()

    trio.run(main)


@pytest.mark.parametrize("grows", [False, True], ids=["a new topic", "more partitions"])
def test_a_partition_that_is_made_while_its_slot_changes_goes_by_the_table_of_afterwards(
    grows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was built with the epoch that its slot had before, and nobody tells it of the change: it is not
    among the topics yet.
    """

    async def body(cluster: Cluster) -> None:
        one = await cluster.start(1, "A")
        if grows:
            await one.broker.create_topic("orders", 1, {}, 1)
        transact = one.catalog.transact

        async def slots_change(compares: Any, puts: Any, *more: Any) -> int:
            if not any(key.startswith(keys.TOPICS) for key in puts):
                return await transact(compares, puts, *more)
            again = pack_slot(Leader(1, one.life, 500))
            elsewhere = pack_slot(Leader(2, "B" * 16, 501))
            await cluster.catalog.transact([], {keys.alive_key(2): pack_alive(AliveRecord("B" * 16))})
            for first in range(0, SLOTS, 32):
                puts_of_slots = {
                    keys.SLOTS + slot_text(slot): elsewhere if slot % 2 else again
                    for slot in range(first, first + 32)
                }
                await cluster.catalog.transact([], puts_of_slots | {keys.LEADER_EPOCH: keys.pack(501)})
            await wait_all_tasks_blocked()
            return await transact(compares, puts, *more)

        monkeypatch.setattr(one.catalog, "transact", slots_change)
        if grows:
            await one.broker.add_partitions(one.topic, PARTITIONS)
        else:
            await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        monkeypatch.undo()
        for partition in one.topic.partitions:
            leader = one.leadership.table.leader_of(one.topic.id, partition.index)
            assert leader is not None
            assert partition.leader_epoch == leader.epoch, partition
            assert partition.available == (leader.gateway == 1 and (partition.index > 0 or not grows))

    run(body)


def test_shares_become_even_once_nothing_waits_to_be_recovered() -> None:
    """Who had taken what another one led gave it away while it was recovering it, and spent half of its time
    with counting what would be even.
    """

    async def body(cluster: Cluster) -> None:
        one = await cluster.start(1, "A")
        await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        with patch.object(Recovery, "is_behind", True):
            two = await cluster.start(2, "B")
            await cluster.settle()
            assert (len(one.led), len(two.led)) == (PARTITIONS, 0)
        await cluster.settle()
        assert (len(one.led), len(two.led)) == (PARTITIONS // 2, PARTITIONS // 2)

    run(body)


def test_topics_that_come_and_go_move_nothing_until_it_is_time_to_look() -> None:
    """A topic's leader moved to another gateway a tenth of a second after it was created, while its first
    clients were at work: librdkafka's query of watermarks ends with NOT_LEADER_OR_FOLLOWER then.
    """

    async def body(cluster: Cluster) -> None:
        one, two = await cluster.start(1, "A"), await cluster.start(2, "B")
        await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        await cluster.settle()
        for told in (one.went, two.came):
            told.clear()
        at_one = (name for name in map("t-{}".format, count()) if first_slot(name.encode()) % 2 == 0)
        names = list(islice(at_one, 4))
        for name in names:
            await one.broker.create_topic(name, 1, {}, 1)
            await cluster.settle()
        assert one.went == two.went == []
        await trio.sleep(PERIOD_SECONDS)
        await cluster.settle()
        assert len(one.went) == len(two.came) == 2, "7 and 3 before, 5 and 5 after"
        for name in names:
            topic = one.broker.topics.get(name)
            assert topic is not None
            await one.broker.delete_topic(topic)
            await cluster.settle()
        assert (len(one.went), two.went) == (2, [])

    run(body)
