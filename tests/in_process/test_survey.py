"""What the look at all partitions and groups finds on several stores, and that others have their turns."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from dafka.processes import survey as survey_module
from dafka.processes.survey import Survey
from dafka.processes.survey_metrics import register_survey
from gateway.common.metrics import Metrics
from gateway.groups.records import CommittedOffset
from tests.in_process.several_stores import Cluster, Gateway, WithStores, batch, produce, produce_until_taken
from wireproto.kafka.errors import ErrorCode

SETTINGS: dict[str, Any] = {"topics": (("orders", 2),)}


async def commit(gateway: Gateway, group: str, offset: int, *, topic: str = "orders", **more: Any) -> None:
    await gateway.broker.groups.find(group)
    table = gateway.broker.groups.for_commit(group, "", None, -1).offsets
    table.put(topic, 0, CommittedOffset(offset, -1, "", 0, **more))


def test_what_groups_lack_and_topics_take(stores: WithStores, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch, **SETTINGS) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            contents = [batch(b"x" * 100) for _ in range(5)]
            for content in contents:
                assert (await produce(client, content))[0] == ErrorCode.NONE
            await commit(gateway, "slow", 2)
            await commit(gateway, "fast", 5)
            await commit(gateway, "fast", 1, topic="nowhere")
            await commit(gateway, "older", 1, topic_id=bytes(15) + b"1")
            survey = Survey(gateway.broker, by_partition=True)
            await survey.look()
            found = survey.found
            topic = found.topics["orders",]
            size = sum(map(len, contents))
            assert (topic.in_records, topic.in_bytes, topic.log_bytes) == (5, size, size)
            slow, fast = found.groups["slow", "orders"], found.groups["fast", "orders"]
            assert (slow.records, slow.position, slow.lost, slow.partitions) == (3, 2, 0, 1)
            assert (fast.records, fast.seconds) == (0, 0.0)
            assert found.groups.keys() == {("slow", "orders"), ("fast", "orders")}
            assert found.members == {("slow",): 0, ("fast",): 0, ("older",): 0}
            assert {key: lag.records for key, lag in found.partitions} == {
                ("slow", "orders", "0"): 3,
                ("fast", "orders", "0"): 0,
            }
            assert set(found.dropped.values()) == {0}
            assert (found.offline, found.under_replicated, found.under_min) == (0, 0, 0)

    stores(body)


def test_partitions_whose_stores_are_away(stores: WithStores, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch, **SETTINGS) as (gateway, client):
            await gateway.until_live(0, 1, 2)
            await produce_until_taken(client, batch())
            survey = Survey(gateway.broker)

            async def lacking() -> tuple[int, int, int]:
                await survey.look()
                found = survey.found
                return found.partition_count, found.under_replicated, found.under_min

            assert await lacking() == (2, 0, 0)
            await made.stop(2)
            await gateway.until_live(0, 1)
            assert await lacking() == (2, 2, 0)
            await made.stop(1)
            await gateway.until_live(0)
            assert await lacking() == (2, 2, 2)
            await made.start(1, 2)

    stores(body)


def test_names_beyond_the_bounds_are_counted(stores: WithStores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_module, "MAX_TOPICS", 1)
    monkeypatch.setattr(survey_module, "MAX_GROUP_TOPICS", 2)
    monkeypatch.setattr(survey_module, "MAX_GROUP_PARTITIONS", 1)

    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch, **SETTINGS) as (gateway, _):
            for group in ("a", "b", "c", "d", "n" * 257):
                await commit(gateway, group, 0)
            survey = Survey(gateway.broker, by_partition=True)
            await survey.look()
            found = survey.found
            assert (len(found.topics), len(found.groups), len(found.partitions)) == (1, 2, 1)
            assert found.dropped == {("topic",): 1, ("group",): 3, ("group_partition",): 1}

    stores(body)


def test_others_have_their_turns_and_a_scrape_shows_whole_rounds(
    stores: WithStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey_module, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(survey_module, "LOOK_EVERY", 1)

    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch, topics=(("orders", 50),)) as (gateway, _):
            await commit(gateway, "g", 0)
            survey, metrics = Survey(gateway.broker), Metrics(with_process=False)
            register_survey(metrics, survey)
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    shown = metrics.text().decode()
                    assert ("dafka_partitions 0.0\n" in shown) == ('topic="orders"' not in shown)
                    await trio.lowlevel.checkpoint()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(count)
                took = await survey.look()
                nursery.cancel_scope.cancel()
            assert turns > 50
            assert took > 0

    stores(body)
