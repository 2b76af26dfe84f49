"""Look-ups and reads of what is not in memory, while the chain changes under them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.log import partition as partition_module
from tests.unit.gateway.log.fake_log import NOW_MS, FakeLog, batch
from tests.unit.gateway.log.test_partition_appends import logged
from wireproto.dafka.additions import LOOKUP_TIMESTAMP, STATUS_DONE, AddressStatus
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
        assert [segment.is_open for segment in partition.chain()] == [False, True]

        async def roll() -> None:
            await log.write(batch(b"b", timestamp=NOW_MS + 9))
            await wait_all_tasks_blocked()
            assert [segment.is_open for segment in partition.chain()] == [False, False, True]

        partition.closed = [_claiming(partition.closed[0], NOW_MS + 7)]
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
            assert partition.current is not None
            partition.current.segment = _announced(partition.current.segment)

        partition.closed = [_claiming(partition.closed[0], NOW_MS + 7)]
        store.meanwhile = announced
        assert await partition.offset_for_timestamp(NOW_MS + 7) == (1, NOW_MS + 8, 0)

    logged(body, tail_cache_bytes=1)


def _announced(segment: Any) -> Any:
    """The segment as another object, which is what noting the announcement makes."""
    return type(segment).unpack(segment.pack())


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
