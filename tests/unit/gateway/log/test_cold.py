"""Look-ups and reads of what is not in memory, while the chain changes under them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.log import partition as partition_module
from mesh.reader import NotServed
from tests.unit.gateway.log.fake_log import NOW_MS, STORE, FakeLog, batch, header_of
from tests.unit.gateway.log.test_partition_appends import logged
from wireproto.dafka.additions import LOOKUP_OFFSET, LOOKUP_TIMESTAMP, STATUS_DONE, AddressStatus
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.row import row_of


class Lookups:
    """LOOKUP as a store answers it, from what `FakeLog` keeps; before each answer `meanwhile` runs."""

    def __init__(self, log: FakeLog) -> None:
        self._kept = log.producer.kept
        self.meanwhile: Any = None
        self.bounds: list[int] = []

    async def lookup(
        self, _members: object, address: str, kind: int, target: int, bound: int
    ) -> AddressStatus | None:
        await trio.lowlevel.checkpoint()
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        self.bounds.append(bound)
        rows = [row_of(content, -1) for content in self._kept[address][: bound + 1]]
        if kind == LOOKUP_OFFSET:
            for sequence, row in enumerate(rows):
                if row.last_offset >= target:
                    return AddressStatus(address, STATUS_DONE, sequence, row.pack())
        if kind != LOOKUP_TIMESTAMP:
            target = max(row.max_timestamp for row in rows)
        for sequence, row in enumerate(rows):
            if row.max_timestamp >= target:
                return AddressStatus(address, STATUS_DONE, sequence, row.pack())
        return None


def lookups(log: FakeLog) -> Lookups:
    found = Lookups(log)
    log.reader.lookup = found.lookup  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("cache", [1 << 20, 1], ids=["hot", "cold"])
def test_a_segment_that_is_closed_during_a_lookup_is_still_found(
    monkeypatch: pytest.MonkeyPatch, cache: int
) -> None:
    async def body(log: FakeLog) -> None:
        monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", 2)
        partition, store = log.partition, lookups(log)
        # The chain is: 0-1 closed (its row says it may have the time, and it has not), 2-3 open.
        for time in (5, 5, 6, 8):
            await log.write(batch(b"a", timestamp=NOW_MS + time))
            await wait_all_tasks_blocked()
        assert [segment.is_open for segment in partition.chain.segments()] == [False, True]

        async def roll() -> None:
            await log.write(batch(b"b", timestamp=NOW_MS + 9))
            await wait_all_tasks_blocked()
            assert [segment.is_open for segment in partition.chain.segments()] == [False, False, True]

        partition.chain.replace(_claiming(partition.chain.closed[0], NOW_MS + 7))
        store.meanwhile = roll
        assert await partition.offset_for_timestamp(NOW_MS + 7) == (3, NOW_MS + 8, 0)
        assert store.bounds == [1, 1]

    logged(body, tail_cache_bytes=cache)


def _claiming(segment: Any, max_timestamp: int) -> Any:
    return segment.closed(segment.end_offset, segment.last_sequence, max_timestamp)


@pytest.mark.parametrize("cache", [1 << 20, 1], ids=["hot", "cold"])
def test_the_maximum_is_found_while_segments_are_closed(monkeypatch: pytest.MonkeyPatch, cache: int) -> None:
    async def body(log: FakeLog) -> None:
        monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", 2)
        partition, store = log.partition, lookups(log)
        for time in (1, 2, 3, 9):
            await log.write(batch(b"a", b"b", timestamp=NOW_MS + time))
            await wait_all_tasks_blocked()

        async def roll() -> None:
            await log.write(batch(b"c", timestamp=NOW_MS))
            await wait_all_tasks_blocked()

        store.meanwhile = roll
        assert await partition.max_timestamp() == (6, NOW_MS + 9, 0)

    logged(body, tail_cache_bytes=cache)


def test_a_segment_that_is_announced_during_a_lookup_is_still_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: FakeLog) -> None:
        monkeypatch.setattr(partition_module, "MAX_SEGMENT_BATCHES", 1)
        partition, store = log.partition, lookups(log)
        for time in (5, 8):
            await log.write(batch(b"a", timestamp=NOW_MS + time))
            await wait_all_tasks_blocked()

        async def announced() -> None:
            assert partition.chain.current is not None
            partition.chain.current.announced_to((STORE,))

        partition.chain.replace(_claiming(partition.chain.closed[0], NOW_MS + 7))
        store.meanwhile = announced
        assert await partition.offset_for_timestamp(NOW_MS + 7) == (1, NOW_MS + 8, 0)

    logged(body, tail_cache_bytes=1)


@pytest.mark.parametrize("which", ["first", "largest"])
def test_a_batch_that_cannot_be_opened_is_an_error_of_its_own(which: str) -> None:
    """Its CRC is right, and its records are not: the producer wrote it so."""

    async def body(log: FakeLog) -> None:
        lookups(log)
        good = batch(b"a" * 100, codec=1)
        broken = _recompressed(good)
        await log.write(broken)
        partition = log.partition
        search = partial(partition.offset_for_timestamp, NOW_MS)
        with pytest.raises(KafkaError) as error:
            await (search if which == "first" else partition.max_timestamp)()
        assert error.value.code is ErrorCode.CORRUPT_MESSAGE

    logged(body)


def _recompressed(content: bytes) -> bytes:
    """The same header and CRC over a gzip stream that ends too early."""
    from wireproto.records.crc import crc32c
    from wireproto.records.header import CRC_START

    cut = bytearray(content[:-20])
    cut[8:12] = (len(cut) - 12).to_bytes(4, "big")
    cut[CRC_START - 4 : CRC_START] = crc32c(bytes(cut[CRC_START:])).to_bytes(4, "big")
    return bytes(cut)


@pytest.mark.parametrize("which", ["first", "largest"])
def test_a_look_up_by_timestamp_is_no_consumer_and_reads_nothing_ahead(which: str) -> None:
    async def body(log: FakeLog) -> None:
        lookups(log)
        for time in (7, 8, 5):
            await log.write(batch(b"a", timestamp=NOW_MS + time))
        partition, ahead = log.partition, log.context.cold.ahead
        search = partial(partition.offset_for_timestamp, NOW_MS + 8)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ahead.run)
            await wait_all_tasks_blocked()
            for _ in range(2):
                assert await (search if which == "first" else partition.max_timestamp)() == (1, NOW_MS + 8, 0)
            await wait_all_tasks_blocked()
            assert (ahead.started, log.reader.reads) == (0, 2)
            nursery.cancel_scope.cancel()

    logged(body, tail_cache_bytes=1)


# several members ------------------------------------------------------------------------------------------

MEMBERS = ("store-1", "store-2", "store-3")


class Copies:
    """What each member gives: its own bytes for what `FakeLog` keeps, or nothing."""

    def __init__(self, log: FakeLog, **damage: Any) -> None:
        self._read = log.reader.read
        self._damage = {name.replace("_", "-"): made for name, made in damage.items()}
        self.asked: list[str] = []
        log.reader.read = self.read  # type: ignore[method-assign, assignment]

    async def read(self, members: Any, *arguments: Any) -> list[bytes]:
        """As `mesh.reader`: the first of `members` that answers."""
        for member in members:
            self.asked.append(member)
            damage = self._damage.get(member, list)
            if damage is not None:
                made: list[bytes] = damage(await self._read((member,), *arguments))
                return made
        raise NotServed(f"none of {members} answered")


def bit_flipped(contents: list[bytes]) -> list[bytes]:
    return [*contents[:-1], contents[-1][:-1] + bytes([contents[-1][-1] ^ 1])]


def second_lost(contents: list[bytes]) -> list[bytes]:
    return contents[:1] + contents[2:]


async def write_three(log: FakeLog) -> list[bytes]:
    for value in (b"a", b"b", b"c"):
        view = memoryview(bytearray(batch(value)))
        log.partition.append(header_of(view), view, -1, NOW_MS)
        await wait_all_tasks_blocked()
    for member in MEMBERS:
        log.acknowledge(store=member)
    return log.producer.kept[log.partition.chain.segments()[0].address]


@pytest.mark.parametrize(
    ("damage", "asked", "bad_copies"),
    [
        ({}, 1, 0),
        ({"store_1": bit_flipped}, 2, 1),
        ({"store_1": bit_flipped, "store_2": second_lost}, 3, 2),
        ({"store_1": second_lost, "store_2": None}, 3, 1),
        ({"store_1": None, "store_2": bit_flipped}, 3, 1),
    ],
)
def test_after_a_bad_copy_the_next_member_is_asked(
    damage: dict[str, Any], asked: int, bad_copies: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(log: FakeLog) -> None:
        kept = await write_three(log)
        members = Copies(log, **damage)
        assert list(await log.partition.read_cold(0, 1000)) == kept
        assert members.asked == list(MEMBERS[:asked])
        assert log.context.cold.bad_copies == bad_copies

    logged(body, tail_cache_bytes=1, stores=MEMBERS)
    bad = [record.getMessage() for record in caplog.records if "bad copy" in record.getMessage()]
    assert len(bad) == bad_copies
    for name, made in damage.items():
        assert any(name.replace("_", "-") in text for text in bad) == (made is not None)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (dict.fromkeys(("store_1", "store_2", "store_3"), bit_flipped), "damaged"),
        ({"store_1": bit_flipped, "store_2": None, "store_3": None}, "damaged"),
        (dict.fromkeys(("store_1", "store_2", "store_3"), None), "answered"),
    ],
)
def test_without_a_good_copy_it_is_an_error(damage: dict[str, Any], says: str) -> None:
    async def body(log: FakeLog) -> None:
        await write_three(log)
        members = Copies(log, **damage)
        with pytest.raises(KafkaError, match=says) as error:
            await log.partition.read_cold(0, 1000)
        assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert members.asked == list(MEMBERS)

    logged(body, tail_cache_bytes=1, stores=MEMBERS)
