"""What a partition serves when it is not recovered, what recovery makes of a slow store, and of a catalog
that is older than its store."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.catalog import keys
from gateway.cluster.exported import Exported, imported_entries
from gateway.log.compaction.left_over import Noted
from gateway.log.epoch_counter import NONE_DRAWN
from gateway.log.partition import Partition, PartitionState
from gateway.log.recovery import one_partition, recovery, verification
from gateway.log.recovery.endings import Endings
from gateway.log.recovery.one_partition import PartitionRecovery
from gateway.log.segment import Segment
from mesh.protocol.address_state import Phase
from mesh.protocol.segments import Segments
from mesh.store import keys as store_keys
from mesh.store.values import pack_epoch, pack_head
from tests.entries import entry_of
from tests.unit.gateway.catalog.memory import MemoryCatalog
from tests.unit.gateway.kafka_wire import run
from tests.unit.gateway.log.fake_log import NOW_MS, TOPIC_ID, FakeLog, batch, header_of
from tests.unit.gateway.log.one_store import STORE, Life, OneStore, copy_of
from tests.unit.gateway.turns import Turns
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    STATUS_STORAGE_ERROR,
    AddressStatus,
    GetRows,
    Request,
    Verify,
)
from wireproto.kafka.errors import ErrorCode, KafkaError

NONE, NOT_LEADER, OUT_OF_RANGE = (
    ErrorCode.NONE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.OFFSET_OUT_OF_RANGE,
)
ROLL_AT_ONCE = {"segment.bytes": "1048576", "segment.ms": "1"}
LOG = f"{TOPIC_ID.hex()}/0"


class Setup:
    def __init__(self, path: Path) -> None:
        self.store = OneStore(path / "db")
        self.catalog = MemoryCatalog()

    def life(self, catalog: MemoryCatalog | None = None, **options: Any) -> Life:
        """The next life: the store too has nothing in memory."""
        self.store.open()
        return Life(self.store, catalog or self.catalog, **options)


@pytest.fixture
def cluster(tmp_path: Path) -> Callable[[Callable[[Setup], Awaitable[None]]], None]:
    def start(body: Callable[[Setup], Awaitable[None]]) -> None:
        async def main() -> None:
            setup = Setup(tmp_path)
            try:
                await body(setup)
            finally:
                setup.store.database.close()

        run(main, clock=MockClock(autojump_threshold=0.01))

    return start


Cluster = Callable[[Callable[[Setup], Awaitable[None]]], None]


def answers(partition: Partition, *offsets: int) -> list[ErrorCode]:
    return [partition.check_fetch_offset(offset) for offset in offsets]


async def write_two_lives(setup: Setup) -> None:
    """Offsets 0 to 19 in a closed segment, 20 to 24 in an open one that was announced."""
    async with setup.life().running() as life:
        await life.write(20)
    async with setup.life().running() as life:
        await life.write(5)
        assert (life.partition.state, life.partition.high_watermark) == (PartitionState.READY, 25)


# what is served meanwhile ---------------------------------------------------------------------------------


def forget(setup: Setup, address: str) -> None:
    """The store has never heard of this address."""
    for key in (store_keys.meta_key(address), store_keys.head_key(address)):
        setup.store.database._db.delete(key)


def damage_head_row(setup: Setup, address: str) -> None:
    state = setup.store.database.load(address)
    assert state is not None
    row = b"no row"
    setup.store.database._db.put(
        store_keys.head_key(address), state.head.to_bytes(8, "big") + bytes(8) + bytes([len(row)]) + row
    )


def damage_meta(setup: Setup, address: str) -> None:
    setup.store.database._db.put(store_keys.meta_key(address), b"?")


@pytest.mark.parametrize("lose", [forget, damage_head_row, damage_meta])
def test_a_partition_that_cannot_be_recovered_serves_what_is_closed_and_never_says_out_of_range(
    cluster: Cluster, lose: Callable[[Setup, str], None]
) -> None:
    async def body(setup: Setup) -> None:
        await write_two_lives(setup)
        last = Segment.unpack(setup.catalog.range(keys.SEGMENTS)[-1].value)
        assert (last.start_offset, last.is_open, last.announced) == (20, True, True)
        lose(setup, last.address)
        async with setup.life().running() as life:
            partition = life.partition
            assert (partition.state, partition.high_watermark) == (PartitionState.FAILED, 20)
            assert answers(partition, -1, 0, 19, 20, 22, 25, 1000) == [
                OUT_OF_RANGE,
                NONE,
                NONE,
                NOT_LEADER,
                NOT_LEADER,
                NOT_LEADER,
                NOT_LEADER,
            ]
            assert partition.read_hot(7, 1 << 20, whole=True) is None
            assert len(await partition.read_cold(7, 1 << 20)) == 13

    cluster(body)


def test_a_store_that_could_not_seal_is_asked_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(setup: Setup) -> None:
        await write_two_lives(setup)
        last = Segment.unpack(setup.catalog.range(keys.SEGMENTS)[-1].value).address
        with monkeypatch.context() as patched:
            patched.setattr(Segments, "_seal", cannot_seal)
            life = setup.life()
            async with life.running():
                partition = life.partition
                assert (partition.state, partition.high_watermark) == (PartitionState.RECOVERING, 20)
                assert f"segment {last} cannot be sealed by store {STORE} (status 2)" in partition.reason
                patched.undo()
                while partition.state is PartitionState.RECOVERING:  # noqa: ASYNC110  nothing tells
                    await trio.sleep(0.5)
                assert (partition.state, partition.high_watermark) == (PartitionState.READY, 25)
                await life.write(1)

    def cannot_seal(_self: Segments, wanted: AddressStatus) -> AddressStatus:
        return AddressStatus(wanted.address, STATUS_STORAGE_ERROR, -1)

    cluster(body)


def test_out_of_range_is_said_again_once_the_end_is_known(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        await write_two_lives(setup)
        async with setup.life().running() as life:
            assert answers(life.partition, 25, 26) == [NONE, OUT_OF_RANGE]

    cluster(body)


# a store that is older ------------------------------------------------------------------------------------


def test_a_log_that_ends_before_what_was_shown_serves_nothing(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life().running() as life:
            partition = life.partition
            await life.write(3)
            assert partition.chain.current is not None
            address = partition.chain.current.segment.address
            key = store_keys.head_key(address)
            (head,) = setup.store.database.get_many([key])
            await life.write(2)
            assert partition.high_watermark == 5
            setup.store.database._db.put(key, head)
            setup.store.open()
            partition.fenced(partition.chain.current.writer, "sealed")
            await trio.sleep(5)
            assert partition.state is PartitionState.FAILED
            assert "the log ends at offset 3, and 5 was shown before" in partition.reason

    cluster(body)


# idempotent producers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("batches", [2, 3, 4, 6, 7, 9, 10, 11, 30])
@pytest.mark.parametrize("first_rows", [0, 2, 3])
def test_the_producers_of_every_batch_are_known_however_many_answers_its_rows_take(
    cluster: Cluster, batches: int, first_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment of more rows than an answer has, in small: those of the announcement, those of one round."""
    monkeypatch.setattr("mesh.store.server.BEGINNING_ROWS", first_rows)
    monkeypatch.setattr("gateway.log.recovery.producers_at_end.ROWS_AT_ONCE", 4)
    monkeypatch.setattr("mesh.reader.ROWS_COUNT", 3)

    def send_all(life: Life) -> list[tuple[int, int]]:
        """A batch of each of so many producers: where it is."""
        appends = []
        for producer_id in range(batches):
            view = memoryview(bytearray(batch(b"one", b"two", pid=producer_id)))
            append = life.partition.append(header_of(view), view, -1, NOW_MS)
            appends.append((append.base_offset, append.last_offset))
        return appends

    async def body(setup: Setup) -> None:
        async with setup.life().running() as life:
            stored = send_all(life)
            await life.settle()
        assert stored == [(2 * number, 2 * number + 1) for number in range(batches)]
        async with setup.life().running() as life:
            assert send_all(life) == stored
            assert life.partition.next_offset == 2 * batches

    cluster(body)


def test_the_producers_of_earlier_segments_are_known_too(cluster: Cluster) -> None:
    def send(life: Life, producer_id: int) -> int:
        view = memoryview(bytearray(batch(b"value", pid=producer_id)))
        return life.partition.append(header_of(view), view, -1, NOW_MS).base_offset

    async def body(setup: Setup) -> None:
        async with setup.life(configs=ROLL_AT_ONCE).running() as life:
            for producer_id in range(3):
                assert send(life, producer_id) == producer_id
                await life.settle()
                roll(life)
            assert len(life.partition.chain.segments()) == 3
        async with setup.life(configs=ROLL_AT_ONCE).running() as life:
            assert [send(life, producer_id) for producer_id in range(4)] == [0, 1, 2, 3]

    cluster(body)


# a slow store ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "first_rows"), [(ids.BEGINNINGS, 4096), (GetRows, 0)])
def test_a_store_that_is_slow_is_asked_again(
    cluster: Cluster,
    asked: type | bytes,
    first_rows: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("mesh.store.server.BEGINNING_ROWS", first_rows)

    async def body(setup: Setup) -> None:
        await write_two_lives(setup)
        setup.store.deaf = {asked}
        async with setup.life().running() as life:
            partition = life.partition
            states = [partition.state]
            assert STORE in partition.reason
            assert answers(partition, 24, 25, 26) == [NONE, NOT_LEADER, NOT_LEADER]
            with pytest.raises(KafkaError, match=STORE):
                await life.write()
            await trio.sleep(30)
            states.append(partition.state)
            setup.store.hear_all()
            await trio.sleep(10)
            states.append(partition.state)
            assert states == [PartitionState.RECOVERING, PartitionState.RECOVERING, PartitionState.READY]
            await life.write()
            assert partition.high_watermark == 26

    with caplog.at_level(logging.WARNING):
        cluster(body)
    assert f"waits for the stores {STORE}" in caplog.text
    assert "accept-loss" not in caplog.text


def test_a_store_that_answers_and_has_it_not_is_not_asked_again(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life().running() as life:
            await life.write(3)
        async with setup.life().running() as life:
            await life.settle()  # closes
        segment = Segment.unpack(setup.catalog.range(keys.SEGMENTS)[-1].value)
        assert not segment.is_open
        forget(setup, segment.address)
        async with setup.life().running() as life:
            await trio.sleep(30)
            assert life.partition.state is PartitionState.FAILED
            assert "--accept-loss" in life.partition.reason

    cluster(body)


# waking ---------------------------------------------------------------------------------------------------


class Waiter:
    def __init__(self) -> None:
        self.woken: list[tuple[PartitionState, int]] = []

    def advanced(self, partition: Partition | None = None, /) -> None:
        assert partition is not None
        self.woken.append((partition.state, partition.high_watermark))


def test_who_waits_is_woken_when_the_partition_serves_again(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life().running() as life:
            partition, waiter = life.partition, Waiter()
            await life.write(3)
            assert partition.chain.current is not None
            address = partition.chain.current.segment.address
            # Two more reach the disk, and their acknowledgements are lost with the segment.
            heard = life.node.handlers.copy()
            life.node.handlers = {kind: lambda _message: None for kind in heard}
            await life.write(2)
            life.node.handlers = heard
            assert partition.high_watermark == 3
            partition.listeners.add(waiter)
            seal = entry_of(b"S", address)
            setup.store.take(Request(b"S", STORE, "R", (seal,)))
            partition.fenced(partition.chain.current.writer, "sealed")
            assert waiter.woken == [(PartitionState.FAILED, 3)]
            await trio.sleep(5)
            assert waiter.woken[1:] == [(PartitionState.READY, 5)]

    cluster(body)


# an older catalog -----------------------------------------------------------------------------------------


def refuted(life: Life) -> str:
    """Why the partition serves nothing."""
    partition = life.partition
    assert partition.state is PartitionState.FAILED
    assert set(answers(partition, 0, 1, partition.high_watermark, 1000)) == {NOT_LEADER}
    assert "older" in partition.reason
    assert "--rebuild-catalog" in partition.reason
    assert "accept-loss" not in partition.reason
    return partition.reason


@pytest.mark.parametrize("accept_loss", [False, True])
@pytest.mark.parametrize("lives_before", [0, 1, 2])
def test_a_catalog_from_before_the_last_life_is_refuted(
    cluster: Cluster, lives_before: int, accept_loss: bool
) -> None:
    async def body(setup: Setup) -> None:
        for _ in range(lives_before):
            async with setup.life().running() as life:
                await life.write(4)
        async with setup.life().running() as life:
            await life.settle()
            backup = await copy_of(setup.catalog)
            await life.write(4)
        before = [entry for entry in backup.range("") if not entry.key.startswith(keys.CLOSING)]
        for _ in range(3):
            async with setup.life(backup, accept_loss=accept_loss).running() as life:
                assert f"knows leader epoch {lives_before}" in refuted(life)
        assert [entry for entry in backup.range("") if not entry.key.startswith(keys.CLOSING)] == before
        async with setup.life().running() as life:
            assert life.partition.high_watermark == 4 * (lives_before + 1)
            await life.write()

    cluster(body)


@pytest.mark.parametrize("rolls", [1, 2])
def test_a_catalog_from_before_a_roll_of_the_same_life_is_refuted(cluster: Cluster, rolls: int) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life(configs=ROLL_AT_ONCE).running() as life:
            await life.write(4)
            backup = await copy_of(setup.catalog)
            for number in range(1, rolls + 1):
                roll(life)
                await life.write(4)
                assert life.partition.high_watermark == 4 * (number + 1)
            assert {Segment.unpack(entry.value).epoch for entry in setup.catalog.range(keys.SEGMENTS)} == {0}
            newer = await copy_of(setup.catalog)
        async with setup.life(backup).running() as life:
            assert "closed, and the catalog knows no end of it" in refuted(life)
        async with setup.life(newer).running() as life:
            assert life.partition.high_watermark == 4 * (rolls + 1)
            await life.write()

    cluster(body)


def roll(life: Life) -> None:
    """The next append begins another segment."""
    now = life.context.now_ms() + 10_000
    life.context.now_ms = lambda: now  # type: ignore[method-assign]
    assert life.partition.chain.current is not None
    life.partition.chain.current.bytes = life.topic.settings.segment_bytes


def test_a_catalog_from_before_a_deletion_is_refuted(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life().running() as life:
            await life.write(4)
            backup = await copy_of(setup.catalog)
            assert life.partition.chain.current is not None
            deletion = entry_of(b"X", life.partition.chain.current.segment.address)
        setup.store.take(Request(b"X", STORE, "R", (deletion,)))
        async with setup.life(backup).running() as life:
            assert "deleted, and the catalog knows no end of it" in refuted(life)

    cluster(body)


def test_a_catalog_with_a_note_of_a_compaction_that_is_over_is_refuted(cluster: Cluster) -> None:
    """The store knows the end of what it was to write: there is a newer catalog."""

    async def body(setup: Setup) -> None:
        await write_two_lives(setup)
        closed = Segment.unpack(setup.catalog.range(keys.SEGMENTS)[0].value)
        note = Noted(closed.address, closed.members, closed.w, LOG, closed.epoch)
        await setup.catalog.transact([], note.put())
        async with setup.life().running() as life:
            assert f"has segment {closed.address} closed" in refuted(life)

    cluster(body)


@pytest.mark.parametrize(
    ("members", "w", "needed"), [(1, 1, 1), (2, 2, 1), (3, 2, 2), (3, 3, 1), (4, 3, 2), (5, 3, 3), (5, 4, 2)]
)
def test_so_many_members_are_asked_that_any_w_meet_one_of_them(members: int, w: int, needed: int) -> None:
    async def main() -> None:
        stores = tuple(f"store-{number}" for number in range(members))
        log = FakeLog(stores=stores, configs={"min.insync.replicas": str(w)})
        endings = Endings(log.context)
        recovery = PartitionRecovery(
            log.context, log.partition, accept_loss=False, settled=lambda: None, endings=endings
        )
        asked = recovery.asked()
        assert (set(asked.members), asked.needed) == (set(stores), needed)
        log.partition.chain.load([Segment("A" * 32, 0, 0, stores[::-1], w, 0).closed(5, 4, 0)])
        asked = recovery.asked()
        assert (asked.members, asked.needed) == (stores[::-1], needed)

    run(main)


def test_an_epoch_that_two_catalogs_have_used_is_refuted(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life().running() as life:
            await life.settle()
            backup = await copy_of(setup.catalog)
            await life.write(4)
        # The other one got as far as its catalog: its OPEN was never sent.
        other = Segment("F" * 32, 0, 0, (STORE,), 1, 0)
        await backup.transact(
            [],
            {
                keys.segment_key(TOPIC_ID, 0, 0, other.address): other.pack(),
                keys.partition_key(TOPIC_ID, 0): keys.pack(
                    {"next_epoch": 1, "epochs": [[0, 0]], "log_start": 0}
                ),
            },
        )
        async with setup.life(backup).running() as life:
            assert "of another gateway life" in refuted(life)

    cluster(body)


def test_one_partition_that_is_refuted_does_not_stop_the_others(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life(partitions=3).running() as life:
            for partition in life.topic.partitions:
                await life.write(2, partition)
        async with setup.life(partitions=3).running() as life:
            await life.settle()
            backup = await copy_of(setup.catalog)
            await life.write(2, life.topic.partitions[1])
        async with setup.life(backup, partitions=3).running() as life:
            states = [partition.state for partition in life.topic.partitions]
            assert states == [PartitionState.READY, PartitionState.FAILED, PartitionState.READY]
            await life.write(1, life.topic.partitions[2])
            assert [partition.high_watermark for partition in life.topic.partitions] == [2, 2, 3]

    cluster(body)


# leader epochs --------------------------------------------------------------------------------------------


def epochs_of(life: Life) -> list[int]:
    return [partition.leader_epoch for partition in life.topic.partitions]


def counter(setup: Setup) -> int:
    entry = setup.catalog.get(keys.LEADER_EPOCH)
    assert entry is not None
    return int(keys.unpack(entry.value))


async def recovered_again(life: Life, *partitions: Partition) -> None:
    """They lose their segments, and serve again."""
    for partition in partitions:
        assert partition.chain.current is not None
        partition.fenced(partition.chain.current.writer, "sealed")
    while not all(partition.available for partition in partitions):
        await life.settle()
        await trio.sleep(0.1)


def test_one_number_serves_a_round_and_each_recovery_of_a_life_takes_the_next(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life(partitions=3).running() as life:
            for partition in life.topic.partitions:
                await life.write(4, partition)
        async with setup.life(partitions=3).running() as life:
            assert (epochs_of(life), counter(setup)) == ([1, 1, 1], 1)
            first, second, idle = life.topic.partitions
            for number in (2, 3):
                for partition in (first, second):
                    await life.write(1, partition)
                await recovered_again(life, first, second)
                assert (epochs_of(life), counter(setup)) == ([number, number, 1], number)
            await life.write(1, first)
            await life.write(1, idle)
            assert first.epochs.to_list() == [[0, 0], [1, 4], [2, 5], [3, 6]]
            assert idle.epochs.to_list() == [[0, 0], [1, 4]]
            assert idle.end_offset_for_epoch(0) == (0, 4)
            await recovered_again(life, idle)
            assert (epochs_of(life), counter(setup)) == ([3, 3, 4], 4)
        async with setup.life(partitions=3).running() as life:
            assert (epochs_of(life), counter(setup)) == ([5, 5, 5], 5)
            idle = life.topic.partitions[2]
            # Numbers that never were a leader's of this log, and its last, which it has not written under.
            assert [idle.end_offset_for_epoch(epoch) for epoch in range(1, 7)] == [
                (1, 5), (1, 5), (1, 5), (1, 5), (5, 5), (-1, -1),
            ]  # fmt: skip

    cluster(body)


def test_a_life_whose_number_another_gateway_has_drawn_takes_the_next(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life(partitions=2).running() as life:
            await life.write(4)
        life = setup.life(partitions=2)
        await setup.catalog.transact([], {keys.LEADER_EPOCH: keys.pack(1)})
        async with life.running():
            while not all(partition.available for partition in life.topic.partitions):
                await life.settle()
                await trio.sleep(0.1)
            # One that was written to, one that was not, and one of a new topic.
            await life.write(1)
            await life.write(1, life.topic.partitions[1])
            added = Partition(life.context, life.topic, 2)
            life.topic.partitions.append(added)
            await life.recovery.recover([added], new=True)
            await life.write(1, added)
            segments = [Segment.unpack(entry.value) for entry in setup.catalog.range(keys.SEGMENTS)]
            assert [segment.epoch for segment in segments] == [0, 2, 2, 2]
            assert (epochs_of(life), counter(setup)) == ([2, 2, 2], 2)

    cluster(body)


def test_lives_that_write_nothing_draw_nothing_and_show_no_lower_epoch(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life(partitions=2).running() as life:
            await life.write(4)
        async with setup.life(partitions=2).running() as life:
            assert epochs_of(life) == [1, 1]
        for _ in range(2):
            async with setup.life(partitions=2).running() as life:
                assert (epochs_of(life), counter(setup)) == ([2, 2], 1)

    cluster(body)


def test_a_catalog_from_before_the_counter_goes_on_above_its_epochs(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        for _ in range(3):
            async with setup.life(partitions=2).running() as life:
                await life.write(1)
        await setup.catalog.transact([], {}, [keys.LEADER_EPOCH])
        async with setup.life(partitions=2).running() as life:
            assert (epochs_of(life), counter(setup)) == ([3, 3], 3)
            await life.write(1, life.topic.partitions[1])
        async with setup.life(partitions=2).running() as life:
            assert epochs_of(life) == [4, 4]

    cluster(body)


def test_a_number_lies_above_what_a_store_of_a_newer_catalog_knows(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life(partitions=2).running() as life:
            await life.write(1)
        setup.store.database._db.put(store_keys.epoch_key(f"{TOPIC_ID.hex()}/1"), pack_epoch(40, "F" * 16))
        async with setup.life(partitions=2).running() as life:
            assert "knows leader epoch 40" in life.topic.partitions[1].reason
            await life.write(1)
            await recovered_again(life, life.partition)
            assert (life.partition.leader_epoch, counter(setup)) == (41, 41)

    cluster(body)


def test_what_a_store_cannot_read_of_a_log_is_no_older_catalog(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life().running() as life:
            await life.write(4)
        setup.store.database._db.put(store_keys.epoch_key(LOG), b"?")
        async with setup.life().running() as life:
            assert life.partition.state is PartitionState.FAILED
            assert f"store {STORE} cannot read what it knows" in life.partition.reason
            assert "older" not in life.partition.reason

    cluster(body)


# a catalog that has lost rows ------------------------------------------------------------------------------


async def write_three_segments(setup: Setup, *, same_epoch: bool) -> list[str]:
    """Offsets 0 to 29 in three closed segments, of one life or of three; the keys of these, oldest first."""
    if same_epoch:
        async with setup.life(configs=ROLL_AT_ONCE).running() as life:
            for _ in range(3):
                await life.write(10)
                life.context.opener.end(life.partition)
                await life.settle()
                await life.settle()
    else:
        for _ in range(3):
            async with setup.life().running() as life:
                await life.write(10)
        async with setup.life().running() as life:
            await life.settle()
    segments = {entry.key: Segment.unpack(entry.value) for entry in setup.catalog.range(keys.SEGMENTS)}
    assert [segment.end_offset for segment in segments.values()] == [10, 20, 30]
    assert len({segment.epoch for segment in segments.values()}) == (1 if same_epoch else 3)
    return list(segments)


def damaged(life: Life) -> str:
    """Why the partition serves nothing."""
    partition = life.partition
    assert partition.state is PartitionState.FAILED
    assert set(answers(partition, 0, 1, partition.high_watermark, 1000)) == {NOT_LEADER}
    assert "restore the newest catalog" in partition.reason
    assert "--rebuild-catalog" in partition.reason
    return partition.reason


@pytest.mark.parametrize("same_epoch", [False, True])
@pytest.mark.parametrize("accept_loss", [False, True])
@pytest.mark.parametrize("lost", [0, 1])
def test_a_chain_that_has_lost_a_row_serves_nothing(
    cluster: Cluster, lost: int, accept_loss: bool, same_epoch: bool
) -> None:
    async def body(setup: Setup) -> None:
        rows = await write_three_segments(setup, same_epoch=same_epoch)
        await setup.catalog.transact([], {}, [rows[lost]])
        before = setup.catalog.range("")
        async with setup.life(accept_loss=accept_loss).running() as life:
            reason = damaged(life)
            assert reason.startswith("the catalog has lost something of this log: ")
            assert ("its first segment at 10" if lost == 0 else "begins at 20") in reason
            await life.settle()
        assert setup.catalog.range("") == before

    cluster(body)


def test_a_partition_whose_own_record_is_lost_serves_nothing(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        await write_three_segments(setup, same_epoch=True)
        await setup.catalog.transact([], {}, [keys.partition_key(TOPIC_ID, 0)])
        async with setup.life().running() as life:
            assert "nothing else is known of the partition" in damaged(life)

    cluster(body)


def test_a_closed_segment_that_a_store_has_deleted_refutes_a_catalog_that_has_it(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        await write_three_segments(setup, same_epoch=True)
        backup = await copy_of(setup.catalog)
        async with setup.life().running() as life:
            address = life.partition.chain.closed[-1].address
            await life.context.log_starts.delete_records({life.partition: -1})
            assert life.partition.chain.closed == []
        deletion = entry_of(b"X", address)
        setup.store.take(Request(b"X", STORE, "R", (deletion,)))
        async with setup.life(backup).running() as life:
            assert f"has segment {address} deleted, and the catalog has it in its log" in refuted(life)
        async with setup.life().running() as life:
            assert (life.partition.state, life.partition.high_watermark) == (PartitionState.READY, 30)

    cluster(body)


@pytest.mark.parametrize("accept_loss", [False, True])
@pytest.mark.parametrize("same_epoch", [False, True])
@pytest.mark.parametrize("lost", [1, 2, 3])
def test_the_stores_tell_of_segments_that_are_lost_at_the_end_of_a_chain(
    cluster: Cluster, lost: int, same_epoch: bool, accept_loss: bool
) -> None:
    async def body(setup: Setup) -> None:
        rows = await write_three_segments(setup, same_epoch=same_epoch)
        last = Segment.unpack(setup.catalog.range(keys.SEGMENTS)[-1].value)
        await setup.catalog.transact([], {}, rows[-lost:])
        before = setup.catalog.range("")
        async with setup.life(accept_loss=accept_loss).running() as life:
            assert f"has segment {last.address}, which begins at offset 20" in refuted(life)
        assert setup.catalog.range("") == before

    cluster(body)


def test_the_stores_tell_of_an_open_segment_that_is_lost(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life(configs=ROLL_AT_ONCE).running() as life:
            await life.write(4)
            roll(life)
            await life.write(4)
        *_, last = setup.catalog.range(keys.SEGMENTS)
        assert Segment.unpack(last.value).is_open
        await setup.catalog.transact([], {}, [last.key])
        async with setup.life().running() as life:
            assert "begins at offset 4" in refuted(life)

    cluster(body)


def test_what_a_store_kept_when_it_was_another_one_refutes_nothing(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A store is away; a segment is dropped, everybody else forgets it, and the store is removed: its
    tombstone goes. Then its directory comes back as another store (`dafka store restored`), with more of that
    segment than was ever acknowledged.
    """

    async def body(setup: Setup) -> None:
        *_, key = await write_three_segments(setup, same_epoch=True)
        last = Segment.unpack(setup.catalog.range(keys.SEGMENTS)[-1].value)
        await setup.catalog.transact([], {}, [key])
        state = setup.store.database.load(last.address)
        assert state is not None
        assert state.announcement is not None
        state.announcement = state.announcement._replace(members=("D" * 32,))
        setup.store.database._db.put(store_keys.meta_key(last.address), state.pack_meta())
        async with setup.life().running() as life:
            assert (life.partition.state, life.partition.high_watermark) == (PartitionState.READY, 20)
            await life.write(3)
            assert life.partition.high_watermark == 23

    with caplog.at_level(logging.WARNING):
        cluster(body)
    assert "of the store that it was before, which has left its log" in caplog.text


def test_what_is_deleted_while_a_recovery_asks_about_it_refutes_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has said what it keeps; then it deletes it, as it was told before, and its tombstone goes.
    What it has said is judged after that.
    """

    async def body(setup: Setup) -> None:
        *_, key = await write_three_segments(setup, same_epoch=True)
        last = Segment.unpack(setup.catalog.range(keys.SEGMENTS)[-1].value)
        await setup.catalog.transact([], {}, [key])
        life = setup.life()
        look = life.context.reader.segment

        async def deleted(member: str, address: str) -> Any:
            assert address == last.address
            setup.store.take(Request(b"X", STORE, "R", (entry_of(b"X", address),)))
            return await look(member, address)

        monkeypatch.setattr(life.context.reader, "segment", deleted)
        async with life.running():
            assert (life.partition.state, life.partition.high_watermark) == (PartitionState.READY, 20)
            await life.write(3)
            assert life.partition.high_watermark == 23

    cluster(body)


def test_what_a_store_has_not_forgotten_yet_refutes_nothing(cluster: Cluster) -> None:
    """A segment that left its chain: by a tombstone, or long ago where the store was no member any more."""

    async def body(setup: Setup) -> None:
        await write_three_segments(setup, same_epoch=True)
        async with setup.life().running() as life:
            await life.context.log_starts.delete_records({life.partition: 25})
            await life.context.log_starts.delete_records({life.partition: -1})
        for forgotten in (False, True):
            if forgotten:
                tombstones = setup.catalog.range(keys.SEGMENT_TOMBSTONES)
                assert len(tombstones) == 3
                await setup.catalog.transact([], {}, [entry.key for entry in tombstones])
            async with setup.life().running() as life:
                assert (life.partition.state, life.partition.high_watermark) == (PartitionState.READY, 30)

    cluster(body)


def test_what_an_import_knew_only_by_its_notes_refutes_nothing(cluster: Cluster) -> None:
    """An empty segment at the log's end, which was to be deleted when the catalog was exported."""

    async def body(setup: Setup) -> None:
        await write_three_segments(setup, same_epoch=True)
        async with setup.life().running() as life:
            partition = life.partition
            partition.chain.begin(life.context.opener.start(partition, NOW_MS))
            await life.settle()
        async with setup.life().running():
            pass
        (tombstone,) = setup.catalog.range(keys.SEGMENT_TOMBSTONES)
        found = Exported("", "", "", 0, {entry.key: entry.value for entry in setup.catalog.range("")})
        imported = imported_entries(found, older=False).items()
        left_over = {key: value for key, value in imported if key.startswith(keys.LEFT_OVER)}
        await setup.catalog.transact([], {}, [tombstone.key])
        async with setup.life().running() as life:
            assert life.partition.state is PartitionState.FAILED, "else it is news"
        await setup.catalog.transact([], left_over)
        async with setup.life().running() as life:
            assert (life.partition.state, life.partition.high_watermark) == (PartitionState.READY, 30)
            await life.write(1)
            assert life.partition.high_watermark == 31

    cluster(body)


def cut_off(setup: Setup, address: str, head: int) -> None:
    """The store has lost what came after this record."""
    state = setup.store.database.load(address)
    assert state is not None
    row, running_max = setup.store.database.row(address, head)
    packed = pack_head(head, row, running_max, state.subject)
    setup.store.database._db.put(store_keys.head_key(address), packed)


@pytest.mark.parametrize("writes_meanwhile", [False, True])
def test_what_an_accepted_loss_leaves_below_the_log_start_is_no_damage(
    cluster: Cluster, writes_meanwhile: bool
) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life().running() as life:
            await life.write(10)
            await life.context.log_starts.delete_records({life.partition: 8})
        async with setup.life().running() as life:
            (segment,) = life.partition.chain.closed
        cut_off(setup, segment.address, 4)
        async with setup.life(accept_loss=True).running() as life:
            partition = life.partition
            assert (partition.state, partition.high_watermark) == (PartitionState.READY, 8)
            assert partition.chain.closed[0].end_offset == 5
            if writes_meanwhile:
                await life.write(1)
        for _ in range(2):
            end = life.partition.high_watermark
            async with setup.life().running() as life:
                partition = life.partition
                assert (partition.state, partition.high_watermark) == (PartitionState.READY, end)
                if writes_meanwhile:
                    setup.store.deaf = {b"O"}
                    await life.write(1)  # its segment will be found empty
                    setup.store.hear_all()

    cluster(body)


OTHER_STORE = "6" * 32


async def note_a_copy(setup: Setup) -> str:
    """The catalog notes that another store is to copy the last segment; that one's address."""
    entry = setup.catalog.range(keys.SEGMENTS)[-1]
    segment = Segment.unpack(entry.value)
    await setup.catalog.transact([], {entry.key: replace(segment, copying=(OTHER_STORE,)).pack()})
    return segment.address


def test_every_store_that_may_have_some_of_it_forgets_a_segment_that_an_accepted_loss_leaves_empty(
    cluster: Cluster,
) -> None:
    async def body(setup: Setup) -> None:
        await write_two_lives(setup)
        async with setup.life().running() as life:
            await life.settle()
        address = await note_a_copy(setup)
        forget(setup, address)
        async with setup.life(accept_loss=True).running() as life:
            assert (life.partition.state, life.partition.high_watermark) == (PartitionState.READY, 20)
            tombstone = setup.catalog.get(keys.segment_tombstone_key(address))
            assert tombstone is not None
            assert keys.unpack(tombstone.value)["members"] == [STORE, OTHER_STORE]

    cluster(body)


@pytest.mark.parametrize("emptied", [False, True])
def test_an_empty_segment_that_was_all_of_a_log_says_so_until_the_stores_remember_where_it_ends(
    cluster: Cluster, emptied: bool
) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life().running() as life:
            await life.write(3)
        async with setup.life().running() as life:
            if emptied:
                assert await life.context.log_starts.delete_records({life.partition: -1}) == {
                    life.partition: 3
                }
            setup.store.deaf = {b"O"}
            before = {entry.key for entry in setup.catalog.range(keys.SEGMENTS)}
            await life.write(1)  # its segment will be found empty
            (opened,) = {entry.key for entry in setup.catalog.range(keys.SEGMENTS)} - before
            setup.store.hear_all()
        address = opened.rpartition("-")[2]
        async with setup.life().running() as life:
            assert (life.partition.state, life.partition.high_watermark) == (PartitionState.READY, 3)
            tombstone = setup.catalog.get(keys.segment_tombstone_key(address))
            assert tombstone is not None
            assert keys.unpack(tombstone.value).get("last", False) is emptied

    cluster(body)


def test_a_segment_that_changes_while_its_end_is_agreed_on_keeps_the_change(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another store is to take a member's place: with --accept-loss, the catalog has it closed."""
    put_ends = PartitionRecovery._put_ends
    noted: list[str] = []

    async def body(setup: Setup) -> None:
        async def note_first(self: PartitionRecovery, ends: Any) -> None:
            if not noted:
                noted.append(await note_a_copy(setup))
            await put_ends(self, ends)

        await write_two_lives(setup)
        async with setup.life().running() as life:
            await life.settle()
        monkeypatch.setattr(PartitionRecovery, "_put_ends", note_first)
        async with setup.life(accept_loss=True).running() as life:
            while life.partition.state is not PartitionState.READY:  # noqa: ASYNC110  nothing tells
                await trio.sleep(0.5)
            assert life.partition.high_watermark == 25
            segment = Segment.unpack(setup.catalog.range(keys.SEGMENTS)[-1].value)
            assert (segment.address, segment.copying, segment.end_offset) == (noted[0], (OTHER_STORE,), 25)
            assert life.partition.chain.closed[-1].copying == (OTHER_STORE,)

    cluster(body)


# crashes that leave catalog and store apart -----------------------------------------------------------------


@pytest.mark.parametrize("deaf_to", [b"O", b"C", Verify])
def test_a_crash_between_catalog_and_store_is_recovered(cluster: Cluster, deaf_to: Any) -> None:
    """The catalog is ahead: the store never heard the last OPEN or CLOSE, whatever life comes next."""

    async def body(setup: Setup) -> None:
        async with setup.life(configs=ROLL_AT_ONCE).running() as life:
            await life.write(4)
            if deaf_to is not Verify:
                setup.store.deaf = {deaf_to}
            roll(life)
            await life.write(4)
            assert life.partition.high_watermark == (4 if setup.store.deaf else 8)
            end = life.partition.high_watermark
        for _ in range(3):  # each crashes before the store hears of its first segment
            setup.store.hear_all()
            if deaf_to is not Verify:
                setup.store.deaf = {deaf_to}
            async with setup.life(configs=ROLL_AT_ONCE).running() as life:
                assert life.partition.state is PartitionState.READY
                assert life.partition.high_watermark == end
                await life.write(1)
                end = life.partition.high_watermark
        setup.store.hear_all()
        async with setup.life(configs=ROLL_AT_ONCE).running() as life:
            assert (life.partition.state, life.partition.high_watermark) == (PartitionState.READY, end)
            await life.write(2)
            assert life.partition.high_watermark == end + 2

    cluster(body)


@pytest.mark.parametrize("by", ["a roll", "a recovery"])
def test_an_end_that_nobody_has_heard_is_told_by_the_next_life(cluster: Cluster, by: str) -> None:
    def phase(setup: Setup, address: str) -> Phase:
        state = setup.store.database.load(address)
        assert state is not None
        return state.phase

    async def body(setup: Setup) -> None:
        async with setup.life(configs=ROLL_AT_ONCE).running() as life:
            await life.write(4)
            assert life.partition.chain.current is not None
            address = life.partition.chain.current.segment.address
            setup.store.deaf = {b"C"}
            if by == "a roll":
                roll(life)
                await life.write()
        if by == "a recovery":
            async with setup.life().running():
                pass
        assert phase(setup, address) < Phase.CLOSED
        assert Segment.unpack(setup.catalog.range(keys.SEGMENTS)[0].value).end_offset == 4
        setup.store.hear_all()
        async with setup.life().running() as life:
            await trio.sleep(1)
            await life.settle()
            assert phase(setup, address) is Phase.CLOSED
            assert setup.catalog.range(keys.CLOSING) == []

    cluster(body)


@pytest.mark.parametrize("idle", [False, True], ids=["rolled", "closed while idle"])
def test_no_record_of_the_next_segment_before_the_end_of_the_one_before_is_heard(
    cluster: Cluster, idle: bool
) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life(configs=ROLL_AT_ONCE).running() as life:
            await life.write(4)
            assert life.partition.chain.current is not None
            first = life.partition.chain.current.segment.address
            setup.store.deaf = {b"C"}
            if idle:
                life.context.opener.end(life.partition)
                await life.settle()
                assert life.partition.chain.current is None
            else:
                roll(life)
            await life.write(4)
            assert life.partition.high_watermark == 4
            setup.store.hear_all()
            await trio.sleep(1)
            await life.settle()
            assert life.partition.high_watermark == 8
            state = setup.store.database.load(first)
            assert state is not None
            assert (state.phase, state.end) == (Phase.CLOSED, 3)

    cluster(body)


def test_a_transaction_under_way_when_the_catalog_was_read_refutes_nothing(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life(configs=ROLL_AT_ONCE).running() as life:
            await life.write(4)
            before = await copy_of(setup.catalog)
            roll(life)
            await life.write(4)
        after = setup.catalog
        setup.store.deaf = {Verify}
        life = setup.life(before)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(life.context.producer.run)
            nursery.start_soon(life.context.reader.run)
            nursery.start_soon(life.recovery.run)
            life.recovery._begin(life.topic.partitions)
            await wait_all_tasks_blocked()
            # The catalog's transaction is durable, and shown, while the store is asked.
            kept = {entry.key: entry.value for entry in after.range("")}
            await before.transact([], kept)
            setup.store.hear_all()
            await life.recovery.recover(life.topic.partitions)
            nursery.cancel_scope.cancel()
        assert (life.partition.state, life.partition.high_watermark) == (PartitionState.READY, 8)

    cluster(body)


def test_one_request_asks_for_all_partitions(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life(partitions=100).running():
            asked = [message for message in setup.store.heard if isinstance(message, Verify)]
            assert len(asked) == 1
            assert len(asked[0].entries) == 100

    cluster(body)


def note_begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions of which a recovery begins, in order."""
    begun: list[int] = []
    load = PartitionRecovery.load

    def noted(attempt: PartitionRecovery) -> None:
        begun.append(attempt.partition.index)
        load(attempt)

    monkeypatch.setattr(PartitionRecovery, "load", noted)
    return begun


def test_what_clients_ask_for_is_recovered_first(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """While many wait: the latest first of those that are asked for, then what a client may ask for next."""
    monkeypatch.setattr(recovery, "ROUNDS_AT_ONCE", 1)
    monkeypatch.setattr(recovery, "PARTITIONS_AT_ONCE", 5)
    monkeypatch.setattr(recovery, "ASKED_AT_ONCE", 1)
    begun = note_begun(monkeypatch)

    async def body(setup: Setup) -> None:
        life = setup.life(partitions=100)
        partitions = life.topic.partitions

        async def ask() -> None:
            while not life.recovery.is_behind:
                await trio.lowlevel.checkpoint()
            life.recovery.recover_soon(partitions[50:52])
            for asked in (partitions[80], partitions[90]):
                assert answers(asked, 0) == [NOT_LEADER]
                with pytest.raises(KafkaError):
                    await life.write(1, asked)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            async with life.running():
                assert all(partition.available for partition in partitions)
                assert not life.recovery.is_behind

    cluster(body)
    assert sorted(begun) == list(range(100))
    assert [index for index in begun if index in {50, 51, 80, 90}] == [90, 80, 50, 51]
    assert begun.index(51) < 50


@pytest.mark.parametrize("written", [False, True])
def test_many_that_one_message_answers_for_go_on_some_in_each_turn(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    monkeypatch.setattr(recovery, "PARTITIONS_A_TURN", 10)

    async def body(setup: Setup) -> None:
        if written:
            async with setup.life(partitions=50).running() as life:
                for partition in life.topic.partitions:
                    await life.write(1, partition)
        turns = Turns()
        monkeypatch.setattr(PartitionRecovery, "set_ends", turns.watches(PartitionRecovery.set_ends))
        async with setup.life(partitions=50).running():
            assert turns.calls.total() == 50
            assert max(turns.calls.values()) <= 10

    cluster(body)


@pytest.mark.parametrize("told_at_once", [False, True])
def test_ends_are_told_when_all_are_recovered_but_waited_for_no_longer_than_a_while(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, told_at_once: bool
) -> None:
    monkeypatch.setattr(recovery, "ROUNDS_AT_ONCE", 1)
    monkeypatch.setattr(recovery, "PARTITIONS_AT_ONCE", 1)
    if told_at_once:
        monkeypatch.setattr(recovery, "ENDS_TOLD_SECONDS", 0.0)
    served: list[int] = []
    """So many partitions are served when an end is told."""

    async def body(setup: Setup) -> None:
        async with setup.life(partitions=8).running() as life:
            for partition in life.topic.partitions:
                await life.write(1, partition)
        life = setup.life(partitions=8)
        close = life.context.producer.segments.close

        def noted(*arguments: Any) -> None:
            served.append(sum(partition.available for partition in life.topic.partitions))
            close(*arguments)

        monkeypatch.setattr(life.context.producer.segments, "close", noted)
        async with life.running():
            await trio.sleep(1)
            await life.settle()
            assert setup.catalog.range(keys.CLOSING) == []

    cluster(body)
    assert served == ([1, 2, 3, 4, 5, 6, 7, 8] if told_at_once else [8] * 8)


def test_a_partition_that_was_served_and_has_to_be_recovered_again_waits_for_no_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that is deleted meanwhile is not recovered at all."""
    monkeypatch.setattr(recovery, "ROUNDS_AT_ONCE", 1)
    monkeypatch.setattr(recovery, "PARTITIONS_AT_ONCE", 1)
    monkeypatch.setattr(recovery, "ASKED_AT_ONCE", 1)
    monkeypatch.setattr(recovery, "AGAIN_SECONDS", 0.0)
    begun = note_begun(monkeypatch)

    async def body(setup: Setup) -> None:
        life = setup.life(partitions=100)
        first = life.topic.partitions[0]
        life.topic.partitions[99].deleted = True

        async def lose() -> None:
            while not first.available:
                await trio.lowlevel.checkpoint()
            first.fail("its segment is lost")
            life.recovery._recover_again(first)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lose)
            async with life.running():
                pass

    cluster(body)
    assert sorted(begun) == [0, *range(99)]
    assert begun.index(0, begun.index(0) + 1) < 50


def test_nothing_is_shown_before_the_stores_have_confirmed_the_catalog(cluster: Cluster) -> None:
    """Not even what is closed: the catalog may be an older one. Unless they take too long."""

    async def body(setup: Setup) -> None:
        await write_two_lives(setup)
        setup.store.deaf = {Verify}
        life = setup.life()
        partition = life.partition
        at_first: list[ErrorCode] = []

        async def look() -> None:
            at_first.extend(answers(partition, 0, 19, 20))
            await wait_all_tasks_blocked()
            assert partition.log_start_offset == 0
            assert partition.high_watermark == 20
            at_first.extend(answers(partition, 0, 19, 20))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            async with life.running():
                assert at_first == [NOT_LEADER] * 6
                assert partition.state is PartitionState.RECOVERING
                assert answers(partition, 0, 19, 20) == [NONE, NONE, NOT_LEADER]
                setup.store.hear_all()
                await trio.sleep(10)
                assert partition.available

    cluster(body)


def test_of_a_new_topic_no_store_is_asked(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        setup.store.deaf = {Verify}
        life = setup.life()
        await life.recovery.recover(life.topic.partitions, new=True)
        assert life.partition.state is PartitionState.READY

    cluster(body)


def test_an_empty_log_asks_others_when_the_store_that_it_asked_is_removed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No segment says who has to be asked: it was whoever was there. A store that an operator removes never
    answers.
    """

    async def body(setup: Setup) -> None:
        life = setup.life()
        stores, chosen, removed = life.stores, ["lost"], set[str]()
        verify = life.context.reader.verify

        async def answered(store: str, entries: Any) -> Any:
            if store == "lost":
                await trio.sleep_forever()
            return await verify(store, entries)

        monkeypatch.setattr(life.context.reader, "verify", answered)
        monkeypatch.setattr(stores, "choose", lambda *_: tuple(chosen))
        monkeypatch.setattr(stores, "is_removed", removed.__contains__)
        async with life.running():
            states = [life.partition.state]
            assert "lost" in life.partition.reason
            chosen[:] = [STORE]
            removed.add("lost")
            await trio.sleep(60)
            states.append(life.partition.state)
            assert states == [PartitionState.RECOVERING, PartitionState.READY]

    cluster(body)


# deposed lives --------------------------------------------------------------------------------------------


def test_a_segment_that_another_catalog_opened_is_sealed_and_the_log_withheld(cluster: Cluster) -> None:
    """Two gateways on copies of a catalog: the second one's first segment meets what the first one has."""

    async def body(setup: Setup) -> None:
        async with setup.life().running() as life:
            await life.write(4)
        async with setup.life().running() as life:
            await life.settle()
            copied = await copy_of(setup.catalog)
            await life.write(2)
            partition = life.partition
            assert partition.chain.current is not None
            deposed = partition.chain.current.segment.address
            # A copy which has used that epoch too, so that nothing but the segment itself is news.
            record = keys.unpack(copied.get(keys.partition_key(TOPIC_ID, 0)).value)  # type: ignore[union-attr]
            record["next_epoch"] += 1
            await copied.transact([], {keys.partition_key(TOPIC_ID, 0): keys.pack(record)})
            other = Life(setup.store, copied)
            with (
                patch.object(verification, "_further", lambda *_: None),
                patch.object(verification, "_unknown", lambda *_: None),
            ):
                async with other.running():
                    await other.write(1)
                    assert deposed in refuted(other)
                    await trio.sleep(30)
                    assert deposed in refuted(other), "it is not recovered in circles"
            await life.write(1)
            assert partition.state is PartitionState.FAILED, "its segment is sealed"

    cluster(body)


def test_a_seal_that_a_newer_epoch_refuses_refutes_the_catalog(cluster: Cluster) -> None:
    async def body(setup: Setup) -> None:
        async with setup.life().running() as life:
            await life.write(4)
        entry = setup.catalog.get(keys.partition_key(TOPIC_ID, 0))
        assert entry is not None
        record = keys.unpack(entry.value)
        record["next_epoch"] = 0
        older = await copy_of(setup.catalog)
        await older.transact([], {entry.key: keys.pack(record), keys.LEADER_EPOCH: keys.pack(NONE_DRAWN)})
        with (
            patch.object(verification, "_newer", lambda *_: None),
            patch.object(one_partition, "what_contradicts", lambda *_: ""),
        ):
            async with setup.life(older).running() as life:
                assert "with leader epoch 0 or a higher one" in refuted(life)

    cluster(body)
