"""Who leads a partition, asked over a plain socket."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from kafka.protocol.metadata import MetadataRequest

from tests.differential.wire import Connection

T = TypeVar("T")

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


def read_at_leader(
    read: Callable[[str, str, int], T],
    bootstrap: str,
    topic: str,
    partition: int = 0,
    seconds: float = LED_SECONDS,
) -> T:
    """What `read` (HOST:PORT, topic, partition) gives at the leader; again while the partition goes to its
    next one, as when shares become even. Raises what `read` does, where that lasts.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return read(leader_of(bootstrap, topic, partition), topic, partition)
        except (AssertionError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(AGAIN_SECONDS)


def _told_by(address: str, topic: str, partition: int) -> str | None:
    asked = MetadataRequest(version=8, topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    with Connection(address) as connection:
        answer = connection.ask(asked)
    brokers = {one.node_id: f"{one.host}:{one.port}" for one in answer.brokers}
    leaders = {one.partition_index: one.leader_id for one in answer.topics[0].partitions}
    return brokers.get(leaders.get(partition, -1))
