"""Produce from its decoded request to its answer."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.api.produce import MAX_TIMEOUT_MS
from gateway.common.budget import Budget
from gateway.common.costs import LOOKED, PRODUCED_BATCH, RECORD
from gateway.common.handlers import NoRoom, Request
from gateway.common.settings import LogSettings
from gateway.common.work import BREATH
from gateway.log import context as context_module
from gateway.log import pending
from gateway.produce.appending import PARTITIONS_A_TURN_COUNT, RefusedBatch
from gateway.produce.opening import MAX_NAMED_RECORDS
from mesh.protocol.writer import RECORD_OVERHEAD_BYTES
from tests.unit.gateway.log.fake_log import (
    NOW_MS,
    REGISTRY,
    TOPIC_ID,
    FakeLog,
    batch,
    make_request,
    produce_request,
)
from tests.unit.gateway.log.test_partition_appends import logged
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.produce import ProducePartition, ProduceRequest, ProduceTopic
from wireproto.kafka.schemas import RESPONSE_CLASSES
from wireproto.records.batch import read_header
from wireproto.records.builder import build_batch


class Begun:
    """A Produce that began; `ready` is set when the log calls back, as it calls a connection."""

    def __init__(self, pending: Any) -> None:
        self.response = pending.response
        self.ready = trio.Event()
        if pending.ready:
            self.ready.set()
        else:
            pending.when_ready(self.ready.set)


async def begin(log: FakeLog, *args: Any, **options: Any) -> Begun:
    """A request that need not wait: nothing else ran before it had begun."""
    begun, waits = await began(log, produce_request(*args, **options))
    assert waits == 0
    return begun


async def begin_request(log: FakeLog, request: Request) -> Any:
    api = REGISTRY.lookup(0)
    assert api is not None
    assert api.begin is not None
    return await api.begin(request, log.broker)


async def began(
    log: FakeLog, request: Request, meanwhile: Callable[[], None] = lambda: None
) -> tuple[Begun, int]:
    """What a connection does; and how often the request gave up control, `meanwhile` being called then.

    Before it does, it has the answers that are ready written.
    """
    waits, flushed = 0, False

    def flush() -> None:
        nonlocal flushed
        flushed = True

    def waiting() -> None:
        nonlocal waits
        waits += 1
        assert flushed
        meanwhile()

    request.before_waiting = flush

    return Begun(await calling_at_each_wait(begin_request(log, request), waiting)), waits


@types.coroutine
def calling_at_each_wait(awaitable: Awaitable[Any], waiting: Callable[[], None]) -> Generator[Any, Any, Any]:
    """`await awaitable`, and call `waiting` whenever it has given up control."""
    inner: Generator[Any, Any, Any] = awaitable.__await__()
    resume, argument = inner.send, None
    while True:
        try:
            trap = resume(argument)
        except StopIteration as done:
            return done.value
        waiting()
        try:
            resume, argument = inner.send, (yield trap)
        except BaseException as error:  # noqa: BLE001 - passed on to where it belongs
            resume, argument = inner.throw, error


async def answered(begun: Begun, version: int = 9) -> Any:
    """The decoded answer."""
    await begun.ready.wait()
    framed = begun.response()
    return RESPONSE_CLASSES[0].decode(framed, version=version, header=True, framed=True)


async def errors(begun: Begun) -> list[int]:
    response = await answered(begun)
    return [part.error_code for topic in response.responses for part in topic.partition_responses]


def test_a_gate_that_closes_within_a_request_refuses_the_next_one_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(log: FakeLog) -> None:
        monkeypatch.setattr(context_module, "MAX_WINDOW_BYTES", 600)
        batches = {0: batch(b"a", pid=7), 1: batch(b"b", pid=7), 2: batch(b"c", pid=7)}
        both, late = await begin(log, batches), await begin(log, {0: batch(b"d", pid=7, sequence=1)})
        assert [partition.next_offset for partition in log.topic.partitions] == [1, 1, 1]
        await wait_all_tasks_blocked()
        for partition in log.topic.partitions:
            log.acknowledge(partition)
        assert await errors(both) == [0, 0, 0]
        assert await errors(late) == [19]

    logged(body, partitions=3)


def test_a_refused_first_batch_and_its_pipelined_successor_keep_their_order() -> None:
    async def body(log: FakeLog) -> None:
        one, two = batch(b"1", pid=7), batch(b"2", pid=7, sequence=1)
        log.context.window_gate.close()
        refused = await begin(log, {0: one})
        log.context.window_gate.open()
        overtaking = await begin(log, {0: two})
        again = await begin(log, {0: one}), await begin(log, {0: two})
        await wait_all_tasks_blocked()
        log.acknowledge()
        assert [await errors(each) for each in (refused, overtaking, *again)] == [[19], [19], [0], [0]]

    logged(body)


def test_timeouts_count_from_the_arrival_and_not_from_each_others_ends() -> None:
    async def body(log: FakeLog) -> None:
        began = trio.current_time()
        pending = [await begin(log, {0: batch(b"a")}, timeout_ms=1000) for _ in range(40)]
        await trio.sleep(0.5)
        pending += [await begin(log, {0: batch(b"b")}, timeout_ms=500)]
        for each in pending:
            assert await errors(each) == [7]
        assert 1 <= trio.current_time() - began < 1.2  # the clock is the test's own

    logged(body)


def test_a_client_that_would_wait_for_days_is_told_after_minutes() -> None:
    async def body(log: FakeLog) -> None:
        request = produce_request({0: batch(b"a")}, timeout_ms=2**31 - 1)
        pending = await begin_request(log, request)
        assert pending._completion.deadline == request.arrived + MAX_TIMEOUT_MS / 1000

    logged(body)


def test_what_is_durable_is_answered_also_after_its_time() -> None:
    async def body(log: FakeLog) -> None:
        pending = await begin(log, {0: batch(b"a")}, timeout_ms=10)
        await trio.sleep(1)
        log.acknowledge()
        assert await errors(pending) == [0]

    logged(body)


@pytest.mark.parametrize("frame_bytes", [1 << 20, 0])
def test_a_small_batch_does_not_keep_a_large_frame(frame_bytes: int) -> None:
    async def body(log: FakeLog) -> None:
        content = batch(b"value" * 100)
        request = produce_request({0: content}, frame_bytes=frame_bytes)
        api = REGISTRY.lookup(0)
        assert api is not None
        assert api.begin is not None
        await api.begin(request, log.broker)
        await wait_all_tasks_blocked()
        log.acknowledge()
        (kept,) = log.partition.read_hot(0, 1 << 20, whole=True) or []
        assert isinstance(kept, memoryview)
        assert len(kept.obj) <= 2 * len(content)  # type: ignore[arg-type]
        assert bytes(kept) == content[:12] + bytes(4) + content[16:]  # the leader epoch is filled in
        if not frame_bytes:
            assert kept.obj is request.frame.obj

    logged(body)


@pytest.mark.parametrize(
    ("version", "options", "index", "code"),
    [
        (9, {"topic": "nobody"}, 0, 3),
        (9, {}, 5, 3),
        (9, {}, -1, 3),
        (13, {"topic": None, "topic_id": b"?" * 16}, 0, 100),
        (13, {"topic": None, "topic_id": TOPIC_ID}, 5, 3),
    ],
)
def test_of_what_is_unknown_nothing_is_said_but_the_code(
    version: int, options: dict[str, Any], index: int, code: int
) -> None:
    async def body(log: FakeLog) -> None:
        response = await answered(await begin(log, {index: batch(b"a")}, version=version, **options), version)
        ((part,),) = [topic.partition_responses for topic in response.responses]
        assert (part.index, part.error_code, part.error_message, part.log_start_offset) == (
            index,
            code,
            None,
            -1,
        )

    logged(body)


def test_a_topic_without_partitions_is_not_answered() -> None:
    async def body(log: FakeLog) -> None:
        assert (await answered(await begin(log, {}))).responses == []

    logged(body)


# timestamps -----------------------------------------------------------------------------------------------

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("configs", "timestamp", "code"),
    [
        ({}, NOW_MS + HOUR_MS, 0),
        ({}, NOW_MS + HOUR_MS + 1, 32),
        ({}, 0, 0),
        ({}, -1, 0),
        ({"message.timestamp.after.max.ms": "5"}, NOW_MS + 5, 0),
        ({"message.timestamp.after.max.ms": "5"}, NOW_MS + 6, 32),
        ({"message.timestamp.before.max.ms": "5"}, NOW_MS - 5, 0),
        ({"message.timestamp.before.max.ms": "5"}, NOW_MS - 6, 32),
        ({"message.timestamp.type": "LogAppendTime"}, NOW_MS + 10 * HOUR_MS, 0),
    ],
)
def test_timestamps_have_the_topics_bounds(configs: dict[str, str], timestamp: int, code: int) -> None:
    async def body(log: FakeLog) -> None:
        pending = await begin(log, {0: batch(b"a", timestamp=timestamp)})
        await wait_all_tasks_blocked()
        if not code:
            log.acknowledge()
        assert await errors(pending) == [code]
        assert log.partition.next_offset == (0 if code else 1)

    logged(body, configs=configs)


@pytest.mark.parametrize("codec", [0, 1])
def test_records_out_of_bounds_are_named_in_kafkas_words(codec: int) -> None:
    async def body(log: FakeLog) -> None:
        times = [NOW_MS, NOW_MS + HOUR_MS + 1, NOW_MS - 1, NOW_MS + HOUR_MS + 2]
        content = build_batch([(None, b"v", [], time) for time in times], codec=codec)
        response = await answered(await begin(log, {0: content}))
        (part,) = response.responses[0].partition_responses
        assert (part.error_code, part.base_offset, part.log_start_offset) == (32, -1, 0)
        assert part.error_message == "One or more records have been rejected due to invalid timestamp"
        allowed = f"The timestamp should be within [{NOW_MS - (2**63 - 1)}, {NOW_MS + HOUR_MS}]"
        assert [(each.batch_index, each.batch_index_error_message) for each in part.record_errors] == [
            (index, f"Timestamp {times[index]} of message with offset {index} is out of range. {allowed}")
            for index in (1, 3)
        ]

    logged(body)


@pytest.mark.parametrize("codec", [0, 1, 3])
@pytest.mark.parametrize("count", [257, MAX_NAMED_RECORDS + 100])
def test_all_records_of_a_large_batch_are_named_beside_the_loop(codec: int, count: int) -> None:
    """Each second one is in bounds; what stands before and behind it in the request is not held back."""

    async def body(log: FakeLog) -> None:
        late = NOW_MS + HOUR_MS + 1
        records: list[Any] = [(None, b"v", [], late + n if n % 2 else NOW_MS) for n in range(2 * count)]
        bad = build_batch(records, codec=codec)
        request = produce_request({0: batch(b"before"), 1: bad, 2: batch(b"behind")})
        delivered: list[list[int]] = []
        log.broker.deliver = lambda: delivered.append([each.next_offset for each in log.topic.partitions])
        begun, waits = await began(log, request)
        assert delivered == [[1, 0, 0], [1, 0, 1]], "stores do not wait for what comes after"
        await wait_all_tasks_blocked()
        for index in (0, 2):
            log.acknowledge(log.topic.partitions[index])
        response = await answered(begun)
        before, part, behind = response.responses[0].partition_responses
        assert [one.error_code for one in (before, part, behind)] == [0, 32, 0]
        assert [partition.next_offset for partition in log.topic.partitions] == [1, 0, 1]
        assert waits > 0
        named = [(one.batch_index, one.batch_index_error_message) for one in part.record_errors]
        outside = range(1, 2 * count, 2)[:MAX_NAMED_RECORDS]
        allowed = f"The timestamp should be within [{NOW_MS - (2**63 - 1)}, {NOW_MS + HOUR_MS}]"
        assert named == [
            (n, f"Timestamp {late + n} of message with offset {n} is out of range. {allowed}")
            for n in outside
        ]

    logged(body, partitions=3)


def test_a_batch_that_inflates_to_very_much_is_refused_without_names() -> None:
    async def body(log: FakeLog) -> None:
        bad = build_batch([(None, bytes(17 * 1024 * 1024), [], NOW_MS * 2)], codec=4)
        begun, _ = await began(log, produce_request({0: bad}))
        (part,) = (await answered(begun)).responses[0].partition_responses
        assert (part.error_code, part.record_errors) == (32, [])

    logged(body)


# very many partitions -------------------------------------------------------------------------------------


def test_a_request_of_very_many_partitions_takes_turns_with_others() -> None:
    """All are answered, in order; what it keeps until then is no more than its outcomes."""

    async def body(log: FakeLog) -> None:
        count = 2 * PARTITIONS_A_TURN_COUNT + 7
        content = batch(b"a")
        data = [ProducePartition(index, memoryview(bytearray(content))) for index in range(count)]
        request = make_request(
            0, 9, ProduceRequest(None, -1, 1000, [ProduceTopic("orders", None, data)]), memoryview(content)
        )
        turns: list[int] = []
        begun, waits = await began(log, request, lambda: turns.append(log.topic.partitions[2].next_offset))
        assert (waits, turns) == (2, [1, 1])
        await wait_all_tasks_blocked()
        for partition in log.topic.partitions:
            log.acknowledge(partition)
        (topic,) = (await answered(begun)).responses
        assert [part.index for part in topic.partition_responses] == list(range(count))
        assert [part.error_code for part in topic.partition_responses] == [0] * 3 + [3] * (count - 3)

    logged(body, partitions=3)


def test_a_refused_batch_keeps_no_frames_alive() -> None:
    async def body(log: FakeLog) -> None:
        request = produce_request({0: batch(b"a", epoch=-1, pid=5), 7: batch(b"nowhere")})
        pending = await begin_request(log, request)
        outcomes = [outcome for _, results in pending.appending.topics for _, outcome in results]
        assert [type(outcome) for outcome in outcomes] == [RefusedBatch, RefusedBatch]
        assert all(one.__traceback__ is one.__context__ is one.__cause__ is None for one in outcomes)

    logged(body)


# acks=0 ---------------------------------------------------------------------------------------------------


class Beginning:
    """A Produce whose `begin` a task awaits, as a connection's reader does; `over` when it has begun."""

    def __init__(self, log: FakeLog, request: Request) -> None:
        self._log = log
        self._request = request
        self.scope = trio.CancelScope()
        self.over = trio.Event()
        self.begun: Begun | None = None

    async def run(self) -> None:
        with self.scope:
            self.begun = Begun(await begin_request(self._log, self._request))
            self.over.set()


def test_without_an_answer_a_request_waits_for_room_in_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: FakeLog) -> None:
        content = batch(b"a" * 100)
        room = 2 * (len(content) + RECORD_OVERHEAD_BYTES)
        monkeypatch.setattr(pending, "MAX_PARTITION_WINDOW_BYTES", room)
        for _ in range(2):
            assert (await begin(log, {0: content}, acks=0)).response() is None
        waits = Beginning(log, produce_request({1: batch(b"other"), 0: content}, acks=0))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waits.run)
            await wait_all_tasks_blocked()
            assert not waits.over.is_set()
            assert [partition.next_offset for partition in log.topic.partitions] == [2, 0]  # all or nothing
            log.acknowledge(upto=0)
            await waits.over.wait()
        assert waits.begun is not None
        assert waits.begun.response() is None
        assert [partition.next_offset for partition in log.topic.partitions] == [3, 1]

    logged(body, partitions=2)


def test_who_waits_for_room_is_told_when_the_partition_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: FakeLog) -> None:
        monkeypatch.setattr(pending, "MAX_PARTITION_WINDOW_BYTES", 600)
        await begin(log, {0: batch(b"a")}, acks=0)
        waits = Beginning(log, produce_request({0: batch(b"b")}, acks=0))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waits.run)
            await wait_all_tasks_blocked()
            assert not waits.over.is_set()
            log.partition.fail("lost")
        assert waits.begun is not None
        with pytest.raises(MalformedRequest, match="acks=0 failed"):
            waits.begun.response()

    logged(body)


def test_without_an_answer_a_request_waits_for_the_gate() -> None:
    async def body(log: FakeLog) -> None:
        log.context.window_gate.close()
        waits = Beginning(log, produce_request({0: batch(b"a")}, acks=0, timeout_ms=0))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waits.run)
            await wait_all_tasks_blocked()
            assert not waits.over.is_set()
            assert log.producer.kept == {}
            log.context.window_gate.open()
        (kept,) = log.producer.kept.values()
        assert [read_header(content).count for content in kept] == [1]

    logged(body)


def test_only_so_much_memory_may_wait_for_room() -> None:
    """What comes then is hung up on: no error could be answered."""

    async def body(log: FakeLog) -> None:
        log.context.window_gate.close()
        memory = Budget(100)
        requests = [produce_request({0: batch(b"a")}, acks=0) for _ in range(3)]
        for request in requests:
            request.room_memory, request.held_bytes = memory, 50
        waiting = [Beginning(log, request) for request in requests[:2]]
        async with trio.open_nursery() as nursery:
            for each in waiting:
                nursery.start_soon(each.run)
            await wait_all_tasks_blocked()
            assert memory.used == 100
            with pytest.raises(NoRoom):
                await begin_request(log, requests[2])
            waiting[0].scope.cancel()
            await wait_all_tasks_blocked()
            assert (memory.used, log.producer.kept) == (50, {})
            log.context.window_gate.open()
        assert memory.used == 0
        assert log.partition.next_offset == 1

    logged(body)


def many(partitions: int, acks: int) -> Request:
    """For partitions that are not there, as a connection has it."""
    content = batch(b"a")
    data = [ProducePartition(9, memoryview(content)) for _ in range(partitions)]
    body = ProduceRequest(None, acks, 1000, [ProduceTopic("orders", None, data)], elements=1 + partitions)
    return make_request(0, 9, body, memoryview(content))


@pytest.mark.parametrize("acks", [0, 1])
def test_each_look_at_all_partitions_of_a_large_request_is_charged_before(acks: int) -> None:
    """For each partition that had no room, 20,000 were looked at, and others were kept waiting for it."""

    async def body(log: FakeLog) -> None:
        request = many(2 * BREATH, acks)
        look = (1 + 2 * BREATH) * LOOKED
        if acks == 0:
            log.context.window_gate.close()
            waits = Beginning(log, request)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(waits.run)
                await wait_all_tasks_blocked()
                assert request.work.charged == look
                log.context.window_gate.open()
            look *= 2
        else:
            await begin_request(log, request)
        batches = 2 * BREATH * (PRODUCED_BATCH + RECORD)
        assert request.work.charged == look + batches

    logged(body)


def test_a_large_request_looks_when_its_client_has_a_turn() -> None:
    async def body(log: FakeLog) -> None:
        request = many(2 * BREATH, 1)
        request.work.turns.left = 0
        _, waits = await began(log, request)
        assert waits >= 1
        small = many(2, 1)
        small.work.turns.left = 0
        assert (await began(log, small))[1] == 0

    logged(body)


def test_who_is_cancelled_between_turns_leaves_whole_batches_and_no_more() -> None:
    async def body(log: FakeLog) -> None:
        content = batch(b"a")
        data = [
            ProducePartition(
                0 if number % PARTITIONS_A_TURN_COUNT == 0 else 9, memoryview(bytearray(content))
            )
            for number in range(2 * PARTITIONS_A_TURN_COUNT)
        ]
        body = ProduceRequest(None, -1, 1000, [ProduceTopic("orders", None, data)])
        delivered: list[int] = []
        log.broker.deliver = lambda: delivered.append(log.partition.next_offset)
        with trio.CancelScope() as scope:
            await calling_at_each_wait(
                begin_request(log, make_request(0, 9, body, memoryview(content))), scope.cancel
            )
        assert scope.cancelled_caught
        assert log.partition.next_offset == 1
        assert delivered == [1, 1], "also what was appended before somebody gave up"
        assert not log.broker.completions._waiting

    logged(body)


@pytest.mark.parametrize(
    ("client_id", "allowed", "code"),
    [
        ("some client", True, 17),
        (None, True, 17),
        ("__admin_client", False, 17),
        ("__admin_client", True, 0),
    ],
)
def test_internal_topics_take_records_from_the_gateway_and_from_administrators_if_that_is_set(
    client_id: str | None, allowed: bool, code: int
) -> None:
    async def body(log: FakeLog) -> None:
        log.topic.internal = True
        log.broker.settings = LogSettings(admin_client_writes=allowed)
        request = produce_request({0: batch(b"a")})
        request.header = replace(request.header, client_id=client_id)
        api = REGISTRY.lookup(0)
        assert api is not None
        assert api.begin is not None
        begun = Begun(await api.begin(request, log.broker))
        await wait_all_tasks_blocked()
        if not code:
            log.acknowledge()
        response = await answered(begun)
        (part,) = response.responses[0].partition_responses
        assert (part.error_code, part.log_start_offset) == (code, -1 if code else 0)
        assert log.partition.next_offset == (code == 0)

    logged(body)
