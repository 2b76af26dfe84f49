"""CreatePartitions 0-3: more partitions, and every way to ask for them wrongly."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import CreatePartitionsRequest
from kafka.protocol.metadata import MetadataRequest

from tests.differential.batches import batch_of
from tests.differential.case import case
from tests.differential.requests import produce, read_back
from tests.differential.side import Side

NOBODY = 4711


def topic(name: str, count: int, assignments: list[list[int]] | None = None) -> Any:
    one = CreatePartitionsRequest.CreatePartitionsTopic
    made = None
    if assignments is not None:
        made = [one.CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    return one(name=name, count=count, assignments=made)


def request(version: int, *topics: Any, only: bool = False, ms: int = 10_000) -> Any:
    return CreatePartitionsRequest(version=version, topics=list(topics), timeout_ms=ms, validate_only=only)


def look(side: Side, name: str, partitions: int, label: str = "look") -> None:
    side.settle(name, partitions)
    wanted = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=None)]
    side.ask(MetadataRequest(version=12, topics=wanted, allow_auto_topic_creation=False), label)


@case(CreatePartitionsRequest)
def good(side: Side, version: int) -> None:
    """The new ones are empty and take records; the old ones keep theirs."""
    name = side.own_topic("t")
    side.put(name, batch_of(b"old"))
    side.ask(request(version, topic(name, 3)), "grow")
    look(side, name, 3)
    side.ask(produce(side, 9, {name: {1: batch_of(b"new"), 2: batch_of(b"new too")}}), "produce")
    read_back(side, name, 0, 1, 2)
    side.ask(request(version, topic(name, 4)), "grow again")
    look(side, name, 4, "look again")


@case(CreatePartitionsRequest)
def validate_only(side: Side, version: int) -> None:
    name = side.topic("t", partitions=2)
    side.ask(request(version, topic(name, 3), only=True), "good")
    side.ask(request(version, topic(name, 2), only=True), "as many")
    look(side, name, 2)


@case(CreatePartitionsRequest)
def bad_counts(side: Side, version: int) -> None:
    name = side.topic("t", partitions=3)
    for count in (3, 2, 1, 0, -1, -(2**31)):
        side.ask(request(version, topic(name, count)), f"count {count}")


@case(CreatePartitionsRequest)
def unknown(side: Side, version: int) -> None:
    name = side.own_topic("t")
    for label, wrong in {"nowhere": side.name("nowhere"), "bad name": "a/b", "no name": ""}.items():
        side.ask(request(version, topic(wrong, 2)), label)
    side.ask(request(version, topic(side.name("nowhere"), 2), topic(name, 2)), "beside one")
    look(side, name, 2)


@case(CreatePartitionsRequest)
def twice(side: Side, version: int) -> None:
    name, other = side.own_topic("t"), side.own_topic("other")
    side.ask(request(version, topic(name, 2), topic(other, 2), topic(name, 3)))
    look(side, name, 1)
    look(side, other, 2, "look at the other")


@case(CreatePartitionsRequest)
def assignments(side: Side, version: int) -> None:
    """Node ids differ: only one that nobody has is used beside the server's own."""
    name = side.topic("t")
    attempts: dict[str, tuple[int, list[list[int]]]] = {
        "unknown broker": (2, [[NOBODY]]),
        "too few": (3, [[NOBODY]]),
        "too many": (2, [[NOBODY], [NOBODY]]),
        "none": (2, []),
        "empty": (2, [[]]),
        "twice": (2, [[NOBODY, NOBODY]]),
        "as many partitions": (1, [[NOBODY]]),
    }
    for label, (count, ids) in attempts.items():
        side.ask(request(version, topic(name, count, ids)), label)


@case(CreatePartitionsRequest)
def own_assignment(side: Side, version: int) -> None:
    name, own = side.own_topic("t"), side.server.node_id
    side.ask_own_id(request(version, topic(name, 2, [[own, own]])), "twice")
    side.ask_own_id(request(version, topic(name, 3, [[own], [own]])), "good")
    look(side, name, 3)


@case(CreatePartitionsRequest)
def nothing(side: Side, version: int) -> None:
    side.ask(request(version))


@case(CreatePartitionsRequest, [3])
def internal(side: Side, version: int) -> None:
    side.ask(request(version, topic("__consumer_offsets", 1000), only=True))


@case(CreatePartitionsRequest, [3])
def timeouts(side: Side, version: int) -> None:
    name = side.topic("t")
    side.ask(request(version, topic(name, 2), only=True, ms=-1), "validating, negative")
    side.ask(request(version, topic(name, 2), only=True, ms=0), "validating, none")
    side.ask(request(version, ms=-1), "nothing, negative")


@case(CreatePartitionsRequest, [3])
def too_many(side: Side, version: int) -> None:
    name = side.topic("t")
    side.ask(request(version, topic(name, 1_000_000), only=True))
