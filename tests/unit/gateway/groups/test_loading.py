"""What was written for groups is read back: from memory, from a store, by ranges, past what is unreadable."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio

from gateway.groups.metadata import GroupMetadata
from gateway.groups.offsets import OffsetTable
from gateway.groups.records import CommittedOffset, group_key, group_value, offset_key, offset_value
from gateway.groups.replay import LoadedGroup, Replay
from gateway.journal import loading
from gateway.journal.replay import SLICE
from tests.unit.gateway.groups.offsets_log import OffsetsLog, feed, finished, offset, run
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.records.builder import build_batch
from wireproto.records.header import TRANSACTIONAL_FLAG

GENERATION = GroupMetadata("consumer", 4, "range", "m", 1_700_000_000_000, ())


def batch(*records: tuple[bytes | None, bytes | None], attributes: int = 0, codec: int = 0) -> bytes:
    return build_batch(
        [(key, value, (), 1_700_000_000_000) for key, value in records], attributes=attributes, codec=codec
    )


def commit(group: str, topic: str, partition: int, number: int) -> tuple[bytes, bytes]:
    return offset_key(group, topic, partition), offset_value(offset(number))


def offsets_of(group: LoadedGroup) -> dict[tuple[str, int], CommittedOffset]:
    return {(topic, index): found for topic, all_ in group.offsets.topics() for index, found in all_.items()}


@pytest.mark.parametrize("tail_cache_bytes", [1 << 20, 0], ids=["from memory", "from a store"])
@pytest.mark.parametrize("codec", [0, 4])
def test_the_last_record_of_each_key_counts(
    tail_cache_bytes: int, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "LOAD_BYTES", 500)  # several ranges

    async def main() -> None:
        log = OffsetsLog(tail_cache_bytes=tail_cache_bytes)
        async with log.running():
            await log.write(
                batch(commit("a", "t", 0, 1), commit("b", "t", 0, 2), codec=codec),
                *(batch(commit("a", "t", 0, number), commit("a", "u", number, 7)) for number in range(9)),
                batch((group_key("a"), group_value(GENERATION)), (group_key("c"), group_value(GENERATION))),
                batch((offset_key("a", "u", 3), None), (offset_key("b", "t", 0), None)),
                batch((group_key("c"), None), (group_key("d"), group_value(GENERATION))),
            )
            groups = await log.journal.load(0)
            assert (log.reader.reads > 1) == (tail_cache_bytes == 0)
            assert {group_id: group.metadata for group_id, group in groups.items()} == {
                "a": GENERATION,
                "d": GENERATION,
            }
            left = {("u", number): offset(7) for number in range(9) if number != 3}
            assert offsets_of(groups["a"]) == {("t", 0): offset(8)} | left
            assert groups["d"].offsets.is_empty()

    run(main)


def test_a_simple_group_has_offsets_alone() -> None:
    async def main() -> None:
        log = OffsetsLog()
        async with log.running():
            await log.write(batch(commit("simple", "t", 0, 1)))
            groups = await log.journal.load(0)
            assert list(groups) == ["simple"]
            assert groups["simple"].metadata is None
            assert offsets_of(groups["simple"]) == {("t", 0): offset(1)}

    run(main)


def test_what_an_older_kafka_wrote_is_followed_by_what_a_newer_one_did() -> None:
    """The same offset under two keys: the later record counts, whichever it is."""

    def old(group: str, number: int | None) -> tuple[bytes, bytes | None]:
        value = None if number is None else b"\0\0" + number.to_bytes(8) + b"\0\0" + bytes(8)
        return b"\0\0" + offset_key(group, "t", 0)[2:], value

    async def main() -> None:
        log = OffsetsLog()
        async with log.running():
            await log.write(
                batch(commit("e", "t", 0, 1)),
                batch(old("a", 1), old("b", 1), old("c", 1), commit("d", "t", 0, 1), commit("a", "t", 0, 0)),
                batch(commit("a", "t", 0, 2), (offset_key("b", "t", 0), None), old("d", 3), old("c", 4)),
                batch(old("e", 2), commit("e", "t", 0, 3)),
            )
            groups = await log.journal.load(0)
            assert {group_id: offsets_of(group)["t", 0].offset for group_id, group in groups.items()} == {
                "a": 2,
                "c": 4,
                "d": 3,
                "e": 3,
            }

    run(main)


VALUES = [
    offset_value(offset(1)),
    offset_value(offset(2, "metadata")),
    offset_value(offset(3)._replace(topic_id=bytes(range(16)))),
    offset_value(offset(4)._replace(expire_timestamp_ms=5)),
    offset_value(offset(-1)._replace(leader_epoch=-1, commit_timestamp_ms=-1)),
    offset_value(offset(5))[:-1] + b"\x01\x05\x00",  # a tagged field that nobody knows
    offset_value(offset(6)) + b"\0",
    b"\0\x05" + offset_value(offset(7))[2:],
    offset_value(offset(8)._replace(topic_id=bytes(range(16)))).replace(b"\x01\0\x10", b"\x01\x01\x10"),
    None,
]


@pytest.mark.parametrize("legacy", [False, True], ids=["Kafka's keys", "keys of long ago"])
def test_a_place_that_came_before_is_read_as_the_first_one_was(legacy: bool) -> None:
    """Those of one group and topic are gone through more quickly from the second one on: to the same end."""

    def replayed(*, quickly: bool) -> dict[tuple[str, int], CommittedOffset]:
        replay = Replay(0)
        for number, value in enumerate(VALUES):
            key = offset_key("g", "t", number - 3)
            records = [(b"\0\0" + key[2:] if legacy else key, value)]
            if quickly:
                records.insert(0, commit("g", "t", 99, 99))
            feed(replay, batch(*records))
            if not quickly:
                groups = finished(replay)
        groups = finished(replay)
        return offsets_of(groups["g"]) if groups else {}

    quick = replayed(quickly=True)
    assert quick.pop(("t", 99)) == offset(99)
    assert quick == replayed(quickly=False)
    assert len(quick) == (0 if legacy else 7)


def test_a_partition_that_was_never_written_has_no_groups() -> None:
    async def main() -> None:
        log = OffsetsLog()
        async with log.running():
            assert await log.journal.load(0) == {}
            assert log.reader.reads == 0

    run(main)


def test_records_below_the_log_start_do_not_count() -> None:
    async def main() -> None:
        log = OffsetsLog()
        async with log.running():
            await log.write(batch(commit("a", "t", 0, 1), commit("b", "t", 0, 2), commit("c", "t", 0, 3)))
            log.partition.start_moved(2, ())
            assert list(await log.journal.load(0)) == ["c"]

    run(main)


def test_a_load_waits_for_what_is_on_its_way() -> None:
    """Its effect would be on a table that nobody looks at any more, and the new one would not have it."""

    async def main() -> None:
        log = OffsetsLog()
        found: list[str] = []

        async def load() -> None:
            found.extend(await log.journal.load(0))

        async with log.running():
            await log.begin_commit("commit", OffsetTable(), {("t", 9): offset(1)}, "late")
            await log.begin("load", load)
            assert found == []
            await log.durable()
            assert found == ["late"]

    run(main)


def test_what_cannot_be_read_is_passed_over_and_named(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        log = OffsetsLog()
        async with log.running():
            await log.write(
                batch(commit("a", "t", 0, 1)),
                batch((b"\x00\x03\x00\x01g", b"\x00\x00"), (b"\x00\x01\x00", b""), (None, b"no key")),
                batch((group_key("z"), b"\x00\x09")),
                batch(commit("a", "t", 0, 99), attributes=TRANSACTIONAL_FLAG),
                batch(commit("b", "t", 0, 2)),
            )
            with caplog.at_level(logging.WARNING):
                groups = await log.journal.load(0)
            assert {group_id: offsets_of(group) for group_id, group in groups.items()} == {
                "a": {("t", 0): offset(1)},
                "b": {("t", 0): offset(2)},
            }
            named = [record.getMessage() for record in caplog.records]
            assert len(named) == 4
            assert all(f"offset {number} is passed over" in text for number, text in enumerate(named, 1))

    run(main)


def test_until_the_partition_is_recovered_its_groups_are_loading() -> None:
    async def main() -> None:
        log = OffsetsLog()
        async with log.running():
            await log.write(batch(commit("a", "t", 0, 1)))
            log.partition.begin_recovery((), None)
            with pytest.raises(KafkaError) as failed:
                await log.journal.load(0)
            assert failed.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    run(main)


def test_a_damaged_batch_is_an_error_and_not_fewer_groups() -> None:
    async def main() -> None:
        log = OffsetsLog(tail_cache_bytes=0)
        async with log.running():
            await log.write(batch(commit("a", "t", 0, 1)))
            (kept,) = log.producer.kept.values()
            kept[0] = kept[0][:-1] + bytes([kept[0][-1] ^ 1])
            with pytest.raises(KafkaError) as failed:
                await log.journal.load(0)
            assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    run(main)


def test_a_partition_is_gone_through_in_slices() -> None:
    """Threads do not help: Python in them takes the loop's time all the same."""

    async def main() -> None:
        log = OffsetsLog()
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        async with log.running():
            await log.write(batch(*(commit("a", "t", index, index) for index in range(20 * SLICE))))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(other)
                groups = await log.journal.load(0)
                nursery.cancel_scope.cancel()
            assert offsets_of(groups["a"]) == {("t", index): offset(index) for index in range(20 * SLICE)}
            assert turns >= 40  # to feed it, and to finish

    run(main)


def test_only_large_compressed_batches_are_inflated_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "INFLATED_AT_ONCE_BYTES", 200)
    calls: list[Any] = []
    run_sync = trio.to_thread.run_sync

    async def counted(call: Any) -> Any:
        calls.append(call)
        return await run_sync(call)

    monkeypatch.setattr(trio.to_thread, "run_sync", counted)

    async def main() -> None:
        log = OffsetsLog()
        async with log.running():
            commits = [commit("a", f"t{index}", index, index) for index in range(50)]
            await log.write(batch(*commits), batch(commits[0], codec=4), batch(*commits, codec=4))
            groups = await log.journal.load(0)
            assert offsets_of(groups["a"]) == {(f"t{index}", index): offset(index) for index in range(50)}
            assert len(calls) == 1

    run(main)
