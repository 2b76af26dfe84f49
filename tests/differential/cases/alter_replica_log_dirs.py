"""AlterReplicaLogDirs 1-2: into a directory that there is, and into one that there is not."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import AlterReplicaLogDirsRequest, DescribeLogDirsRequest

from tests.differential.case import case
from tests.differential.side import Side

NOWHERE = "/there/is/no/such/directory"
LONGEST_NAME = 249
LONGEST_MOVABLE_NAME = 255 - len("-0.-future") - 32
"""Beside the name, the directory of a log that is being moved has an id of 32 characters."""

Topics = dict[str, list[int]]


def request(version: int, *directories: tuple[str, Topics]) -> Any:
    directory = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    topic = directory.AlterReplicaLogDirTopic
    return AlterReplicaLogDirsRequest(
        version=version,
        dirs=[
            directory(path=path, topics=[topic(name=n, partitions=indexes) for n, indexes in topics.items()])
            for path, topics in directories
        ],
    )


def own_directory(side: Side) -> str:
    """Where this server keeps its logs; it has one directory."""
    answer = side.connection.ask(DescribeLogDirsRequest(version=4, topics=[]))
    (result,) = answer.results
    return str(result.log_dir)


@case(AlterReplicaLogDirsRequest)
def known(side: Side, version: int) -> None:
    name, other = side.topic("t", partitions=2), side.topic("u")
    path = own_directory(side)
    wanted: dict[str, Topics] = {
        "one": {name: [0]},
        "all": {name: [0, 1], other: [0]},
        "twice": {name: [0, 0, 1]},
        "no such partition": {name: [1, 2, -1]},
        "no such topic": {side.name("nowhere"): [0], "a/b": [0], "": [0]},
        "no partitions": {name: [], side.name("nowhere"): []},
        "no topics": {},
    }
    for label, topics in wanted.items():
        side.ask_own_id(request(version, (path, topics)), label)
    side.ask_own_id(request(version, (path + "/", {name: [0]})), "with a slash")


@case(AlterReplicaLogDirsRequest)
def unknown(side: Side, version: int) -> None:
    name = side.topic("t", partitions=2)
    topics = {name: [0, 1, 2], side.name("nowhere"): [0]}
    for path in (NOWHERE, "relative", "", "/"):
        side.ask(request(version, (path, topics)), f"directory {path!r}")
    side.ask(request(version, (NOWHERE, {})), "no topics")
    side.ask(request(version), "nothing")


@case(AlterReplicaLogDirsRequest)
def several(side: Side, version: int) -> None:
    """A partition that is named for two directories goes to the last one."""
    name, other = side.topic("t", partitions=2), side.topic("u")
    path = own_directory(side)
    here, nowhere = (path, {name: [0], other: [0]}), (NOWHERE, {name: [0, 1]})
    side.ask_own_id(request(version, here, nowhere), "known first")
    side.ask_own_id(request(version, nowhere, here), "unknown first")
    side.ask_own_id(request(version, (path, {name: [0]}), (path, {name: [1]})), "the same twice")


@case(AlterReplicaLogDirsRequest)
def long_names(side: Side, version: int) -> None:
    path = own_directory(side)
    for length in (LONGEST_MOVABLE_NAME, LONGEST_MOVABLE_NAME + 1, LONGEST_NAME):
        name = side.topic("x" * (length - len(side.name(""))))
        side.ask_own_id(request(version, (path, {name: [0]})), f"{length} characters")
        side.ask(request(version, (NOWHERE, {name: [0]})), f"{length} characters, no directory")
    absent = "y" * LONGEST_NAME
    side.ask_own_id(request(version, (path, {absent: [0, -1, 1000]})), "no such topic")
    absent = "y" * LONGEST_MOVABLE_NAME
    side.ask_own_id(request(version, (path, {absent: [0, 9, 10, -1]})), "long indexes")
