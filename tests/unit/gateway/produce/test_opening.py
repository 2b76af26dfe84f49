"""Batches that are opened before they are appended: for keys, and for the topic's codec."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from gateway.common.settings import LogSettings
from gateway.common.waiting import call_before_blocking
from gateway.configs.effective import effective_topic_configs
from gateway.log import context as context_module
from gateway.log.idempotence.state import ProducerState
from gateway.log.partition import Partition
from gateway.log.topic import Topic
from gateway.produce import opening as opening_module
from gateway.produce.appending import PARTITIONS_A_TURN_COUNT
from gateway.produce.opening import BATCHES_AT_ONCE, Opening, open_in_slices
from tests.unit.gateway.log.fake_log import NOW_MS, FakeLog, produce_request
from tests.unit.gateway.produce.test_appending import Begun, answered, began, begin_request
from tests.unit.wireproto.records.damage import altered
from wireproto.kafka.produce import ProducePartition, ProduceTopic
from wireproto.records.batch import HEADER_BYTES, check_stored, read_header
from wireproto.records.builder import build_batch
from wireproto.records.iteration import inflated_records, iter_records
from wireproto.records.recompression import recompressed
from wireproto.records.signing import sign
from wireproto.records.walk import RecordWalk

Keys = list[bytes | None]
NOT_ENOUGH_REPLICAS = 19


def keyed(keys: Keys, codec: int = 0, value: bytes = b"value") -> bytes:
    records: Any = [(key, value, [], NOW_MS + i) for i, key in enumerate(keys)]
    return build_batch(records, codec=codec, producer_id=7, producer_epoch=0, base_sequence=0)


async def produce(log: FakeLog, batches: dict[int, bytes], *, acks: int = -1) -> tuple[Any, bool]:
    """(the answer, whether the request had to wait before it could begin)."""

    def nothing_is_appended() -> None:
        assert all(not partition.next_offset for partition in log.topic.partitions)

    begun, waits = await began(log, produce_request(batches, acks=acks), nothing_is_appended)
    await wait_all_tasks_blocked()
    for partition in log.topic.partitions:
        if partition.chain.current is not None:
            log.acknowledge(partition)
    return await answered(begun), waits > 0


def stored(log: FakeLog) -> list[bytes]:
    return [content for contents in log.producer.kept.values() for content in contents]


def run(body: Any, **log: Any) -> None:
    async def main() -> None:
        made = FakeLog(**log)
        async with made.running():
            await body(made)

    trio.run(main)


COMPACTED = {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("keys", "codec", "waits"),
    [
        ([None], 0, False),
        ([b"a", None, b"c", None], 0, False),
        ([None] * 5, 3, False),
        ([b"k"] * 2500 + [None], 3, True),
        ([b"k"] * 5000 + [None], 0, True),
    ],
)
def test_a_record_without_a_key_is_named_and_its_batch_refused(keys: Keys, codec: int, waits: bool) -> None:
    async def body(log: FakeLog) -> None:
        answer, waited = await produce(log, {0: keyed(keys, codec), 1: keyed([b"good"])})
        bad, good = answer.responses[0].partition_responses
        missing = [index for index, key in enumerate(keys) if key is None]
        assert (bad.error_code, good.error_code, good.base_offset) == (87, 0, 0)
        why = "Compacted topic cannot accept message without key in topic partition orders-0"
        assert [(e.batch_index, e.batch_index_error_message) for e in bad.record_errors] == [
            (index, why) for index in missing
        ]
        assert bad.error_message.startswith(
            f"One or more records have been rejected due to {len(missing)} record errors in total, and only "
            f"showing the first three errors at most: [RecordError(batchIndex={missing[0]}, message='{why}')"
        )
        assert len(stored(log)) == 1
        assert waited == waits

    run(body, partitions=2, configs=COMPACTED)


@pytest.mark.parametrize("how", ["altered", "made again"])
@pytest.mark.parametrize("before", [{"compression.type": "zstd"}, {}])
def test_a_topic_that_becomes_compacted_while_batches_are_opened_gets_no_record_without_a_key(
    before: dict[str, str], how: str
) -> None:
    """Opened for another codec, or not at all (beside a batch of another topic that was), they are looked at
    again.
    """

    async def body(log: FakeLog) -> None:
        other = Topic("other", bytes(16), {}, effective_topic_configs({"compression.type": "gzip"}), 1)
        other.partitions = [Partition(log.context, other, 0)]
        other.partitions[0].begin_serving(ProducerState())
        topics = {"orders": log.topic, "other": other}
        log.broker.topics.get = topics.get
        batches = [
            ("other", keyed([b"k"])),
            ("orders", keyed([b"k"], value=b"good")),
            ("orders", keyed([None])),
        ]
        request = produce_request({})
        request.body.topics = [
            ProduceTopic(name, None, [ProducePartition(0, memoryview(bytearray(content)))])
            for name, content in batches
        ]
        compacted = effective_topic_configs(before | COMPACTED)

        def alter() -> None:
            if how == "altered":
                log.topic.settings = compacted
            else:
                topics["orders"] = again = Topic("orders", bytes(range(1, 17)), {}, compacted, 1)
                again.partitions = [Partition(log.context, again, 0)]
                again.partitions[0].begin_serving(ProducerState())

        begun = Begun(await call_before_blocking(begin_request(log, request), alter))
        assert log.topic.settings is compacted or topics["orders"] is not log.topic, "it had to wait"
        await wait_all_tasks_blocked()
        for topic in topics.values():
            log.acknowledge(topic.partitions[0])
        answer = await answered(begun)
        codes = [part.error_code for topic in answer.responses for part in topic.partition_responses]
        assert codes == [0, 0, 87]
        assert topics["orders"].partitions[0].next_offset == 1

    run(body, configs=before)


@pytest.mark.parametrize(("count", "codec"), [(1, 0), (1000, 4)])
def test_a_topic_that_becomes_compacted_in_the_middle_of_a_request_has_the_rest_of_it_opened(
    count: int, codec: int
) -> None:
    """While others have their turn. It is opened at once or, if it inflates to much, in slices."""

    async def body(log: FakeLog) -> None:
        unknown = [ProducePartition(9, memoryview(b"?"))] * (PARTITIONS_A_TURN_COUNT - 1)
        good, bad = keyed([None]), keyed([b"k"] * count + [None], codec, b"v" * 500)
        request = produce_request({})
        request.body.topics = [
            ProduceTopic(
                "orders",
                None,
                [
                    ProducePartition(0, memoryview(bytearray(good))),
                    *unknown,
                    ProducePartition(0, memoryview(bytearray(bad))),
                ],
            )
        ]

        def alter() -> None:
            log.topic.settings = effective_topic_configs(COMPACTED)

        begun, _ = await began(log, request, alter)
        await wait_all_tasks_blocked()
        log.acknowledge()
        (topic,) = (await answered(begun)).responses
        codes = [part.error_code for part in topic.partition_responses]
        assert (codes[0], set(codes[1:-1]), codes[-1]) == (0, {3}, 87)
        assert log.partition.next_offset == 1

    run(body)


@pytest.mark.parametrize("codec", range(5))
def test_records_with_keys_are_taken_as_they_came(codec: int) -> None:
    async def body(log: FakeLog) -> None:
        answer, _ = await produce(log, {0: keyed([b"a", b""], codec)})
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert stored(log)[0][21:] == keyed([b"a", b""], codec)[21:]

    run(body, configs=COMPACTED)


def test_other_topics_take_records_without_keys() -> None:
    async def body(log: FakeLog) -> None:
        answer, waits = await produce(log, {0: keyed([None], 3)})
        assert (answer.responses[0].partition_responses[0].error_code, waits) == (0, False)

    run(body)


def test_records_that_do_not_parse_are_refused_where_they_have_to_be_opened() -> None:
    async def body(log: FakeLog) -> None:
        bad = sign(read_header(keyed([b"k"] * 20)), b"\xff" * 300)
        answer, _ = await produce(log, {0: bad})
        assert answer.responses[0].partition_responses[0].error_code == 87
        assert stored(log) == []

    run(body, configs=COMPACTED)


NAMES = ["uncompressed", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("name", NAMES)
def test_batches_are_stored_with_the_topics_codec(name: str, codec: int) -> None:
    async def body(log: FakeLog) -> None:
        sent = keyed([b"a", None, b"c"], codec, b"v" * 500)
        answer, waits = await produce(log, {0: sent})
        assert answer.responses[0].partition_responses[0].error_code == 0
        (kept,) = stored(log)
        wanted = NAMES.index(name)
        assert read_header(kept).codec == wanted
        assert [(r.key, r.value, r.timestamp) for r in iter_records(kept)] == [
            (r.key, r.value, r.timestamp) for r in iter_records(sent)
        ]
        if codec == wanted:
            assert kept[21:] == sent[21:]
        assert waits is not (codec == wanted)
        assert log.partition.producers.state.check(7, 0, 0, 3) is not None, "the producer's fields stay"

    run(body, configs={"compression.type": name})


def test_batches_that_grow_are_held_one_at_a_time_and_stop_at_the_gate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kilobyte of zstd may become a megabyte, and a request may have thousands of them."""

    async def body(log: FakeLog) -> None:
        monkeypatch.setattr(context_module, "MAX_WINDOW_BYTES", 1_000_000)
        monkeypatch.setattr(context_module, "MAX_STUCK_BYTES", 0)
        sent = build_batch([(b"k", bytes(90_000), [], NOW_MS)], codec=NAMES.index("zstd"))
        assert len(sent) < 1000
        request = produce_request({})
        parts = [ProducePartition(n % 100, memoryview(bytearray(sent))) for n in range(100)]
        request.body.topics = [ProduceTopic("orders", None, parts)]
        begun, waits = await began(log, request)
        await wait_all_tasks_blocked()
        appended = sum(partition.next_offset for partition in log.topic.partitions)
        assert waits >= 100
        assert 0 < appended * 90_000 < 1_200_000
        for partition in log.topic.partitions[:appended]:
            log.acknowledge(partition)
        (topic,) = (await answered(begun)).responses
        codes = [part.error_code for part in topic.partition_responses]
        assert codes == [0] * appended + [NOT_ENOUGH_REPLICAS] * (100 - appended)

    run(body, configs={"compression.type": "uncompressed"}, partitions=100)


def test_a_batch_that_grows_waits_at_the_gate_if_it_wants_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: FakeLog) -> None:
        monkeypatch.setattr(context_module, "MAX_WINDOW_BYTES", 10_000)
        sent = build_batch([(b"k", bytes(9_000), [], NOW_MS)], codec=NAMES.index("zstd"))
        request = produce_request(dict.fromkeys(range(3), sent), acks=0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(began, log, request)
            for so_far in ([1, 1, 0], [1, 1, 1]):
                with trio.fail_after(5):
                    while [one.next_offset for one in log.topic.partitions] != so_far:
                        await trio.lowlevel.checkpoint()
                await wait_all_tasks_blocked()
                for partition in log.topic.partitions[: sum(so_far)]:
                    log.acknowledge(partition)

    run(body, configs={"compression.type": "uncompressed"}, partitions=3)


def test_what_grows_beyond_the_topics_limit_is_refused() -> None:
    async def body(log: FakeLog) -> None:
        answer, _ = await produce(log, {0: keyed([b"a"], 4, b"v" * 5000)})
        assert answer.responses[0].partition_responses[0].error_code == 10
        assert stored(log) == []

    run(body, configs={"compression.type": "uncompressed", "max.message.bytes": "1000"})


def test_the_level_counts() -> None:
    value = bytes(range(256)) * 40 + b"".join(b"%d" % (n * n) for n in range(2000))
    whole = keyed([b"a"] * 5, 0, value)
    sizes = {
        (codec, level): len(recompressed(read_header(whole), whole[HEADER_BYTES:], codec, level))
        for codec, level in [(1, 1), (1, 9), (3, None), (3, 12), (4, -5), (4, 19)]
    }
    assert sizes[1, 9] < sizes[1, 1]
    assert sizes[3, 12] < sizes[3, None]
    assert sizes[4, 19] < sizes[4, -5]


@given(st.lists(st.none() | st.binary(max_size=3), min_size=1, max_size=9), st.integers(0, 4))
def test_keyless_records_are_found(keys: Keys, codec: int) -> None:
    content = keyed(keys, codec)
    header = read_header(content)
    walk = RecordWalk(header, inflated_records(content, header, 1 << 20), notes_keys=True)
    walk.finish()
    missing = [i for i, key in enumerate(keys) if key is None]
    assert (walk.keyless, walk.keyless_count) == (missing, len(missing))


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("stated", [-1, NOW_MS, NOW_MS + 1, NOW_MS + 60_000])
def test_the_largest_timestamp_is_that_of_the_records(stated: int, codec: int) -> None:
    async def body(log: FakeLog) -> None:
        good = keyed([b"a", None, b"c"], codec)
        await produce(log, {0: altered(good, max_timestamp=stated)})
        (kept,) = stored(log)
        assert check_stored(kept).max_timestamp == NOW_MS + 2
        assert kept[21:] == good[21:]

    run(body)


@pytest.mark.parametrize(("timestamp", "largest"), [(0, 0), (-1, -1), (-2, -1), (-5, -1)])
def test_the_largest_timestamp_is_none_where_records_have_none(timestamp: int, largest: int) -> None:
    async def body(log: FakeLog) -> None:
        await produce(log, {0: build_batch([(None, b"v", [], timestamp)])})
        (kept,) = stored(log)
        assert check_stored(kept).max_timestamp == largest

    run(body)


@pytest.mark.parametrize("codec", [0, 1])
def test_a_large_batch_lets_others_have_their_turns(codec: int) -> None:
    async def body(log: FakeLog) -> None:
        begun, waits = await began(log, produce_request({0: keyed([b"k"] * 21_000, codec)}))
        assert waits >= 10
        await wait_all_tasks_blocked()
        log.acknowledge()
        (topic,) = (await answered(begun)).responses
        assert [part.error_code for part in topic.partition_responses] == [0]
        assert log.partition.next_offset == 21_000

    run(body)


@pytest.mark.parametrize(
    ("good", "codec", "turns"), [(True, 0, 4), (True, 4, 7), (False, 0, 4), (False, 4, 7)]
)
def test_many_small_batches_let_others_have_their_turns(good: bool, codec: int, turns: int) -> None:
    """By what there is to look through, not by how many they are; a refused one counts as much,
    or more: nobody knows how many headers it seemed to have.
    """

    async def body(log: FakeLog) -> None:
        batch = keyed([b"k"] * 1000, codec)
        if not good:
            batch = sign(read_header(batch), b"\xff" * (len(batch) - HEADER_BYTES))
        content = memoryview(bytearray(batch))
        request = produce_request({})
        parts = [ProducePartition(0, memoryview(bytearray(content))) for _ in range(100)]
        request.body.topics = [ProduceTopic("orders", None, parts)]
        begun, waits = await began(log, request)
        assert waits == turns if good else waits >= turns
        await wait_all_tasks_blocked()
        if good:
            log.acknowledge()
        (topic,) = (await answered(begun)).responses
        first, *others = [part.error_code for part in topic.partition_responses]
        assert first == (0 if good else 87)
        assert set(others) == ({0} if good else {87})

    run(body)


def test_small_batches_of_very_many_headers_let_others_have_their_turns() -> None:
    """250 bytes of gzip take 10 ms, by four records of 16,000 headers each. What their header says of it is
    that they have four records.
    """

    async def body(log: FakeLog) -> None:
        sent = build_batch([(b"k", b"v", [("", None)] * 16_000, NOW_MS)] * 4, codec=NAMES.index("gzip"))
        assert len(sent) < 400
        request = produce_request({})
        parts = [ProducePartition(0, memoryview(bytearray(sent))) for _ in range(40)]
        request.body.topics = [ProduceTopic("orders", None, parts)]
        begun, waits = await began(log, request)
        await wait_all_tasks_blocked()
        log.acknowledge()
        (topic,) = (await answered(begun)).responses
        assert {part.error_code for part in topic.partition_responses} == {0}
        assert waits >= 10

    run(body)


def test_what_is_trusted_is_appended_as_it_came() -> None:
    """But for a largest timestamp that cannot be true; and what has to be opened anyway is."""

    async def body(log: FakeLog) -> None:
        log.broker.settings = LogSettings(trust_batches=True)
        good = keyed([b"a", b"b"] * 20)
        bad = sign(read_header(good)._replace(base_sequence=40), b"\xff" * 300)
        late = altered(good, max_timestamp=NOW_MS + 60_000)
        for content, code in ((late, 0), (bad, 0)):
            answer, _ = await produce(log, {0: content})
            assert answer.responses[0].partition_responses[0].error_code == code
        assert [one[21:] for one in stored(log)] == [late[21:], bad[21:]]
        log.topic.settings = effective_topic_configs(COMPACTED)
        answer, _ = await produce(log, {0: bad})
        assert answer.responses[0].partition_responses[0].error_code == 87

    run(body)


@pytest.mark.parametrize(("headers", "waits"), [(500, False), (40_000, True)])
def test_a_record_of_very_many_headers_is_not_looked_through_at_once(headers: int, waits: bool) -> None:
    async def body(log: FakeLog) -> None:
        records: Any = [(b"k", b"v", [("", None)] * headers, NOW_MS)]
        answer, waited = await produce(log, {0: build_batch(records)})
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert waited == waits

    run(body)


def test_one_client_with_many_large_batches_leaves_a_place_for_others() -> None:
    """And what waits of it is forgotten when it is gone."""
    batch = memoryview(bytearray(keyed([b"k"] * 5000)))
    done: list[str] = []

    async def open_for(log: FakeLog, client: str) -> None:
        opening = Opening(ProducePartition(0, batch), log.topic.settings, "orders-0", zstd_allowed=True)
        assert (await open_in_slices(opening, client)).header is not None
        done.append(client)

    async def body(log: FakeLog) -> None:
        async with AsyncExitStack() as held, trio.open_nursery() as nursery:
            for _ in range(BATCHES_AT_ONCE - 1):
                await held.enter_async_context(opening_module._workers.place("greedy"))
            nursery.start_soon(open_for, log, "greedy")
            await wait_all_tasks_blocked()
            await open_for(log, "other")
            assert done == ["other"]
            nursery.cancel_scope.cancel()
        assert (opening_module._workers.busy, opening_module._workers.waiting) == (0, 0)

    run(body)
