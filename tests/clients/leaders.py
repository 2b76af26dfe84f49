"""Who leads a partition, asked over a plain socket."""

from __future__ import annotations

import time

from kafka.protocol.metadata import MetadataRequest

from tests.differential.wire import Connection

LED_SECONDS = 60.0
AGAIN_SECONDS = 0.1


def leader_of(bootstrap: str, topic: str, partition: int = 0) -> str:
    """HOST:PORT of its leader, as the first of the addresses in `bootstrap` tells it.

    Raises AssertionError: nobody leads it in time.
    """
    deadline = time.monotonic() + LED_SECONDS
    asked = MetadataRequest(version=8, topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    while True:
        with Connection(bootstrap.split(",")[0]) as connection:
            answer = connection.ask(asked)
        brokers = {one.node_id: f"{one.host}:{one.port}" for one in answer.brokers}
        for found in answer.topics[0].partitions:
            if found.partition_index == partition and found.leader_id in brokers:
                return brokers[found.leader_id]
        assert time.monotonic() < deadline, f"nobody leads {topic}-{partition}: {answer}"
        time.sleep(AGAIN_SECONDS)
