"""Who leads a partition, asked over a plain socket."""

from __future__ import annotations

import time
from contextlib import suppress

from kafka.protocol.metadata import MetadataRequest

from tests.differential.wire import Connection

LED_SECONDS = 120.0
AGAIN_SECONDS = 0.1


def leader_of(bootstrap: str, topic: str, partition: int = 0) -> str:
    """HOST:PORT of its leader, as one of the addresses in `bootstrap` tells it.

    Raises AssertionError: nobody is known to lead it in time.
    """
    deadline = time.monotonic() + LED_SECONDS
    while True:
        for address in bootstrap.split(","):
            with suppress(OSError):  # it is away
                leader = _told_by(address, topic, partition)
                if leader:
                    return leader
        assert time.monotonic() < deadline, f"nobody leads {topic}-{partition}"
        time.sleep(AGAIN_SECONDS)


def _told_by(address: str, topic: str, partition: int) -> str | None:
    asked = MetadataRequest(version=8, topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    with Connection(address) as connection:
        answer = connection.ask(asked)
    brokers = {one.node_id: f"{one.host}:{one.port}" for one in answer.brokers}
    leaders = {one.partition_index: one.leader_id for one in answer.topics[0].partitions}
    return brokers.get(leaders.get(partition, -1))
