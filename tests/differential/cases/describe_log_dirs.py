"""DescribeLogDirs 1-5: which partitions are where, and how large."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeLogDirsRequest

from tests.differential.batches import Record, batch
from tests.differential.case import case
from tests.differential.side import Side


def request(version: int, topics: dict[str, list[int]] | None) -> Any:
    one = DescribeLogDirsRequest.DescribableLogDirTopic
    wanted = None
    if topics is not None:
        wanted = [one(topic=name, partitions=indexes) for name, indexes in topics.items()]
    return DescribeLogDirsRequest(version=version, topics=wanted)


@case(DescribeLogDirsRequest)
def sizes(side: Side, version: int) -> None:
    """The bytes of the batches, as they were sent."""
    name = side.topic("t", partitions=2)
    side.once(name, batch([Record(b"x" * 1000)]), batch([Record(b"y" * 10)] * 5), partition=1)
    side.ask(request(version, {name: [0, 1]}), "both")
    side.ask(request(version, {name: [1, 1, 1]}), "one")
    side.ask(request(version, {name: [2, -1]}), "no such partition")
    side.ask(request(version, {side.name("nowhere"): [0], "a/b": [0]}), "no such topic")
    side.ask(request(version, {name: []}), "no partitions")
    side.ask(request(version, {}), "nothing")
