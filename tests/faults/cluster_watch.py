"""What each gateway tells of a topic, asked all the time over restarts, for the history."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Final

from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from tests.differential.wire import Connection, UndecodableError
from tests.faults.history import Asked, Epoch, History, Watermark

ANSWER_SECONDS: Final = 10.0
"""Longer than a gateway is stopped: what it says when it wakes up is of interest."""


class ClusterWatch:
    """High watermarks and leader epochs, each gateway in a thread of its own."""

    def __init__(
        self, bootstrap: str, topic: str, history: History, partitions: int, *, pause: float
    ) -> None:
        self._history, self._pause = history, pause
        of = ListOffsetsRequest.ListOffsetsTopic
        wanted = [of.ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(partitions)]
        self._ends = [of(name=topic, partitions=wanted)]
        self._topics = [MetadataRequest.MetadataRequestTopic(name=topic)]
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(address,), name=f"watch {address}", daemon=True)
            for address in bootstrap.split(",")
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, address: str) -> None:
        while not self._stop.wait(self._pause):
            try:
                with Connection(address, timeout=ANSWER_SECONDS) as connection:
                    while not self._stop.wait(self._pause):
                        self._ask(connection, address)
            except (OSError, UndecodableError):
                continue  # killed in the middle of an answer, cut off, or not up yet

    def _ask(self, connection: Connection, address: str) -> None:
        self._history.add(Asked(address))
        ends = connection.ask(ListOffsetsRequest(version=5, replica_id=-1, topics=self._ends))
        told = _good(ends.topics)
        self._history.add(*(Watermark(one.partition_index, one.offset, address) for one in told))
        named = connection.ask(
            MetadataRequest(version=8, topics=self._topics, allow_auto_topic_creation=False)
        )
        told = _good(named.topics)
        self._history.add(*(Epoch(one.partition_index, one.leader_epoch, address) for one in told))

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def _good(topics: Iterable[Any]) -> list[Any]:
    return [one for topic in topics for one in topic.partitions if one.error_code == 0]
