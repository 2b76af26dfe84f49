"""Fetch under read_committed and read_uncommitted, over the handler and its real bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.api.fetch import fetch
from gateway.log import partition as partition_module
from gateway.log.partition import Partition
from gateway.log.transactions import aborted_reading
from gateway.log.transactions.aborted import AbortedTransaction, AbortedTransactions
from gateway.log.transactions.aborted_cache import AbortedCache
from gateway.log.transactions.open_transactions import UNDECIDED
from mesh.reader import NotServed
from tests.differential.wire import decode
from tests.unit.gateway.fetch.consumer import CONTENT, Consumer
from tests.unit.gateway.fetch.test_full import COLD
from tests.unit.gateway.log.fake_log import NOW_MS, FakeLog, batch, make_request
from tests.unit.gateway.log.test_cold import lookups
from tests.unit.gateway.log.test_partition_appends import logged
from tests.unit.gateway.log.transactional import marker, transactional
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.fetch import FetchPartition, FetchRequest, FetchTopic

COMMITTED, UNCOMMITTED = 1, 0
VERSIONS = pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
WARM_AND_COLD = pytest.mark.parametrize("options", [{}, COLD], ids=["hot", "cold"])

Aborted = list[tuple[int, int]]


class Told(NamedTuple):
    """What an answer tells of one partition."""

    error: int
    high_watermark: int
    stable: int
    aborted: Aborted | None
    records: bytes


class Client:
    """Asks for partition 0. With `session` it goes on with one, as clients do."""

    def __init__(self, log: FakeLog, isolation: int, version: int = 12, *, session: bool = False) -> None:
        self.log = log
        self.isolation = isolation
        self.version = version
        self.session_id = 0
        self.epoch = 0 if session else -1

    async def ask(
        self, offset: int | None, *, min_bytes: int = 1, max_wait_ms: int = 0, isolation: int | None = None
    ) -> Told | None:
        """What is told of the partition, if anything is. Without an offset it is not named again."""
        named = [] if offset is None else [FetchPartition(0, -1, offset, -1, -1, 1 << 20)]
        by_id = self.version >= 13
        topic = FetchTopic(None, self.log.topic.id, named) if by_id else FetchTopic("orders", None, named)
        level = self.isolation if isolation is None else isolation
        body = FetchRequest(
            -1, max_wait_ms, min_bytes, 1 << 20, level, self.session_id, self.epoch, [topic] if named else []
        )
        response = await fetch(make_request(1, self.version, body, memoryview(b"")), self.log.broker)
        assert response is not None
        answer = decode(1, self.version, b"".join(response)[4:], 1)
        if self.epoch >= 0:
            assert answer.error_code == 0
            self.session_id, self.epoch = answer.session_id, self.epoch + 1
        told = [one for topic in answer.responses for one in topic.partitions]
        assert len(told) <= 1
        return told_of(told[0]) if told else None


def told_of(partition: Any) -> Told:
    listed = partition.aborted_transactions
    aborted = None if listed is None else [(one.producer_id, one.first_offset) for one in listed]
    records = bytes(partition.records or b"")
    return Told(
        partition.error_code, partition.high_watermark, partition.last_stable_offset, aborted, records
    )


async def write(log: FakeLog) -> list[bytes]:
    """A plain batch, an aborted transaction around another plain one, an open one around a last one; all of
    it durable. The batches as they are stored.
    """
    lookups(log)
    await log.write(batch(b"p"), transactional(b"a", pid=1), batch(b"p"), transactional(pid=1, sequence=1))
    log.partition.append_marker(marker(1), NOW_MS)
    await log.write(transactional(b"b", pid=2), batch(b"p"))
    assert (log.partition.last_stable_offset, log.partition.high_watermark) == (5, 7)
    (stored,) = log.producer.kept.values()
    return stored


@VERSIONS
@WARM_AND_COLD
@pytest.mark.parametrize(
    ("offset", "aborted"),
    [(0, [(1, 1)]), (1, [(1, 1)]), (2, [(1, 1)]), (4, [(1, 1)]), (5, []), (6, []), (7, [])],
)
def test_each_isolation_is_given_its_records_and_its_list(
    version: int, options: dict[str, Any], offset: int, aborted: Aborted
) -> None:
    """Aborted records and markers come too: clients take them out by the list."""

    async def body(log: FakeLog) -> None:
        stored = await write(log)
        committed = await Client(log, COMMITTED, version).ask(offset)
        assert committed == Told(0, 7, 5, aborted, b"".join(stored[offset:5]))
        uncommitted = await Client(log, UNCOMMITTED, version).ask(offset)
        assert uncommitted == Told(0, 7, 5, None, b"".join(stored[offset:]))

    logged(body, **options)


@WARM_AND_COLD
def test_the_list_is_that_of_what_is_given(options: dict[str, Any]) -> None:
    """Not of what lies behind it, nor of what has ended before; in the order of first offsets."""

    async def body(log: FakeLog) -> None:
        lookups(log)
        await log.write(*[transactional(pid=pid) for pid in (1, 2, 3)])
        for pid in (3, 1, 2):
            log.partition.append_marker(marker(pid), NOW_MS)
        await log.write(batch(), transactional(pid=1, sequence=1))
        log.partition.append_marker(marker(1), NOW_MS)
        log.acknowledge()
        client = Client(log, COMMITTED)
        lists = []
        for offset in (0, 3, 4, 5, 6, 7):
            told = await client.ask(offset)
            assert told is not None
            lists.append(told.aborted)
        behind = [(1, 7)]
        assert lists == [
            [(1, 0), (2, 1), (3, 2), *behind],
            [(1, 0), (2, 1), (3, 2), *behind],
            [(1, 0), (2, 1), *behind],
            [(2, 1), *behind],
            behind,
            behind,
        ]

    logged(body, **options)


@VERSIONS
@pytest.mark.parametrize("isolation", [COMMITTED, UNCOMMITTED])
def test_without_transactions_the_list_is_empty_or_null(version: int, isolation: int) -> None:
    async def body(log: FakeLog) -> None:
        await log.write(batch())
        (stored,) = log.producer.kept.values()
        told = await Client(log, isolation, version).ask(0)
        assert told == Told(0, 1, 1, [] if isolation else None, stored[0])

    logged(body)


# waiting --------------------------------------------------------------------------------------------------


def test_only_what_is_stable_counts_for_min_bytes() -> None:
    async def body(log: FakeLog) -> None:
        await log.write(batch(b"p"), transactional(b"x" * 10_000))
        began = trio.current_time()
        (stored,) = log.producer.kept.values()
        told = await Client(log, UNCOMMITTED).ask(0, min_bytes=5000, max_wait_ms=500)
        assert told is not None
        assert (told.records, trio.current_time()) == (b"".join(stored), began)
        told = await Client(log, COMMITTED).ask(0, min_bytes=len(stored[0]), max_wait_ms=500)
        assert told is not None
        assert (told.records, trio.current_time()) == (stored[0], began)
        told = await Client(log, COMMITTED).ask(0, min_bytes=len(stored[0]) + 1, max_wait_ms=500)
        assert told is not None
        assert told.records == stored[0]
        assert trio.current_time() - began == pytest.approx(0.5)

    logged(body)


@pytest.mark.parametrize("session", [False, True])
def test_who_waits_for_what_is_committed_is_woken_when_the_marker_is_durable(session: bool) -> None:
    """Not by records that become visible to others, nor when the marker is appended."""

    async def body(log: FakeLog) -> None:
        client = Client(log, COMMITTED, session=session)
        await log.write(transactional())
        await client.ask(0)
        answers: list[Told | None] = []

        async def wait() -> None:
            answers.append(await client.ask(0, max_wait_ms=60_000))

        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            await log.write(batch())
            await wait_all_tasks_blocked()
            assert answers == []
            log.partition.append_marker(marker(), NOW_MS)
            await wait_all_tasks_blocked()
            assert answers == []
            log.acknowledge()
        (stored,) = log.producer.kept.values()
        assert answers == [Told(0, 3, 3, [(7, 0)], b"".join(stored))]
        assert trio.current_time() - began < 1.0

    logged(body)


def test_who_waits_for_everything_is_woken_by_what_is_open() -> None:
    async def body(log: FakeLog) -> None:
        client = Client(log, UNCOMMITTED)
        answers: list[Told | None] = []

        async def wait() -> None:
            answers.append(await client.ask(0, max_wait_ms=60_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            await log.write(transactional())
        (stored,) = log.producer.kept.values()
        assert answers == [Told(0, 1, 0, None, stored[0])]

    logged(body)


# sessions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_a_session_is_given_what_became_stable_since(version: int) -> None:
    async def body(log: FakeLog) -> None:
        client = Client(log, COMMITTED, version, session=True)
        await log.write(batch(), transactional())
        (stored,) = log.producer.kept.values()
        assert await client.ask(0) == Told(0, 2, 1, [], stored[0])
        assert await client.ask(1) is None, "there is nothing new, and nothing stable"
        await log.write(batch())
        assert await client.ask(None) == Told(0, 3, 1, [], b"")
        assert await client.ask(None) is None
        log.partition.append_marker(marker(), NOW_MS)
        assert await client.ask(None) is None
        log.acknowledge()
        assert await client.ask(None) == Told(0, 4, 4, [(7, 1)], b"".join(stored[1:]))
        assert await client.ask(4) is None

    logged(body)


def test_a_session_that_asks_for_another_isolation_is_given_what_that_shows() -> None:
    """Kafka reads every partition of a session again: an idle one would stay silent until it moves."""

    async def body(log: FakeLog) -> None:
        client = Client(log, COMMITTED, session=True)
        await log.write(batch(), transactional())
        (stored,) = log.producer.kept.values()
        assert await client.ask(0) == Told(0, 2, 1, [], stored[0])
        assert await client.ask(1) is None
        assert await client.ask(None, isolation=UNCOMMITTED) == Told(0, 2, 1, None, stored[1])
        assert await client.ask(2, isolation=UNCOMMITTED) is None
        assert await client.ask(None) is None, "nothing is stable there, and nothing else is new"
        assert await client.ask(None, max_wait_ms=100) is None

    logged(body)


def test_a_session_that_waits_at_an_open_transaction_is_not_told_of_it_over_and_over() -> None:
    async def body(log: FakeLog) -> None:
        client = Client(log, COMMITTED, session=True)
        await log.write(transactional())
        await client.ask(0)
        began = trio.current_time()
        assert await client.ask(None, max_wait_ms=500) is None
        assert trio.current_time() - began == pytest.approx(0.5)

    logged(body)


def test_a_session_at_an_open_transaction_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: FakeLog) -> None:
        client = Client(log, COMMITTED, session=True)
        await log.write(transactional())
        await client.ask(0)
        await client.ask(None)
        looks: list[int] = []
        check = Partition.check_fetch_offset

        def watched(partition: Partition, offset: int, *, committed: bool) -> ErrorCode:
            looks.append(offset)
            return check(partition, offset, committed=committed)

        monkeypatch.setattr(Partition, "check_fetch_offset", watched)
        for _ in range(3):
            assert await client.ask(None) is None
        assert looks == []

    logged(body)


def test_a_session_that_reads_everything_is_given_what_is_open_in_its_turn() -> None:
    """There was no room for it in the answer before: it is not idle, whatever is stable of it."""

    async def body(log: FakeLog) -> None:
        consumer = Consumer(log)
        for partition in log.topic.partitions:
            await log.write(transactional(CONTENT), partition=partition)
        assert (await consumer.begin(max_bytes=1)).batches == {0: 1}
        assert (await consumer.ask([(0, 1)], max_bytes=1)).batches == {1: 1}
        assert (await consumer.ask([(1, 1)], max_bytes=1)).batches == {2: 1}
        assert (await consumer.ask([(2, 1)])).batches == {}

    logged(body, partitions=3)


# what is not known ----------------------------------------------------------------------------------------


@VERSIONS
def test_until_it_is_known_what_is_open_nothing_is_committed(version: int) -> None:
    """NOT_LEADER_OR_FOLLOWER is asked again by every client; others are given what is closed."""

    async def body(log: FakeLog) -> None:
        await log.write(batch(), batch())
        partition = log.partition
        partition.fail("a test")
        partition.last_stable_offset = UNDECIDED
        (stored,) = log.producer.kept.values()
        told = await Client(log, COMMITTED, version).ask(0)
        assert told == Told(int(ErrorCode.NOT_LEADER_OR_FOLLOWER), -1, -1, None, b"")
        assert await Client(log, UNCOMMITTED, version).ask(0) == Told(0, 2, -1, None, b"".join(stored))

    logged(body)


async def with_a_closed_segment(log: FakeLog, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """An aborted transaction in a closed segment, of which nothing is in memory but the records."""
    monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", 2)
    await log.write(transactional())
    log.partition.append_marker(marker(), NOW_MS)
    log.acknowledge()
    await log.write(batch())
    await wait_all_tasks_blocked()
    assert [segment.aborted for segment in log.partition.chain.segments()] == [1, 0]
    log.context.aborted.cache = AbortedCache()
    return [content for contents in log.producer.kept.values() for content in contents]


def test_a_list_that_is_not_in_memory_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: FakeLog) -> None:
        stored = await with_a_closed_segment(log, monkeypatch)

        async def read_aborted(*_: Any) -> AbortedTransactions:
            await trio.lowlevel.checkpoint()
            found = AbortedTransactions()
            found.add(AbortedTransaction(7, 0, 1, 2))
            return found

        monkeypatch.setattr(aborted_reading, "read_aborted", read_aborted)
        client = Client(log, COMMITTED)
        assert await client.ask(0) == Told(0, 3, 3, [(7, 0)], b"".join(stored[:2]))
        assert (log.context.cold.reads, log.context.aborted.loads) == (1, 1)
        assert await client.ask(0) == Told(0, 3, 3, [(7, 0)], b"".join(stored))
        assert (log.context.cold.reads, log.context.aborted.loads) == (1, 1), "all is in memory now"

    logged(body)


def test_without_its_list_no_record_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: FakeLog) -> None:
        stored = await with_a_closed_segment(log, monkeypatch)

        async def read_aborted(*_: Any) -> AbortedTransactions:
            await trio.lowlevel.checkpoint()
            raise NotServed("no store has it")

        monkeypatch.setattr(aborted_reading, "read_aborted", read_aborted)
        told = await Client(log, COMMITTED).ask(0)
        assert told == Told(int(ErrorCode.KAFKA_STORAGE_ERROR), -1, -1, None, b"")
        assert await Client(log, UNCOMMITTED).ask(0) == Told(0, 3, 3, None, b"".join(stored))
        assert await Client(log, COMMITTED).ask(2) == Told(0, 3, 3, [], stored[2])

    logged(body)


def test_what_becomes_unreadable_while_memory_is_waited_for_is_not_given() -> None:
    """A log start takes a part of an open transaction along: what is given must be below what is stable."""

    async def body(log: FakeLog) -> None:
        stored = await write(log)
        told = await Client(log, COMMITTED).ask(4)
        assert told == Told(0, 7, 5, [(1, 1)], stored[4])
        log.partition.start_moved(6, ())
        assert log.partition.last_stable_offset == 6
        assert await Client(log, COMMITTED).ask(6) == Told(0, 7, 6, [], b"")
        assert await Client(log, UNCOMMITTED).ask(6) == Told(0, 7, 6, None, stored[6])

    logged(body)
