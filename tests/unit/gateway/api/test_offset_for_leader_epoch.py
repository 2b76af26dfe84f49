from __future__ import annotations

from typing import Any

import pytest

from tests.unit.gateway.api.asking import FakeBroker, ask, request_class

Ask = request_class(23)
Topic = Ask.OffsetForLeaderTopic
VERSIONS = [2, 3, 4]


def broker() -> FakeBroker:
    fake = FakeBroker()
    topic = fake.add("t", 2)
    topic.partitions[0].timestamps = [10, 20, 30]
    topic.partitions[0].leader_epoch = 5
    return fake


def ends(
    version: int, *topics: tuple[str, list[tuple[int, int, int]]], fake: FakeBroker | None = None
) -> list[tuple[str, list[tuple[int, int, int, int]]]]:
    """For (partition, current leader epoch, leader epoch): (error, partition, epoch, end offset)."""
    asked = [
        Topic(
            topic=name,
            partitions=[
                Topic.OffsetForLeaderPartition(partition=p, current_leader_epoch=current, leader_epoch=epoch)
                for p, current, epoch in partitions
            ],
        )
        for name, partitions in topics
    ]
    fields: dict[str, Any] = {"replica_id": -2} if version >= 3 else {}
    answer = ask(fake or broker(), Ask(version=version, topics=asked, **fields))
    assert answer["throttle_time_ms"] == 0
    return [
        (
            topic["topic"],
            [
                (p["error_code"], p["partition"], p["leader_epoch"], p["end_offset"])
                for p in topic["partitions"]
            ],
        )
        for topic in answer["topics"]
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("current", "epoch", "expected"),
    [
        (-1, 5, (0, 0, 5, 3)),
        (5, 5, (0, 0, 5, 3)),
        (-1, 6, (0, 0, -1, -1)),
        (4, 5, (74, 0, -1, -1)),
        (6, 5, (75, 0, -1, -1)),
    ],
)
def test_the_end_of_an_epoch(
    version: int, current: int, epoch: int, expected: tuple[int, int, int, int]
) -> None:
    assert ends(version, ("t", [(0, current, epoch)])) == [("t", [expected])]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_unknown(version: int) -> None:
    unknown = [(3, 0, -1, -1)]
    assert ends(version, ("nope", [(0, -1, 0)]), ("", [(0, 9, 0)]), ("t", [(2, -1, 0), (-1, -1, 0)])) == [
        ("nope", unknown),
        ("", unknown),
        ("t", [(3, 2, -1, -1), (3, -1, -1, -1)]),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_doubles_and_empty_topics_are_answered_as_asked(version: int) -> None:
    good = (0, 0, 5, 3)
    asked = ("t", [(0, -1, 5), (0, -1, 5)])
    assert ends(version, asked, asked, ("t", []), ("nope", [])) == [
        ("t", [good, good]),
        ("t", [good, good]),
        ("t", []),
        ("nope", []),
    ]
    assert ends(version) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_that_is_not_recovered_says_so_instead_of_an_end(version: int) -> None:
    # An end that may still grow would look like lost records to the client.
    fake = broker()
    fake.topics.get("t").partitions[0].available = False
    assert ends(version, ("t", [(0, 5, 5), (1, 0, 0)]), fake=fake) == [("t", [(5, 0, -1, -1), (0, 1, 0, 0)])]
    assert ends(version, ("t", [(0, 4, 5)]), fake=fake) == [("t", [(74, 0, -1, -1)])]
