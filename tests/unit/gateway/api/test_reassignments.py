"""AlterPartitionReassignments, ListPartitionReassignments and ElectLeaders of several gateways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import trio

from gateway.api import alter_partition_reassignments
from gateway.cluster.feature_levels import PREFERRED_LEADERS
from gateway.cluster.leading import STAY_SECONDS
from gateway.cluster.preferred_leaders import PreferredLeaders
from gateway.leadership.records import Address
from tests.unit.gateway.api.asking import ask_async, request_class
from tests.unit.gateway.cluster.leading_scene import PARTITIONS, Cluster, One, run
from tests.unit.gateway.log.fake_log import batch
from wireproto.kafka.errors import ErrorCode, KafkaError

Reassign, List, Elect = request_class(45), request_class(46), request_class(43)
Moved = tuple[int, str | None]


async def gateways(cluster: Cluster) -> tuple[One, One]:
    one, two = await cluster.start(1, "A"), await cluster.start(2, "B")
    for each in (one, two):
        await each.gateways.tell({"PLAINTEXT": Address("a.example", 9092)}, f"host-{each.number}", "1")
    await one.broker.change_features(lambda _: {PREFERRED_LEADERS: 1})
    await one.broker.create_topic("orders", PARTITIONS, {}, 1)
    await cluster.settle()
    return one, two


async def reassign(
    one: One, assignments: Mapping[int, Sequence[int] | None], name: str = "orders"
) -> dict[int, Moved]:
    topic = Reassign.ReassignableTopic
    wanted = [
        topic.ReassignablePartition(partition_index=index, replicas=ids) for index, ids in assignments.items()
    ]
    request = Reassign(version=1, timeout_ms=1000, topics=[topic(name=name, partitions=wanted)])
    (found,) = (await ask_async(cast("Any", one.broker), request)).responses
    return {each.partition_index: (each.error_code, each.error_message) for each in found.partitions}


async def ongoing(one: One, topics: Any = None) -> dict[int, tuple[list[int], list[int], list[int]]]:
    request = List(version=0, timeout_ms=1000, topics=topics)
    found = (await ask_async(cast("Any", one.broker), request)).topics
    return {
        each.partition_index: (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in found
        for each in topic.partitions
    }


async def elect(one: One, index: int) -> Moved:
    wanted = [Elect.TopicPartitions(topic="orders", partitions=[index])]
    request = Elect(version=2, election_type=0, topic_partitions=wanted, timeout_ms=1000)
    (topic,) = (await ask_async(cast("Any", one.broker), request)).replica_election_results
    (found,) = topic.partition_result
    return found.error_code, found.error_message


def test_a_partition_moves_to_the_gateway_that_is_named_whoever_is_asked() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = await gateways(cluster)
        moved = {index: [2] for index in range(PARTITIONS)}
        assert await reassign(two, moved) == dict.fromkeys(moved, (ErrorCode.NONE, None))
        assert (await ongoing(two)).keys() == one.led
        await cluster.settle()
        assert await ongoing(one) == {}
        assert (one.led, two.led) == (set(), set(range(PARTITIONS)))
        for gateway in (one, two):
            assert await elect(gateway, 0) == (
                ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELECTION_NOT_NEEDED.message
            )  # fmt: skip

    run(body)


def test_it_is_on_its_way_while_it_is_handed_over_and_stays_where_that_is_cancelled() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = await gateways(cluster)
        index = min(one.led)
        partition = one.topic.partitions[index]
        one.append(partition, batch(b"a"))  # which no store acknowledges
        assert await reassign(one, {index: [2]}) == {index: (ErrorCode.NONE, None)}
        await cluster.settle()
        asked = List.ListPartitionReassignmentsTopics(name="orders", partition_indexes=[index, index, 99, -1])
        for gateway in (one, two):
            for topics in (None, [asked]):
                assert await ongoing(gateway, topics) == {index: ([2, 1], [2], [1])}
            code, message = await elect(gateway, index)
            assert (code, message) == (
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                "It is being handed over to gateway 2, ask again in a moment",
            )
        nobody = List.ListPartitionReassignmentsTopics(name="nowhere", partition_indexes=[0])
        assert await ongoing(one, [nobody]) == {}
        assert await reassign(two, {index: None}) == {index: (ErrorCode.NONE, None)}
        assert await ongoing(two) == {}
        one.acknowledge(partition)
        await trio.sleep(STAY_SECONDS)
        await cluster.settle()
        assert index in one.led
        code, _ = (await reassign(two, {index: None}))[index]
        assert code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

    run(body)


def test_others_lead_while_the_gateway_is_away_and_it_has_it_back_then() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = await gateways(cluster)
        await reassign(one, {index: [2] for index in range(PARTITIONS)})
        await cluster.settle()
        await cluster.dies(two)
        assert one.led == set(range(PARTITIONS))
        code, message = await elect(one, 0)
        assert (code, message) == (
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            "Gateway 2 cannot lead it at present; it takes it by itself when it can",
        )
        assert await ongoing(one) == {}
        code, _ = (await reassign(one, {0: None}))[0]
        assert code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        back = await cluster.start(2, "C")
        await cluster.settle()
        assert back.led == set(range(PARTITIONS))

    run(body)


def test_what_cannot_be_is_refused_and_the_rest_is_done() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = await gateways(cluster)
        index = min(one.led)
        several, unknown_id, nobody, twice = sorted(set(range(PARTITIONS)) - {index})[:4]
        odd = {several: [2, 1], unknown_id: [9], nobody: [], twice: [1, 1]}
        answers = await reassign(one, {index: [2], 90: [2], -1: [2], **odd})
        codes = {number: code for number, (code, _) in answers.items()}
        invalid, unknown = ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refused = {90: unknown, -1: unknown, **dict.fromkeys(odd, invalid)}
        assert codes == {index: ErrorCode.NONE} | refused
        assert "copies are kept by stores" in (answers[several][1] or "")
        assert (await reassign(one, {0: [1]}, "nowhere"))[0][0] == unknown
        await cluster.settle()
        assert index in two.led

    run(body)


def test_while_nothing_can_be_changed_the_whole_request_says_so(monkeypatch: Any) -> None:
    async def body(cluster: Cluster) -> None:
        one, _ = await gateways(cluster)

        async def away(_broker: Any, _wishes: Any) -> None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the catalog is away")

        monkeypatch.setattr(alter_partition_reassignments, "_carry_out", away)
        topic = Reassign.ReassignableTopic
        wanted = [topic.ReassignablePartition(partition_index=0, replicas=[1])]
        request = Reassign(version=1, timeout_ms=1000, topics=[topic(name="orders", partitions=wanted)])
        answer = await ask_async(cast("Any", one.broker), request)
        assert (answer.error_code, answer.error_message) == (ErrorCode.NOT_CONTROLLER, "the catalog is away")

    run(body)


def test_while_gateways_of_an_older_release_may_be_there_nothing_is_moved() -> None:
    async def body(cluster: Cluster) -> None:
        one, _ = await gateways(cluster)
        await one.broker.change_features(lambda _: {PREFERRED_LEADERS: 0})
        topic = Reassign.ReassignableTopic
        wanted = [topic.ReassignablePartition(partition_index=0, replicas=[2])]
        request = Reassign(version=1, timeout_ms=1000, topics=[topic(name="orders", partitions=wanted)])
        answer = await ask_async(cast("Any", one.broker), request)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert "'dafka gateways upgrade' raises it" in answer.error_message
        assert cluster.catalog.range("/preferred/") == []

    run(body)


def test_wishes_end_with_their_topic_and_with_their_gateway() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = await gateways(cluster)
        await one.broker.create_topic("clicks", 2, {}, 1)
        await reassign(one, {0: [2], 1: [1]})
        await reassign(one, {0: [2], 1: [1]}, "clicks")

        def wanted(gateway: One) -> dict[tuple[str, int], int]:
            preferred = gateway.broker.preferred
            assert isinstance(preferred, PreferredLeaders)
            return {(topic.name, index): number for topic, index, number in preferred.all()}

        await cluster.settle()
        assert wanted(one) == wanted(two) == {
            ("orders", 0): 2, ("orders", 1): 1, ("clicks", 0): 2, ("clicks", 1): 1
        }  # fmt: skip
        clicks = one.broker.topics.get("clicks")
        assert clicks is not None
        await one.broker.delete_topic(clicks)
        await cluster.dies(two)
        await cluster.settle()
        await one.broker.forget_gateway(2)
        await cluster.settle()
        assert wanted(one) == {("orders", 1): 1}
        assert [entry.key for entry in cluster.catalog.range("/preferred/")] == [
            f"/preferred/{one.topic.id.hex()}/000001"
        ]

    run(body)
