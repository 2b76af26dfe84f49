"""AlterReplicaLogDirs: a directory that there is, one that there is not, and what is to lie there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.gateway.api.asking import FakeBroker, ask, request_class
from wireproto.kafka.errors import MalformedRequest

AlterReplicaLogDirs = request_class(34)
Directory = AlterReplicaLogDirs.AlterReplicaLogDir
HERE, AWAY, GONE = (f"store {1000 + number} (name-{number})" for number in range(3))
INVALID_TOPIC, UNKNOWN_PARTITION, OTHER_STORE, STORAGE_ERROR, NO_DIRECTORY = 17, 3, 39, 56, 57


def broker() -> FakeBroker:
    """Three stores: one that is there, one that is away, and one that is removed."""
    made = FakeBroker()
    entries = [
        SimpleNamespace(incarnation=str(number), state=state)
        for number, state in enumerate(["admitted", "admitted", "removed"])
    ]
    made.stores.entries = entries
    made.stores.name = lambda incarnation: f"{1000 + int(incarnation)} (name-{incarnation})"
    made.stores.live = lambda incarnation: incarnation == "0"
    made.add("t", 3)
    for partition in made.topics.get("t").partitions:
        partition.members = ("0", "1")
    made.topics.get("t").partitions[2].members = ("1",)
    return made


def alter(*directories: tuple[str, dict[str, list[int]]], version: int = 2) -> dict[tuple[str, int], int]:
    """The error of each partition that is answered."""
    topic = Directory.AlterReplicaLogDirTopic
    made = [
        Directory(
            path=path, topics=[topic(name=name, partitions=indexes) for name, indexes in topics.items()]
        )
        for path, topics in directories
    ]
    answer: dict[str, Any] = ask(broker(), AlterReplicaLogDirs(version=version, dirs=made))
    found = [
        ((result["topic_name"], one["partition_index"]), one["error_code"])
        for result in answer["results"]
        for one in result["partitions"]
    ]
    assert len({result["topic_name"] for result in answer["results"]}) == len(answer["results"])
    assert len(dict(found)) == len(found)
    return dict(found)


@pytest.mark.parametrize("version", [1, 2])
def test_each_partition_by_its_directory(version: int) -> None:
    wanted = {"t": [0, 1, 2, 3, -1], "nowhere": [0]}
    assert alter((HERE, wanted), version=version) == {
        ("t", 0): 0,
        ("t", 1): 0,
        ("t", 2): OTHER_STORE,
        ("t", 3): UNKNOWN_PARTITION,
        ("t", -1): UNKNOWN_PARTITION,
        ("nowhere", 0): UNKNOWN_PARTITION,
    }
    for path in ("/nowhere", "", HERE + "/", GONE):
        assert set(alter((path, wanted), version=version).values()) == {NO_DIRECTORY}
    assert set(alter((AWAY, wanted), version=version).values()) == {STORAGE_ERROR}


def test_the_last_directory_of_a_partition_counts() -> None:
    assert alter((HERE, {"t": [0, 0, 1]}), ("/nowhere", {"t": [1]})) == {("t", 0): 0, ("t", 1): NO_DIRECTORY}
    assert alter(("/nowhere", {"t": [1]}), (HERE, {"t": [1]})) == {("t", 1): 0}


def test_nothing_is_asked_for() -> None:
    assert alter() == alter((HERE, {})) == alter((HERE, {"t": [], "nowhere": []})) == {}


def test_a_name_that_is_too_long_to_be_moved() -> None:
    """With the number of the partition, as it is written."""
    fits = "x" * 213
    assert alter(("/nowhere", {fits: [0, 10], fits + "x": [0]})) == {
        (fits, 0): NO_DIRECTORY,
        (fits, 10): INVALID_TOPIC,
        (fits + "x", 0): INVALID_TOPIC,
    }


def test_too_many_partitions_close_the_connection() -> None:
    with pytest.raises(MalformedRequest, match="partitions in one request"):
        alter((HERE, {"t": [0] * 50_001}))
