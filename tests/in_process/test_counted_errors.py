"""What Produce and Fetch answer with an error is counted by its name, and success is not."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse

from tests.in_process.in_process import RawClient
from tests.in_process.several_stores import Cluster, WithStores, batch, produce, produce_until_taken
from wireproto.kafka.errors import ErrorCode


async def fetch(client: RawClient, offset: int, *, session: bool) -> int:
    """The error of partition 0 of orders. With a `session` what comes next is an incremental Fetch."""
    of = FetchRequest.FetchTopic
    part = of.FetchPartition(
        version=7, partition=0, fetch_offset=offset, partition_max_bytes=1000, log_start_offset=-1
    )
    request = FetchRequest(
        version=7,
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1000,
        isolation_level=0,
        session_id=0,
        session_epoch=0 if session else -1,
        topics=[of(version=7, topic="orders", partitions=[part])],
        forgotten_topics_data=[],
    )
    answer = await client.ask(request, FetchResponse)
    return int(answer.responses[0].partitions[0].error_code)


def test_errors_are_counted(stores: WithStores, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(made: Cluster) -> None:
        async with made.gateway(monkeypatch, topics=(("orders", 1),), auto_create_topics=False) as (
            gateway,
            client,
        ):
            errors = gateway.broker.context.errors.by_name
            await gateway.until_live(0, 1, 2)
            await produce_until_taken(client, batch())
            errors.clear()
            assert (await produce(client, batch()))[0] == ErrorCode.NONE
            assert await fetch(client, 0, session=False) == ErrorCode.NONE
            assert errors == {}
            code, _ = await produce(client, batch(), topic="nowhere")
            assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for session in (False, True):
                assert await fetch(client, 99, session=session) == ErrorCode.OFFSET_OUT_OF_RANGE
            assert errors == {
                ("Produce", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
                ("Fetch", "OFFSET_OUT_OF_RANGE"): 2,
            }

    stores(body)
