"""Offsets in transactions: what readers see before and after the end, in the order of the log, what memory
they count for, and that a marker ends nothing but its own transaction.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from trio.testing import wait_all_tasks_blocked

from gateway.common.marker import Marker
from gateway.groups.offsets import OFFSET_BYTES, OffsetTable
from gateway.groups.records import CommittedOffset, offset_key, offset_value
from gateway.groups.replay import Replay
from gateway.groups.transactional import TransactionalOffsets, as_marker_error
from gateway.journal.lane import MAX_BATCH_WRITES, MAX_WAITING_MARKERS, TransactionOf
from tests.unit.gateway.groups.offsets_log import OffsetsLog, feed, finished, offset, run
from tests.unit.gateway.log.fake_log import NOW_MS
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.builder import build_batch
from wireproto.records.control import EndMarker, marker_batch, read_marker
from wireproto.records.header import TRANSACTIONAL_FLAG, read_header

ONE, OTHER = ("t", 0), ("t", 1)


class Table:
    """A table, and all that it was charged."""

    def __init__(self) -> None:
        self.table = OffsetTable()
        self.charged = 0
        self.table.charge_to(self._charge)

    def _charge(self, size: int) -> None:
        self.charged += size

    def begin(self, producer_id: int, offsets: dict[tuple[str, int], CommittedOffset]) -> None:
        self.table.start_in_transaction(offsets)
        self.table.add_in_transaction(producer_id, offsets, durable=True)

    def commit(self, offsets: dict[tuple[str, int], CommittedOffset | None]) -> None:
        self.table.start(offsets)
        self.table.commit(offsets)

    def end(self, producer_id: int, *, commit: bool = True) -> None:
        self.table.end_transaction(producer_id, is_commit=commit)

    def shown(self, key: tuple[str, int] = ONE) -> tuple[int | None, bool]:
        """(the committed offset, whether the partition is unstable)."""
        found = self.table.fetch(*key)
        return None if found is None else found.offset, self.table.is_unstable(*key)


# the table -------------------------------------------------------------------------------------------------


def test_what_is_pending_is_not_shown_until_it_is_committed() -> None:
    made = Table()
    made.commit({ONE: offset(1)})
    made.begin(7, {ONE: offset(5)})
    assert made.shown() == (1, True)
    made.end(7)
    assert made.shown() == (5, False)


def test_what_is_aborted_is_gone() -> None:
    made = Table()
    made.commit({ONE: offset(1)})
    made.begin(7, {ONE: offset(5), OTHER: offset(6)})
    made.end(7, commit=False)
    assert (made.shown(), made.shown(OTHER)) == ((1, False), (None, False))
    assert made.table.keys() == [ONE]


def test_it_is_unstable_while_it_is_on_its_way_and_not_when_that_fails() -> None:
    made = Table()
    made.table.start_in_transaction([ONE])
    assert made.shown() == (None, True)
    assert not made.table.is_empty()
    made.table.add_in_transaction(7, {ONE: offset(5)}, durable=False)
    assert made.shown() == (None, False)
    assert made.table.is_empty()
    made.end(7)
    assert made.shown() == (None, False)


@pytest.mark.parametrize(("first", "shown"), [(7, 8), (8, 8)])
def test_of_two_transactions_the_later_record_wins_whichever_ends_first(first: int, shown: int) -> None:
    made = Table()
    made.begin(7, {ONE: offset(7)})
    made.begin(8, {ONE: offset(8)})
    made.end(first)
    assert made.shown()[1], "the other one is open"
    made.end(15 - first)
    assert made.shown() == (shown, False)


def test_a_plain_commit_that_came_later_stays() -> None:
    made = Table()
    made.begin(7, {ONE: offset(7)})
    made.commit({ONE: offset(3)})
    made.end(7)
    assert made.shown() == (3, False)


def test_a_tombstone_takes_what_is_pending_along() -> None:
    made = Table()
    made.commit({ONE: offset(1)})
    made.begin(7, {ONE: offset(7), OTHER: offset(8)})
    made.commit({ONE: None})
    assert made.shown() == (None, False)
    made.end(7)
    assert (made.shown(), made.shown(OTHER)) == ((None, False), (8, False))


def test_an_offset_that_is_only_pending_can_be_deleted() -> None:
    made = Table()
    made.begin(7, {ONE: offset(7)})
    assert made.table.known([ONE, OTHER]) == [ONE]


def test_memory_is_counted_with_the_metadata_and_given_back() -> None:
    made = Table()
    made.begin(7, {ONE: offset(1, "x" * 1000)})
    assert made.charged == made.table.bytes > OFFSET_BYTES + 999
    made.begin(7, {ONE: offset(2, "x" * 10)})
    assert made.charged < OFFSET_BYTES + 100, "it has replaced the other one"
    made.begin(8, {ONE: offset(3, "y" * 500), OTHER: offset(4)})
    made.end(8, commit=False)
    made.end(7, commit=False)
    assert made.charged == made.table.bytes == 0


# the log ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_a_log_that_is_read_back_shows_what_was_shown(seed: int) -> None:
    """Plain commits, transactions, tombstones and ends at random: after each of them."""
    draw = random.Random(seed)
    log = History()
    live = Table()
    opened: set[int] = set()
    for number in range(60):
        key = draw.choice([ONE, OTHER])
        what = draw.choice(("plain", "plain", "deleted", "in", "in", "in", "end"))
        if what == "in":
            producer_id = draw.choice((7, 8, 9))
            opened.add(producer_id)
            live.begin(producer_id, {key: offset(number)})
            log.commit(key, offset(number), producer_id)
        elif what == "end" and opened:
            producer_id, commit = opened.pop(), draw.random() < 0.6
            live.end(producer_id, commit=commit)
            log.end(producer_id, commit=commit)
        elif what == "deleted":
            live.commit({key: None})
            log.commit(key, None)
        elif what == "plain":
            live.commit({key: offset(number)})
            log.commit(key, offset(number))
        assert log.read_back() == [live.shown(ONE), live.shown(OTHER)]
    for producer_id in opened:
        live.end(producer_id)
        log.end(producer_id, commit=True)
    assert log.read_back() == [live.shown(ONE), live.shown(OTHER)]
    committed = [one for key in (ONE, OTHER) if (one := live.table.fetch(*key)) is not None]
    assert live.charged == len(committed) * OFFSET_BYTES


class History:
    """The batches of a partition of `__consumer_offsets`, and what is read of them."""

    def __init__(self) -> None:
        self._batches: list[bytes] = []

    def commit(
        self, key: tuple[str, int], value: CommittedOffset | None, producer_id: int | None = None
    ) -> None:
        records: list[Any] = [(*record_of(key, value), [], NOW_MS)]
        made: dict[str, Any] = {}
        if producer_id is not None:
            made = {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "base_sequence": 0,
                "attributes": TRANSACTIONAL_FLAG,
            }
        self._append(build_batch(records, **made))

    def end(self, producer_id: int, *, commit: bool) -> None:
        self._append(marker_batch(producer_id, 0, EndMarker(commit, 1), NOW_MS))

    def _append(self, batch: bytes) -> None:
        self._batches.append(len(self._batches).to_bytes(8, "big") + batch[8:])

    def read_back(self) -> list[tuple[int | None, bool]]:
        replay = Replay(0)
        for batch in self._batches:
            header = read_header(batch)
            if header.is_control:
                for _ in replay.end(header, read_marker(batch)):
                    pass
            else:
                feed(replay, batch)
        loaded = finished(replay).get("g")
        read = Table()
        if loaded is not None:
            read.table = loaded.offsets
        return [read.shown(ONE), read.shown(OTHER)]


def record_of(key: tuple[str, int], value: CommittedOffset | None) -> tuple[bytes, bytes | None]:
    return offset_key("g", *key), None if value is None else offset_value(value)


# commits and markers on their way --------------------------------------------------------------------------


class Group:
    """What the journal needs of a group."""

    def __init__(self, partition: int) -> None:
        self.group_id = "g"
        self.offsets = OffsetTable()
        self.partition = partition


class Scene(OffsetsLog):
    """A group's offsets on a log."""

    def __init__(self) -> None:
        super().__init__()
        self.group = Group(0)
        self.loaded = True
        self.transactional = TransactionalOffsets(
            self.journal,
            {"g": self.group}.get,  # type: ignore[arg-type]
            lambda _partition: self.loaded,
        )

    def begin_in(self, producer_id: int, number: int, *, epoch: int = 0) -> Any:
        partition = self.topic.partitions[0]
        guard = partition.producers.guards.take(producer_id)
        part_of = TransactionOf(producer_id, epoch, guard, "client")
        return self.transactional.begin_commit(self.group, part_of, {ONE: offset(number)})  # type: ignore[arg-type]

    def begin_end(self, producer_id: int, *, commit: bool = True, number: int = 0) -> Any:
        return self.transactional.begin_end(0, Marker(producer_id, 0, 5, commit, number))

    async def sent(self, *pending: Any) -> list[ErrorCode]:
        await wait_all_tasks_blocked()
        for _ in pending:
            await self.durable()
        return [one.outcome() for one in pending]

    def shown(self) -> tuple[int | None, bool]:
        found = self.group.offsets.fetch(*ONE)
        return None if found is None else found.offset, self.group.offsets.is_unstable(*ONE)


def on(body: Any) -> None:
    async def main() -> None:
        scene = Scene()
        async with scene.running():
            await body(scene)

    run(main)


def test_commit_and_end_reach_the_log_in_order_and_show_when_they_are_durable() -> None:
    async def body(scene: Scene) -> None:
        pending = [scene.begin_in(7, 5), scene.begin_end(7)]
        await wait_all_tasks_blocked()
        assert scene.shown() == (None, True)
        assert await scene.sent(*pending) == [ErrorCode.NONE] * 2
        assert scene.shown() == (5, False)

    on(body)


def test_while_the_groups_are_not_loaded_no_marker_is_taken() -> None:
    """Nobody would be told of it: what is being read may lack it."""

    async def body(scene: Scene) -> None:
        scene.loaded = False
        with pytest.raises(KafkaError) as refused:
            scene.begin_end(7)
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert scene.topic.partitions[0].next_offset == 0

    on(body)


def test_more_markers_than_may_wait_are_to_be_sent_again() -> None:
    async def body(scene: Scene) -> None:
        first = scene.begin_end(7)
        await wait_all_tasks_blocked()  # it is on its way
        for producer_id in range(MAX_WAITING_MARKERS):
            scene.begin_end(100 + producer_id)
        with pytest.raises(KafkaError) as refused:
            scene.begin_end(8)
        assert as_marker_error(refused.value).code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        commit = scene.begin_in(9, 5)
        assert await scene.sent(first) == [ErrorCode.NONE]
        await scene.sent(*[commit] * (MAX_WAITING_MARKERS // MAX_BATCH_WRITES + 1))
        assert commit.error is None, "commits have room of their own"
        assert await scene.sent(scene.begin_end(8)) == [ErrorCode.NONE]

    on(body)


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_that_comes_again_ends_nothing_of_the_next_transaction(commit: bool) -> None:
    async def body(scene: Scene) -> None:
        await scene.sent(scene.begin_in(7, 10), scene.begin_end(7, number=1))
        await scene.sent(scene.begin_in(7, 20))
        assert await scene.sent(scene.begin_end(7, commit=commit, number=1)) == [ErrorCode.NONE]
        assert scene.shown() == (10, True), "the second transaction is open"
        await scene.sent(scene.begin_end(7, commit=False, number=2))
        assert scene.shown() == (10, False)

    on(body)


def test_a_commit_whose_transaction_has_ended_meanwhile_is_refused() -> None:
    """Its coordinator was asked before the marker came: it would begin a transaction that nobody ends."""

    async def body(scene: Scene) -> None:
        partition = scene.topic.partitions[0]
        await scene.sent(scene.begin_in(7, 10))
        guard = partition.producers.guards.take(7)
        await scene.sent(scene.begin_end(7))
        late = scene.transactional.begin_commit(
            scene.group,  # type: ignore[arg-type]
            TransactionOf(7, 0, guard, "client"),
            {ONE: offset(20)},
        )
        assert await scene.sent(late) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert (scene.shown(), partition.producers.has_transactions) == ((10, False), False)

    on(body)


def test_what_one_client_opens_counts_as_its_own() -> None:
    async def body(scene: Scene) -> None:
        await scene.sent(scene.begin_in(7, 10))
        known = scene.topic.partitions[0].producers.state.find(7)
        assert known is not None
        assert known.opened_by == "client"

    on(body)


def test_who_waits_with_whom_does_not_go_by_clients() -> None:
    guard: Any = object()
    assert TransactionOf(7, 0, guard, "one") == TransactionOf(7, 0, guard, "other")
    assert TransactionOf(7, 0, guard) != TransactionOf(7, 1, guard)
