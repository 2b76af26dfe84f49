"""What is given to another gateway becomes durable before; who waits hears of it when the other one leads."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.catalog import keys
from gateway.cluster.handing_over import DURABLE_SECONDS, MANY_BATCHES
from gateway.cluster.leading import CALM_SECONDS, GIVE_SECONDS, STAY_SECONDS
from gateway.log.partition import LED_ELSEWHERE, Partition, PartitionState
from gateway.log.segment import Segment
from tests.unit.gateway.cluster.leading_scene import PARTITIONS, Cluster, One, run
from tests.unit.gateway.log.fake_log import batch
from wireproto.kafka.errors import ErrorCode, KafkaError


async def one_that_writes(cluster: Cluster, partitions: int = 2) -> One:
    """A gateway alone, with a record in each partition that is not durable yet."""
    one = await cluster.start(1, "A")
    topic = await one.broker.create_topic("orders", partitions, {}, 1)
    for partition in topic.partitions:
        one.append(partition, batch(b"first"))
    await wait_all_tasks_blocked()
    return one


async def until_one_leaves(one: One) -> Partition:
    with trio.fail_after(CALM_SECONDS + GIVE_SECONDS):
        while not (leaving := [each for each in one.topic.partitions if each.is_leaving]):  # noqa: ASYNC110
            await trio.sleep(0.01)
    return leaving[0]


def segments(cluster: Cluster, partition: Partition) -> list[Segment]:
    prefix = keys.partition_segments(partition.topic.id, partition.index)
    return [Segment.unpack(entry.value) for entry in cluster.catalog.range(prefix)]


def test_what_is_under_way_becomes_durable_and_what_comes_is_sent_on() -> None:
    async def body(cluster: Cluster) -> None:
        one = await one_that_writes(cluster)
        appended = [one.append(each, batch(b"second")) for each in one.topic.partitions]
        await cluster.start(2, "B")
        partition = await until_one_leaves(one)
        held = one.append(partition, batch(b"too late"))
        with pytest.raises(KafkaError):
            one.append(partition, batch(b"nobody is answered"), acks=0)
        assert (appended[partition.index].done, held.done, partition.next_offset) == (False, False, 2)
        assert partition.check_leader_epoch(-1) is ErrorCode.NONE
        one.acknowledge(partition)
        assert appended[partition.index].done
        await wait_all_tasks_blocked()
        assert appended[partition.index].error is ErrorCode.NONE
        assert (held.error, held.message) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, LED_ELSEWHERE)
        assert one.broker.gateways.leader(partition.topic.id, partition.index) == 2
        assert partition.state is PartitionState.ELSEWHERE
        assert not partition.is_leaving
        (segment,) = segments(cluster, partition)
        assert (segment.is_open, segment.end_offset, segment.last_sequence) == (False, 2, 1)

    run(body)


def test_while_it_is_given_nothing_of_it_is_served_and_who_waits_is_not_told_yet() -> None:
    async def body(cluster: Cluster) -> None:
        one = await one_that_writes(cluster)
        for each in one.topic.partitions:
            one.acknowledge(each)
        give = one.leadership.give
        seen: list[ErrorCode] = []

        async def look(*arguments: object) -> None:
            gone = [each for each in one.topic.partitions if each.is_leaving]
            if gone:
                held = one.append(gone[0], batch(b"too late"))
                seen.append(gone[0].check_leader_epoch(-1))
                assert not held.done
                await give(*arguments)  # type: ignore[arg-type]
                assert not held.done
                one.leading.follow()
                seen.append(held.error)
            else:
                await give(*arguments)  # type: ignore[arg-type]

        one.leadership.give = look  # type: ignore[assignment]
        await cluster.start(2, "B")
        await cluster.settle()
        assert seen == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2

    run(body)


def test_what_came_in_the_last_moment_is_told_as_well() -> None:
    """A topic that is created while its slot is given away was not asked to take no more."""

    async def body(cluster: Cluster) -> None:
        one = await one_that_writes(cluster)
        partition = one.topic.partitions[0]
        appended = one.append(partition, batch(b"second"))
        partition.given()
        held = one.append(partition, batch(b"third"))
        assert (appended.done, held.done) == (False, False)
        partition.led_elsewhere(partition.leader_epoch + 1)
        assert appended.error is held.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.chain.segments() == []

    run(body)


def test_one_whose_stores_are_slow_stays_and_is_tried_again() -> None:
    async def body(cluster: Cluster) -> None:
        one = await one_that_writes(cluster)
        two = await cluster.start(2, "B")
        partition = await until_one_leaves(one)
        held = one.append(partition, batch(b"later"))
        await trio.sleep(DURABLE_SECONDS)
        await wait_all_tasks_blocked()
        assert held.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (partition.available, partition.is_leaving, one.led) == (True, False, {0, 1})
        again = one.append(partition, batch(b"later"))
        one.acknowledge(partition)
        assert (again.done, again.error, again.base_offset) == (True, ErrorCode.NONE, 1)
        await trio.sleep(STAY_SECONDS - 1)
        assert partition.index in one.led
        await trio.sleep(1 + STAY_SECONDS)
        assert two.led == {partition.index}
        assert [each.end_offset for each in segments(cluster, partition)] == [2]

    run(body)


def test_one_that_cannot_go_does_not_hold_up_the_others() -> None:
    async def body(cluster: Cluster) -> None:
        one = await one_that_writes(cluster, PARTITIONS)
        two = await cluster.start(2, "B")
        slow = await until_one_leaves(one)
        for each in one.topic.partitions:
            if each is not slow:
                one.acknowledge(each)
        await trio.sleep(DURABLE_SECONDS + PARTITIONS * GIVE_SECONDS)
        assert slow.index in one.led
        assert len(two.led) >= PARTITIONS // 2 - 1

    run(body)


def test_one_that_stops_gives_everything_away_at_once_also_what_is_not_durable() -> None:
    async def body(cluster: Cluster) -> None:
        one = await one_that_writes(cluster, PARTITIONS)
        other = one.append(one.topic.partitions[0], batch(b"other"))
        for each in one.topic.partitions[1:]:
            one.acknowledge(each)
        two = await cluster.start(2, "B")
        await cluster.stops(one)
        began = trio.current_time()
        with trio.fail_after(2 * DURABLE_SECONDS + CALM_SECONDS):
            await one.leading.leave()
        assert trio.current_time() - began >= DURABLE_SECONDS
        assert (one.led, two.led) == (set(), set(range(PARTITIONS)))
        assert other.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        is_open = [[each.is_open for each in segments(cluster, log)] for log in one.topic.partitions]
        assert is_open == [[True], *[[False]] * (PARTITIONS - 1)]
        await cluster.settle()
        assert one.led == set()

    run(body)


def test_who_is_the_last_one_leads_until_the_end() -> None:
    async def body(cluster: Cluster) -> None:
        one = await cluster.start(1, "A")
        await one.broker.create_topic("orders", PARTITIONS, {}, 1)
        two = await cluster.start(2, "B")
        await cluster.settle()
        await cluster.stops(two)
        await cluster.stops(one)
        for each in (one, two):
            with trio.fail_after(GIVE_SECONDS):
                await each.leading.leave()
        assert one.led | two.led == set(range(PARTITIONS))

    run(body)


def test_a_long_segment_is_left_for_a_new_one_before() -> None:
    async def body(cluster: Cluster) -> None:
        one = await one_that_writes(cluster)
        for each in one.topic.partitions:
            for _ in range(MANY_BATCHES):
                one.append(each, batch(b"more"))
            one.acknowledge(each)
        await cluster.start(2, "B")
        while not (outdated := [each for each in one.topic.partitions if is_outdated(each)]):  # noqa: ASYNC110
            await trio.sleep(0.01)
        one.append(outdated[0], batch(b"in the next one"))
        await wait_all_tasks_blocked()
        one.acknowledge(outdated[0])
        await cluster.settle()
        found = segments(cluster, outdated[0])
        assert [each.start_offset for each in found] == [0, MANY_BATCHES + 1]
        assert not any(each.is_open for each in found)

    def is_outdated(partition: Partition) -> bool:
        return partition.chain.current is not None and partition.chain.current.outdated

    run(body)
