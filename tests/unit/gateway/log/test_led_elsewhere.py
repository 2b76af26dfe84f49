"""Partitions that another of several gateways leads: neither served nor changed here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.catalog import keys
from gateway.cluster.deletion import Deletion, _Unconfirmed
from gateway.leadership.records import pack_slot, slot_text, unpack_slot
from gateway.leadership.slots import slot_of
from gateway.leadership.table import Leader
from gateway.log.compaction.left_over import LeftOver, Noted
from gateway.log.notes import Note, take_notes, tombstone
from gateway.log.opener import partition_record
from gateway.log.partition import LED_ELSEWHERE, PartitionState
from mesh.protocol.address_state import life_of
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.log.fake_log import NOW_MS, TOPIC_ID, batch, header_of
from tests.unit.gateway.log.one_store import STORE, Life, OneStore
from wireproto.kafka.errors import ErrorCode, KafkaError

NAME = keys.topic_key("orders")
FIRST, SECOND = slot_of(TOPIC_ID, 0), slot_of(TOPIC_ID, 1)
LOG, LOG_1 = keys.log_name(TOPIC_ID, 0), keys.log_name(TOPIC_ID, 1)
CLOSED = {"end": 3, "members": [STORE], "all": [STORE], "w": 1}


async def give(catalog: MemoryCatalog, owners: Mapping[int, int]) -> None:
    """The table has these gateways by slot, of lives before any of these here."""
    for slot, gateway in owners.items():
        value = pack_slot(Leader(gateway, "F" * 16, 0))
        await catalog.transact([], {keys.SLOTS + slot_text(slot): value})


def gateway(number: int, store: OneStore, catalog: MemoryCatalog, revision: int) -> Life:
    """A life of this gateway over a topic of two partitions."""
    life = Life(store, catalog, partitions=2, gateway=number)
    life.topic.revision = revision
    return life


def run(tmp_path: Path, body: Callable[[Callable[[int], Life], MemoryCatalog], Awaitable[None]]) -> None:
    """Gateway 1 leads partition 0, and gateway 2 the other one."""

    async def main() -> None:
        catalog, store = MemoryCatalog(), OneStore(tmp_path)
        revision = await catalog.transact([], {NAME: keys.pack({"id": TOPIC_ID.hex()})})
        await give(catalog, {FIRST: 1, SECOND: 2})
        with trio.fail_after(20):
            await body(lambda number: gateway(number, store, catalog, revision), catalog)

    trio.run(main)


def append(life: Life, index: int) -> None:
    view = memoryview(bytearray(batch(b"value")))
    life.topic.partitions[index].append(header_of(view), view, -1, NOW_MS)


def segments(catalog: MemoryCatalog) -> list[str]:
    return [entry.key for entry in catalog.range(keys.SEGMENTS)]


def test_each_gateway_serves_what_it_leads_and_nothing_else(tmp_path: Path) -> None:
    async def body(gateway: Callable[[int], Life], catalog: MemoryCatalog) -> None:
        one, two = gateway(1), gateway(2)
        async with one.running(), two.running():
            for life, own in ((one, 0), (two, 1)):
                await life.write(3, life.topic.partitions[own])
                other = life.topic.partitions[1 - own]
                assert other.state is PartitionState.RECOVERING
                assert other.check_fetch_offset(0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
                with pytest.raises(KafkaError) as refused:
                    append(life, 1 - own)
                assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        lives = [life_of(key.rpartition("-")[2]) for key in segments(catalog)]
        assert lives == [one.context.producer.requests.prefix, two.context.producer.requests.prefix]

    run(tmp_path, body)


def test_what_is_recovered_again_is_what_is_led(tmp_path: Path) -> None:
    async def body(gateway: Callable[[int], Life], _catalog: MemoryCatalog) -> None:
        one = gateway(1)
        async with one.running():
            await one.recovery.recover(one.topic.partitions)
            await one.recovery.recover(one.topic.partitions, new=True)
            states = [partition.state for partition in one.topic.partitions]
            assert states == [PartitionState.READY, PartitionState.RECOVERING]

    run(tmp_path, body)


def test_a_life_whose_slot_another_one_has_changes_nothing_of_an_idle_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else tells it: the record and the topic are as it has read them, and no store has heard of
    anything newer.
    """
    monkeypatch.setattr("gateway.log.recovery.recovery.AGAIN_SECONDS", 0)

    async def body(gateway: Callable[[int], Life], catalog: MemoryCatalog) -> None:
        old = gateway(1)
        async with old.running():
            new = gateway(1)
            async with new.running():
                append(old, 0)
                await wait_all_tasks_blocked()
                partition = old.topic.partitions[0]
                assert partition.state is PartitionState.ELSEWHERE
                assert partition.reason == LED_ELSEWHERE
                assert segments(catalog) == []
                assert not old.context.leads(partition)
                await new.write(1, new.topic.partitions[0])
                assert len(segments(catalog)) == 1
            with pytest.raises(KafkaError):
                append(old, 0)

    run(tmp_path, body)


def test_a_segment_is_put_under_the_epoch_that_the_slot_has(tmp_path: Path) -> None:
    async def body(gateway: Callable[[int], Life], catalog: MemoryCatalog) -> None:
        one, two = gateway(1), gateway(2)
        async with one.running(), two.running():
            entries = [catalog.get(keys.SLOTS + slot_text(slot)) for slot in (FIRST, SECOND)]
            epochs = [unpack_slot(entry.value).epoch for entry in entries if entry is not None]
            assert len(set(epochs)) == 2
            led = [one.topic.partitions[0].leader_epoch, two.topic.partitions[1].leader_epoch]
            assert led == epochs

    run(tmp_path, body)


# notes ------------------------------------------------------------------------------------------------------


def test_ends_are_told_by_the_logs_leader(tmp_path: Path) -> None:
    async def body(gateway: Callable[[int], Life], catalog: MemoryCatalog) -> None:
        notes = {keys.closing_key("A" * 32): LOG, keys.closing_key("B" * 32): LOG_1}
        await catalog.transact([], {key: keys.pack(CLOSED | {"log": log}) for key, log in notes.items()})
        two = gateway(2)
        await two.lead()
        two.context.closer.load()
        assert two.context.closer.untold() == {STORE: 1}
        assert two.context.closer.untold_members("B" * 32, but="") == [STORE]

    run(tmp_path, body)


def test_what_a_compaction_has_left_is_judged_by_the_logs_leader(tmp_path: Path) -> None:
    async def body(gateway: Callable[[int], Life], catalog: MemoryCatalog) -> None:
        await catalog.transact([], Noted("A" * 32, (STORE,), 1, LOG, 0).put())
        one, two = gateway(1), gateway(2)
        for life in (one, two):
            await life.lead()
        assert LeftOver(two.context).is_empty
        assert not LeftOver(one.context).is_empty

    run(tmp_path, body)


def test_segments_are_deleted_by_the_logs_leader(tmp_path: Path) -> None:
    async def body(gateway: Callable[[int], Life], catalog: MemoryCatalog) -> None:
        one, two = gateway(1), gateway(2)
        async with one.running(), two.running():
            mine, others = "A" * 32, "B" * 32
            puts = tombstone(mine, LOG_1, 0, [STORE]) | tombstone(others, LOG, 0, [STORE])
            await catalog.transact([], puts)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(Deletion(two.context, two.stores).run)
                await two.settle()
                left = [entry.key for entry in catalog.range(keys.SEGMENT_TOMBSTONES)]
                assert left == [keys.segment_tombstone_key(others)]
                nursery.cancel_scope.cancel()

    run(tmp_path, body)


def test_what_a_deleted_topic_has_left_is_cleared_away_by_one(tmp_path: Path) -> None:
    async def body(gateway: Callable[[int], Life], catalog: MemoryCatalog) -> None:
        one, two = gateway(1), gateway(2)
        async with one.running(), two.running():
            key = keys.tombstone_key(TOPIC_ID)
            await catalog.transact([], {key: keys.pack({"name": "orders"})}, [NAME])
            for life, clears in ((two, False), (one, True)):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(Deletion(life.context, life.stores).run)
                    await life.settle()
                    assert (catalog.get(key) is None) is clears
                    nursery.cancel_scope.cancel()

    run(tmp_path, body)


# what was under way when the slot went ----------------------------------------------------------------------


async def moves(life: Life, catalog: MemoryCatalog, gateway: int, life_name: str, epoch: int) -> None:
    """Partition 0 is this gateway's, and `life` has heard of it."""
    value = pack_slot(Leader(gateway, life_name, epoch))
    await catalog.transact([], {keys.SLOTS + slot_text(FIRST): value})
    assert life.leadership is not None
    moved = life.leadership.read()
    partition = life.topic.partitions[0]
    if FIRST in moved.gained:
        partition.gained(epoch)
    elif FIRST in moved.lost:
        partition.led_elsewhere(epoch)


def test_a_read_that_waited_while_the_slot_went_is_told_to_ask_the_leader(tmp_path: Path) -> None:
    """Never that the offset is out of range: its client would begin anew, or pass records over."""

    async def body(gateway: Callable[[int], Life], catalog: MemoryCatalog) -> None:
        one = gateway(1)
        async with one.running():
            partition = one.topic.partitions[0]
            await one.write(3, partition)
            looks: list[Callable[[], Awaitable[object]]] = [
                lambda: one.context.cold.read(partition, 0, 1 << 20),
                lambda: one.context.cold.look(partition, 0, 1 << 20),
                lambda: partition.offset_for_timestamp(0),
                partition.max_timestamp,
            ]
            await moves(one, catalog, 2, "B" * 16, 50)
            for look in looks:
                with pytest.raises(KafkaError) as refused:
                    await look()
                assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(tmp_path, body)


def test_a_note_of_a_log_that_is_led_elsewhere_is_left_to_its_leader(tmp_path: Path) -> None:
    """Its topic is deleted as well: nobody else says that there is nothing to do."""

    async def body(gateway: Callable[[int], Life], catalog: MemoryCatalog) -> None:
        one = gateway(1)
        async with one.running():
            closing, tomb = keys.closing_key("A" * 32), keys.tombstone_key(TOPIC_ID)
            await catalog.transact([], {closing: keys.pack(CLOSED | {"log": LOG})})
            entry = catalog.get(closing)
            assert entry is not None
            one.topic.partitions[0].delete()
            await catalog.transact([], {tomb: keys.pack({"name": "orders"})}, [NAME])
            await moves(one, catalog, 2, "B" * 16, 50)
            await take_notes(one.context, [Note.of(entry)])
            assert catalog.get(closing) is not None

    run(tmp_path, body)


def test_a_deletion_that_was_another_ones_for_a_while_is_this_ones_again(tmp_path: Path) -> None:
    async def body(gateway: Callable[[int], Life], catalog: MemoryCatalog) -> None:
        one = gateway(1)
        async with one.running():
            deletion = Deletion(one.context, one.stores)
            key = keys.segment_tombstone_key("A" * 32)
            await catalog.transact([], tombstone("A" * 32, LOG, 0, [STORE]))
            entry = catalog.get(key)
            assert entry is not None
            deletion._unconfirmed["A" * 32] = _Unconfirmed(entry.mod_revision, (STORE,), 0.0)
            deletion._retries.append((0.0, "A" * 32))
            deletion._now = 1.0
            await moves(one, catalog, 2, "B" * 16, 50)
            await deletion._delete_dropped()
            await moves(one, catalog, 1, one.context.producer.requests.prefix, 51)
            deletion._looked = -1
            await deletion._take_changes()
            assert "A" * 32 in deletion._waiting

    run(tmp_path, body)


def test_a_log_start_that_was_not_put_is_not_put_later(tmp_path: Path) -> None:
    async def body(gateway: Callable[[int], Life], catalog: MemoryCatalog) -> None:
        one = gateway(1)
        async with one.running():
            partition = one.topic.partitions[0]
            await one.write(3, partition)
            partition.log_start_moves(2)
            await moves(one, catalog, 2, "B" * 16, 50)
            await moves(one, catalog, 1, one.context.producer.requests.prefix, 51)
            assert keys.unpack(partition_record(partition))["log_start"] == 0

    run(tmp_path, body)


def test_the_epoch_never_goes_back_where_a_slot_could_not_be_given(tmp_path: Path) -> None:
    async def body(gateway: Callable[[int], Life], catalog: MemoryCatalog) -> None:
        one = gateway(1)
        async with one.running():
            partition = one.topic.partitions[0]
            table = partition.leader_epoch
            partition.leader_epoch = table + 6  # it was recovered again, and clients were told
            partition.led_elsewhere(partition.leader_epoch)
            partition.gained(table)
            assert partition.leader_epoch == table + 6
            assert partition.led_since == table

    run(tmp_path, body)


def test_a_topic_that_was_made_by_one_that_has_slept_since_is_recovered(tmp_path: Path) -> None:
    """Others have led it meanwhile, and written: it is new to this gateway alone."""

    async def body(gateway: Callable[[int], Life], catalog: MemoryCatalog) -> None:
        one, again = gateway(1), gateway(1)
        async with one.running():
            await one.write(3, one.topic.partitions[0])
        await again.lead()
        fresh = again.topic.partitions[0]
        await again.recovery.recover([fresh], new=True)
        assert fresh.state is PartitionState.RECOVERING, "its stores are to be asked"

    run(tmp_path, body)
