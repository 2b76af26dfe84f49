"""A Produce waits a moment for partitions that are about to serve: for how long, whom that holds up, and what
is behind a batch that has waited in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.common.handlers import Request
from gateway.log import pending
from gateway.log.idempotence.state import ProducerState
from gateway.log.partition import Partition
from gateway.produce.coming import AGAIN_SECONDS, COMING_SECONDS, LEAST_TIMEOUT_MS
from gateway.transactions.verifier import Producing
from tests.unit.gateway.log.fake_log import FakeLog, batch, produce_request
from tests.unit.gateway.log.test_partition_appends import logged
from tests.unit.gateway.log.transactional import PID, transactional
from tests.unit.gateway.produce.test_appending import Begun, answered, began, errors
from wireproto.kafka.errors import ErrorCode

NOT_LEADER = 6
LONG_MS = 30_000


def recover(*partitions: Partition) -> None:
    """They have served, and are recovered."""
    for partition in partitions:
        partition.fail("it lost its segment")
        partition.begin_recovery([], None)


def serve(partition: Partition) -> None:
    partition.begin_serving(ProducerState())


async def begun_beside(log: FakeLog, request: Request, act: Callable[[], object]) -> Begun:
    """`act` is called once the request waits."""

    async def act_then() -> None:
        await wait_all_tasks_blocked()
        act()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(act_then)
        begun, waits = await began(log, request)
    assert waits
    return begun


async def assert_is_kept(log: FakeLog, begun: Begun) -> None:
    """It was appended, and its store acknowledges it."""
    await wait_all_tasks_blocked()
    log.acknowledge()
    assert await errors(begun) == [0]


async def seconds_until_refused(log: FakeLog, *indexes: int, timeout_ms: int = LONG_MS) -> float:
    request = produce_request({index: batch(b"value") for index in indexes or (0,)}, timeout_ms=timeout_ms)
    started = trio.current_time()
    begun, _ = await began(log, request)
    took = trio.current_time() - started
    assert NOT_LEADER in await errors(begun)
    return took


def test_a_batch_waits_until_its_partition_serves() -> None:
    async def body(log: FakeLog) -> None:
        recover(log.partition)

        async def serve_soon() -> None:
            await trio.sleep(COMING_SECONDS / 2)
            assert log.partition.next_offset == 0
            serve(log.partition)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_soon)
            request = produce_request({0: batch(b"value")}, timeout_ms=LONG_MS)
            begun, waits = await began(log, request)
        assert waits
        await wait_all_tasks_blocked()
        log.acknowledge()
        (topic,) = (await answered(begun)).responses
        (part,) = topic.partition_responses
        assert (part.error_code, part.base_offset) == (0, 0)

    logged(body)


@pytest.mark.parametrize(
    ("timeout_ms", "seconds"),
    [
        (LONG_MS, COMING_SECONDS),
        (LEAST_TIMEOUT_MS, COMING_SECONDS),
        (LEAST_TIMEOUT_MS - 1, 0),
        (0, 0),
        (-1, 0),
    ],
)
def test_it_waits_a_second_at_most_if_it_has_as_long_besides(timeout_ms: int, seconds: float) -> None:
    async def body(log: FakeLog) -> None:
        recover(log.partition)
        assert await seconds_until_refused(log, timeout_ms=timeout_ms) == pytest.approx(seconds, abs=0.001)
        assert log.partition.is_coming == (not seconds), "who does not wait decides for nobody else"

    logged(body)


@pytest.mark.parametrize(("waited", "left"), [(1.5, 0.5), (1.9999, 0.0001), (2.0, 0), (9.0, 0)])
def test_what_has_waited_for_something_else_before_is_not_appended_too_late(
    waited: float, left: float
) -> None:
    async def body(log: FakeLog) -> None:
        recover(log.partition)
        request = produce_request({0: batch(b"value")}, timeout_ms=4000)
        request.arrived -= waited
        started = trio.current_time()
        begun, _ = await began(log, request)
        assert await errors(begun) == [NOT_LEADER]
        assert trio.current_time() - started == pytest.approx(left, abs=0.001)
        assert await seconds_until_refused(log) == 0, "nothing follows it"

    logged(body)


def test_nothing_follows_what_has_waited_in_vain() -> None:
    async def body(log: FakeLog) -> None:
        recover(log.partition)
        assert await seconds_until_refused(log) == pytest.approx(COMING_SECONDS, abs=0.001)
        assert await seconds_until_refused(log) == 0
        serve(log.partition)
        begun, waits = await began(log, produce_request({0: batch(b"value")}))
        assert waits == 0
        await assert_is_kept(log, begun)

    logged(body)


def test_after_a_vain_wait_nothing_waits_for_a_while() -> None:
    async def body(log: FakeLog) -> None:
        recover(*log.topic.partitions)
        assert await seconds_until_refused(log, 0) == pytest.approx(COMING_SECONDS, abs=0.001)
        assert await seconds_until_refused(log, 1) == 0
        await trio.sleep(AGAIN_SECONDS)
        assert await seconds_until_refused(log, 2) == pytest.approx(COMING_SECONDS, abs=0.001)

    logged(body, partitions=3)


def test_all_that_wait_in_vain_together_stop_waiting_together() -> None:
    async def body(log: FakeLog) -> None:
        recover(*log.topic.partitions)
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            for index in (0, 1, 0):
                nursery.start_soon(seconds_until_refused, log, index)
        assert trio.current_time() - started == pytest.approx(COMING_SECONDS, abs=0.001)
        await trio.sleep(AGAIN_SECONDS)
        assert await seconds_until_refused(log, 2) == pytest.approx(COMING_SECONDS, abs=0.001)

    logged(body, partitions=3)


def test_several_partitions_share_the_second_and_those_that_serve_are_appended_to_then() -> None:
    async def body(log: FakeLog) -> None:
        recover(*log.topic.partitions[:2])
        request = produce_request({index: batch(b"value") for index in range(3)}, timeout_ms=LONG_MS)
        started = trio.current_time()
        begun, _ = await began(log, request)
        assert trio.current_time() - started == pytest.approx(COMING_SECONDS, abs=0.001)
        await wait_all_tasks_blocked()
        log.acknowledge(log.topic.partitions[2])
        assert await errors(begun) == [NOT_LEADER, NOT_LEADER, 0]

    logged(body, partitions=3)


def test_all_that_a_request_waits_for_is_asked_for_first() -> None:
    async def body(log: FakeLog) -> None:
        asked: list[int] = []
        log.context.on_recovery(lambda _: None, lambda one: asked.append(one.index))
        recover(*log.topic.partitions[:3])
        log.topic.partitions[1].recovery_waits("stores are away")

        def serve_what_was_asked_for() -> None:
            assert asked == [2, 0], "who is asked for last comes first"
            serve(log.topic.partitions[0])
            serve(log.topic.partitions[2])

        # 9 is no partition of the topic.
        request = produce_request({index: batch(b"value") for index in (0, 1, 2, 3, 9)}, timeout_ms=LONG_MS)
        started = trio.current_time()
        await begun_beside(log, request, serve_what_was_asked_for)
        assert trio.current_time() - started < COMING_SECONDS

    logged(body, partitions=4)


def test_one_that_waits_for_stores_is_not_waited_for() -> None:
    async def body(log: FakeLog) -> None:
        recover(log.partition)
        log.partition.recovery_waits("its recovery waits for the stores s1")
        request = produce_request({0: batch(b"value")}, timeout_ms=LONG_MS)
        begun, waits = await began(log, request)
        assert (waits, await errors(begun)) == (0, [NOT_LEADER])
        serve(log.partition)
        recover(log.partition)
        assert await seconds_until_refused(log) == pytest.approx(COMING_SECONDS, abs=0.001)

    logged(body)


def test_a_wait_that_the_stores_end_is_one_in_vain() -> None:
    async def body(log: FakeLog) -> None:
        recover(*log.topic.partitions)

        async def stores_are_away() -> None:
            await trio.sleep(COMING_SECONDS / 4)
            log.partition.recovery_waits("its recovery waits for the stores s1")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stores_are_away)
            assert await seconds_until_refused(log) == pytest.approx(COMING_SECONDS / 4, abs=0.001)
        assert await seconds_until_refused(log, 1) == 0

    logged(body, partitions=2)


@pytest.mark.parametrize("leaves", ["for stores", "failed", "elsewhere", "deleted"])
def test_the_wait_ends_when_it_is_not_about_to_serve_any_more(leaves: str) -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        recover(partition)
        how: dict[str, Callable[[], None]] = {
            "for stores": partial(partition.recovery_waits, "its recovery waits for the stores s1"),
            "failed": partial(partition.fail, "its end is not known"),
            "elsewhere": partial(partition.led_elsewhere, 7),
            "deleted": partition.delete,
        }

        async def leave() -> None:
            await trio.sleep(COMING_SECONDS / 4)
            how[leaves]()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave)
            assert await seconds_until_refused(log) == pytest.approx(COMING_SECONDS / 4, abs=0.001)

    logged(body)


def test_what_is_given_away_meanwhile_is_answered_when_it_is_known_who_leads() -> None:
    async def body(log: FakeLog) -> None:
        recover(log.partition)

        started = trio.current_time()
        request = produce_request({0: batch(b"value")}, timeout_ms=LONG_MS)
        begun = await begun_beside(log, request, log.partition.given)
        assert not begun.ready.is_set()
        log.partition.led_elsewhere(7)
        assert await errors(begun) == [NOT_LEADER]
        assert trio.current_time() - started < COMING_SECONDS / 2

    logged(body)


def test_without_acks_it_waits_until_it_is_known_who_leads() -> None:
    """All that such a client can be told is the end of its connection: it would come here again."""

    async def body(log: FakeLog) -> None:
        recover(log.partition)
        began_at: list[int] = []

        async def send() -> None:
            await began(log, produce_request({0: batch(b"value")}, acks=0, timeout_ms=LONG_MS))
            began_at.append(log.partition.leaderships)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await wait_all_tasks_blocked()
            log.partition.given()
            await wait_all_tasks_blocked()
            assert began_at == []
            log.partition.led_elsewhere(7)
        assert began_at == [1]

    logged(body)


def test_what_is_gained_again_is_waited_for_again() -> None:
    async def body(log: FakeLog) -> None:
        partition = log.partition
        recover(partition)
        partition.recovery_waits("its recovery waits for the stores s1")
        partition.led_elsewhere(5)
        assert not partition.is_coming
        partition.gained(6)
        assert partition.is_coming

    logged(body)


def test_a_partition_that_was_never_recovered_is_waited_for() -> None:
    async def body(log: FakeLog) -> None:
        log.topic.partitions.append(Partition(log.context, log.topic, 1))
        assert await seconds_until_refused(log, 1) == pytest.approx(COMING_SECONDS, abs=0.001)

    logged(body)


def test_a_transactional_batch_is_asked_about_once_its_partition_serves() -> None:
    """Of one that does not serve nothing can be asked: the batch would be refused although it has waited."""

    async def body(log: FakeLog) -> None:
        class Coordinator:
            def cost(self, *_: object, **__: object) -> int:
                return 0

            async def check(
                self, who: Producing, partitions: Collection[tuple[str, int]], _client: str
            ) -> dict[tuple[str, int], ErrorCode]:
                assert log.partition.available
                assert who[:3] == ("tx", PID, 0)
                return dict.fromkeys(partitions, ErrorCode.NONE)

        log.broker.verifier = Coordinator()
        recover(log.partition)
        request = produce_request({0: transactional()}, timeout_ms=LONG_MS)
        request.body.transactional_id = "tx"
        begun = await begun_beside(log, request, partial(serve, log.partition))
        await assert_is_kept(log, begun)

    logged(body)


def test_without_acks_it_waits_for_room_after_that(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: FakeLog) -> None:
        monkeypatch.setattr(pending, "MAX_WINDOW_RECORDS", 1)
        recover(log.partition)
        appended: list[int] = []

        async def send() -> None:
            await began(log, produce_request({0: batch(b"value")}, acks=0, timeout_ms=LONG_MS))
            appended.append(log.partition.next_offset)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(send)
            await wait_all_tasks_blocked()
            serve(log.partition)
            for count in (1, 2, 3):
                await wait_all_tasks_blocked()
                assert (len(appended), log.partition.next_offset) == (count, count)
                log.acknowledge()

    logged(body)


def test_a_gate_that_has_closed_meanwhile_is_waited_for() -> None:
    """What is behind the request would pass as soon as it opens."""

    async def body(log: FakeLog) -> None:
        recover(log.partition)
        gate = log.context.window_gate

        async def serve_behind_a_closed_gate() -> None:
            await wait_all_tasks_blocked()
            gate.close()
            serve(log.partition)
            await wait_all_tasks_blocked()
            assert log.partition.next_offset == 0
            gate.open()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_behind_a_closed_gate)
            begun, _ = await began(log, produce_request({0: batch(b"value")}, timeout_ms=LONG_MS))
        await assert_is_kept(log, begun)

    logged(body)


def test_it_waits_at_a_closed_gate_for_half_of_its_time() -> None:
    async def body(log: FakeLog) -> None:
        recover(log.partition)

        def serve_behind_a_closed_gate() -> None:
            log.context.window_gate.close()
            serve(log.partition)

        started = trio.current_time()
        request = produce_request({0: batch(b"value")}, timeout_ms=6000)
        begun = await begun_beside(log, request, serve_behind_a_closed_gate)
        assert await errors(begun) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert trio.current_time() - started == pytest.approx(3.0, abs=0.001)

    logged(body)
