"""Segments that some members refuse, and logs that leave a segment whose members are not there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.catalog import keys
from gateway.cluster.stores import MOVE_SECONDS, StoreEntry, Stores, first_entries
from gateway.log.idempotence.state import ProducerState
from gateway.log.partition import PartitionState
from gateway.log.recovery.chain_check import what_contradicts
from gateway.log.segment import Segment
from mesh.address_requests import RETRY_SECONDS
from mesh.protocol.writer import State
from tests.entries import address_of
from tests.unit.gateway.log.fake_log import STORE, FakeLog, FakeRequests, batch, header_of
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_FOREIGN_CLUSTER,
    STATUS_STALE_EPOCH,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    SealedHead,
)
from wireproto.dafka.messages import Ack
from wireproto.kafka.errors import ErrorCode, KafkaError

STORES = ("store-1", "store-2", "store-3")
ONE, TWO, THREE = STORES


class Refusing(FakeRequests):
    """Stores that answer OPEN with what a test says; those in `away` do not answer at all."""

    def __init__(self) -> None:
        super().__init__()
        self.statuses: dict[str, int] = {}
        self.away: set[str] = set()
        self.sealed: dict[str, list[SealedHead]] = {}
        """What stores name that was open of other lives."""
        self.opens: list[tuple[str, str]] = []
        self.woken = trio.Event()

    async def ask(self, store: str, make: Any) -> Any:
        message = make(self.new_id())
        while store in self.away:
            await self.woken.wait()
        if message.id != b"O":
            await trio.lowlevel.checkpoint()
            addresses = [address_of(message.id, entry) for entry in message.entries]
            return SimpleNamespace(statuses=[AddressStatus(a, STATUS_DONE, -1) for a in addresses])
        addresses = [address_of(message.id, entry) for entry in message.entries]
        self.opens += [(store, address) for address in addresses]
        await trio.lowlevel.checkpoint()
        status = self.statuses.get(store, STATUS_DONE)
        row = SealedHead.pack_all(self.sealed.get(store, []))
        return SimpleNamespace(statuses=[AddressStatus(address, status, -1, row) for address in addresses])

    def back(self, *stores: str) -> None:
        self.away -= set(stores)
        self.woken.set()
        self.woken = trio.Event()


class FakePresence:
    """`silent`: for how many seconds each store that is not there has been silent."""

    def __init__(self, *stores: str) -> None:
        self.silent: dict[str, float] = {}
        self.stores = set(stores)
        self.seen: dict[str, Any] = {}

    @property
    def live_stores(self) -> set[str]:
        return self.stores - self.silent.keys()

    def live(self, incarnation: str) -> bool:
        return incarnation in self.live_stores

    def free_bytes(self, _incarnation: str) -> None:
        return None

    def silence(self, incarnation: str) -> float:
        return self.silent.get(incarnation, 0.0)


class Setup:
    def __init__(self, stores: tuple[str, ...]) -> None:
        self.stores = Refusing()
        self.log = FakeLog(stores=stores, requests=self.stores)
        self.partition = self.log.partition
        self.again: list[Any] = []
        self.log.context.on_recovery(self.again.append, lambda _: None)
        self.dropped: list[str] = []
        self.log.context.on_segments_dropped(lambda: self.dropped.append("told"))

    def append(self, acks: int = -1) -> None:
        view = memoryview(bytearray(batch(b"value")))
        self.partition.append(header_of(view), view, acks, self.log.now_ms)

    def acknowledge(self, *stores: str) -> None:
        for store in stores:
            self.log.acknowledge(store=store)

    def segments(self) -> list[Segment]:
        return [Segment.unpack(entry.value) for entry in self.log.context.catalog.range(keys.SEGMENTS)]

    def watch(self, *stores: str) -> FakePresence:
        """Let stores come and go: these are known, the log's own among them."""
        presence = FakePresence(*stores)
        kept = self.log.stores
        kept._take([StoreEntry(1000 + number, name, name) for number, name in enumerate(stores)])
        kept.presence = cast(Any, presence)
        return presence


def run(body: Callable[[Setup], Awaitable[None]], stores: tuple[str, ...] = STORES) -> None:
    async def main() -> None:
        setup = Setup(stores)
        async with setup.log.running():
            await body(setup)

    trio.run(main, clock=MockClock(autojump_threshold=0))


# refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [STATUS_STALE_EPOCH, STATUS_STORAGE_ERROR])
def test_one_member_that_refuses_does_not_stop_the_others(status: int) -> None:
    async def body(setup: Setup) -> None:
        setup.stores.statuses = {TWO: status}
        setup.append()
        await trio.sleep(0.1)
        setup.acknowledge(ONE, THREE)
        assert setup.partition.high_watermark == 1
        (segment,) = setup.segments()
        assert (segment.announced, segment.confirmed) == (True, (ONE, THREE))
        setup.stores.statuses = {}
        await trio.sleep(2 * RETRY_SECONDS)
        got_over = status == STATUS_STORAGE_ERROR
        assert [store for store, _ in setup.stores.opens].count(TWO) == 1 + got_over
        (segment,) = setup.segments()
        assert segment.confirmed == ((ONE, TWO, THREE) if got_over else (ONE, THREE))

    run(body)


def test_a_member_that_is_away_is_told_when_it_is_back() -> None:
    async def body(setup: Setup) -> None:
        setup.stores.away = {THREE}
        setup.append()
        await trio.sleep(1)
        setup.acknowledge(ONE, TWO)
        assert setup.partition.high_watermark == 1
        assert setup.segments()[0].confirmed == (ONE, TWO)
        setup.stores.back(THREE)
        await trio.sleep(1)
        assert setup.segments()[0].confirmed == STORES

    run(body)


def test_when_too_few_can_take_it_the_catalog_is_not_the_one_that_the_stores_know() -> None:
    """And one that took it knows the epoch: that is used up, and the segment is to be forgotten."""

    async def body(setup: Setup) -> None:
        setup.stores.statuses = {ONE: STATUS_STALE_EPOCH, TWO: STATUS_FOREIGN_CLUSTER}
        setup.append()
        await trio.sleep(1)
        partition = setup.partition
        assert partition.state is PartitionState.FAILED
        assert "newer leader epoch" in partition.reason
        assert "another cluster" in partition.reason
        assert "--rebuild-catalog" in partition.reason
        assert setup.segments() == []
        catalog = setup.log.catalog
        (tombstone,) = catalog.range(keys.SEGMENT_TOMBSTONES)
        assert keys.unpack(tombstone.value)["members"] == [THREE]
        record = catalog.get(keys.partition_key(setup.log.topic.id, 0))
        assert record is not None
        assert keys.unpack(record.value)["next_epoch"] == 1
        assert setup.dropped == ["told"]
        assert setup.again == []

    run(body)


def test_what_nobody_took_is_taken_back_whole() -> None:
    async def body(setup: Setup) -> None:
        setup.stores.statuses = {ONE: STATUS_STALE_EPOCH}
        setup.append()
        await trio.sleep(1)
        assert setup.partition.state is PartitionState.FAILED
        catalog = setup.log.catalog
        record = catalog.get(keys.partition_key(setup.log.topic.id, 0))
        assert record is not None
        assert keys.unpack(record.value) == {"next_epoch": 0, "epochs": [], "log_start": 0, "end": 0}
        assert (catalog.range(keys.SEGMENT_TOMBSTONES), setup.segments()) == ([], [])

    run(body, stores=(ONE,))


def test_a_refused_segment_leaves_the_epoch_to_those_before_it() -> None:
    async def body(setup: Setup) -> None:
        setup.append()
        await trio.sleep(0.1)
        setup.acknowledge(ONE)
        setup.log.context.opener.end(setup.partition)
        await trio.sleep(0.1)
        setup.stores.statuses = {ONE: STATUS_STALE_EPOCH}
        setup.append()
        await trio.sleep(1)
        assert setup.partition.state is PartitionState.FAILED
        entry = setup.log.context.catalog.get(keys.partition_key(setup.log.topic.id, 0))
        assert entry is not None
        known = keys.unpack(entry.value)
        assert known == {"next_epoch": 1, "epochs": [[0, 0]], "log_start": 0, "end": 1}
        assert what_contradicts(setup.segments(), known) == ""

    run(body, stores=(ONE,))


def test_a_refused_segment_leaves_the_record_as_it_was_and_its_number_drawn() -> None:
    """What a store knows between the two is news for the next start."""

    async def body(setup: Setup) -> None:
        setup.partition.next_epoch, setup.partition.leader_epoch = 3, 9
        setup.stores.statuses = {ONE: STATUS_STALE_EPOCH}
        setup.append()
        await trio.sleep(1)
        catalog = setup.log.context.catalog
        entry, drawn = catalog.get(keys.partition_key(setup.log.topic.id, 0)), catalog.get(keys.LEADER_EPOCH)
        assert entry is not None
        assert drawn is not None
        assert (keys.unpack(entry.value)["next_epoch"], keys.unpack(drawn.value)) == (3, 9)

    run(body, stores=(ONE,))


@pytest.mark.parametrize("also", [STATUS_DONE, STATUS_STALE_EPOCH], ids=["one takes it", "none takes it"])
def test_a_log_that_an_accepted_loss_left_shorter_than_its_start_can_be_read_again(also: int) -> None:
    """Its last segment ends before the log's start: the next one, or the record, says where it goes on."""

    async def body(setup: Setup) -> None:
        left = Segment("A" * 32, 0, 0, STORES, 2, 0).closed(50, 4, 0, size=1, closed_ms=0)
        partition = setup.partition
        partition.chain.load([left])
        partition.next_offset = partition.high_watermark = partition.log_start_offset = 100
        partition.leader_epoch = 1
        setup.stores.statuses = {ONE: STATUS_STALE_EPOCH, TWO: STATUS_STALE_EPOCH, THREE: also}
        setup.append()
        await trio.sleep(1)
        assert partition.state is PartitionState.FAILED
        entry = setup.log.context.catalog.get(keys.partition_key(setup.log.topic.id, 0))
        assert entry is not None
        assert what_contradicts([left], keys.unpack(entry.value)) == ""

    run(body)


def test_disks_that_cannot_be_written_are_no_wrong_catalog() -> None:
    async def body(setup: Setup) -> None:
        setup.stores.statuses = {ONE: STATUS_STORAGE_ERROR, TWO: STATUS_STORAGE_ERROR}
        setup.append()
        await trio.sleep(1)
        assert setup.partition.state is PartitionState.FAILED
        assert "cannot read or write its disk" in setup.partition.reason
        assert "--rebuild-catalog" not in setup.partition.reason
        assert setup.again == [setup.partition]
        assert len(setup.segments()) == 1

    run(body)


# moving ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed while idle"])
def test_an_idle_log_leaves_members_that_are_not_there_in_another_epoch(closed: bool) -> None:
    async def body(setup: Setup) -> None:
        presence = setup.watch(*STORES, "store-4", "store-5")
        setup.append()
        await trio.sleep(0.1)
        before = setup.partition.members
        setup.acknowledge(*before)
        presence.silent = dict.fromkeys(before[:2], 5.0)
        setup.stores.away = set(before[:2])
        if closed:
            setup.log.context.opener.end(setup.partition)
            await trio.sleep(0.1)
            assert setup.partition.chain.current is None
        setup.append()
        assert setup.partition.leader_epoch == 1
        await trio.sleep(0.1)
        members = setup.partition.members
        assert not set(before[:2]) & set(members)
        setup.acknowledge(*members)
        assert setup.partition.high_watermark == 2
        assert [segment.epoch for segment in setup.segments()] == [0, 1]

    run(body)


def test_what_is_under_way_keeps_a_log_where_it_is() -> None:
    async def body(setup: Setup) -> None:
        presence = setup.watch(*STORES, "store-4", "store-5")
        setup.append()
        await trio.sleep(0.1)
        before = setup.partition.members
        presence.silent = dict.fromkeys(before[:2], 5.0)
        with pytest.raises(KafkaError) as refused:
            setup.append()
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert setup.partition.members == before

    run(body)


@pytest.mark.parametrize(("silent", "moves"), [(MOVE_SECONDS / 2, False), (MOVE_SECONDS + 1, True)])
def test_a_member_that_is_away_for_long_is_replaced_by_the_next_segment(silent: float, moves: bool) -> None:
    async def body(setup: Setup) -> None:
        presence = setup.watch(*STORES, "store-4")
        setup.append()
        await trio.sleep(0.1)
        before = setup.partition.members
        setup.acknowledge(*before[1:])
        presence.silent = {before[0]: silent}
        setup.append()
        assert (setup.partition.members != before) is moves
        assert setup.partition.leader_epoch == 0
        if moves:
            assert before[0] not in setup.partition.members

    run(body)


def test_nobody_moves_where_there_is_nobody_else() -> None:
    async def body(setup: Setup) -> None:
        presence = setup.watch(*STORES)
        setup.append()
        await trio.sleep(0.1)
        setup.acknowledge(*STORES)
        presence.silent = {ONE: 10 * MOVE_SECONDS}
        before = setup.partition.chain.current
        setup.append()
        assert setup.partition.chain.current is before

    run(body)


def test_an_idle_segment_is_closed_on_demand_and_one_with_records_under_way_is_not() -> None:
    async def body(setup: Setup) -> None:
        setup.append()
        await trio.sleep(0.1)
        setup.log.context.opener.end(setup.partition)
        await trio.sleep(0.1)
        assert setup.partition.chain.current is not None
        setup.acknowledge(ONE, TWO)
        setup.log.context.opener.end(setup.partition)
        await trio.sleep(0.1)
        assert setup.partition.chain.current is None
        (segment,) = setup.segments()
        assert (segment.end_offset, segment.last_sequence) == (1, 0)
        assert setup.partition.chain.closed == [segment]
        setup.append()
        await trio.sleep(0.1)
        setup.acknowledge(ONE, TWO)
        assert setup.partition.high_watermark == 2

    run(body)


def test_many_idle_segments_are_closed_in_one_transaction() -> None:
    """Nobody's next segment waits while thousands are closed one after the other."""

    async def main() -> None:
        log = FakeLog(partitions=5)
        catalog = log.catalog
        async with log.running():
            for partition in log.topic.partitions:
                view = memoryview(bytearray(batch(b"value")))
                partition.append(header_of(view), view, -1, log.now_ms)
            await trio.sleep(0.1)
            for partition in log.topic.partitions:
                log.acknowledge(partition)
            await trio.sleep(0.1)
            before = catalog.revision
            with catalog.held():
                for partition in log.topic.partitions:
                    log.context.opener.end(partition)
                await wait_all_tasks_blocked()
                assert [partition.chain.current for partition in log.topic.partitions] == [None] * 5
            await trio.sleep(0.1)
            revisions = {entry.mod_revision for entry in catalog.range(keys.SEGMENTS)}
            assert revisions == {before + 1}

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_segment_is_not_opened_before_all_of_the_last_one_is_durable() -> None:
    """Whatever else there is to be opened: a crash in between would leave a hole."""

    async def main() -> None:
        log = FakeLog(partitions=2)
        rolled, other = log.topic.partitions

        def append(*partitions: Any) -> None:
            for partition in partitions:
                view = memoryview(bytearray(batch(b"value")))
                partition.append(header_of(view), view, -1, log.now_ms)

        def starts() -> list[tuple[str, int]]:
            return [(announcement.log[-1], announcement.start) for announcement in log.requests.opened]

        async with log.running():
            append(rolled)
            await wait_all_tasks_blocked()
            before = rolled.chain.current
            assert before is not None
            before.outdate()
            append(rolled, other)
            await wait_all_tasks_blocked()
            assert rolled.chain.rolling == [before]
            assert starts() == [("0", 0), ("1", 0)]
            assert len(log.context.catalog.range(keys.SEGMENTS)) == 2
            log.producer.on_ack(Ack(before.segment.address, STORE, log.topic.name, 0))
            await wait_all_tasks_blocked()
            assert starts() == [("0", 0), ("1", 0), ("0", 1)]

    trio.run(main, clock=MockClock(autojump_threshold=0))


# what stores had open of other lives ----------------------------------------------------------------------

DEPOSED = "9" * 32


@pytest.mark.parametrize("head", [-1, 7])
def test_what_the_catalog_does_not_know_of_another_life_withholds_the_log(
    caplog: pytest.LogCaptureFixture, head: int
) -> None:
    """Nothing was written by then, and nobody recovers it: it would end here again."""

    async def body(setup: Setup) -> None:
        setup.stores.sealed = {TWO: [SealedHead(DEPOSED, head)]}
        setup.stores.away = {THREE}  # or two others might be enough before it is named
        setup.append()
        await trio.sleep(60)
        partition = setup.partition
        assert (partition.state, partition.withheld) == (PartitionState.FAILED, True)
        assert DEPOSED in partition.reason
        assert f"store {TWO}" in partition.reason
        assert ("without a record" if head < 0 else f"up to sequence {head}") in partition.reason
        assert "--rebuild-catalog" in partition.reason
        assert setup.again == []
        assert partition.chain.current is not None
        assert partition.chain.current.writer.state is State.OPENING, "nothing was published"
        assert partition.check_fetch_offset(0) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(body)
    assert len([record for record in caplog.records if DEPOSED in record.getMessage()]) == 1


@pytest.mark.parametrize(
    "place",
    [
        keys.compacting_key(DEPOSED),
        keys.closing_key(DEPOSED),
        keys.segment_tombstone_key(DEPOSED),
        keys.left_over_key(DEPOSED),
        "the chain",
    ],
)
def test_what_the_catalog_knows_of_another_life_does_not(place: str) -> None:
    async def body(setup: Setup) -> None:
        key = keys.segment_key(setup.log.topic.id, 0, 0, DEPOSED) if place == "the chain" else place
        await setup.log.catalog.transact([], {key: b"{}"})
        setup.stores.sealed = {store: [SealedHead(DEPOSED, 7)] for store in STORES}
        setup.append()
        await trio.sleep(1)
        setup.acknowledge(*STORES)
        assert setup.partition.high_watermark == 1

    run(body)


def test_what_a_store_named_and_has_deleted_by_now_does_not() -> None:
    """Its answer is late: since then it was told to delete that, and the catalog has forgotten it."""

    async def body(setup: Setup) -> None:
        setup.log.context.deleted.add([DEPOSED])
        setup.stores.sealed = {store: [SealedHead(DEPOSED, 7)] for store in STORES}
        setup.append()
        await trio.sleep(1)
        setup.acknowledge(*STORES)
        assert setup.partition.high_watermark == 1

    run(body)


def test_what_was_known_when_a_store_named_it_is_not_judged_again() -> None:
    """It is deleted while another member of the new segment is away, and the catalog forgets it."""

    async def body(setup: Setup) -> None:
        key = keys.segment_tombstone_key(DEPOSED)
        await setup.log.catalog.transact([], {key: b"{}"})
        setup.stores.sealed = {ONE: [SealedHead(DEPOSED, -1)], TWO: [SealedHead(DEPOSED, -1)]}
        setup.stores.away = {THREE}
        setup.append()
        await trio.sleep(1)
        setup.acknowledge(ONE, TWO)
        assert setup.partition.high_watermark == 1
        await setup.log.catalog.transact([], {}, [key])
        setup.stores.back(THREE)
        await trio.sleep(1)
        assert (THREE, setup.segments()[-1].address) in setup.stores.opens
        assert (setup.partition.state, setup.partition.withheld) == (PartitionState.READY, False)

    run(body)


# stores that go -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_segment_is_not_opened_on_a_store_that_another_gateway_takes_out_of_service(
    is_removed: bool,
) -> None:
    async def body() -> None:
        setup = Setup(STORES)
        catalog, stores = setup.log.catalog, setup.log.stores
        names = [*STORES, "store-4"]
        await catalog.transact([], first_entries([(name, name) for name in names]))
        stores.load()
        setup.append()
        went = setup.partition.members[0]
        other = Stores(catalog)
        if is_removed:
            await other.remove(other.find(went))
        else:
            await other.leave(other.find(went), {})
        async with setup.log.running():
            await wait_all_tasks_blocked()
            assert setup.segments() == []
            assert setup.again == [setup.partition]
            # And then it is opened on others.
            setup.partition.begin_recovery([], None)
            setup.partition.set_end(0)
            setup.partition.begin_serving(ProducerState())
            setup.append()
            await wait_all_tasks_blocked()
            (segment,) = setup.segments()
            assert set(segment.members) == set(names) - {went}

    trio.run(body, clock=MockClock(autojump_threshold=0))


def test_a_segment_is_opened_where_another_gateway_has_changed_a_record_that_does_not_matter() -> None:
    async def body() -> None:
        setup = Setup(STORES)
        catalog = setup.log.catalog
        entries = first_entries([(name, name) for name in STORES])
        await catalog.transact([], entries)
        setup.log.stores.load()
        setup.append()
        await catalog.transact([], entries)  # the same once more, under another revision
        async with setup.log.running():
            await wait_all_tasks_blocked()
            assert [segment.members for segment in setup.segments()] == [setup.partition.members]
            assert not setup.again

    trio.run(body, clock=MockClock(autojump_threshold=0))
