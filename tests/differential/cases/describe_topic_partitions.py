"""DescribeTopicPartitions 0: pages, and cursors that lead nowhere."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeTopicPartitionsRequest

from tests.differential.case import case
from tests.differential.side import Side


def request(names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    of = DescribeTopicPartitionsRequest
    after = None if cursor is None else of.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    return of(
        version=0,
        topics=[of.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=after,
    )


def three(side: Side) -> list[str]:
    return [side.topic("a", partitions=3), side.topic("b"), side.topic("c", partitions=2)]


@case(DescribeTopicPartitionsRequest)
def named(side: Side, version: int) -> None:
    a, b, c = three(side)
    side.ask(request([c, a, b]), "all")
    side.ask(request([b, b]), "twice")
    side.ask(request([side.name("nowhere"), a]), "unknown")
    side.ask(request(["a/b", "", "x" * 250, b]), "bad names")


@case(DescribeTopicPartitionsRequest)
def pages(side: Side, version: int) -> None:
    names = three(side)
    for limit in (1, 2, 3, 4, 5, 6):
        cursor, page = None, 0
        while True:
            answer = side.ask(request(names, limit, cursor), f"limit {limit}, page {page}")
            if answer.next_cursor is None:
                break
            cursor, page = (answer.next_cursor.topic_name, answer.next_cursor.partition_index), page + 1
    for limit in (0, -1, 2**31 - 1):
        side.ask(request(names, limit), f"limit {limit}")


@case(DescribeTopicPartitionsRequest)
def cursors(side: Side, version: int) -> None:
    a, b, c = three(side)
    for label, cursor in {
        "in the middle": (a, 1),
        "at the end": (a, 3),
        "behind the end": (a, 5),
        "negative": (a, -1),
        "another topic": (side.name("d"), 0),
        "before all": ("!", 0),
    }.items():
        side.ask(request([a, b, c], cursor=cursor), label)
    side.ask(request([a, c], cursor=(b, 0)), "a topic that is not named")
    side.ask(request([a, b], cursor=(c, 0)), "behind those named")
